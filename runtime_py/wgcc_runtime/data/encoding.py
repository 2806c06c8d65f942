"""Bytes of a file as text: byte order marks, UTF-8, else Windows-1252."""

from __future__ import annotations

from wgcc_runtime.data.source import Source

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def decode(data: bytes, source: Source) -> str:
    """The text of a file, without its byte order mark."""
    if data.startswith(b"PK\x03\x04"):
        raise source.refuse("workbook")
    if data.startswith(b"%PDF"):
        raise source.refuse("pdf")
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            # As in browsers, what is no character of the encoding becomes U+FFFD.
            return data[len(mark) :].decode(encoding, errors="replace")
    if b"\0" in data:
        raise source.refuse("binary")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        source.note("windows-1252")
        return "".join(map(_WINDOWS.__getitem__, data))


def _windows_letter(byte: int) -> str:
    """The letter that browsers read: the five bytes open in Windows-1252 are control characters."""
    return bytes([byte]).decode("cp1252", errors="ignore") or chr(byte)


_WINDOWS = [_windows_letter(byte) for byte in range(256)]
