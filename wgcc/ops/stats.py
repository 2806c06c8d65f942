"""stats(x) -> (f32[4], u32[35]): what a look at a tensor shows, for captures.

The numbers are mean, standard deviation, smallest and largest of the finite elements, 0 if there is
none. The counts are zeros, NaNs and infinities, then 32 bins of equal width from the smallest to
the largest, in which the finite elements are: all in the first if f32 cannot hold that range, or
the width of a bin.
"""

from __future__ import annotations

from wgcc.ir.graph import TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import Op, Sample, Special, check_dtype

NUMBERS, BINS = 4, 32
# Zeros, NaNs and infinities come before the bins.
KINDS = 3
NARROWEST, LARGEST = 1e-36, 3.4028234e38


def infer(x: TensorType) -> tuple[TensorType, TensorType]:
    check_dtype("stats", x, ("f32",))
    return TensorType((NUMBERS,)), TensorType((KINDS + BINS,), "u32")


def reference(x: Array) -> tuple[Array, Array]:
    finite = x[np.isfinite(x)]
    kinds = [np.sum(x == 0), np.sum(np.isnan(x)), np.sum(np.isinf(x))]
    if not finite.size:
        numbers, bins = np.zeros(NUMBERS, x.dtype), np.zeros(BINS, int)
    else:
        low, high, mean = finite.min(), finite.max(), finite.mean()
        numbers = np.asarray([mean, np.sqrt(np.mean((finite - mean) ** 2)), low, high], x.dtype)
        scale = BINS / (high - low) if NARROWEST < high - low < LARGEST else 0.0
        places = (np.minimum(finite - low, LARGEST) * scale).astype(int)
        bins = np.bincount(np.minimum(places, BINS - 1), minlength=BINS)
    return numbers, np.concatenate([kinds, bins]).astype(np.uint32)


_SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (5,), (64, 3), (2, 3, 129), (40_001,))

OPS = (
    Op(
        "stats",
        infer,
        reference,
        Special("stats", inlines=False),
        samples=[Sample([shape]) for shape in _SHAPES],
        stops_gradient=True,
    ),
)
