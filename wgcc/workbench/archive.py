"""The compiler as an archive that the page unpacks: wgcc, jinja2, and little else.

The tables of the grammar and the trees of the library are in it, so that no visitor waits for them
and lark, which makes the tables, stays outside.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from wgcc.elaborate.program.files import shipped_trees
from wgcc.files import MADE, data_dir
from wgcc.syntax.tables import shipped_tables

PACKAGES = ("jinja2", "markupsafe")
# Parts of wgcc that neither check nor build.
_LEFT_OUT = {
    "cli", "importing", "from_gguf", "from_onnx", "to_onnx", "to_torch", "exporting", "access",
    "isa", "sklearn.py",
    "in_memory.py", "_data", "__pycache__", "site.py", "npm_parts.py", "archive.py", "serve.py",
    "wheel.py", "frame.py", "address.py", "folder.py", "cuda", "__pyinstaller", "tools", "grammars",
}  # fmt: skip
_RUNTIME = (
    "__init__", "bundle_files", "data/__init__", "data/problems", "errors", "interrupts", "machine",
    "plan", "plan_parts", "provers", "replace_file", "strict_json", "twin_form", "validate",
)  # fmt: skip
_TEXTS = {".py", ".lark", ".jinja", ".wgsl", ".txt", ".json"}
# Modules of Python's library that compiling never imports; they are a third of its bytes.
_UNUSED_LIBRARY = (
    "_pydatetime", "_pyio", "_pyrepl", "bdb", "cProfile", "configparser", "curses", "dbm",
    "doctest", "email", "ensurepip", "ftplib", "http", "idlelib", "imaplib", "lib2to3", "mailbox",
    "multiprocessing", "nntplib", "optparse", "pdb", "pickletools", "plistlib", "poplib",
    "profile", "pstats", "pydoc", "pydoc_data", "smtplib", "socketserver", "sqlite3", "statistics",
    "tarfile", "tkinter", "tomllib", "trace", "turtle", "unittest", "uuid", "wsgiref", "xml",
    "xmlrpc", "asyncio/proactor_events", "asyncio/windows_events", "asyncio/windows_utils",
    "concurrent/futures/process", "logging/config", "logging/handlers", "modulefinder",
)  # fmt: skip
_KEPT_ENCODINGS = {
    "__init__", "aliases", "ascii", "cp437", "latin_1", "raw_unicode_escape", "unicode_escape",
    "utf_16_le", "utf_8",
}  # fmt: skip
# Archives hold no date.
_TIME = (2020, 1, 1, 0, 0, 0)


def compiler_archive() -> bytes:
    """The modules: a compiler whose memory was kept needs them only later."""
    return pack((name, data) for name, data in _compiler_files() if name.endswith(".py"))


def data_archive() -> bytes:
    """The files that modules read: grammar, standard layers, templates, tables."""
    return pack((name, data) for name, data in _compiler_files() if not name.endswith(".py"))


def page_archive() -> bytes:
    """The files that are fetched later: the runtime, which bundles copy, and the access model."""
    access = sorted(_package("wgcc.access").glob("*.py"))
    model = ((f"wgcc/access/{path.name}", path.read_bytes()) for path in access)
    root = data_dir("runtime_js")
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    own = (
        (f"wgcc/_data/runtime_js/{p.relative_to(root).as_posix()}", p.read_bytes()) for p in paths
    )
    return pack([*model, *own])


def trim_library(data: bytes) -> bytes:
    """Python's library without what the compiler does not import."""
    with zipfile.ZipFile(io.BytesIO(data)) as library:
        names = [name for name in library.namelist() if _is_used(name)]
        return pack((name, library.read(name)) for name in names)


def pack(files: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def _compiler_files() -> Iterator[tuple[str, bytes]]:
    for package in ("wgcc", *PACKAGES):
        root = _package(package)
        for path in sorted(root.rglob("*")):
            parts = path.relative_to(root).parts
            if path.suffix in _TEXTS and not _LEFT_OUT & set(parts) and "tests" not in parts:
                yield f"{package}/{'/'.join(parts)}", path.read_bytes()
    runtime = _package("wgcc_runtime")
    for name in _RUNTIME:
        yield f"wgcc_runtime/{name}.py", (runtime / f"{name}.py").read_bytes()
    for pattern in ("tokens/*.py", "*.json", "tables/*.json"):
        for path in sorted(runtime.glob(pattern)):
            yield f"wgcc_runtime/{path.relative_to(runtime).as_posix()}", path.read_bytes()
    grammar = data_dir("grammar")
    for path in sorted([*grammar.rglob("*.wg"), *grammar.rglob("*.lark"), *grammar.glob("*.md")]):
        yield f"wgcc/_data/grammar/{path.relative_to(grammar).as_posix()}", path.read_bytes()
    for key, content in [shipped_tables(), *shipped_trees()]:
        yield f"wgcc/_data/{MADE}/{key}", content


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, name
    return Path(spec.origin).parent


def _is_used(name: str) -> bool:
    first, _, rest = name.partition("/")
    if first == "encodings":
        return rest.removesuffix(".py").removesuffix(".pyc") in _KEPT_ENCODINGS
    modules = {part.removesuffix(".pyc").removesuffix(".py") for part in (first, name)}
    return modules.isdisjoint(_UNUSED_LIBRARY)
