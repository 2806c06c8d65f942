"""Files of wgcc, of its users, and of its cache.

The text of a program is read only from regular files of a limited size, so that reading never
blocks. The cache keeps between runs what takes long to make: a file that is missing, damaged or in
an unsafe place is made again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import tempfile
from pathlib import Path

from wgcc.errors import WgError

_PACKAGE = Path(__file__).parent


def data_dir(name: str) -> Path:
    """The folder `name` (`grammar`, `runtime_js`, …) that is shipped with wgcc."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


# Names under which a bundle may store its source; surrogates stand for undecodable bytes.
SOURCE_NAME = re.compile(r"[^/\\\x00-\x1f\ud800-\udfff]{0,125}\.wg")


def check_file_name(name: str) -> None:
    """The model file is copied into the bundle, so its name must be allowed there."""
    if not SOURCE_NAME.fullmatch(name):
        raise WgError(
            f"{name!r} cannot be the name of a model file: the bundle keeps a copy of it, so call "
            "it NAME.wg (at most 128 characters, no control characters)"
        )


_DIGEST_BYTES = 32
# The folder beside `grammar` for what was made when the compiler was packed.
MADE = "made"


def read_cached(key: str) -> bytes | None:
    """The bytes stored under `key`; None if there are none or they are damaged.

    Sites that hold the compiler ship what each of their visitors would have to make.
    """
    shipped = _PACKAGE / "_data" / MADE / key
    if shipped.is_file():
        return shipped.read_bytes()
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
        folder = cache_folder()
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


def cache_folder() -> Path:
    """The folder of this user for what can be made again."""
    return _cache_home() / "wgcc"


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
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise Unreadable(path, f"it is {kind}")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(largest + 1)
    finally:
        os.close(handle)
    if len(data) > largest:
        most = f"{what} has at most {largest / 1e6:g} MB"
        raise Unreadable(path, f"it has {max(status.st_size, len(data)) / 1e6:,.1f} MB; {most}")
    return data
