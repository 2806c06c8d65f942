"""Windows over an image as formulas: from the image to the pixels of each window, and back.

Images are [N, size …, C], the pixels of windows [N, out …, kernel …, C] (im2col), with as many axes
as the image has: one for signals, two for pictures, three for volumes. Knows the two views that
move pixels, not what is computed with them.

patches(x; out, stride, pad, dilation): the pixels of each window; unpatches is its transpose.

Both are views: [N, size …, kernel …, C] has a copy of the image for every position in a kernel (by
broadcasting, so nothing is stored), [N, out …, kernel …, C] has the pixels of each window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import NUMPY_CALL, Op, Sample, ShapeError, View, check_sizes

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """A kernel is placed over a padded image once for each pixel of `out`; `pad` is the padding
    before the image. Each has one number for every axis of the image."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes
    dilation: Sizes
    out: Sizes

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def places(self) -> Sizes:
        """The axes of the kernel in the pixels of windows."""
        return tuple(range(1 + self.rank, 1 + 2 * self.rank))

    @property
    def are_pixels(self) -> bool:
        """Each window is one pixel, with stride 1."""
        return set(self.kernel + self.stride) == {1} and set(self.pad) == {0}

    @property
    def are_tiles(self) -> bool:
        """The windows do not overlap, have no gaps, and begin with the image."""
        return self.kernel == self.stride and set(self.dilation) == {1} and set(self.pad) == {0}

    def fit_in(self, size: Sizes) -> bool:
        """Whether no window exceeds an image of this size."""
        last = zip(self.out, self.stride, self.kernel, self.dilation, strict=True)
        ends = [(out - 1) * stride + (k - 1) * by + 1 for out, stride, k, by in last]
        fit = all(end <= limit for end, limit in zip(ends, size, strict=True))
        return fit and set(self.pad) == {0}

    def pixels(self, image: Term) -> Term:
        batch, *size, channels = image.shape
        spread = image.reshape((batch, *size, *(1,) * self.rank, channels))
        if self.are_pixels and tuple(size) == self.out:
            return spread
        spread = spread.broadcast((batch, *size, *self.kernel, channels))
        return spread.apply(
            "patches", out=self.out, stride=self.stride, pad=self.pad, dilation=self.dilation
        )

    def sum_into_image(self, pixels: Term, size: Sizes) -> Term:
        """The image whose pixels are the sums of their values in all windows (col2im)."""
        shape = (pixels.shape[0], *size, pixels.shape[-1])
        if self.are_pixels and size == self.out:
            return pixels.reshape(shape)
        if self.are_tiles and self.fit_in(size):
            return self._tiles_to_image(pixels, shape)
        spread = pixels.apply(
            "unpatches", size=size, stride=self.stride, pad=self.pad, dilation=self.dilation
        )
        return spread.sum(self.places)

    def _tiles_to_image(self, pixels: Term, shape: Sizes) -> Term:
        windows = range(1, 1 + self.rank)
        order = chain.from_iterable(zip(windows, self.places, strict=True))
        ordered = pixels.apply("transpose", perm=(0, *order, 2 * self.rank + 1))
        covered = [out * kernel for out, kernel in zip(self.out, self.kernel, strict=True)]
        image = ordered.reshape((shape[0], *covered, shape[-1]))
        if image.shape == shape:
            return image
        every = len(shape)
        return image.apply("unslice", shape=shape, starts=(0,) * every, steps=(1,) * every)


def check_windows(op: str, windows: Windows) -> None:
    for name in ("kernel", "stride", "dilation", "out"):
        if min(getattr(windows, name)) < 1:
            raise ShapeError(f"{op}: {name} must be at least 1, not {getattr(windows, name)}")
    if min(windows.pad) < 0:
        raise ShapeError(f"{op}: pad must not be negative, not {windows.pad}")
    lengths = (windows.stride, windows.pad, windows.dilation, windows.out)
    if any(len(sizes) != windows.rank for sizes in lengths):
        raise ShapeError(f"{op}: {windows.kernel} and {lengths} are not of one length")


