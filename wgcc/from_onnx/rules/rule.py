"""The type of rules, and what several families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.values import Constant, Operand, Shape, Value, plain_order

# Returns the outputs of a node, one or several.
Rule: TypeAlias = Callable[[Op], Operand | Sequence[Operand | None]]


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def common_order(operands: Sequence[Operand]) -> Shape | None:
    """The order of axes in which operands are stored; None for ONNX's own."""
    rank = max(len(item.shape) for item in operands)
    for item in operands:
        if isinstance(item, Value) and item.order != plain_order(item.shape):
            return item.order if len(item.shape) == rank else None
    return None


def aligned(op: Op, operands: Sequence[Operand]) -> tuple[list[Operand], Shape | None]:
    """Operands of an operator that broadcasts, all stored in one order of axes."""
    order = common_order(operands)
    if order is None:
        return [op.ordered(item, None) for item in operands], None
    found = [padded(op, item, len(order)) for item in operands]
    return [op.ordered(item, order) if item.shape else item for item in found], order


def padded(op: Op, operand: Operand, rank: int) -> Operand:
    """The operand with axes of size 1 in front; single numbers stay as they are."""
    if isinstance(operand, Constant) and op.writer.is_number(operand):
        return Constant(operand.array.reshape(()))
    missing = rank - len(operand.shape)
    if not missing:
        return operand
    return op.reshaped(operand, (1,) * missing + operand.shape)


def sizes_text(sizes: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


def tuple_text(numbers: Sequence[int]) -> str:
    """One number if all are equal, else all of them."""
    if len(set(numbers)) == 1:
        return str(numbers[0])
    return "(" + ", ".join(map(str, numbers)) + ")"


def axes_text(axes: Sequence[int]) -> str:
    return str(axes[0]) if len(axes) == 1 else "(" + ", ".join(map(str, axes)) + ")"
