"""Reads and writes safetensors files, with checksums, and never leaves an incomplete file.

A checkpoint is an ordinary safetensors file: one tensor per parameter and state, and in the
metadata the key `wgcc`, with JSON: format, version, CRC-32, the model's name, the SHA-256 of its
source, the kind of each optimizer, steps per entry, data position. A model that was trained with
people's data has its preparation under a second key, `preparation`. A checkpoint of workers that
exchange rarely has one more tensor, `outer/velocity`, which is no part of the model.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.preparation import KEY as PREPARATION
from wgcc_runtime.data.preparation import parse_preparation, preparation_text
from wgcc_runtime.drawn import MASK
from wgcc_runtime.errors import WgccError
from wgcc_runtime.regular_files import open_regular, read_regular
from wgcc_runtime.replace_file import replace_file
from wgcc_runtime.strict_json import parse_json

# The largest integer that JavaScript represents exactly.
MOST_STEPS = 2**53 - 1
FORMAT, VERSION = "wgcc-checkpoint", 1
# The momentum of the outer step (see distributed/outer.py): a tensor of the file and, when it is
# read, a fact. No name of a model contains `/`.
OUTER = "outer/velocity"
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?",
}  # fmt: skip

# Larger files are read tensor by tensor, which takes no second copy of them.
LARGE_BYTES = 64 << 20
# The format allows no longer header.
MOST_HEADER = 100_000_000

Facts = dict[str, Any]
# The tensors of a file: name, and `dtype`, `shape` and `data` of each.
Entries = Iterable[tuple[str, Mapping[str, Any]]]


def save_weights(
    path: str | Path, tensors: Mapping[str, Array], facts: Facts, keep_previous: bool = False
) -> None:
    """Writes atomically: at every moment `path` is either the old file or the complete new one."""
    preparation = facts.get(PREPARATION)
    facts = {name: fact for name, fact in facts.items() if name != PREPARATION}
    metadata = metadata_of(tensors, facts)
    if preparation is not None:
        metadata = {PREPARATION: preparation_text(preparation), **metadata}
    try:
        replace_file(Path(path), file_pieces(tensors, metadata), keep_previous)
    except (OSError, ValueError) as error:
        raise cannot_write("weights", path, error) from None


def metadata_of(tensors: Mapping[str, Array], facts: Mapping[str, Any] = {}) -> dict[str, str]:
    """The key `wgcc` of a file of these tensors, with their checksum."""
    known = {"format": FORMAT, "version": VERSION, **facts, "crc32": _crc(tensors)}
    return {"wgcc": json.dumps(known, sort_keys=True)}


def cannot_write(code: str, path: str | Path, error: Exception) -> WgccError:
    return WgccError(code, f"cannot write {str(path)!r}: {_reason(error)}", str(path))


def _reason(error: Exception) -> str:
    """The text without error number and path; a ValueError is about the path itself."""
    return getattr(error, "strerror", None) or str(error)


def save_arrays(path: str | Path, tensors: Mapping[str, Array]) -> None:
    """A plain safetensors file, without the facts of a checkpoint."""
    replace_file(Path(path), file_pieces(tensors, {}))


def load_weights(source: str | Path | bytes) -> tuple[dict[str, Array], Facts]:
    """Tensors of a file (or its bytes) by name, and the facts of a checkpoint, or {}."""
    what = "weights" if isinstance(source, bytes) else str(source)
    tensors: Mapping[str, Array]
    if not isinstance(source, bytes) and is_large(Path(source)):
        file = LargeFile(Path(source))
        header, tensors = file.header, dict(file)
    else:
        header = source if isinstance(source, bytes) else _read(source)
        tensors = _arrays(_deserialize(header, what), what)
    facts = _checked_facts(header, tensors, what)
    return {name: array for name, array in tensors.items() if name != OUTER}, facts


def _checked_facts(header: bytes, tensors: Mapping[str, Array], what: str) -> Facts:
    facts = _facts(header, what)
    if "crc32" in facts and facts["crc32"] != _crc(tensors):
        raise WgccError("weights", f"{what} is damaged: its checksum is wrong", what)
    return {**facts, OUTER: tensors[OUTER]} if OUTER in tensors else facts


class LargeFile(Mapping[str, Array]):
    """The tensors of a large file, each read into memory of its own when it is asked for.

    Not mapped: a file that is overwritten later would change them, and a shorter one would end the
    process with a bus error.
    """

    def __init__(self, path: Path) -> None:
        # The process may change its folder before a tensor is read.
        self._path, self._what = Path(os.path.abspath(path)), str(path)
        try:
            with open_regular(path) as file:
                self._stamp = _stamp(file)
                self.header = _header(file, self._what)
                # The library checks the header against the size of the file.
                with safetensors.safe_open(path, "numpy"):
                    pass
        except OSError as error:
            raise _unreadable(path, error) from None
        except safetensors.SafetensorError as error:
            raise _no_file(self._what, error) from None
        specs = parse_json(self.header[8:], self._what, len(self.header), "weights")
        self._specs = {name: spec for name, spec in specs.items() if name != "__metadata__"}

    def without(self, is_left: Callable[[str], bool]) -> LargeFile:
        other = copy(self)
        other._specs = {name: spec for name, spec in self._specs.items() if not is_left(name)}
        return other

    def facts(self) -> Facts:
        """The facts of a checkpoint, or {}; all tensors are read for their checksum."""
        return _checked_facts(self.header, self, self._what)

    def __getitem__(self, name: str) -> Array:
        spec = self._specs[name]
        first, end = spec["data_offsets"]
        data = np.empty(end - first, np.uint8)
        try:
            with open_regular(self._path) as file:
                file.seek(len(self.header) + first)
                if file.readinto(data.data) != data.nbytes:
                    raise _no_file(self._what, "it became shorter while it was read")
                if _stamp(file) != self._stamp:
                    text = f"{self._what} was changed since it was opened: open the model again"
                    raise WgccError("weights", text, self._what)
        except OSError as error:
            raise _unreadable(self._path, error) from None
        return _arrays([(name, {**spec, "data": data})], self._what)[name]

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)


def _stamp(file: BufferedReader) -> tuple[int, ...]:
    """Differs if the file is another one, or was written."""
    facts = os.fstat(file.fileno())
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def is_large(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return path.is_file() and path.stat().st_size > LARGE_BYTES
    return False


def _header(file: BufferedReader, what: str) -> bytes:
    """The first bytes, with the length of the header in front. It may be any number."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if length > min(MOST_HEADER, os.fstat(file.fileno()).st_size - len(start)):
        raise _no_file(what, f"its header cannot have {length} bytes")
    return start + file.read(length)


