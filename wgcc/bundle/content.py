"""The content of a bundle's file: bytes, or the pieces of a file too large to be copied."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

PIECE = 1 << 20


class Pieces:
    """Buffers that are one file in this order; arrays among them must not change."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


Content = bytes | Pieces
Files = Mapping[str, Content]


def parts_of(content: Content) -> tuple[bytes | memoryview, ...]:
    return content.parts if isinstance(content, Pieces) else (content,)


def digest_of(content: Content) -> str:
    """The SHA-256 of a file with this content."""
    state = hashlib.sha256()
    for part in parts_of(content):
        state.update(part)
    return state.hexdigest()


def digest_of_file(path: Path) -> str:
    """The same of a file that exists. It may be large."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            state.update(piece)
    return state.hexdigest()


def is_plain(folder: Path, name: str) -> bool:
    """Whether it is a regular file, with no link on the path to it."""
    try:
        inner = folder
        for part in PurePosixPath(name).parts[:-1]:
            inner = inner / part
            if not stat.S_ISDIR(inner.lstat().st_mode):
                return False
        return stat.S_ISREG((folder / name).lstat().st_mode)
    except OSError:
        return False


def holds(folder: Path, name: str, content: Content) -> bool:
    """Whether the folder has a plain file of exactly this content; it is read part by part."""
    path = folder / name
    if not is_plain(folder, name) or path.lstat().st_size != len(content):
        return False
    with open(path, "rb") as file:
        return all(file.read(len(part)) == part for part in parts_of(content))
