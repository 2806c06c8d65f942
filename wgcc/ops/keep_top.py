"""keep_top_k(x; k), keep_top_p(x, mass): the best classes of each row; the others become HIDDEN.

Rows are along the last axis. The k largest are kept, or the largest that together reach `mass` of
softmax(x). Of equal scores the first one is kept first.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.ir.graph import Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_scalar
from wgcc.ops.registry import Op, Sample, ShapeError, SharedAxis, Special

# A score that softmax turns into 0 and that arithmetic on it does not make infinite.
HIDDEN = -1e30


def infer_top_k(x: TensorType, k: int) -> TensorType:
    _check_rows("keep_top_k", x)
    if not 1 <= k <= x.shape[-1]:
        raise ShapeError(f"keep_top_k: {k} of {x.shape[-1]} classes cannot be kept")
    return x


def infer_top_p(x: TensorType, mass: TensorType) -> TensorType:
    _check_rows("keep_top_p", x)
    check_scalar("keep_top_p", "the mass", mass, ("f32",))
    return x


def reference_top_k(x: Array, k: int) -> Array:
    return _kept(x, lambda rows: np.arange(rows.shape[-1]) < k)


def reference_top_p(x: Array, mass: Array) -> Array:
    def first(rows: Array) -> Array:
        weights = np.exp(rows - rows[:, :1])
        before = np.cumsum(weights, axis=1) - weights
        enough = np.asarray(before >= mass * weights.sum(1, keepdims=True))
        return np.asarray(~enough | (before == 0))

    return _kept(x, first)


def separate(node: Node) -> list[SharedAxis]:
    more = (None,) * (len(node.inputs) - 1)
    return [((k, *more), (k,)) for k in range(node.output.type.rank - 1)]


def _kept(x: Array, first: Callable[[Array], Array]) -> Array:
    """`first` says which elements of rows in descending order to keep."""
    rows = x.reshape(-1, x.shape[-1])
    order = np.argsort(-rows, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(rows, order, axis=1)
    kept = np.zeros(rows.shape, bool)
    np.put_along_axis(kept, order, np.broadcast_to(first(sorted_rows), rows.shape), axis=1)
    return np.asarray(np.where(kept, rows, np.asarray(HIDDEN, x.dtype)).reshape(x.shape))


def _check_rows(op: str, x: TensorType) -> None:
    check_dtype(op, x, ("f32",))
    if x.rank < 1:
        raise ShapeError(f"{op} needs an axis of classes, and {x} has none")


_SHAPES: tuple[tuple[int, ...], ...] = (
    (1,),
    (5,),
    (3, 7),
    (65, 4),
    (2, 3, 129),
    (1, 1031),
    (2, 4999),
)

OPS = (
    Op(
        "keep_top_k",
        infer_top_k,
        reference_top_k,
        Special("select", inlines=False),
        samples=[
            Sample([shape], {"k": k})
            for shape in _SHAPES
            for k in sorted({1, min(3, shape[-1]), shape[-1]})
        ],
        stops_gradient=True,
        separate=separate,
    ),
    Op(
        "keep_top_p",
        infer_top_p,
        reference_top_p,
        Special("select", inlines=False),
        samples=[Sample([shape, ()], {}, 0.05, 0.9) for shape in _SHAPES],
        stops_gradient=True,
        separate=separate,
    ),
)
