"""running_argmax(x; axis): the position of the greatest element up to each one, as i32.

Of equal elements the last, as in PyTorch's cummax. Once there is a NaN, it is the greatest.
"""

from __future__ import annotations

from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axis, check_dtype
from wgcc.ops.registry import Op, Sample, Special
from wgcc.ops.separate import other_axes


def infer(x: TensorType, axis: int) -> TensorType:
    check_axis("running_argmax", x, axis)
    check_dtype("running_argmax", x, NUMBERS)
    return TensorType(x.shape, "i32")


def reference(x: Array, axis: int) -> Array:
    greatest = np.maximum.accumulate(x, axis)
    is_new = (x == greatest) | (x != x)
    along = np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return np.asarray(np.maximum.accumulate(np.where(is_new, along, 0), axis)).astype(np.int32)


_CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((65,), 0),
    ((257,), 0),
    ((3, 7), 1),
    ((64, 3), 0),
    ((2, 3, 4, 5), 2),
)

OPS = (
    Op(
        "running_argmax",
        infer,
        reference,
        Special("running_best"),
        samples=[
            *(Sample([shape], {"axis": axis}) for shape, axis in _CASES),
            # Small integers have many ties.
            *(
                Sample([TensorType((5, 19), dtype)], {"axis": 1}, integers=ends)
                for dtype, ends in (("i32", (-3, 3)), ("u8", (0, 3)))
            ),
        ],
        stops_gradient=True,
        separate=other_axes,
    ),
)
