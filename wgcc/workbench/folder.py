"""Writes the site: from the package `wgcc-workbench`, or from this machine's npm."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from wgcc.errors import WgError


def write_site(folder: Path) -> int:
    """Write all files into a new or empty folder, or over an older site; returns their bytes."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "compiler.zip").exists():
        raise WgError(f"{folder} holds other files: choose a new or empty folder")
    files = _finished_site()
    if files is None:
        from wgcc.workbench.site import site_files

        files = site_files()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return sum(map(len, files.values()))


def _finished_site() -> dict[str, bytes] | None:
    """The files of the package wgcc-workbench, if it is installed in this version."""
    spec = importlib.util.find_spec("wgcc_workbench")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent / "site"
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
