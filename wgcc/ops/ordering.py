"""argsort(x; axis, descending): along an axis, the positions of the elements in order, as i32.

Equal elements stay in their order. NaN counts as the largest, as in PyTorch.

keep_top_k(x; k), keep_top_p(x, mass): the best classes of each row; the others become HIDDEN.

Rows are along the last axis. The k largest are kept, or the largest that together reach `mass` of
softmax(x). Of equal scores the first one is kept first.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.ir.dtypes import NARROW_INTEGERS
from wgcc.ir.graph import DTYPES, Node, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import (
    Op,
    Sample,
    ShapeError,
    SharedAxis,
    Special,
    check_axis,
    check_dtype,
    check_scalar,
    other_axes,
)


def infer_argsort(x: TensorType, axis: int, descending: bool) -> TensorType:
    check_axis("argsort", x, axis)
    check_dtype("argsort", x, DTYPES)
    return TensorType(x.shape, "i32")


def reference_argsort(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis, kind="stable").astype(np.int32)
    # Sorting backwards what is reversed leaves equal elements in their order.
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.asarray(np.flip(x.shape[axis] - 1 - backwards, axis)).astype(np.int32)


_CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((2,), 0),
    ((5,), 0),
    ((65,), 0),
    ((257,), 0),
    ((3, 2500), 1),
    ((66, 7), 1),
    ((64, 3), 0),
    ((2, 33, 5), 1),
    ((2, 3, 4, 5), 2),
)


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
    return _keep(x, lambda rows: np.arange(rows.shape[-1]) < k)


def reference_top_p(x: Array, mass: Array) -> Array:
    def first(rows: Array) -> Array:
        weights = np.exp(rows - rows[:, :1])
        before = np.cumsum(weights, axis=1) - weights
        enough = np.asarray(before >= mass * weights.sum(1, keepdims=True))
        return np.asarray(~enough | (before == 0))

    return _keep(x, first)


def separate(node: Node) -> list[SharedAxis]:
    more = (None,) * (len(node.inputs) - 1)
    return [((k, *more), (k,)) for k in range(node.output.type.rank - 1)]


def _keep(x: Array, first: Callable[[Array], Array]) -> Array:
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
        "argsort",
        infer_argsort,
        reference_argsort,
        Special("sort", inlines=False),
        samples=[
            Sample([shape], {"axis": axis, "descending": number % 2 == 1})
            for number, (shape, axis) in enumerate(_CASES)
        ]
        # Small integers have many ties.
        + [
            Sample([TensorType(shape, dtype)], {"axis": 1, "descending": descending}, integers=ends)
            for dtype, ends in (
                ("i32", (-3, 3)),
                ("u32", (0, 3)),
                (NARROW_INTEGERS[0], (-2, 2)),
                ("bool", (0, 1)),
            )
            for shape, descending in (((2, 19), True), ((3, 70), False))
        ],
        stops_gradient=True,
        separate=other_axes,
    ),
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
