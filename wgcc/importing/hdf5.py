"""Reads HDF5 files, which may be damaged or hostile: no link is followed, sizes are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array, np

LARGEST = 1 << 33
_DEEPEST, _MOST = 32, 100_000
# Deflate shrinks nothing to less than a 1032nd.
_SHRINKS = 1032
# The weights inside a `.keras` file, which is a zip archive.
INNER_FILE = "model.weights.h5"


@dataclass(slots=True)
class Folder:
    """A group: the name that its writer gave it, its arrays and its groups."""

    name: str = ""
    arrays: dict[str, Array] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)


def read_hdf5(path: Path) -> Folder:
    """All groups and arrays of an HDF5 file, or of the weights in a `.keras` file."""
    h5py = _need_h5py(path)
    with _opened(h5py, path) as file:
        try:
            return _Reader(h5py, path).folder(file, "", 0)
        except WgError:
            raise
        except Exception as error:  # of HDF5, whatever is damaged
            raise _unreadable(path, error) from None


def _need_h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise WgError(
            f"{path} is an HDF5 file, and the package h5py is not installed: "
            "pip install 'wgcc[keras]'"
        ) from None
    return h5py


@contextmanager
def _opened(h5py: Any, path: Path) -> Iterator[Any]:
    try:
        file = h5py.File(_contents(path), "r")
    except WgError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from None
    with file:
        yield file


def _contents(path: Path) -> Path | BytesIO:
    if path.suffix.lower() != ".keras":
        return path
    try:
        with ZipFile(path) as archive:
            if archive.getinfo(INNER_FILE).file_size > LARGEST:
                raise WgError(f"{path}: its weights take more than 8 GB")
            return BytesIO(archive.read(INNER_FILE))
    except KeyError:
        raise WgError(f"{path} holds no {INNER_FILE}: it is no model of Keras") from None
    except (BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> WgError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return WgError(f"{path} cannot be read as a file of Keras: {reason[:200]}")


class _Reader:
    def __init__(self, h5py: Any, path: Path) -> None:
        self._h5py, self._path = h5py, path
        self._count = self._bytes = 0

    def folder(self, group: Any, place: str, depth: int) -> Folder:
        if depth > _DEEPEST:
            raise WgError(f"{self._path}: groups are nested more than {_DEEPEST} deep")
        found = Folder(_text(group.attrs.get("name")))
        for key in group:
            self._count += 1
            if self._count > _MOST:
                raise WgError(f"{self._path}: more than {_MOST} groups and tensors")
            inner = f"{place}/{key}".lstrip("/")
            item = self._item(group, key, inner)
            if isinstance(item, self._h5py.Group):
                found.folders[key] = self.folder(item, inner, depth + 1)
            elif item.dtype.kind in "fiub":
                found.arrays[key] = self._array(item, inner)
        return found

    def _item(self, group: Any, key: str, place: str) -> Any:
        if not isinstance(group.get(key, getlink=True), self._h5py.HardLink):
            raise WgError(f"{self._path}: {place} is a link, which is not followed")
        item = group[key]
        if not isinstance(item, (self._h5py.Group, self._h5py.Dataset)):
            raise WgError(f"{self._path}: {place} is neither a group nor a tensor")
        return item

    def _array(self, dataset: Any, place: str) -> Array:
        if dataset.is_virtual or dataset.external:
            raise WgError(f"{self._path}: {place} is stored in another file, which is not read")
        size = prod(dataset.shape or ()) * dataset.dtype.itemsize
        held = dataset.id.get_storage_size()
        if size > (held * _SHRINKS if dataset.compression else held):
            raise WgError(
                f"{self._path}: {place} holds fewer numbers than its shape {list(dataset.shape)}"
            )
        self._bytes += size
        if self._bytes > LARGEST:
            raise WgError(f"{self._path}: its tensors take more than 8 GB")
        return np.asarray(dataset[()])


def _text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return name if isinstance(name, str) else ""
