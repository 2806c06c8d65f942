"""Conditions that shape rules share, each with its error message, and axes that ops treat alone."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.dtypes import FLOATS, INTEGERS, NUMBERS
from wgcc.ir.graph import Node, TensorType
from wgcc.ops.registry import ShapeError, SharedAxis

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
    """All but attribute `axis`; every input and the output have as many."""
    others = (k for k in range(node.output.type.rank) if k != node.attrs["axis"])
    return [((k,) * len(node.inputs), (k,)) for k in others]
