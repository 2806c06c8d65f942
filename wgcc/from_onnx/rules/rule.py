"""The type of rules, and what several families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from wgcc.from_onnx.context import Given, OnnxOp
from wgcc.from_onnx.values import Computed, Operand, Shape, Stored, plain_order
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, call, tree_of, type_expr

# Returns the outputs of a node, one or several.
Rule: TypeAlias = Callable[[OnnxOp], Operand | Sequence[Operand | None]]


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def common_order(operands: Sequence[Operand]) -> Shape | None:
    """The order of axes in which operands are stored; None for ONNX's own."""
    rank = max(len(item.shape) for item in operands)
    for item in operands:
        if isinstance(item, Computed) and item.order != plain_order(item.shape):
            return item.order if len(item.shape) == rank else None
    return None


def align(op: OnnxOp, operands: Sequence[Operand]) -> tuple[list[Operand], Shape | None]:
    """Stores all operands of an operator that broadcasts in one order of axes."""
    order = common_order(operands)
    if order is None:
        return [op.with_order(item, None) for item in operands], None
    same_rank = [pad_rank(op, item, len(order)) for item in operands]
    return [op.with_order(item, order) if item.shape else item for item in same_rank], order


def pad_rank(op: OnnxOp, operand: Operand, rank: int) -> Operand:
    """Adds axes of size 1 in front of an operand; single numbers stay as they are."""
    if isinstance(operand, Stored) and op.writer.is_number(operand):
        return Stored(operand.array.reshape(()))
    missing = rank - len(operand.shape)
    if not missing:
        return operand
    return op.reshape(operand, (1,) * missing + operand.shape)


def per_axis(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """One number if all are equal, else all of them."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)


def axes_of(axes: Sequence[int]) -> int | tuple[int, ...]:
    return axes[0] if len(axes) == 1 else tuple(axes)


def dtype(name: str) -> ast.Dtype:
    return ast.Dtype(NOWHERE, name)


def zeros(dtype: str, shape: Sequence[int], function: str = "zeros") -> ast.Expr:
    """`zeros(f32[2, 3])`."""
    return call(function, type_expr(dtype, shape))


def at_axis(axis: int, item: Given) -> list[ast.IndexItem]:
    """`:, :, item`: an index of one axis."""
    whole: list[Any] = [ast.Slice(NOWHERE, None, None, None)] * axis
    return [*whole, item]


def part_of(start: int, stop: int | None, step: int = 1) -> ast.Slice:
    """`start : stop : step`, without what is so anyway."""
    ends: list[Any] = [
        tree_of(start) if start or step != 1 else None,
        tree_of(stop) if stop is not None else None,
        tree_of(step) if step != 1 else None,
    ]
    return ast.Slice(NOWHERE, *ends)