Selection = tuple[Any, ...]
Conditions = list[tuple[int, Any, int]]


def infer(x: TensorType, out: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes) -> TensorType:
    return _infer("patches", x, out, stride, pad, dilation)


def infer_unpatches(
    x: TensorType, size: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes
) -> TensorType:
    return _infer("unpatches", x, size, stride, pad, dilation)


def _infer(
    op: str, x: TensorType, pixels: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes
) -> TensorType:
    check_sizes(op, (*pixels, *stride, *dilation))
    if x.rank != 2 + 2 * len(pixels) or min(pad) < 0:
        raise ShapeError(f"{op} takes [N, size …, kernel …, C] and pad >= 0, not {x}, {pad}")
    return TensorType((x.shape[0], *pixels, *x.shape[1 + len(pixels) :]), x.dtype)


# ---- in numpy: a loop over positions in the kernel


def reference(x: Array, out: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes) -> Array:
    rank = len(out)
    size, kernel = x.shape[1 : 1 + rank], x.shape[1 + rank : -1]
    patches = np.zeros((x.shape[0], *out, *x.shape[1 + rank :]), x.dtype)
    for place, windows, pixels in places(kernel, size, out, stride, pad, dilation):
        patches[windows + place] = x[pixels + place]
    return patches


def reference_unpatches(x: Array, size: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes) -> Array:
    rank = len(size)
    out, kernel = x.shape[1 : 1 + rank], x.shape[1 + rank : -1]
    images = np.zeros((x.shape[0], *size, *x.shape[1 + rank :]), x.dtype)
    for place, windows, pixels in places(kernel, size, out, stride, pad, dilation):
        images[pixels + place] = x[windows + place]
    return images


def effort(node: Node) -> int:
    return prod(node.output.shape[1 + _rank(node) : -1]) * 4 * NUMPY_CALL


def places(
    kernel: Sizes, size: Sizes, out: Sizes, stride: Sizes, pad: Sizes, dilation: Sizes
) -> Iterator[tuple[Sizes, Selection, Selection]]:
    """For each position in the kernel the windows that have a pixel there, and those pixels.

    Both select from all images of a batch: `x[pixels]`.
    """
    for place in np.ndindex(*kernel):
        axes = zip(size, out, stride, pad, place, dilation, strict=True)
        pairs = [overlap(n, m, s, i * d - p) for n, m, s, p, i, d in axes]
        every = slice(None)
        yield place, (every, *(pair[0] for pair in pairs)), (every, *(pair[1] for pair in pairs))


