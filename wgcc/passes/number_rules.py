"""Constant folding of numbers, in float64, by each op's reference."""

from __future__ import annotations

from math import isnan

from wgcc.evaluate import as_held
from wgcc.ir.builder import Builder
from wgcc.ir.dtypes import LARGEST_FLOAT
from wgcc.ir.graph import FLOATS, INTEGERS, Node, TensorType, Value
from wgcc.lazy_numpy import np
from wgcc.ops import OPS
from wgcc.ops.registry import Pointwise, Reduce
from wgcc.passes.known_values import Known, Number, filled, is_plain_view

# Above this size, computing a reduction here would cost more time than it saves.
LARGEST = 2**20


def fold_numbers(b: Builder, known: Known, node: Node) -> Value | None:
    """The number in all elements of the output of `node`, broadcast to its shape."""
    if not node.inputs or _is_folded(known, node):
        return None
    numbers = [known.number(value) for value in node.inputs]
    if any(number is None for number in numbers):
        return None
    result = _result(node, numbers)
    return None if result is None else filled(b, result, node.output)


def _is_folded(known: Known, node: Node) -> bool:
    return node.op == "broadcast" and known.is_number(node.inputs[0])


def _result(node: Node, numbers: list[Number | None]) -> Number | None:
    lower = OPS[node.op].lower
    if is_plain_view(node):
        return numbers[0]
    if isinstance(lower, Pointwise):
        return _compute(node, numbers, [()] * len(numbers), ())
    if isinstance(lower, Reduce) and node.inputs[0].type.size <= LARGEST:
        return _compute(node, numbers, [node.inputs[0].shape], node.output.shape)
    return None


def _compute(
    node: Node,
    numbers: list[Number | None],
    shapes: list[tuple[int, ...]],
    shape: tuple[int, ...],
) -> Number | None:
    arrays = [
        np.broadcast_to(as_held(number, TensorType((), value.dtype)), wanted)
        for number, value, wanted in zip(numbers, node.inputs, shapes, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = OPS[node.op].reference(*arrays, **node.attrs)
        result: Number = as_held(found, TensorType(shape, node.output.dtype)).flat[0].item()
        if node.output.dtype in FLOATS:
            # As f32 stores it, which may be infinite.
            return result if abs(result) <= LARGEST_FLOAT else float(np.float32(result))
    # NaN converted to an integer is left to the GPU.
    has_nan = any(number is not None and isnan(number) for number in numbers)
    return None if has_nan and node.output.dtype in INTEGERS else result
