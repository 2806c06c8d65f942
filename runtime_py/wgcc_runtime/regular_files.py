"""Opens only regular files, so that a pipe, a device or a socket can neither block nor fill memory.

What is refused is an `OSError`, as other files that cannot be read are. How much memory the
contents of one may take is limited before anything is read or unpacked.
"""

from __future__ import annotations

import errno
import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path

# Names the most bytes of one file's contents; without it, `MOST_BYTES` and the memory decide.
VARIABLE = "WGCC_DATA_BYTES"
MOST_BYTES = 8 << 30
# The share of the machine's memory that contents may take.
SHARE = 0.75
# Deflate makes data at most about a thousand times smaller.
MOST_EXPANSION = 1100
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | Path) -> BufferedReader:
    """Opens a file for reading, without waiting for anybody."""
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        # A socket cannot be opened at all, with a message that nobody understands.
        if error.errno == errno.ENXIO:
            raise _refusal(path, "it is a socket or a device, not a file") from None
        raise
    try:
        mode = stat.S_IFMT(os.fstat(handle).st_mode)
        if mode != stat.S_IFREG:
            raise _refusal(path, f"it is {_KINDS.get(mode, 'something else')}, not a file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_regular(path: str | Path) -> None:
    """Refuses what is no regular file, before a library opens it itself."""
    open_regular(path).close()


def read_regular(path: str | Path) -> bytes:
    with open_regular(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size, "it has")
        return file.read()


def check_size(path: str | Path, size: int, what: str) -> None:
    """`what` says what has that size: "it has", "unpacked it has"."""
    most = most_bytes()
    if size > most:
        advice = f"at most {most:,} are read here; {VARIABLE} can allow more"
        raise _refusal(path, f"{what} {size:,} bytes, {advice}")


def most_bytes() -> int:
    given = os.environ.get(VARIABLE, "")
    if given.isdecimal():
        return int(given)
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return MOST_BYTES
    return min(MOST_BYTES, int(SHARE * memory))


def check_archive(path: str | Path, archive: zipfile.ZipFile) -> None:
    """Refuses members that are too large unpacked; `zipfile` unpacks no more than they say."""
    members = archive.infolist()
    check_size(path, sum(member.file_size for member in members), "unpacked it has")
    for member in members:
        if member.file_size > MOST_EXPANSION * max(member.compress_size, 1):
            text = f"{member.filename} says that it has {member.file_size:,} bytes"
            raise _refusal(path, f"{text}, which {member.compress_size:,} cannot hold")


def _refusal(path: str | Path, reason: str) -> OSError:
    return OSError(errno.EINVAL, reason, str(path))