def overlap(size: int, out: int, stride: int, start: int) -> tuple[slice, slice]:
    """The windows k whose pixel `k * stride + start` exists, and those pixels."""
    first = max(0, -(start // stride))
    last = min(out - 1, (size - 1 - start) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first, last + 1), slice(first * stride + start, last * stride + start + 1, stride)


# ---- as index arithmetic; numbers that are divided or compared are never negative


def index(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    padded = zip(_padded_position(node, position), node.attrs["pad"], strict=True)
    return (position[0], *(at - pad for at, pad in padded), *position[1 + _rank(node) :])


def inside(node: Node, position: tuple[Any, ...]) -> Conditions:
    size = node.inputs[0].shape[1 : 1 + _rank(node)]
    axes = zip(_padded_position(node, position), node.attrs["pad"], size, strict=True)
    return [(pad, at, pad + size) for at, pad, size in axes]


def _rank(node: Node) -> int:
    """The number of axes of the image."""
    return len(node.attrs["stride"])


def _padded_position(node: Node, position: tuple[Any, ...]) -> list[Any]:
    """The pixel in the padded image."""
    rank = _rank(node)
    windows, places = position[1 : 1 + rank], position[1 + rank : -1]
    axes = zip(windows, places, node.attrs["stride"], node.attrs["dilation"], strict=True)
    return [window * stride + place * dilation for window, place, stride, dilation in axes]


def index_unpatches(node: Node, position: tuple[Any, ...]) -> tuple[Any, ...]:
    shifted = zip(_shifted_windows(node, position), node.attrs["stride"], strict=True)
    windows = (at // stride - more for (at, more), stride in shifted)
    return (position[0], *windows, *position[1 + _rank(node) :])


def inside_unpatches(node: Node, position: tuple[Any, ...]) -> Conditions:
    conditions: Conditions = []
    strides, windows = node.attrs["stride"], node.inputs[0].shape[1 : 1 + _rank(node)]
    for (at, more), stride, count in zip(
        _shifted_windows(node, position), strides, windows, strict=True
    ):
        if stride > 1:
            conditions.append((0, at % stride, 1))
        conditions.append((more, at // stride, more + count))
    return conditions


def _shifted_windows(node: Node, position: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """`stride * window`, increased by a number of windows so that it is never negative."""
    windows = []
    attrs, rank = node.attrs, _rank(node)
    kernel = node.output.shape[1 + rank : -1]
    for k in range(rank):
        stride, dilation = attrs["stride"][k], attrs["dilation"][k]
        more = ceil_div((kernel[k] - 1) * dilation, stride)
        at = position[1 + k] - position[1 + rank + k] * dilation + (attrs["pad"][k] + more * stride)
        windows.append((at, more))
    return windows


# ---- gradients


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g, each element back at its pixel
    return [
        _apply_adjoint(b, "unpatches", node, gs[0], size=node.inputs[0].shape[1 : 1 + _rank(node)])
    ]


def grad_unpatches(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the pixels of g in the windows
    return [
        _apply_adjoint(b, "patches", node, gs[0], out=node.inputs[0].shape[1 : 1 + _rank(node)])
    ]


def _apply_adjoint(b: Builder, op: str, node: Node, g: Value | None, **pixels: Any) -> Value | None:
    shared = {name: node.attrs[name] for name in ("stride", "pad", "dilation")}
    return None if g is None else b.apply(op, g, **pixels, **shared)


# (N, C), image, kernel, out, stride, pad, dilation
_CASES: tuple[tuple[Sizes, Sizes, Sizes, Sizes, Sizes, Sizes, Sizes], ...] = (
    ((1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 3), (5, 7), (3, 2), (3, 6), (1, 1), (0, 0), (1, 1)),
    ((2, 3), (5, 4), (3, 3), (5, 4), (1, 1), (1, 1), (1, 1)),
    ((1, 5), (7, 6), (3, 3), (4, 3), (2, 2), (1, 1), (1, 1)),
    ((3, 1), (9, 7), (2, 3), (4, 3), (3, 2), (2, 1), (2, 3)),
    ((1, 2), (4, 6), (2, 3), (2, 2), (2, 3), (0, 0), (1, 1)),
    ((2, 7), (5, 1), (4, 1), (5, 1), (1, 1), (3, 0), (1, 1)),
    ((1, 1), (2, 3), (1, 1), (6, 5), (1, 1), (2, 1), (1, 1)),
    ((2, 5), (9,), (3,), (5,), (2,), (2,), (1,)),
    ((1, 3), (4, 5, 3), (2, 3, 1), (4, 2, 3), (1, 2, 1), (1, 0, 0), (2, 1, 1)),
)


def _samples(name: str) -> list[Sample]:
    samples = []
    for (batch, channels), image, kernel, out, stride, pad, dilation in _CASES:
        before, after = (image, out) if name == "out" else (out, image)
        attrs = {name: after, "stride": stride, "pad": pad, "dilation": dilation}
        samples.append(Sample([(batch, *before, *kernel, channels)], attrs))
    return samples


OPS = (
    Op("patches", infer, reference, View(index, inside), grad, _samples("out"), effort=effort),
    Op(
        "unpatches",
        infer_unpatches,
        reference_unpatches,
        View(index_unpatches, inside_unpatches),
        grad_unpatches,
        _samples("size"),
        effort=effort,
    ),
)