def _deserialize(data: bytes, what: str) -> Entries:
    try:
        entries: Entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except (safetensors.SafetensorError, ValueError, TypeError) as error:
        raise _no_file(what, "it is a GGUF file" if data[:4] == b"GGUF" else error) from None
    return entries


def _no_file(what: str, error: Exception | str) -> WgccError:
    return WgccError("weights", f"{what} is not a safetensors file: {error}", what)


def _read(path: str | Path) -> bytes:
    try:
        return read_regular(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str | Path, error: Exception) -> WgccError:
    return WgccError("weights", f"cannot read {str(path)!r}: {_reason(error)}", str(path))


def _arrays(entries: Entries, what: str) -> dict[str, Array]:
    try:
        return {name: _array(spec, f"{what}: `{name}`") for name, spec in entries}
    except (ValueError, TypeError) as error:
        raise _no_file(what, error) from None


def _array(spec: Mapping[str, Any], what: str) -> Array:
    if spec["dtype"] == "BF16":
        high = np.frombuffer(spec["data"], "<u2").astype("<u4") << np.uint32(16)
        widened: Array = high.view("<f4").reshape(spec["shape"])
        return widened
    if spec["dtype"] not in _TYPES:
        raise WgccError("weights", f"{what} has the unsupported type {spec['dtype']}", what)
    array: Array = np.frombuffer(spec["data"], _TYPES[spec["dtype"]]).reshape(spec["shape"])
    return array


