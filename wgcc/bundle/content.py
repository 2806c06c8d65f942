"""The content of a bundle's file: bytes, or the pieces of a file too large to be copied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path


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


def is_content(path: Path, content: Content) -> bool:
    """Whether the file holds exactly this; it is read part by part."""
    if path.lstat().st_size != len(content):
        return False
    with open(path, "rb") as file:
        return all(file.read(len(part)) == part for part in parts_of(content))
