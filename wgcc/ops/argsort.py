"""argsort(x; axis, descending): along an axis, the positions of the elements in order, as i32.

Equal elements stay in their order. NaN counts as the largest, as in PyTorch.
"""

from __future__ import annotations

from wgcc.ir.graph import DTYPES, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, check_dtype
from wgcc.ops.registry import Op, Sample, Special
from wgcc.ops.separate import other_axes


def infer(x: TensorType, axis: int, descending: bool) -> TensorType:
    check_axis("argsort", x, axis)
    check_dtype("argsort", x, DTYPES)
    return TensorType(x.shape, "i32")


def reference(x: Array, axis: int, descending: bool) -> Array:
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

OPS = (
    Op(
        "argsort",
        infer,
        reference,
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
                ("i8", (-2, 2)),
                ("bool", (0, 1)),
            )
            for shape, descending in (((2, 19), True), ((3, 70), False))
        ],
        stops_gradient=True,
        separate=other_axes,
    ),
)
