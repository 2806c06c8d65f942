"""max_pool, avg_pool, max_pool_index: each window of an image [N, size …, C] to one pixel.

As in PyTorch, pixels beyond the image are never the largest, the gradient of a maximum goes to the
first of equal pixels, and its index is that in one flattened image. A mean divides by the number of
pixels that are `counted`: those of the kernel, of the padded image, or of the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, prod

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError, check_dtype
from wgcc.ops.windows import Selection, Sizes, Windows, check_windows, places

KERNEL, PADDED, IMAGE = "kernel", "padded", "image"


def infer(
    x: TensorType, kernel: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes, out: Sizes
) -> TensorType:
    check_dtype("pooling", x, FLOATS)
    if not 3 <= x.rank <= 5 or x.rank != len(kernel) + 2:
        raise ShapeError(f"pooling takes [N, size …, C], not {x}")
    check_windows("pooling", Windows(kernel, stride, pad, dilation, out))
    return TensorType((x.shape[0], *out, x.shape[-1]), x.dtype)


def infer_avg(x: TensorType, counted: str, **windows: Sizes) -> TensorType:
    if counted not in (KERNEL, PADDED, IMAGE):
        raise ShapeError(f"avg_pool: counted is {KERNEL}, {PADDED} or {IMAGE}, not {counted}")
    return infer(x, **windows)


def infer_index(x: TensorType, **windows: Sizes) -> TensorType:
    return TensorType(infer(x, **windows).shape, "i32")


# ---- in numpy: a loop over positions in the kernel


def reference_max(x: Array, **sizes: Sizes) -> Array:
    return _largest(x, Windows(**sizes))[0]


def reference_index(x: Array, **sizes: Sizes) -> Array:
    return _largest(x, Windows(**sizes))[1]


def _largest(x: Array, layout: Windows) -> tuple[Array, Array]:
    """The largest pixel of each window, and where it is in the flattened image."""
    batch, *size, channels = x.shape
    shape = (batch, *layout.out, channels)
    y, at = np.full(shape, -inf, x.dtype), np.full(shape, -1, np.int32)
    numbers = np.broadcast_to(np.arange(prod(size)).reshape(1, *size, 1), x.shape)
    for windows, pixels in _places(layout, x):
        is_first_nan = np.isnan(x[pixels]) & ~np.isnan(y[windows])
        larger = (x[pixels] > y[windows]) | is_first_nan | (at[windows] < 0)
        at[windows] = np.where(larger, numbers[pixels], at[windows])
        y[windows] = np.maximum(y[windows], x[pixels])
    return y, at


def reference_avg(x: Array, counted: str, **sizes: Sizes) -> Array:
    layout = Windows(**sizes)
    size = x.shape[1:-1]
    divisor = prod(layout.kernel) if counted == KERNEL else _numbers_counted(layout, size, counted)
    return np.asarray(_sums(x, layout) / np.asarray(divisor, x.dtype))


def _sums(x: Array, layout: Windows) -> Array:
    y = np.zeros((x.shape[0], *layout.out, x.shape[-1]), x.dtype)
    for windows, pixels in _places(layout, x):
        y[windows] += x[pixels]
    return y


def _places(layout: Windows, x: Array) -> Iterator[tuple[Selection, Selection]]:
    sizes = layout.kernel, x.shape[1:-1], layout.out, layout.stride, layout.pad, layout.dilation
    return ((windows, pixels) for _, windows, pixels in places(*sizes))


def _numbers_counted(layout: Windows, size: Sizes, counted: str) -> Array:
    whole, over = _counted_image(layout, size, counted)
    return _sums(np.ones((1, *whole, 1)), over)


def _counted_image(layout: Windows, size: Sizes, counted: str) -> tuple[Sizes, Windows]:
    """The size of an image whose pixels all count, and the same windows over it."""
    if counted == IMAGE:
        return size, layout
    padded = tuple(n + 2 * pad for n, pad in zip(size, layout.pad, strict=True))
    return padded, replace(layout, pad=(0,) * layout.rank)


def effort(node: Node) -> int:
    return prod(node.attrs["kernel"]) * (node.output.type.size + 4 * NUMPY_CALL)


# ---- as formulas


def expand_max(b: Builder, node: Node) -> Sequence[Value]:
    windows = _windows(node)
    return [_pixels(windows, Term(b, node.inputs[0])).apply("max", axes=windows.places).value]


def expand_avg(b: Builder, node: Node) -> Sequence[Value]:
    windows = _windows(node)
    total = windows.pixels(Term(b, node.inputs[0])).sum(windows.places)
    return [_divide(node, total).value]


def expand_index(b: Builder, node: Node) -> Sequence[Value]:
    x, windows = Term(b, node.inputs[0]), _windows(node)
    largest = _pixels(windows, x).apply("max", axes=windows.places)
    _, place = _first_largest(windows, x, largest, finds_nan=True)
    at = place.like(0)
    inner, size = prod(windows.kernel), x.shape[1:-1]
    for axis in range(windows.rank):
        inner //= windows.kernel[axis]
        row = place.apply("div", place.like(inner)).apply("mod", place.like(windows.kernel[axis]))
        count = Term(b, b.apply("iota", n=windows.out[axis], dtype="i32"))
        shape = [windows.out[axis] if 1 + axis == k else 1 for k in range(len(place.shape))]
        first = count.reshape(shape).broadcast(place.shape) * windows.stride[axis]
        pixel = first - windows.pad[axis] + row * windows.dilation[axis]
        at = at * size[axis] + pixel
    return [at.value]


def grad_max(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g at the first pixel of each window that is the largest
    if gs[0] is None:
        return [None]
    x, y, g = Term(b, node.inputs[0]), Term(b, node.output), Term(b, gs[0])
    windows = _windows(node)
    number, first = _first_largest(windows, x, y)
    chosen = number.equals(first.spread(windows.places, number.shape))
    moved = chosen.choose(g.spread(windows.places, number.shape), 0.0)
    return [windows.sum_into_image(moved, x.shape[1:-1]).value]


def _first_largest(
    windows: Windows, x: Term, largest: Term, finds_nan: bool = False
) -> tuple[Term, Term]:
    """The number of each position in the kernel, and that of the first largest pixel.

    Pixels are views of the image: with the padding filled in they would be stored, because here
    and for the maximum they are read a second time.
    """
    count, pixels = prod(windows.kernel), windows.pixels(x)
    numbers = Term(x.b, x.b.apply("iota", n=count, dtype="i32"))
    shape = (*(1,) * (1 + windows.rank), *windows.kernel, 1)
    number = numbers.reshape(shape).broadcast(pixels.shape)
    is_largest = pixels.equals(largest.spread(windows.places, pixels.shape))
    if finds_nan:
        is_largest = is_largest.apply("logical_or", pixels.apply("is_nan"))
    if not windows.fit_in(x.shape[1:-1]):
        is_largest = is_largest.apply("logical_and", _exist(windows, x))
    return number, is_largest.choose(number, count).apply("min", axes=windows.places)


def grad_avg(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = at each pixel the sum of g / (number of pixels) over the windows that contain it
    if gs[0] is None:
        return [None]
    windows, (x,) = _windows(node), node.inputs
    shape = (x.shape[0], *windows.out, *windows.kernel, x.shape[-1])
    share = _divide(node, Term(b, gs[0])).spread(windows.places, shape)
    return [windows.sum_into_image(share, x.shape[1:-1]).value]


def _divide(node: Node, total: Term) -> Term:
    """Divides by the number of pixels in each window."""
    windows, counted = _windows(node), node.attrs["counted"]
    size, over = _counted_image(windows, node.inputs[0].shape[1:-1], counted)
    if counted == KERNEL or over.fit_in(size):
        return total / prod(windows.kernel)
    ones = Term(total.b, total.b.constant(1.0, total.dtype)).broadcast((1, *size, 1))
    numbers = over.pixels(ones).sum(windows.places)
    return total / numbers.broadcast(total.shape)


def _windows(node: Node) -> Windows:
    names = ("kernel", "stride", "pad", "dilation", "out")
    return Windows(*(node.attrs[name] for name in names))


def _pixels(windows: Windows, x: Term) -> Term:
    """The pixels of each window; beyond the image minus infinity."""
    pixels = windows.pixels(x)
    if windows.fit_in(x.shape[1:-1]):
        return pixels
    lowest = Term(x.b, x.b.apply("not_finite", value=-inf, dtype=x.dtype))
    return _exist(windows, x).choose(pixels, lowest.broadcast(pixels.shape))


def _exist(windows: Windows, x: Term) -> Term:
    """Whether pixels of windows are pixels of the image."""
    return windows.pixels(x.like(1.0)).exceeds(0.0)


# x, kernel, stride, pad, dilation, out
_CASES: tuple[tuple[Sizes, Sizes, Sizes, Sizes, Sizes, Sizes], ...] = (
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1)),
    ((2, 4, 6, 5), (2, 2), (2, 2), (0, 0), (1, 1), (2, 3)),
    ((1, 7, 5, 3), (2, 3), (2, 3), (0, 0), (1, 1), (3, 1)),
    ((3, 5, 6, 1), (3, 2), (1, 1), (0, 0), (1, 1), (3, 5)),
    ((2, 7, 8, 7), (3, 3), (2, 2), (1, 1), (1, 1), (4, 4)),
    ((1, 5, 4, 2), (2, 2), (1, 3), (1, 1), (1, 1), (6, 2)),
    ((2, 6, 5, 3), (3, 2), (3, 2), (1, 1), (1, 1), (2, 3)),
    ((2, 9, 5), (3,), (2,), (1,), (2,), (4,)),
    ((1, 6, 5), (2,), (4,), (0,), (1,), (2,)),
    ((1, 4, 5, 3, 3), (2, 2, 3), (2, 1, 1), (1, 0, 1), (1, 2, 1), (3, 3, 3)),
)


def _samples(**more: str) -> list[Sample]:
    names = ("kernel", "stride", "pad", "dilation", "out")
    return [Sample([x], dict(zip(names, case, strict=True)) | more) for x, *case in _CASES]


_COUNTED = [sample for counted in (KERNEL, PADDED, IMAGE) for sample in _samples(counted=counted)]

OPS = (
    Op("max_pool", infer, reference_max, Expand(expand_max), grad_max, _samples(), effort=effort),
    Op("avg_pool", infer_avg, reference_avg, Expand(expand_avg), grad_avg, _COUNTED, effort=effort),
    Op(
        "max_pool_index",
        infer_index,
        reference_index,
        Expand(expand_index),
        samples=_samples(),
        effort=effort,
        stops_gradient=True,
    ),
)
