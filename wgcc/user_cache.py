"""Keeps what takes long to make between runs, in a cache folder of the user.

It is only a cache: a file that is missing, damaged or in an unsafe place is made again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

_DIGEST_BYTES = 32


def read_cached(key: str) -> bytes | None:
    """What is stored under `key`, or None."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = (folder / key).read_bytes()
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return payload if payload and hashlib.sha256(payload).digest() == digest else None


def keep_cached(key: str, payload: bytes) -> None:
    """Write atomically, because other processes may be reading."""
    folder = _folder()
    if folder is None:
        return
    try:
        handle, name = tempfile.mkstemp(dir=folder)
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(name, folder / key)
    except OSError:
        Path(name).unlink(missing_ok=True)


def _folder() -> Path | None:
    """A folder that only this user can write to: what is read from it is trusted."""
    try:
        folder = _cache_home() / "wgcc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
    except (OSError, RuntimeError, KeyError):
        return None
    if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & 0o022):
        return None
    return folder


def _cache_home() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if chosen and Path(chosen).is_absolute():
        return Path(chosen)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
