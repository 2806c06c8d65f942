"""concat(a, b, …; axis): the inputs one after another along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, without_axes
from wgcc.ops.registry import Join, Op, Sample, ShapeError


def infer(*parts: TensorType, axis: int) -> TensorType:
    if not parts:
        raise ShapeError("concat needs at least one tensor")
    first = parts[0]
    check_axis("concat", first, axis)
    for part in parts[1:]:
        same = without_axes(part.shape, (axis,)) == without_axes(first.shape, (axis,))
        if part.rank != first.rank or part.dtype != first.dtype or not same:
            raise ShapeError(f"concat along axis {axis}: {first} and {part} differ elsewhere")
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return TensorType(tuple(shape), first.dtype)


def reference(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis)


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # each input's gradient is its own part of g
    (g,), axis = gs, node.attrs["axis"]
    if g is None:
        return [None] * len(node.inputs)
    found: list[Value | None] = []
    at = 0
    for part in node.inputs:
        starts = tuple(at if k == axis else 0 for k in range(g.type.rank))
        steps = (1,) * g.type.rank
        found.append(b.apply("slice", g, starts=starts, sizes=part.shape, steps=steps))
        at += part.shape[axis]
    return found


OPS = (
    Op(
        "concat",
        infer,
        reference,
        Join(),
        grad,
        [
            Sample([(1,), (64,)], {"axis": 0}),
            Sample([(63,)], {"axis": 0}),
            Sample([(2, 3), (2, 1), (2, 5)], {"axis": 1}),
            Sample([(3, 7), (1, 7)], {"axis": 0}),
            Sample([(2, 3, 4, 5), (2, 3, 2, 5)], {"axis": 2}),
            Sample(
                [TensorType((3,), "i32"), TensorType((2,), "i32")],
                {"axis": 0},
                differentiable=False,
            ),
        ],
    ),
)
