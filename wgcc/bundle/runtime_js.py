"""The JavaScript runtime as bundles ship it: the modules of runtime_js, joined into a few files.

wgcc.js is all that a page loads to train and predict. The files in wgcc/ are loaded when they are
first needed, so most pages never fetch them. All are without comments and blanks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from wgcc.bundle.join import join_modules
from wgcc.bundle.plan import TOKENIZER
from wgcc.bundle.strip import strip_javascript
from wgcc.paths import data_dir

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
# Only bundles with a file of tokens have it.
TOKENS = "wgcc/tokens.js"
_BANNER = "// The runtime of wgcc, MIT licence; with comments: runtime_js of the sources of wgcc.\n"


@lru_cache(maxsize=1)
def runtime_files() -> dict[str, str]:
    """What pages load, by name."""
    return {name: _BANNER + strip_javascript(text) for name, text in readable_files().items()}


def shipped_files(files: Iterable[str]) -> dict[str, str]:
    """Those of a bundle that has these `files`: the same for every bundle of one wgcc version."""
    left_out = () if TOKENIZER in files else (TOKENS,)
    return {name: text for name, text in runtime_files().items() if name not in left_out}


@lru_cache(maxsize=1)
def readable_files() -> dict[str, str]:
    """The same files with comments, types and blanks."""
    # Only here, because it takes time to import.
    from wgcc_runtime.schema import SCHEMA_FILE
    from wgcc_runtime.twin_form import FORM_FILE

    data = {file.name: file.read_text(encoding="utf-8") for file in (SCHEMA_FILE, FORM_FILE)}
    return join_modules(runtime_modules(), FILES, data)


def runtime_modules() -> dict[str, str]:
    """The modules' texts by path in runtime_js."""
    root = data_dir("runtime_js")
    folders = [entry.partition("/")[0] for entry in FILES.values()]
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.js"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
