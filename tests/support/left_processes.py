"""Processes that tests left behind: one that never ends takes a core from all tests after it."""

from __future__ import annotations

import time
from pathlib import Path

# Browsers, clusters and the workers of pytest need some seconds to end, on slow machines more.
MOST_SECONDS = 90
POLL_SECONDS = 0.5
_PROCESSES = Path("/proc")


def left_behind(mark: str) -> list[str]:
    """Commands of the processes that started with `mark` in their environment; Linux only."""
    return [command for folder in _PROCESSES.glob("[0-9]*") if (command := _command(folder, mark))]


def still_there(mark: str, seconds: float = MOST_SECONDS) -> list[str]:
    """Those that do not end within some time."""
    end = time.monotonic() + seconds
    while (commands := left_behind(mark)) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return commands


def _command(folder: Path, mark: str) -> str:
    """Empty for a process without the mark, and for one that has just ended."""
    try:
        if mark.encode() not in (folder / "environ").read_bytes():
            return ""
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return ""
    return b" ".join(words).decode(errors="replace").strip()
