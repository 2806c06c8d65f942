"""The JavaScript runtime as bundles ship it: the modules of runtime_js, joined into a few files.

wgcc.js is all that a page loads to train and predict. The files in wgcc/ are loaded when they are
first needed, so most pages never fetch them.
"""

from __future__ import annotations

from functools import lru_cache

from wgcc.bundle.join import join_modules
from wgcc.paths import data_dir

# File -> the module that defines its exports; each file after those it imports statically.
FILES = {
    "wgcc.js": "core/wgcc.js",
    "wgcc/check.js": "check/check.js",
    "wgcc/files.js": "files/files.js",
    "wgcc/fit.js": "fit/fit.js",
    "wgcc/draw.js": "draw/draw.js",
    "wgcc/inspect.js": "inspect/inspect.js",
    "wgcc/rows.js": "rows/calls.js",
    "wgcc/data.js": "data/data.js",
    "wgcc/wasm.js": "wasm/wasm.js",
    "wgcc/tune.js": "tune/tune.js",
}


@lru_cache(maxsize=1)
def runtime_files() -> dict[str, str]:
    """Texts by name: the same in every bundle of one wgcc version."""
    # Only here, because it takes time to import.
    from wgcc_runtime.schema import SCHEMA_FILE

    return join_modules(
        runtime_modules(), FILES, {SCHEMA_FILE.name: SCHEMA_FILE.read_text(encoding="utf-8")}
    )


def runtime_modules() -> dict[str, str]:
    """The modules' texts by path in runtime_js."""
    root = data_dir("runtime_js")
    folders = [entry.partition("/")[0] for entry in FILES.values()]
    paths = [path for folder in folders for path in sorted((root / folder).glob("*.js"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
