"""gather(table, ids): one row of the table per id. gather_grad(g, ids; rows): g added up by row.

gather_grad(g, ids, base; rows) adds to `base`, a gradient of the table from elsewhere.

Ids outside the table read its nearest row.

take_along(x, ids; axis): along an axis, the elements that ids name, in each row by itself.

add_along(g, ids; axis, size) is the opposite: elements of g added up by id, among `size` of them.
Ids outside the axis read its nearest element, or are added to it.

gather_grad in steps, whose work does not grow with the table.

order_ids(ids; rows): all positions of ids, in runs of RUN; each run is sorted by id, of equal ids
the first position first. merge_ids(order, ids; rows, run): the same with FAN times longer runs.
sum_in_order(g, ids, order; rows), with or without `base`: gather_grad, given one run of all
positions. Ids outside the table count as its nearest row. `passes/prepare/split_long.py` puts
these together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.graph import FLOATS, INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import (
    Indirect,
    Op,
    Sample,
    ShapeError,
    SharedAxis,
    Special,
    check_axis,
    check_dtype,
    check_sizes,
    other_axes,
    without_axes,
)


def infer(table: TensorType, ids: TensorType) -> TensorType:
    if table.rank < 1:
        raise ShapeError(f"gather takes rows of a table, and {table} has none")
    check_dtype("gather: ids", ids, INTEGERS)
    return TensorType(ids.shape + table.shape[1:], table.dtype)


def reference(table: Array, ids: Array) -> Array:
    return np.asarray(table[np.clip(ids, 0, len(table) - 1)])


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dtable[r] = sum of g where ids = r
    (g,), (table, ids) = gs, node.inputs
    if g is None or table.dtype not in FLOATS:
        return [None, None]
    return [b.apply("gather_grad", g, ids, rows=table.shape[0]), None]


def infer_grad(g: TensorType, ids: TensorType, *base: TensorType, rows: int) -> TensorType:
    check_dtype("gather_grad: ids", ids, INTEGERS)
    check_sizes("gather_grad", (rows,))
    if g.shape[: ids.rank] != ids.shape:
        raise ShapeError(f"gather_grad: {g} does not hold one row for each id of {ids}")
    table = TensorType((rows, *g.shape[ids.rank :]), g.dtype)
    if any(addend != table for addend in base):
        raise ShapeError(f"gather_grad: {base[0]} is not {table}")
    return table


def reference_grad(g: Array, ids: Array, *base: Array, rows: int) -> Array:
    width = g.shape[ids.ndim :]
    table = base[0].copy() if base else np.zeros((rows, *width), g.dtype)
    np.add.at(table, np.clip(ids, 0, rows - 1), g)
    return table


def grad_grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dg[i] = (gradient of the table)[ids[i]], dbase = the gradient of the table
    (g,), (_, ids, *base) = gs, node.inputs
    return [None if g is None else b.apply("gather", g, ids), None, *(g for _ in base)]


def at(node: Node, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return index[: node.inputs[1].type.rank]


def limit(node: Node) -> int:
    return node.inputs[0].shape[0] - 1


def index(node: Node, position: tuple[Any, ...], stored_index: Any) -> tuple[Any, ...]:
    return (stored_index, *position[node.inputs[1].type.rank :])


def separate(node: Node) -> list[SharedAxis]:
    table, ids = node.inputs
    rank = ids.type.rank
    columns: list[SharedAxis] = [((k, None), (rank + k - 1,)) for k in range(1, table.type.rank)]
    return [*(((None, k), (k,)) for k in range(rank)), *columns]


def separate_columns(node: Node) -> list[SharedAxis]:
    _, ids, *base = node.inputs
    rank = ids.type.rank
    return [
        ((rank + k - 1, None, *(k for _ in base)), (k,)) for k in range(1, node.output.type.rank)
    ]


def _ids(*shape: int, dtype: str = "i32") -> TensorType:
    return TensorType(shape, dtype)


# Sums of these are computed in their own type.
SUMMABLE = (*FLOATS, "i32", "u32")


def infer_take_along(x: TensorType, ids: TensorType, axis: int) -> TensorType:
    check_axis("take_along", x, axis)
    check_dtype("take_along: ids", ids, INTEGERS)
    same = without_axes(x.shape, (axis,)) == without_axes(ids.shape, (axis,))
    if x.rank != ids.rank or not same:
        raise ShapeError(f"take_along: {x} and {ids} differ beside axis {axis}")
    return TensorType(ids.shape, x.dtype)


def reference_take_along(x: Array, ids: Array, axis: int) -> Array:
    places = np.clip(ids, 0, x.shape[axis] - 1)
    return np.asarray(np.take_along_axis(x, places, axis))


def grad_take_along(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
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


def at_take_along(node: Node, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return index


def limit_take_along(node: Node) -> int:
    return node.inputs[0].shape[node.attrs["axis"]] - 1


def index_take_along(node: Node, position: tuple[Any, ...], stored_index: Any) -> tuple[Any, ...]:
    axis = node.attrs["axis"]
    return (*position[:axis], stored_index, *position[axis + 1 :])


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
    samples = []
    for shape, axis, count in _CASES:
        ids = TensorType((*shape[:axis], count, *shape[axis + 1 :]), "i32")
        attrs = {"axis": axis, "size": shape[axis]} if adds else {"axis": axis}
        first = ids.shape if adds else shape
        samples.append(Sample([first, ids], attrs, integers=(0, shape[axis] - 1)))
    # Integers, and ids that are out of range.
    ids, x = TensorType((2, 6), "i32"), TensorType((2, 6 if adds else 4), "i32")
    attrs = {"axis": 1, "size": 4} if adds else {"axis": 1}
    return [*samples, Sample([x, ids], attrs, integers=(-3, 8), differentiable=False)]


GATHER_OPS = (
    Op(
        "gather",
        infer,
        reference,
        Indirect(at, limit, index),
        grad,
        [
            Sample([(5, 3), _ids(7)], integers=(0, 4)),
            Sample([(1, 65), _ids()], integers=(0, 0)),
            Sample([(65,), _ids(257)], integers=(0, 64)),
            Sample([(7, 2, 3), _ids(2, 5)], integers=(0, 6)),
            Sample([(4, 3), _ids(9)], integers=(-3, 8)),
            Sample([(4, 3), _ids(9, dtype="u32")], integers=(0, 3)),
            Sample([TensorType((4, 3), "i32"), _ids(9)], integers=(0, 3), differentiable=False),
        ],
        separate=separate,
    ),
    Op(
        "gather_grad",
        infer_grad,
        reference_grad,
        Special("scatter"),
        grad_grad,
        [
            Sample([(7, 3), _ids(7)], {"rows": 5}, integers=(0, 4)),
            Sample([(65,), _ids()], {"rows": 1}, integers=(0, 0)),
            Sample([(257,), _ids(257)], {"rows": 65}, integers=(0, 64)),
            Sample([(2, 5, 2, 3), _ids(2, 5)], {"rows": 7}, integers=(0, 6)),
            Sample([(64, 63), _ids(64, dtype="u32")], {"rows": 11}, integers=(0, 10)),
            Sample([(9, 5), _ids(9), (6, 5)], {"rows": 6}, integers=(0, 5)),
        ],
        separate=separate_columns,
    ),
    Op(
        "take_along",
        infer_take_along,
        reference_take_along,
        Indirect(at_take_along, limit_take_along, index_take_along),
        grad_take_along,
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


# Two words of each position take 16 KiB, all the workgroup memory of the default limits.
RUN = 2048
FAN = 32


def infer_order(ids: TensorType, rows: int) -> TensorType:
    check_dtype("order_ids", ids, INTEGERS)
    check_sizes("order_ids", (rows,))
    return TensorType((ids.size,), "i32")


def infer_merged(order: TensorType, ids: TensorType, rows: int, run: int) -> TensorType:
    _check_order("merge_ids", order, ids)
    check_sizes("merge_ids", (rows, run))
    return order


def infer_sums(
    g: TensorType, ids: TensorType, order: TensorType, *base: TensorType, rows: int
) -> TensorType:
    _check_order("sum_in_order", order, ids)
    return infer_grad(g, ids, *base, rows=rows)


def _check_order(op: str, order: TensorType, ids: TensorType) -> None:
    check_dtype(f"{op}: ids", ids, INTEGERS)
    if order != TensorType((ids.size,), "i32"):
        raise ShapeError(f"{op}: {order} does not hold one position for each id of {ids}")


def reference_order(ids: Array, rows: int) -> Array:
    return _sort_runs(np.arange(ids.size), ids, rows, RUN)


def reference_merged(order: Array, ids: Array, rows: int, run: int) -> Array:
    return _sort_runs(order, ids, rows, run * FAN)


def _sort_runs(order: Array, ids: Array, rows: int, run: int) -> Array:
    """Each run of positions sorted, by id and then by position."""
    flat, order = np.clip(ids.reshape(-1), 0, rows - 1), np.clip(order, 0, ids.size - 1)
    runs = [np.sort(order[start : start + run]) for start in range(0, len(order), run)]
    sorted_runs = [part[np.argsort(flat[part], kind="stable")] for part in runs]
    return np.concatenate(sorted_runs).astype(np.int32)


def reference_sums(g: Array, ids: Array, order: Array, *base: Array, rows: int) -> Array:
    width = g.shape[ids.ndim :]
    table = base[0].copy() if base else np.zeros((rows, *width), g.dtype)
    places, order = np.clip(ids.reshape(-1), 0, rows - 1), np.clip(order, 0, ids.size - 1)
    np.add.at(table, places[order], g.reshape(-1, *width)[order])
    return table


def grad_sums(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dg[i] = (gradient of the table)[ids[i]], dbase = the gradient of the table
    (g,), (_, ids, _, *base) = gs, node.inputs
    return [None if g is None else b.apply("gather", g, ids), None, None, *(g for _ in base)]


# Drawn numbers are an order of ids where there is one of them; tests/ops/test_id_sums.py has more.
_ONE = TensorType((1,), "i32")

ID_SUMS_OPS = (
    Op(
        "order_ids",
        infer_order,
        reference_order,
        Special("order_ids"),
        samples=[
            Sample([TensorType(shape, dtype)], {"rows": rows}, integers=ends)
            for shape, dtype, rows, ends in (
                ((1,), "i32", 1, (0, 0)),
                ((5, 7), "i32", 3, (-2, 5)),
                ((2500,), "u32", 40, (0, 50)),
                ((3, 1500), "i32", 900, (0, 899)),
            )
        ],
        stops_gradient=True,
    ),
    Op(
        "merge_ids",
        infer_merged,
        reference_merged,
        Special("merge_ids"),
        samples=[Sample([_ONE, _ONE], {"rows": 3, "run": 1}, integers=(0, 0))],
        stops_gradient=True,
    ),
    Op(
        "sum_in_order",
        infer_sums,
        reference_sums,
        Special("id_sums"),
        grad_sums,
        [
            Sample([(1,), _ONE, _ONE], {"rows": 3}, integers=(0, 0)),
            Sample([(1, 65), _ONE, _ONE, (3, 65)], {"rows": 3}, integers=(0, 0)),
        ],
    ),
)

OPS = (*GATHER_OPS, *ID_SUMS_OPS)
