"""Conditions that shape rules share, each with its error message, and axes that ops treat alone.

It also says how element types and numbers are written in numpy and in WGSL, and has the text of
WGSL's helper functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS, INTEGER_RANGES, INTEGERS, LARGEST_FLOAT, NUMBERS
from wgcc.ir.graph import Node, TensorType
from wgcc.lazy_numpy import np
from wgcc.ops.registry import ShapeError, SharedAxis


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(DTYPE_TABLE[dtype].numpy)


def wgsl_type(dtype: str) -> str:
    """The type of an element inside WGSL expressions: a word, even if memory holds bytes."""
    return DTYPE_TABLE[dtype].wgsl


def check_number(value: float | int | bool, dtype: str) -> None:
    """Refuse numbers that WGSL cannot write: infinities, NaN, and integers out of range."""
    if dtype in INTEGERS:
        low, high = INTEGER_RANGES[dtype]
        if value != int(value) or not low <= value <= high:
            raise ShapeError(f"{value} does not fit {dtype} ({low} to {high})")
    elif dtype != "bool" and not (isfinite(value) and abs(value) <= LARGEST_FLOAT):
        raise ShapeError(f"a constant must be finite, and {value} is not a finite {dtype}")


def literal(value: float | int | bool, dtype: str) -> str:
    """`value` as a WGSL literal; negative numbers are in parentheses."""
    type_ = wgsl_type(dtype)
    if type_ == "bool":
        return "true" if value else "false"
    if type_ == "u32":
        return f"{int(value)}u"
    if type_ == "i32":
        # -2147483648i would be the negation of a number that i32 cannot hold.
        return f"{int(value)}i" if value >= 0 else f"i32({int(value)})"
    text = f"{float(value)!r}f"
    return f"({text})" if text.startswith("-") else text


FOLDER = Path(__file__).parent / "wgsl"


def source_of(functions: Iterable[str]) -> str:
    """The text of these helper files, each once, sorted by name (WGSL allows any order)."""
    return "\n".join(_read(name) for name in sorted(set(functions)))


@cache
def _read(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


_WORDS = {FLOATS: "floats", INTEGERS: "integers", NUMBERS: "numbers", ("bool",): "bools"}


def check_dtype(op: str, type_: TensorType, dtypes: Sequence[str]) -> None:
    if type_.dtype not in dtypes:
        wanted = _WORDS.get(tuple(dtypes), " or ".join(dtypes))
        raise ShapeError(f"{op} takes {wanted}, not {type_}")


def check_same(op: str, *types: TensorType) -> None:
    for other in types[1:]:
        if other != types[0]:
            raise ShapeError(f"the operands of {op} differ: {types[0]} and {other}")


def check_axis(op: str, type_: TensorType, axis: int) -> None:
    if not 0 <= axis < type_.rank:
        raise ShapeError(f"{op}: {type_} has no axis {axis}")


def check_axes(op: str, type_: TensorType, axes: Sequence[int]) -> None:
    for axis in axes:
        check_axis(op, type_, axis)
    if list(axes) != sorted(set(axes)):
        raise ShapeError(f"{op}: axes {tuple(axes)} must ascend, each once")


def check_sizes(op: str, shape: Sequence[int]) -> None:
    if any(size < 1 for size in shape):
        raise ShapeError(f"{op}: every size must be at least 1, not {list(shape)}")


def check_scalar(op: str, what: str, type_: TensorType, dtypes: Sequence[str]) -> None:
    if type_.shape:
        raise ShapeError(f"{op}: {what} must be a scalar, not {type_}")
    check_dtype(f"{op}: {what}", type_, dtypes)


def without_axes(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def other_axes(node: Node) -> list[SharedAxis]:
    """All axes but the attribute `axis`; every input and the output have as many."""
    others = (k for k in range(node.output.type.rank) if k != node.attrs["axis"])
    return [((k,) * len(node.inputs), (k,)) for k in others]
