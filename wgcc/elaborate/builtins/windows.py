"""Where a kernel lies over an image, and what it sees there. Images are `[N, H, W, C]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate import views
from wgcc.elaborate.dims import Dim
from wgcc.elaborate.report import Stop
from wgcc.elaborate.terms import Term
from wgcc.elaborate.tracer import Tracer
from wgcc.errors import Span

# Each place of a kernel is a slice of its own where windows overlap.
MOST_PLACES = 1024


@dataclass(frozen=True, eq=False)
class Windows:
    """A kernel of `kernel` pixels lies over an image once for each pixel of `out`."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    out: tuple[Dim, Dim]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The first pixel that each place of the kernel sees, row by row."""
        rows, columns = self.kernel
        down, right = self.dilation
        return [(i * down, j * right) for i in range(rows) for j in range(columns)]

    @property
    def are_tiles(self) -> bool:
        """Whether the windows lie side by side."""
        return self.kernel == self.stride and self.dilation == (1, 1)

    def tiles(self, image: Term) -> Term:
        """The image with its windows as axes of their own: `[N, H', KH, W', KW, C]`."""
        rows, columns = (Dim.literal(size) for size in self.kernel)
        down, right = self.out
        batch, channels = image.dims[0], image.dims[3]
        covered = (batch, down * rows, right * columns, channels)
        cut = views.cut(image.tracer, image.tensor, (0, 0, 0, 0), covered, (1, 1, 1, 1))
        return Term(image.tracer, cut).reshape([batch, down, rows, right, columns, channels])

    def stacked(self, image: Term, places: Sequence[tuple[int, int]]) -> Term:
        """What these places of the kernel see, side by side: `[N, H', W', places, C]`."""
        tracer = image.tracer
        seen = [self.seen_from(image, place).new_axis(3).tensor for place in places]
        if len(seen) == 1:
            return Term(tracer, seen[0])
        dims = [*seen[0].dims[:3], Dim.literal(len(seen)), image.dims[3]]
        return Term(tracer, tracer.emit("concat", *seen, dims=dims, dtype=image.dtype, axis=3))

    def seen_from(self, image: Term, place: tuple[int, int]) -> Term:
        """What one place of the kernel sees, as an image of the size of the result."""
        dims = (image.dims[0], *self.out, image.dims[3])
        steps = (1, *self.stride, 1)
        return Term(
            image.tracer, views.cut(image.tracer, image.tensor, (0, *place, 0), dims, steps)
        )


def windows_over(
    tracer: Tracer, at: Span, image: Sequence[Dim], kernel: Sequence[Dim], stride: Sequence[Dim],
    pad: Sequence[Dim], dilation: Sequence[Dim],
) -> Windows:  # fmt: skip
    """The windows over an image of `image` rows and columns; reports kernels that do not fit."""
    down, right = (
        _count(tracer, at, *axis) for axis in zip(image, kernel, stride, pad, dilation, strict=True)
    )
    sizes = [[dim.size for dim in pair] for pair in (kernel, stride, dilation)]
    (a, b), (c, d), (e, f) = sizes
    windows = Windows((a, b), (c, d), (e, f), (down, right))
    if not tracer.generic and not windows.are_tiles and a * b > MOST_PLACES:
        text = f"a kernel of {a} x {b} pixels is too large, at most {MOST_PLACES} are possible"
        found = tracer.report.error("WG0417", text, at)
        raise Stop(found.help("windows that do not overlap may be larger: `stride` as the kernel"))
    return windows


def _count(
    tracer: Tracer, at: Span, size: Dim, kernel: Dim, stride: Dim, pad: Dim, dilation: Dim
) -> Dim:
    """How often a kernel fits along an axis; the axis itself if that is its own size."""
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
