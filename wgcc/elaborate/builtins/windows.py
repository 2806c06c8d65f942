"""Positions of a kernel over an image `[N, size …, C]`: their number, and checks of the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.errors import Span

# Far more than networks use, and few enough for a loop over all of them.
MOST_PLACES = 65_536

Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Windows:
    """A kernel of `kernel` pixels is placed over an image once for each pixel of `out`."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes
    dilation: Sizes
    out: tuple[Dim, ...]

    def attrs(self) -> dict[str, Any]:
        """The attributes of ops, without the kernel's size."""
        out = sizes_of(self.out)
        return {"stride": self.stride, "pad": self.pad, "dilation": self.dilation, "out": out}


def windows_over(
    tracer: Tracer, at: Span, image: Sequence[Dim], kernel: Sequence[Dim], stride: Sequence[Dim],
    pad: Sequence[Dim], dilation: Sequence[Dim], ceil: bool = False,
) -> Windows:  # fmt: skip
    """The windows over an image `[N, size …, C]`; reports kernels that do not fit."""
    axes = zip(image[1:-1], kernel, stride, pad, dilation, strict=True)
    out = tuple(_count(tracer, at, *axis, ceil) for axis in axes)
    check_places(tracer, at, kernel)
    return Windows(sizes_of(kernel), sizes_of(stride), sizes_of(pad), sizes_of(dilation), out)


def check_places(tracer: Tracer, at: Span, kernel: Sequence[Dim]) -> None:
    sizes = sizes_of(kernel)
    if prod(sizes) > MOST_PLACES and not tracer.generic:
        pixels = " x ".join(map(str, sizes))
        text = f"a kernel of {pixels} pixels is too large, at most {MOST_PLACES:,} are possible"
        raise Stop(tracer.report.error("WG0417", text, at))


def _count(
    tracer: Tracer, at: Span, size: Dim, kernel: Dim, stride: Dim, pad: Dim, dilation: Dim,
    ceil: bool,
) -> Dim:  # fmt: skip
    """How often a kernel fits along an axis; the axis's own dim if that is its size."""
    room = size.size + 2 * pad.size - dilation.size * (kernel.size - 1) - 1
    count = max(room, 0) // stride.size + 1
    if ceil and -(-room // stride.size) + 1 > count:
        # One more window if it begins in the image or in the padding before it.
        count += count * stride.size < size.size + pad.size
    if room < 0 and not tracer.generic:
        text = f"the kernel of {kernel.size} pixels does not fit in {size.full}"
        found = tracer.report.error("WG0417", text, at)
        raise Stop(found.help("use a smaller kernel, or `pad`"))
    if count == size.size:
        return size
    exact = size.divided_by(stride)
    if exact is not None and exact.size == count:
        return exact
    return new_size(tracer, count)


def new_size(tracer: Tracer, count: int) -> Dim:
    return Dim(count, generic=True) if tracer.generic else Dim.literal(count)
