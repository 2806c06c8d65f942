"""Source files of the user: rewriting them, and waiting for them to change."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

POLL_SECONDS = 0.3


def write_source(path: Path, text: str) -> None:
    """All or nothing, with the permissions that it had."""
    from wgcc_runtime.replace_file import replace_file

    file = path.resolve()
    mode = stat.S_IMODE(file.stat().st_mode)
    replace_file(file, text.encode())
    file.chmod(mode)


def changes(folders: Iterable[Path], files: str = "*.wg") -> Iterator[None]:
    """Once now, then whenever one of the files in or below one of the folders changes."""
    places = list(folders)
    seen: dict[Path, int] | None = None
    while True:
        now = {path: when for folder in places for path, when in _times(folder, files)}
        if now != seen:
            seen = now
            yield
        time.sleep(POLL_SECONDS)


def _times(folder: Path, files: str) -> Iterator[tuple[Path, int]]:
    for path in folder.rglob(files):
        try:
            yield path, path.stat().st_mtime_ns
        except OSError:  # it was renamed or deleted at this moment
            continue
