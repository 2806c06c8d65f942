"""The JavaScript runtime as bundles ship it: the modules of runtime_js, joined into a few files.

wgcc.js is all that a page loads to train and predict. The files in wgcc/ are loaded when they are
first needed, so most pages never fetch them. All are without comments and blanks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from wgcc.bundle.javascript import strip_javascript
from wgcc.bundle.join import join_modules
from wgcc.bundle.plan import TOKENIZER
from wgcc.paths import data_dir
from wgcc.user_cache import keep_cached, read_cached

# File -> the module that defines its exports; each file after those it imports statically.
FILES = {
    "wgcc.js": "core/wgcc.js",
    "wgcc/check.js": "check/check.js",
    "wgcc/files.js": "files/files.js",
    "wgcc/fit.js": "fit/fit.js",
    "wgcc/draw.js": "draw/draw.js",
    "wgcc/inspect.js": "inspect/inspect.js",
    "wgcc/calls.js": "calls/calls.js",
    "wgcc/data.js": "data/data.js",
    "wgcc/worker.js": "worker/worker.js",
    "wgcc/serve.js": "serve/serve.js",
    "wgcc/wasm.js": "wasm/wasm.js",
    "wgcc/tokens.js": "tokens/tokens.js",
}
# The script of a page, which imports them.
PAGE = "wgcc/page.js"
# Only bundles with a file of tokens have it.
TOKENS = "wgcc/tokens.js"
# What joins and strips: other code makes other files of the same sources.
_TOOLS = ("runtime_js.py", "javascript.py", "join.py", "modules.py")
_BANNER = "// The runtime of wgcc, MIT licence; with comments: runtime_js of the sources of wgcc.\n"


@lru_cache(maxsize=1)
def runtime_files() -> dict[str, str]:
    """What pages load, by name."""
    files = page_files(data_dir("runtime_js") / "page", "app.js", False)
    return {name: files[name] for name in FILES}


def shipped_files(files: Iterable[str]) -> dict[str, str]:
    """Those of a bundle that has these `files`: the same for every bundle of one wgcc version."""
    return without_tokens(runtime_files(), files)


def without_tokens(runtime: Mapping[str, str], files: Iterable[str]) -> dict[str, str]:
    left_out = () if TOKENIZER in files else (TOKENS,)
    return {name: text for name, text in runtime.items() if name not in left_out}


@lru_cache(maxsize=1)
def readable_files() -> dict[str, str]:
    """The same files with comments, types and blanks."""
    joined = _join(page_modules(), "page/app.js")
    return {name: joined[name] for name in FILES}


@lru_cache(maxsize=8)
def page_files(folder: Path, entry: str, is_served: bool) -> dict[str, str]:
    """The script of a page as `PAGE`, and the files of the runtime with all that it imports.

    `folder` has the module `entry` and those beside it that the page imports. The script has places
    for what a bundle holds: see `page.py`.
    """
    modules = page_modules()
    if is_served:
        modules["page/bundle.js"] = modules["page/served_bundle.js"]
    if folder == data_dir("runtime_js") / "page":
        return _kept_files(modules, f"page/{entry}")
    modules |= {f"own/{path.name}": _text(path) for path in sorted(folder.glob("*.js"))}
    return _stripped_files(modules, f"own/{entry}")


def _kept_files(page: Mapping[str, str], entry: str) -> dict[str, str]:
    """The files as an earlier run of this wgcc made them, if there was one."""
    modules, data = {**runtime_modules(), **page}, _data_files()
    tools = [_text(Path(__file__).with_name(name)) for name in _TOOLS]
    sources = json.dumps([entry, modules, data, tools], sort_keys=True)
    key = f"javascript-{hashlib.sha256(sources.encode()).hexdigest()[:24]}"
    kept = read_cached(key)
    if kept is not None:
        files: dict[str, str] = json.loads(kept)
        return files
    files = _stripped_files(page, entry)
    keep_cached(key, json.dumps(files).encode())
    return files


def _stripped_files(page: Mapping[str, str], entry: str) -> dict[str, str]:
    return {name: _stripped(text) for name, text in _join(page, entry).items()}


def _join(page: Mapping[str, str], entry: str) -> dict[str, str]:
    files, places = {**FILES, PAGE: entry}, {"page": PAGE, "own": PAGE}
    return join_modules({**runtime_modules(), **page}, files, _data_files(), places)


def _data_files() -> dict[str, str]:
    # Only here, because it takes time to import.
    from wgcc_runtime.strict_json import SCHEMA_FILE
    from wgcc_runtime.tables import TABLES
    from wgcc_runtime.twin_form import FORM_FILE

    files = (SCHEMA_FILE, FORM_FILE, *sorted(TABLES.glob("*.json")))
    return {file.name: _text(file) for file in files}


def runtime_modules() -> dict[str, str]:
    """The modules' texts by path in runtime_js."""
    return _modules(entry.partition("/")[0] for entry in FILES.values())


def page_modules() -> dict[str, str]:
    """The same of the page of a bundle."""
    return _modules(["page"])


def _modules(folders: Iterable[str]) -> dict[str, str]:
    root = data_dir("runtime_js")
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.js"))]
    return {path.relative_to(root).as_posix(): _text(path) for path in paths}


def _stripped(text: str) -> str:
    return _BANNER + strip_javascript(text)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
