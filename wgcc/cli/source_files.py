"""Rewrites source files of the user: all or nothing, with the permissions that they had."""

from __future__ import annotations

import stat
from pathlib import Path


def write_source(path: Path, text: str) -> None:
    from wgcc_runtime.replace_file import replace_file

    file = path.resolve()
    mode = stat.S_IMODE(file.stat().st_mode)
    replace_file(file, text.encode())
    file.chmod(mode)
