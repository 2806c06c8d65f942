"""Positions of a kernel over an image `[N, H, W, C]`: their number, and checks of the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.errors import Span

# Far more than networks use, and few enough for a loop over all of them.
MOST_PLACES = 65_536

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Windows:
    """A kernel of `kernel` pixels is placed over an image once for each pixel of `out`."""

    kernel: Pair
    stride: Pair
    pad: Pair
    dilation: Pair
    out: tuple[Dim, Dim]

    def attrs(self) -> dict[str, Any]:
        """The attributes of ops, without the kernel's size."""
        out = (self.out[0].size, self.out[1].size)
        return {"stride": self.stride, "pad": self.pad, "out": out}


def windows_over(
    tracer: Tracer, at: Span, image: Sequence[Dim], kernel: Sequence[Dim], stride: Sequence[Dim],
    pad: Sequence[Dim], dilation: Sequence[Dim],
) -> Windows:  # fmt: skip
    """The windows over an image `[N, H, W, C]`; reports kernels that do not fit."""
    axes = zip(image[1:3], kernel, stride, pad, dilation, strict=True)
    down, right = (_count(tracer, at, *axis) for axis in axes)
    (a, b), (c, d), (e, f), (g, h) = (
        [dim.size for dim in pair] for pair in (kernel, stride, pad, dilation)
    )
    if a * b > MOST_PLACES and not tracer.generic:
        text = f"a kernel of {a} x {b} pixels is too large, at most {MOST_PLACES:,} are possible"
        raise Stop(tracer.report.error("WG0417", text, at))
    return Windows((a, b), (c, d), (e, f), (g, h), (down, right))


def _count(
    tracer: Tracer, at: Span, size: Dim, kernel: Dim, stride: Dim, pad: Dim, dilation: Dim
) -> Dim:
    """How often a kernel fits along an axis; the axis's own dim if that is its size."""
    room = size.size + 2 * pad.size - dilation.size * (kernel.size - 1) - 1
    count = max(room, 0) // stride.size + 1
    if room < 0 and not tracer.generic:
        text = f"the kernel of {kernel.size} pixels does not fit in {size.full}"
        found = tracer.report.error("WG0417", text, at)
        raise Stop(found.help("use a smaller kernel, or `pad`"))
    if count == size.size:
        return size
    exact = size.divided_by(stride)
    if exact is not None and exact.size == count:
        return exact
    return Dim(count, generic=True) if tracer.generic else Dim.literal(count)
