"""Replaces a file so that a crash at any moment leaves the complete old or the complete new one."""

from __future__ import annotations

import contextlib
import difflib
import errno
import glob
import hashlib
import os
import re
import secrets
import stat
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

from wgcc_runtime.errors import WgccWarning
from wgcc_runtime.interrupts import handle_now, held

# A temporary file this old (in seconds) was left by a process that died while saving.
STRAY_AGE = 600.0
# Writing a long file can be interrupted between pieces of this size.
PIECE = 16 << 20
# Bytes of a file's name that the name of its temporary file contains.
LONGEST_STEM = 200


def replace_file(
    path: Path, data: bytes | Iterable[bytes | memoryview], keep_previous: bool = False
) -> None:
    """Temporary file in the same folder, fsync, rename, fsync of the folder.

    `data` may be pieces that follow each other.
    """
    _prepare(path)
    _sweep(path)
    temporary = _temporary(path)
    with held():
        try:
            _write(temporary, [data] if isinstance(data, bytes) else data)
            if keep_previous:
                _keep(path)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def check_replaceable(path: Path) -> None:
    """Raises what `replace_file(..., keep_previous=True)` would raise, before there is any data."""
    _prepare(path)
    with contextlib.suppress(FileNotFoundError):
        os.lstat(previous(path))  # its name may be too long although that of `path` is not
    temporary = _temporary(path)
    with held():
        try:
            _write(temporary, [])
        finally:
            temporary.unlink(missing_ok=True)


def _prepare(path: Path) -> None:
    if not path.name:
        raise OSError(errno.EINVAL, "it is not the name of a file")
    make_folder(path.parent)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "it is a folder, or not a regular file")


def make_folder(folder: Path) -> None:
    """Makes missing folders, so that no result is lost to one; a warning names those that may be
    spelling mistakes: several, or one beside a folder of nearly that name."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if not missing:
        return
    name, beside = missing[-1].name, missing[-1].parent
    others: list[str] = []
    with contextlib.suppress(OSError):
        others = [path.name for path in beside.iterdir() if path.is_dir()]
    # `run2` beside `run1` is no mistake.
    near = [other for other in others if _letters(other) != _letters(name)]
    close = difflib.get_close_matches(name, near, n=1, cutoff=0.75)
    if close or len(missing) > 1:
        advice = f"; did you mean `{beside / close[0]}`?" if close else ""
        warnings.warn(f"made the new folder `{folder}`{advice}", WgccWarning, stacklevel=2)


def _letters(name: str) -> str:
    return re.sub(r"\d", "", name)


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    with open(path, "xb") as stream:
        for data in pieces:
            for start in range(0, len(data), PIECE):
                handle_now()
                stream.write(memoryview(data)[start : start + PIECE])
        stream.flush()
        os.fsync(stream.fileno())


def previous(path: Path) -> Path:
    """The path under which `keep_previous` keeps the replaced file."""
    return path.with_name(f"{path.name}.previous")


def _temporary(path: Path) -> Path:
    return path.with_name(f"{_stem(path)}{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _stem(path: Path) -> str:
    """The prefix of temporary files for `path`; never too long for a file system."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST_STEM:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."


def _keep(path: Path) -> None:
    # A hard link to the old file, so that `path` itself is never missing. Without hard links in the
    # file system there is no previous file; the replacement is still safe.
    name = _temporary(path)
    with contextlib.suppress(OSError):
        os.link(path, name)
        try:
            os.replace(name, previous(path))
        except OSError:
            name.unlink()


def sync_folder(folder: Path) -> None:
    """Without this, a loss of power may undo a rename; Windows has no such call."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(path: Path) -> None:
    stem = _stem(path)
    for stray in path.parent.glob(f"{glob.escape(stem)}*.tmp"):
        with contextlib.suppress(OSError):
            owner = stray.name.removeprefix(stem).split("-")[0]
            if is_left_behind(stray, owner):
                stray.unlink()


def is_left_behind(temporary: Path, owner: str) -> bool:
    """Whether the process `owner` (its id) that made a temporary file or folder has ended."""
    if time.time() - temporary.lstat().st_mtime > STRAY_AGE:
        return True
    return os.name == "posix" and owner.isdigit() and not _alive(int(owner))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 asks whether the process exists and does nothing to it
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
