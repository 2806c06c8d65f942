"""max_pool2d, avg_pool2d(x; kernel, stride, pad, out): each window of [N, H, W, C] to one pixel.

As in PyTorch, pixels beyond the image are never the largest and count as zeros in a mean, and the
gradient of a maximum goes to the first of equal pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.dtypes import DTYPE_TABLE, LARGEST_FLOAT
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term
from wgcc.ops.image_windows import Pair, Windows, check_windows
from wgcc.ops.patches import overlap
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError

# The axes of the kernel in the pixels of windows.
PLACES = (3, 4)


def infer(x: TensorType, kernel: Pair, stride: Pair, pad: Pair, out: Pair) -> TensorType:
    check_dtype("pooling", x, FLOATS)
    if x.rank != 4:
        raise ShapeError(f"pooling takes [N, H, W, C], not {x}")
    check_windows("pooling", Windows(kernel, stride, pad, (1, 1), out))
    return TensorType((x.shape[0], *out, x.shape[3]), x.dtype)


def reference_max(x: Array, kernel: Pair, stride: Pair, pad: Pair, out: Pair) -> Array:
    y = np.full((x.shape[0], *out, x.shape[3]), -LARGEST_FLOAT, x.dtype)
    for windows, pixels in _places(x, kernel, stride, pad, out):
        y[windows] = np.maximum(y[windows], x[pixels])
    return y


def reference_avg(x: Array, kernel: Pair, stride: Pair, pad: Pair, out: Pair) -> Array:
    y = np.zeros((x.shape[0], *out, x.shape[3]), x.dtype)
    for windows, pixels in _places(x, kernel, stride, pad, out):
        y[windows] += x[pixels]
    return np.asarray(y / (kernel[0] * kernel[1]))


Slices = tuple[slice, ...]


def _places(
    x: Array, kernel: Pair, stride: Pair, pad: Pair, out: Pair
) -> Iterator[tuple[Slices, Slices]]:
    for place in np.ndindex(*kernel):
        axes = zip(x.shape[1:3], out, stride, pad, place, strict=True)
        (rows, ys), (columns, xs) = (overlap(n, m, s, i - p) for n, m, s, p, i in axes)
        yield (slice(None), rows, columns), (slice(None), ys, xs)


def effort(node: Node) -> int:
    return prod(node.attrs["kernel"]) * (node.output.type.size + 4 * NUMPY_CALL)


def expand_max(b: Builder, node: Node) -> Sequence[Value]:
    return [_pixels(node, Term(b, node.inputs[0])).apply("max", axes=PLACES).value]


def expand_avg(b: Builder, node: Node) -> Sequence[Value]:
    windows = _windows(node)
    return [windows.pixels(Term(b, node.inputs[0])).mean(PLACES).value]


def grad_max(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g at the first pixel of each window that is the largest
    if gs[0] is None:
        return [None]
    x, y, g = Term(b, node.inputs[0]), Term(b, node.output), Term(b, gs[0])
    pixels, windows = _pixels(node, x), _windows(node)
    places = windows.kernel[0] * windows.kernel[1]
    count = Term(b, b.apply("iota", n=places, dtype="i32"))
    number = count.reshape((1, 1, 1, *windows.kernel, 1)).broadcast(pixels.shape)
    largest = pixels.equals(y.spread(PLACES, pixels.shape))
    first = largest.choose(number, places).apply("min", axes=PLACES)
    chosen = number.equals(first.spread(PLACES, pixels.shape))
    moved = chosen.choose(g.spread(PLACES, pixels.shape), 0.0)
    return [windows.sum_into_image(moved, (x.shape[1], x.shape[2])).value]


def grad_avg(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = at each pixel the sum of g / (size of the kernel) over the windows that contain it
    if gs[0] is None:
        return [None]
    g, windows, (x,) = Term(b, gs[0]), _windows(node), node.inputs
    shape = (x.shape[0], *windows.out, *windows.kernel, x.shape[3])
    share = g / (windows.kernel[0] * windows.kernel[1])
    return [windows.sum_into_image(share.spread(PLACES, shape), (x.shape[1], x.shape[2])).value]


def _windows(node: Node) -> Windows:
    attrs = node.attrs
    return Windows(attrs["kernel"], attrs["stride"], attrs["pad"], (1, 1), attrs["out"])


def _pixels(node: Node, x: Term) -> Term:
    """The pixels of each window; beyond the image the lowest number."""
    windows = _windows(node)
    pixels = windows.pixels(x)
    if windows.fit_in((x.shape[1], x.shape[2])):
        return pixels
    exists = windows.pixels(x.like(1.0)).exceeds(0.0)
    return exists.choose(pixels, DTYPE_TABLE[x.dtype].low)


# x, kernel, stride, pad, out
_CASES: tuple[tuple[tuple[int, ...], Pair, Pair, Pair, Pair], ...] = (
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 4, 6, 5), (2, 2), (2, 2), (0, 0), (2, 3)),
    ((1, 7, 5, 3), (2, 3), (2, 3), (0, 0), (3, 1)),
    ((3, 5, 6, 1), (3, 2), (1, 1), (0, 0), (3, 5)),
    ((2, 7, 8, 7), (3, 3), (2, 2), (1, 1), (4, 4)),
    ((1, 5, 4, 2), (2, 2), (1, 3), (1, 1), (6, 2)),
    ((2, 6, 5, 3), (3, 2), (3, 2), (1, 1), (2, 3)),
)
_SAMPLES = [
    Sample([x], {"kernel": kernel, "stride": stride, "pad": pad, "out": out})
    for x, kernel, stride, pad, out in _CASES
]

OPS = (
    Op("max_pool2d", infer, reference_max, Expand(expand_max), grad_max, _SAMPLES, effort=effort),
    Op("avg_pool2d", infer, reference_avg, Expand(expand_avg), grad_avg, _SAMPLES, effort=effort),
)
