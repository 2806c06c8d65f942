"""Pyodide, CodeMirror and esbuild, as npm delivers them into a cache folder.

Versions and hashes of all packages are in `runtime_js/workbench/package-lock.json`; npm refuses
a package that does not have its hash. Nothing of them is part of wgcc.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from wgcc.errors import WgError
from wgcc.files import cache_folder, data_dir

MISSING = (
    "building the workbench needs Node and npm, which fetch the editor and Pyodide once; install "
    "them (https://nodejs.org), or the package `wgcc-workbench`, which holds the finished site"
)
_QUIET = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
_LISTS = ("package.json", "package-lock.json")


def npm_folder() -> Path:
    """The folder `node_modules` with the locked versions; made at the first use."""
    source = data_dir("runtime_js") / "workbench"
    lists = {name: (source / name).read_bytes() for name in _LISTS}
    digest = hashlib.sha256(b"".join(lists.values())).hexdigest()[:16]
    folder = cache_folder() / f"workbench-{digest}"
    if not (folder / "complete").exists():
        _install(folder, lists)
    return folder / "node_modules"


def bundle_script(entry: Path, modules: Path, external: str = "") -> bytes:
    """A module with all that it imports as one script, made by esbuild."""
    command = [
        "node", str(modules / "esbuild" / "bin" / "esbuild"), str(entry), "--bundle", "--minify",
        "--format=esm", "--target=es2022", "--log-level=warning", "--legal-comments=none",
    ]  # fmt: skip
    if external:
        command.append(f"--external:{external}")
    environment = {**os.environ, "NODE_PATH": str(modules)}
    return _run(command, environment, modules.parent)


def _install(folder: Path, lists: dict[str, bytes]) -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        raise WgError(MISSING)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in lists.items():
        (folder / name).write_bytes(content)
    _run(["npm", "ci", *_QUIET], dict(os.environ), folder)
    (folder / "complete").touch()


def _run(command: list[str], environment: dict[str, str], folder: Path) -> bytes:
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-12:]
        raise WgError("\n".join([f"{command[0]} failed:", *words]))
    return done.stdout