def _facts(data: bytes, what: str) -> Facts:
    length = int.from_bytes(data[:8], "little")
    header = parse_json(data[8 : 8 + length], what, length, "weights")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict):
        return {}
    prepared: Facts = {}
    if PREPARATION in metadata:
        prepared[PREPARATION] = parse_preparation(str(metadata[PREPARATION]), what)
    text = metadata.get("wgcc")
    if text is None:
        return prepared
    facts = parse_json(str(text).encode(), what, 1 << 20, "weights")
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise WgccError("weights", f"{what} has metadata this runtime does not know", what)
    if facts.get("version") != VERSION:
        version = facts.get("version")
        raise WgccError("version", f"{what} is a checkpoint of version {version!r}, not 1", what)
    _check_facts(facts, what)
    return {**facts, **prepared}


def _check_facts(facts: Facts, what: str) -> None:
    if not _are_counts(facts.get("steps", {})) or not _are_counts(facts.get("data", {})):
        raise WgccError("weights", f"{what} has impossible step numbers", what)
    if facts.get("data", {}).get("seed", 0) > MASK:
        raise WgccError("weights", f"{what} has an impossible seed", what)
    names = [facts.get("model", ""), facts.get("source", ""), *_kinds(facts)]
    if not all(isinstance(name, str) for name in names):
        raise WgccError("weights", f"{what} has metadata this runtime does not know", what)


def _kinds(facts: Facts) -> list[Any]:
    kinds = facts.get("optimizer", {})
    return list(kinds.values()) if isinstance(kinds, dict) else [None]


def _are_counts(content: Any) -> bool:
    """Integers by name, none larger than a double represents exactly."""
    return isinstance(content, dict) and all(
        type(n) is int and 0 <= n <= MOST_STEPS for n in content.values()
    )


def _crc(tensors: Mapping[str, Array]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        total = zlib.crc32(bytes_of(tensors[name]), total)
    return total


Piece = bytes | memoryview
# In the order in which the library stores them: wide elements first, which are thereby aligned.
_STORED_TYPES = {
    "<u8": "U64", "<i8": "I64", "<f8": "F64", "<f4": "F32", "<u4": "U32", "<i4": "I32",
    "<f2": "F16", "<u2": "U16", "<i2": "I16", "|i1": "I8", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip
_RANKS = {name: rank for rank, name in enumerate(_STORED_TYPES)}


def file_pieces(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> list[Piece]:
    """The header, then the elements of each tensor, which must not change meanwhile."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    order = sorted(arrays, key=lambda name: (_RANKS[arrays[name].dtype.str], name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _STORED_TYPES[arrays[name].dtype.str],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    return [_header_piece(header), *(bytes_of(arrays[name]) for name in order)]


def bytes_of(array: Array) -> memoryview:
    """The elements in order, without a copy if they are contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _header_piece(header: Mapping[str, Any]) -> bytes:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


__all__: Sequence[str] = ["Piece", "bytes_of", "file_pieces"]


EMA = "ema"


def names_averages(weights: Any) -> bool:
    """Whether it is no file of weights, but a name of averages: `ema` or `NAME.ema`."""
    if not isinstance(weights, str) or "/" in weights:
        return False
    return weights.rpartition(".")[2] == EMA and not Path(weights).exists()


def with_averages(arrays: Mapping[str, Array], weights: str, path: Path | str) -> dict[str, Array]:
    """`arrays`, but with averages where parameters have one.

    `weights` is `ema`, or `NAME.ema` for the averages of the optimizer of that name.
    """
    optimizer, _, word = weights.rpartition(".") if isinstance(weights, str) else ("", "", "")
    if word != EMA:
        text = f'weights={weights!r}: there are "ema" and "NAME.ema", of the optimizer NAME'
        raise WgccError("name", text, str(weights))
    averages: dict[str, Array] = {}
    for name, array in arrays.items():
        prefix, owner, what, parameter = [*name.split("/", 3), *[""] * 4][:4]
        if prefix != "opt" or what != EMA or (optimizer and owner != optimizer):
            continue
        if parameter in averages:
            text = f"{path} has several averages of `{parameter}`"
            raise WgccError("name", f'{text}; choose one: weights="{owner}.ema"', parameter)
        averages[parameter] = array
    if not averages:
        whose = f" of `{optimizer}`" if optimizer else ""
        text = f"{path} has no averages{whose}: its optimizer needs the setting `ema`, and `save` "
        raise WgccError("weights", f"{text}must not leave the optimizer out", str(path))
    return {**arrays, **averages}
