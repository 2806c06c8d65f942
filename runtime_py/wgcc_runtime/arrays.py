"""Converts callers' arrays to what a tensor holds in memory, and back to numpy arrays.

Frames of pandas and polars are arrays here, too; neither is imported, a frame is known by its
attributes. Errors name the column, and the row as numpy counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.plan import FLOATS, WORD, Entry, Range, Tensor

Array = npt.NDArray[Any]

# dtype -> type in memory, type callers see
MEMORY_TYPES = {
    "f32": "<f4", "f16": "<f4", "i32": "<i4", "u32": "<u4",
    "i8": "<i1", "u8": "<u1", "bool": "<u1",
}  # fmt: skip
CALLER_TYPES = {
    "f32": np.float32, "f16": np.float16, "i32": np.int32,
    "u32": np.uint32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
INTEGER_RANGES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i8": (-128, 127),
    "u8": (0, 255),
    "bool": (0, 1),
}


def to_words(
    value: Any, tensor: Tensor, what: str, allowed: Range | None = None, any_rows: bool = False
) -> Array:
    """The contiguous elements of `value` for `tensor`; `what` names it in errors, as `train: x`.

    With `any_rows` the number of rows is not what is wrong with a shape.
    """
    array, columns = as_array(value, what), column_names(value)
    if array.shape != tensor.shape:
        given = list(array.shape)
        wanted = [*given[:1], *tensor.shape[1:]] if any_rows and given else list(tensor.shape)
        shapes = f"{given}{column_list(columns)}, not {wanted}"
        raise WgccError("shape", f"{what} has shape {shapes}", what)
    return convert_input(array, tensor, what, allowed, columns=columns)


def from_words(words: bytes | memoryview, tensor: Tensor, copy: bool = True) -> Array:
    """A numpy array of the tensor's shape, in the dtype a caller expects.

    Without `copy` it may be the words themselves, which cannot be written.
    """
    array = np.frombuffer(words, MEMORY_TYPES[tensor.dtype], tensor.size)
    return array.astype(CALLER_TYPES[tensor.dtype], copy=copy).reshape(tensor.shape)


def as_bytes(elements: Array) -> Array:
    """The bytes of elements, with zeros up to a whole word."""
    data: Array = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    missing = -data.size % WORD
    return np.pad(data, (0, missing)) if missing else data


def as_array(value: Any, what: str) -> Array:
    """numpy's view of anything array-like: numbers, lists, frames, `__array__`, `__dlpack__`."""
    if is_frame(value):
        return frame_array(value, what)
    try:
        value = _readable(value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except Exception as error:  # other libraries' array types may raise anything
        raise WgccError("dtype", f"{what} cannot be read as an array: {error}", what) from None
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise WgccError("dtype", f"{what} has masked elements; fill them first", what)
    if array.dtype.kind not in "fiub":
        raise WgccError("dtype", f"{what} {_contents(value, array)}", what)
    return array


def _readable(value: Any) -> Any:
    """A tensor of PyTorch as numpy can read it: without its gradient, dense, on the CPU, and f32
    where numpy has no such type. It is known by its attributes."""
    if isinstance(value, list | tuple) and value and hasattr(value[0], "requires_grad"):
        return [_readable(item) for item in value]
    if not hasattr(value, "requires_grad") or value.device.type == "meta":
        return value
    value = value.detach().cpu()
    if value.is_sparse:
        value = value.to_dense()
    has_no_type = str(value.dtype).removeprefix("torch.").startswith(("bfloat16", "float8"))
    return value.float() if has_no_type else value


def _contents(value: Any, array: Array) -> str:
    """Says what an array without numbers holds, and how it becomes one of numbers."""
    if array.dtype != object:
        return f"holds {array.dtype.name}, not numbers"
    if not array.ndim:
        return f"is {type(value).__name__}, not an array of numbers"
    items = array.reshape(-1)
    kind = type(next((item for item in items if not isinstance(item, (int, float))), items[0]))
    if hasattr(items[0], "__len__") and not isinstance(items[0], str):
        return f"holds objects ({kind.__name__}), not numbers: join them, as in `np.stack(x)`"
    return f"holds objects ({kind.__name__}), not numbers: convert it, as in `x.astype('float32')`"


def convert_input(
    array: Array,
    tensor: Tensor,
    what: str,
    allowed: Range | None,
    rows: Array | None = None,
    columns: Sequence[str] = (),
) -> Array:
    """As `convert`, for an input, which may be one that takes NaN and infinity."""
    if tensor.any_float:
        return _floats(array, tensor.dtype)
    if tensor.is_float:
        remedy = f"; where that is meant, declare the input as `{tensor.dtype}?`"
        return _finite(array, tensor.dtype, what, rows, remedy, columns)
    return convert(array, tensor.dtype, what, allowed, rows, columns)


def convert(
    array: Array,
    dtype: str,
    what: str,
    allowed: Range | None = None,
    rows: Array | None = None,
    columns: Sequence[str] = (),
) -> Array:
    """Elements as in memory, of the same shape; refuses values that are lost or out of range.

    `rows`: which rows of the caller's array these are, `columns`: those of a frame, for messages.
    """
    if dtype in FLOATS:
        return _finite(array, dtype, what, rows, columns=columns)
    if array.dtype.kind == "f":
        text = f"{what} is {array.dtype.name}, but the model takes {dtype} there; convert it first"
        raise WgccError("dtype", text, what)
    low, high = INTEGER_RANGES[dtype]
    if array.dtype != CALLER_TYPES[dtype]:
        _check_range(array, Range(low, high, None), what, f"the range of {dtype}", rows, columns)
    if allowed:
        _check_range(array, allowed, what, "what the model indexes with it", rows, columns)
    return np.asarray(array, MEMORY_TYPES[dtype], order="C")


def _floats(array: Array, dtype: str) -> Array:
    with np.errstate(over="ignore"):
        words = np.asarray(array, "<f4", order="C")
        if dtype == "f16":
            words = words.astype(np.float16).astype("<f4")
    return words


def _finite(
    array: Array,
    dtype: str,
    what: str,
    rows: Array | None = None,
    remedy: str = "",
    columns: Sequence[str] = (),
) -> Array:
    words = _floats(array, dtype)
    if not np.isfinite(words).all():
        first = np.argwhere(~np.isfinite(words))[0]
        place = place_text(_place(first, rows), columns)
        text = f"{what} holds {array[tuple(first)]} at {place}, not a finite {dtype}"
        raise WgccError("not-finite", text + remedy, what)
    return words


def _place(index: Array, rows: Array | None) -> list[int]:
    """An index into the caller's array."""
    place = [int(i) for i in index]
    return place if rows is None else [int(rows[place[0]]), *place[1:]]


def _check_range(
    array: Array,
    allowed: Range,
    what: str,
    why: str,
    rows: Array | None = None,
    columns: Sequence[str] = (),
) -> None:
    if array.size == 0:
        return
    outside = (array < allowed.low) | (array > allowed.high)
    if allowed.ignore is not None:
        outside &= array != allowed.ignore
    if outside.any():
        first = np.argwhere(outside)[0]
        place = place_text(_place(first, rows), columns)
        text = f"{what} holds {int(array[tuple(first)])} at {place}; {why} is"
        text = f"{text} {allowed}"
        raise WgccError("range", text + _counted_from_one(array, allowed), what)


def _counted_from_one(array: Array, allowed: Range) -> str:
    """A hint if the numbers go from 1 to N where 0 to N - 1 is expected."""
    kept = array if allowed.ignore is None else array[array != allowed.ignore]
    shifted = allowed.low == 0 < allowed.high and (kept.min(), kept.max()) == (1, allowed.high + 1)
    return "; they seem to count from 1, but wgcc counts from 0: subtract 1" if shifted else ""


NUMBERS = "fiub"
MOST_NAMES = 8
READ = "encode it as numbers, or use `wgcc_runtime.read_data(frame, model)`, which does"


def is_frame(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("columns", "dtypes", "shape", "__array__"))


def column_names(value: Any) -> tuple[str, ...]:
    """The names of a frame's columns, () for anything else."""
    return tuple(map(str, value.columns)) if is_frame(value) else ()


def frame_array(frame: Any, what: str) -> npt.NDArray[Any]:
    """The numbers of a frame, one row for each of its rows."""
    columns = [frame[name] for name in frame.columns]
    arrays = [
        column_array(column, f"{what}, column `{name}`")
        for name, column in zip(frame.columns, columns, strict=True)
    ]
    return np.stack(arrays, axis=1) if arrays else np.zeros((len(frame), 0), np.float32)


def column_array(column: Any, what: str) -> npt.NDArray[Any]:
    """The numbers of one column; missing ones are NaN."""
    array = np.asarray(column)
    if array.dtype.kind in NUMBERS:
        return array
    if array.dtype != object:
        raise WgccError("dtype", f"{what} holds {array.dtype.name}, not numbers: {READ}", what)
    missing = np.array([is_missing(item) for item in array], bool)
    for row in np.flatnonzero(~missing):
        if not isinstance(array[row], (int, float, np.number, np.bool_)):
            text = f"{what} holds {array[row]!r} in row {row}, not a number: {READ}"
            raise WgccError("dtype", text, what)
    return np.array([np.nan if gone else item for item, gone in zip(array, missing, strict=True)])


def is_missing(item: Any) -> bool:
    """None, NaN, or what pandas has for a missing value or time."""
    is_nan = isinstance(item, float | np.floating) and np.isnan(item)
    is_time = isinstance(item, np.datetime64 | np.timedelta64) and np.isnat(item)
    return item is None or bool(is_nan or is_time) or type(item).__name__ in ("NAType", "NaTType")


def place_text(index: Sequence[int], columns: Sequence[str]) -> str:
    """The place of a number: `[3, 1]`, or the row and column of a frame."""
    if len(index) == 2 and index[1] < len(columns):
        return f"row {index[0]} of column `{columns[index[1]]}`"
    return str(list(index))


def column_list(columns: Sequence[str]) -> str:
    """The columns of a frame, for a message about a shape."""
    if not columns:
        return ""
    more = ", …" if len(columns) > MOST_NAMES else ""
    return f" (columns {', '.join(columns[:MOST_NAMES])}{more})"


Batch = dict[str, Array]


def check_batch(batch: Any, entry: Entry) -> Batch:
    """One call's arguments as words, after checks of names, shapes, types and ranges."""
    if not isinstance(batch, Mapping):
        kind = type(batch).__name__
        raise WgccError("data", f"{entry.name}: a batch is a dict of arrays, not {kind}")
    check_names(batch, entry)
    free = entry.rows.inputs if entry.rows is not None and entry.rows.outputs else ()
    return {
        name: to_words(
            batch[name], tensor, f"{entry.name}: `{name}`", entry.ranges.get(name), name in free
        )
        for name, tensor in entry.inputs.items()
    }


def check_names(batch: Mapping[str, Any], entry: Entry) -> None:
    for name in batch:
        if name not in entry.inputs:
            near = did_you_mean(str(name), entry.inputs)
            raise WgccError("name", f"`{entry.name}` has no input `{name}`{near}", str(name))
    for name, tensor in entry.inputs.items():
        if name not in batch:
            raise WgccError("name", f"`{entry.name}` needs the input `{name}`: {tensor}", name)
