"""Reads .npy and .npz files. Sizes are compared with those of the file before memory is taken."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.regular_files import check_archive, check_size, open_regular

ZIP = b"PK"
SUFFIX = ".npy"


def read_numpy(path: Path) -> dict[str, Array]:
    """The arrays of a .npz file, or the one of a .npy file, without a name; may raise anything."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, "it has")
        if file.read(len(ZIP)) != ZIP:
            file.seek(0)
            return {"": _array(file, size)}
        with zipfile.ZipFile(file) as archive:
            check_archive(path, archive)
            return {
                member.filename.removesuffix(SUFFIX): _member(archive, member)
                for member in archive.infolist()
            }


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    with archive.open(member) as stream:
        try:
            return _array(stream, member.file_size)
        except ValueError as error:
            raise ValueError(f"`{member.filename.removesuffix(SUFFIX)}`: {error}") from None


def _array(stream: Any, size: int) -> Array:
    """Reads the array of a stream that has `size` bytes."""
    shape, is_fortran, kind = _header(stream)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    count = math.prod(shape)
    start = stream.tell()
    if min((0, *shape)) < 0 or count * kind.itemsize > size - start:
        raise ValueError(f"it is cut off: {size - start:,} bytes for an array of shape {shape}")
    array: Array = _read(stream, count * kind.itemsize).view(kind)
    shaped: Array = array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)
    return shaped


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, Any]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"version {version} of the format is not read")


def _read(stream: BinaryIO, size: int) -> Array:
    data = np.empty(size, np.uint8)
    end = 0
    while end < size:
        count = stream.readinto(data.data[end:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError("it is cut off")
        end += count
    return data
