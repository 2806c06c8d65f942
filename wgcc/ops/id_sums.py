"""gather_grad in steps, whose work does not grow with the table.

order_ids(ids; rows): all positions of ids, in runs of RUN; each run is sorted by id, of equal ids
the first position first. merge_ids(order, ids; rows, run): the same with FAN times longer runs.
sum_in_order(g, ids, order; rows), with or without `base`: gather_grad, given one run of all
positions. Ids outside the table count as its nearest row. `passes/prepare/split_long.py` puts
these together.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.graph import INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_sizes
from wgcc.ops.gather import infer_grad
from wgcc.ops.registry import Op, Sample, ShapeError, Special

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
    return _sorted(np.arange(ids.size), ids, rows, RUN)


def reference_merged(order: Array, ids: Array, rows: int, run: int) -> Array:
    return _sorted(order, ids, rows, run * FAN)


def _sorted(order: Array, ids: Array, rows: int, run: int) -> Array:
    """Each run of positions sorted, by id and then by position."""
    flat, order = np.clip(ids.reshape(-1), 0, rows - 1), np.clip(order, 0, ids.size - 1)
    runs = [np.sort(order[start : start + run]) for start in range(0, len(order), run)]
    found = [part[np.argsort(flat[part], kind="stable")] for part in runs]
    return np.concatenate(found).astype(np.int32)


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

OPS = (
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
