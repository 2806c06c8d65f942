"""The files of the workbench's site: the page, the compiler as an archive, Pyodide, the runtime."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from wgcc import __version__
from wgcc.bundle.javascript import fill, script_template
from wgcc.bundle.page import framed_files
from wgcc.files import data_dir
from wgcc.workbench.archive import compiler_archive, data_archive, page_archive, trim_library
from wgcc.workbench.npm_parts import bundle_script, npm_folder

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json")
LIBRARY = "python_stdlib.zip"
# A program that trains has one of them.
_TRAINS = re.compile(r"\b(minimize|grad)\b")
# Other files are parts of models.
_MODEL = re.compile(r"^model ", re.MULTILINE)
_LESSON = re.compile(r"<!-- file (\S+\.wg) -->\n```\w+\n(.*?)```", re.DOTALL)


def site_files() -> dict[str, bytes]:
    """Every file of the site by name. Needs npm, at the first use also a network."""
    folder, modules = data_dir("runtime_js") / "workbench", npm_folder()
    pyodide = modules / "pyodide"
    files = {
        "workbench.js": bundle_script(folder / "app.js", modules, "./naga.js"),
        "naga.js": bundle_script(folder / "naga.js", modules),
        "naga_bg.wasm": (modules / "naga-wasm" / "dist" / "wasm" / "naga_bg.wasm").read_bytes(),
        "workbench.css": (folder / "workbench.css").read_bytes(),
        "compiler.zip": compiler_archive(),
        "compiler_data.zip": data_archive(),
        "pages.zip": page_archive(),
        "examples.json": json.dumps(drawer(), ensure_ascii=False).encode(),
        **{f"pyodide/{name}": (pyodide / name).read_bytes() for name in PYODIDE},
        f"pyodide/{LIBRARY}": trim_library((pyodide / LIBRARY).read_bytes()),
        **{name: text.encode() for name, text in framed_files().items()},
    }
    worker = bundle_script(folder / "compiler_worker.js", modules, "./pyodide/*")
    made_of = {n: d for n, d in files.items() if n.startswith(("compiler", "pyodide/"))}
    files["compiler.js"] = worker.replace(b"__DIGEST__", _digest(made_of).encode())
    page = (folder / "index.html").read_text("utf-8").replace("__VERSION__", __version__)
    files["index.html"] = page.encode()
    return {**files, "offline.js": _offline(files)}


def drawer() -> list[dict[str, Any]]:
    """The models that people can choose: others need weights."""
    return [p for p in example_programs() if _TRAINS.search(_main_text(p))]


def _main_text(program: dict[str, Any]) -> str:
    return str(program["files"][program["main"]])


def example_programs() -> list[dict[str, Any]]:
    """Every model of the examples, with the programs beside it that it may import."""
    root = data_dir("examples")
    examples: list[dict[str, Any]] = [
        {
            "name": path.relative_to(root).with_suffix("").as_posix().removesuffix("/model"),
            "main": path.name,
            "files": {p.name: p.read_text("utf-8") for p in sorted(path.parent.glob("*.wg"))},
        }
        for path in sorted(root.rglob("*.wg"))
        if _MODEL.search(path.read_text("utf-8"))
    ]
    return [*examples, *_lessons((root / "README.md").read_text("utf-8"))]


def _lessons(text: str) -> Iterator[dict[str, Any]]:
    """The programs of the lessons, in the order of the page."""
    for match in _LESSON.finditer(text):
        name = PurePosixPath(match[1])
        title = f"lesson: {name.parent}"
        yield {"name": title, "main": name.name, "files": {name.name: match[2]}}


def _offline(files: Mapping[str, bytes]) -> bytes:
    """The service worker, with the names of all files and the digest of what they hold."""
    names = json.dumps(["./", *sorted(files)], separators=(",", ":"))
    script = script_template("bundle/offline.js")
    return fill(script, DIGEST=_digest(files), LIST=names).encode()


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()[:16]
