"""Reads the text of a program: only regular files of a limited size, so that it never blocks."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wgcc.errors import WgError

# The limit for a program with all its imports; real programs are a thousand times smaller.
LARGEST_TEXT = 4_000_000
# As the runtimes read it.
LARGEST_PLAN = 8 << 20


class Unreadable(WgError):
    """`reason` is the part of the message after the name of the file: "it is a folder"."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.reason = reason


def read_text(path: Path) -> str:
    """The text of a file, with all line ends as `\\n`."""
    data = read_bytes(path, LARGEST_TEXT, "a program")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(path, "it is not UTF-8 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(path: Path, largest: int, what: str) -> bytes:
    """The contents of a file; `what` names it in the message about its size: "a program"."""
    try:
        return _read(path, largest, what)
    except FileNotFoundError as error:
        raise Unreadable(path, "no such file") from error
    except OSError as error:
        raise Unreadable(path, (error.strerror or str(error)).lower()) from error


def _read(path: Path, largest: int, what: str) -> bytes:
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise Unreadable(path, f"it is {kind}")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(handle)
    if len(data) > largest:
        most = f"{what} has at most {largest / 1e6:g} MB"
        raise Unreadable(path, f"it has {max(found.st_size, len(data)) / 1e6:,.1f} MB; {most}")
    return data
