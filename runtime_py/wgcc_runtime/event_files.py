"""Event files of TensorBoard: records of scalars, histograms and pictures by step.

The format is small, so it is written here rather than by a package with twenty dependencies: a
record is its length, the masked CRC-32C of the length, the bytes, and their masked CRC-32C; the
bytes are a message `Event` of protocol buffers, of which a few fields are used. Files are only ever
appended to. A run that goes back to an earlier step says so, and readers drop what was after it.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from wgcc_runtime.arrays import Array

# Readers look for this word in names of files, and read them in the order of their names.
PATTERN, NAME = "events.out.tfevents.*.wgcc", "events.out.tfevents.{:05d}.wgcc"
VERSION = b"brain.Event:2"
# CRC-32C has the polynomial 0x1EDC6F41; here in the order of bits that the table needs.
POLYNOMIAL = 0x82F63B78
GREY = 1


class EventFile:
    """A new file in a folder, behind those of earlier runs."""

    def __init__(self, folder: Path, number: int) -> None:
        # Fails where a file or a link has that name.
        self._stream: BinaryIO = open(folder / NAME.format(number), "xb")  # noqa: SIM115
        self._append(_bytes(3, VERSION))
        self._stream.flush()

    def begin_after(self, step: int) -> None:
        """Says that what earlier events have of later steps is not valid any more."""
        started = _integer(1, 1)
        self._append(_integer(2, step + 1) + _bytes(7, started))
        self._stream.flush()

    def write(self, step: int, values: Sequence[bytes]) -> None:
        """`values`: what `scalar`, `histogram` and `picture` return."""
        summary = b"".join(_bytes(1, value) for value in values)
        self._append(_integer(2, step) + _bytes(5, summary))
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    def _append(self, fields: bytes) -> None:
        event = _double(1, time.time()) + fields
        length = struct.pack("<Q", len(event))
        self._stream.write(length + _checksum(length) + event + _checksum(event))


def scalar(tag: str, value: float) -> bytes:
    return _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", np.float32(value))


def histogram(tag: str, counts: Array, edges: Array, numbers: Mapping[str, float]) -> bytes:
    """`counts` of values between `edges`; `numbers`: `sum` and `squares` of all values."""
    fields = {1: edges[0], 2: edges[-1], 3: counts.sum(), 4: numbers["sum"], 5: numbers["squares"]}
    body = b"".join(_double(field, float(number)) for field, number in fields.items())
    body += _bytes(6, np.asarray(edges[1:], "<f8").tobytes())
    body += _bytes(7, np.asarray(counts, "<f8").tobytes())
    return _bytes(1, tag.encode()) + _bytes(5, body)


def picture(tag: str, pixels: Array) -> bytes:
    """`pixels`: grey values of one byte, by rows."""
    height, width = pixels.shape
    body = _integer(1, height) + _integer(2, width) + _integer(3, GREY)
    return _bytes(1, tag.encode()) + _bytes(4, body + _bytes(4, png(pixels)))


def png(pixels: Array) -> bytes:
    """A grey picture as a PNG file; every row begins with a byte that says: unfiltered."""
    height, width = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.astype(np.uint8)], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


# ---- protocol buffers: a key (number of the field, and how its value is written), then the value


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Seven bits in a byte, the lowest first; the eighth bit says that another byte follows."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _checksum(data: bytes) -> bytes:
    """Masked, as checksums of data that contains checksums are."""
    crc = crc32c(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]
