"""`python -m wgcc.workbench.wheel FOLDER`: the sources of the package wgcc-workbench.

It holds the finished site, so that its users need neither Node nor a network.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wgcc import __version__
from wgcc.workbench.site import site_files

_PROJECT = f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "wgcc-workbench"
version = "{__version__}"
description = "The finished site of wgcc workbench, with Pyodide and CodeMirror in it"
license = "MIT AND MPL-2.0 AND PSF-2.0"
requires-python = ">=3.10"
dependencies = ["wgcc=={__version__}"]

[tool.hatch.build.targets.wheel]
packages = ["wgcc_workbench"]
"""
_MODULE = '"""The site of wgcc workbench, which `wgcc workbench` serves or copies."""\n'


def write_sources(folder: Path) -> None:
    package = folder / "wgcc_workbench"
    (package / "site").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    (package / "__init__.py").write_text(_MODULE, encoding="utf-8")
    for name, content in site_files().items():
        path = package / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    write_sources(Path(sys.argv[1]))
