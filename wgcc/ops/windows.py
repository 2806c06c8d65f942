"""Windows over an image as formulas: from the image to the pixels of each window, and back.

Images are [N, size …, C], the pixels of windows [N, out …, kernel …, C] (im2col), with as many axes
as the image has: one for signals, two for pictures, three for volumes. Knows the two views that
move pixels, not what is computed with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from wgcc.ops.formula import Term
from wgcc.ops.registry import ShapeError

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
