"""The JavaScript runtime as an npm package of its own, which releases publish.

    python -m wgcc.bundle.npm_runtime FOLDER

writes it into a new folder, from which `npm pack` makes the file to publish.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wgcc.bundle.folder import write_new
from wgcc.bundle.page import runtime_files
from wgcc.files import data_dir
from wgcc_runtime import __version__


def npm_files() -> dict[str, bytes]:
    """The files of the package by name."""
    folder = data_dir("runtime_js")
    package = {
        "name": "wgcc-runtime",
        "version": __version__,
        "description": "Trains and runs models compiled by wgcc, on WebGPU and WebAssembly",
        "keywords": ["webgpu", "webassembly", "neural networks", "training"],
        "license": "MIT",
        "repository": {"type": "git", "url": "git+https://github.com/wgcc/wgcc.git"},
        "type": "module",
        "main": "./wgcc.js",
        "types": "./wgcc.d.ts",
        "exports": {
            ".": {"types": "./wgcc.d.ts", "default": "./wgcc.js"},
            "./wgcc/*": "./wgcc/*",
        },
        "files": ["wgcc.js", "wgcc.d.ts", "wgcc"],
        "sideEffects": False,
    }
    texts = {"package.json": json.dumps(package, indent=2) + "\n", **runtime_files()}
    beside = (folder / "npm" / "README.md", folder / "npm" / "wgcc.d.ts", folder.parent / "LICENSE")
    return {
        **{name: text.encode("utf-8") for name, text in texts.items()},
        **{path.name: path.read_bytes() for path in beside},
    }


if __name__ == "__main__":
    write_new(npm_files(), Path(sys.argv[1]))
