"""Replaces files one by one, where the whole folder cannot be swapped: all of them, or none.

All new files are written to a staging folder inside the folder before the first is moved. A journal
in it records each move, so that it can be undone: at once if a move fails, by the next build if the
process died. Between two moves the folder holds a mixture of old and new files.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from wgcc.bundle.owned import is_own_name

# In the staging folder: the folder of new files, the journal; old files are `old-0`, `old-1`, …
NEW, JOURNAL = "new", "moves"
_OLD = re.compile(r"old-\d+")

# The name of a file, and the name of its old content in the staging folder, if there was any.
Move = tuple[str, str | None]


class Moves:
    """Moves files from a staging folder in `folder` to their places."""

    def __init__(self, folder: Path, stage: Path) -> None:
        self._folder, self._stage = folder, stage
        self._done: list[Move] = []

    def make(self, new: list[str], gone: list[str]) -> None:
        """Put the new files in their places, and remove those in `gone`."""
        try:
            for name in new:
                self._make_parents(name)
                self._keep(name)
                os.replace(self._stage / NEW / name, self._folder / name)
            for name in filter(None, map(self._existing, gone)):
                self._take(name)
        except BaseException:
            _undo(self._folder, self._stage, self._done)
            raise
        for parent in {PurePosixPath(name).parent for name in gone} - {PurePosixPath(".")}:
            with contextlib.suppress(OSError):  # the user may have files there
                (self._folder / parent).rmdir()

    def _make_parents(self, name: str) -> None:
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            path = self._folder / parent
            if path.is_symlink() or not path.is_dir():
                self._take(str(parent))
                path.mkdir()

    def _existing(self, name: str) -> str:
        """The file, if it exists, or the first link on the path to it."""
        for part in (*reversed(PurePosixPath(name).parents[:-1]), PurePosixPath(name)):
            if (self._folder / part).is_symlink():
                return str(part)
        return name if os.path.lexists(self._folder / name) else ""

    def _keep(self, name: str) -> None:
        """A second name for the old file, so that its place is never empty."""
        path = self._folder / name
        if not os.path.lexists(path) or path.is_symlink():
            return self._take(name)
        old = self._note(name, is_there=True)
        try:
            os.link(path, old)
        except OSError:  # no hard links here
            os.rename(path, old)

    def _take(self, name: str) -> None:
        """Moves away what has this name: a link itself, not its target."""
        is_there = os.path.lexists(self._folder / name)
        old = self._note(name, is_there)
        if is_there:
            os.rename(self._folder / name, old)

    def _note(self, name: str, is_there: bool) -> Path:
        """Records a move in the journal before it happens; returns where the old file goes."""
        old = f"old-{len(self._done)}" if is_there else None
        self._done.append((name, old))
        with open(self._stage / JOURNAL, "a", encoding="utf-8") as stream:
            stream.write(json.dumps([name, old]) + "\n")
        return self._stage / (old or NEW)


def undo_moves(folder: Path, stage: Path) -> None:
    """Restores the files that a process moved before it died, by the journal in its folder."""
    _undo(folder, stage, _read_journal(stage))


def _undo(folder: Path, stage: Path, done: Sequence[Move]) -> None:
    for name, old in reversed(done):
        path = folder / name
        if path.parent.is_symlink() or (old is not None and not os.path.lexists(stage / old)):
            continue  # this move was recorded but not made
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            elif os.path.lexists(path) and old is None:
                path.unlink()
            if old is not None:
                os.replace(stage / old, path)


def _read_journal(stage: Path) -> list[Move]:
    """Only names that a build could write: the folder may come from an untrusted source."""
    found = []
    try:
        lines = (stage / JOURNAL).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            name, old = json.loads(line)
            if is_own_name(name) and (old is None or _OLD.fullmatch(old)):
                found.append((name, old))
    return found
