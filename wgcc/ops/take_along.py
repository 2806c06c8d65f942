"""take_along(x, ids; axis): along an axis, the elements that ids name, in each row by itself.

add_along(g, ids; axis, size) is the opposite: elements of g added up by id, among `size` of them.
Ids outside the axis read its nearest element, or are added to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, INTEGERS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, check_dtype, check_sizes, other_axes, without_axes
from wgcc.ops.registry import Indirect, Op, Sample, ShapeError, Special

# Sums of these are computed in their own type.
SUMMABLE = (*FLOATS, "i32", "u32")


def infer(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    check_axis("take_along", x, axis)
    check_dtype("take_along: ids", ids, INTEGERS)
    same = without_axes(x.shape, (axis,)) == without_axes(ids.shape, (axis,))
    if x.rank != ids.rank or not same:
        raise ShapeError(f"take_along: {x} and {ids} differ beside axis {axis}")
    return TensorType(ids.shape, x.dtype)


def reference(x: Array, ids: Array, axis: int) -> Array:
    places = np.clip(ids, 0, x.shape[axis] - 1)
    return np.asarray(np.take_along_axis(x, places, axis))


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx[j] = sum of g where ids = j
    (g,), (x, ids), axis = gs, node.inputs, node.attrs["axis"]
    if g is None or x.dtype not in FLOATS:
        return [None, None]
    return [b.apply("add_along", g, ids, axis=axis, size=x.shape[axis]), None]


def infer_add(g: TensorType, ids: TensorType, axis: int, size: int) -> TensorType:
    check_axis("add_along", g, axis)
    check_dtype("add_along", g, SUMMABLE)
    check_dtype("add_along: ids", ids, INTEGERS)
    check_sizes("add_along", (size,))
    if g.shape != ids.shape:
        raise ShapeError(f"add_along: {g} does not have one element for each id of {ids}")
    return TensorType((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)


def reference_add(g: Array, ids: Array, axis: int, size: int) -> Array:
    rows = np.moveaxis(g, axis, 0)
    places = np.clip(np.moveaxis(ids, axis, 0), 0, size - 1)
    total = np.zeros((size, *rows.shape[1:]), g.dtype)
    others = np.indices(rows.shape)[1:]
    np.add.at(total, (places, *others), rows)
    return np.moveaxis(total, 0, axis)


def grad_add(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dg[i] = (gradient of the sums)[ids[i]]
    (g,), (x, ids) = gs, node.inputs
    if g is None or x.dtype not in FLOATS:
        return [None, None]
    return [b.apply("take_along", g, ids, axis=node.attrs["axis"]), None]


def at(node: Node, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return index


def limit(node: Node) -> int:
    return node.inputs[0].shape[node.attrs["axis"]] - 1


def index(node: Node, position: tuple[Any, ...], found: Any) -> tuple[Any, ...]:
    axis = node.attrs["axis"]
    return (*position[:axis], found, *position[axis + 1 :])


# shape, axis, number of ids along it
_CASES: tuple[tuple[tuple[int, ...], int, int], ...] = (
    ((5,), 0, 3),
    ((1,), 0, 65),
    ((3, 7), 1, 7),
    ((65, 4), 0, 9),
    ((2, 3, 5), 1, 4),
    ((2, 3, 4, 5), 3, 1),
)


def _samples(adds: bool) -> list[Sample]:
    found = []
    for shape, axis, count in _CASES:
        ids = TensorType((*shape[:axis], count, *shape[axis + 1 :]), "i32")
        attrs = {"axis": axis, "size": shape[axis]} if adds else {"axis": axis}
        first = ids.shape if adds else shape
        found.append(Sample([first, ids], attrs, integers=(0, shape[axis] - 1)))
    # Integers, and ids that are out of range.
    ids, x = TensorType((2, 6), "i32"), TensorType((2, 6 if adds else 4), "i32")
    attrs = {"axis": 1, "size": 4} if adds else {"axis": 1}
    return [*found, Sample([x, ids], attrs, integers=(-3, 8), differentiable=False)]


OPS = (
    Op(
        "take_along",
        infer,
        reference,
        Indirect(at, limit, index),
        grad,
        _samples(adds=False),
        separate=other_axes,
    ),
    Op(
        "add_along",
        infer_add,
        reference_add,
        Special("scatter"),
        grad_add,
        _samples(adds=True),
        separate=other_axes,
    ),
)
