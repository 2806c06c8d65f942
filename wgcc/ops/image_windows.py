"""Windows over an image as formulas: from the image to the pixels of each window, and back.

Images are [N, H, W, C], the pixels of windows [N, OH, OW, KH, KW, C] (im2col). Knows the two views
that move pixels, not what is computed with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ops.formula import Term
from wgcc.ops.registry import ShapeError

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """A kernel is placed over a padded image once for each pixel of `out`; `pad` is the padding
    before the image."""

    kernel: Pair
    stride: Pair
    pad: Pair
    dilation: Pair
    out: Pair

    @property
    def are_pixels(self) -> bool:
        """Each window is one pixel, with stride 1."""
        return self.kernel == self.stride == (1, 1) and self.pad == (0, 0)

    @property
    def are_tiles(self) -> bool:
        """The windows do not overlap, have no gaps, and begin with the image."""
        return self.kernel == self.stride and self.dilation == (1, 1) and self.pad == (0, 0)

    def fit_in(self, size: Pair) -> bool:
        """Whether no window exceeds an image of this size."""
        last = zip(self.out, self.stride, self.kernel, self.dilation, strict=True)
        ends = [(out - 1) * stride + (k - 1) * by + 1 for out, stride, k, by in last]
        return self.pad == (0, 0) and ends[0] <= size[0] and ends[1] <= size[1]

    def pixels(self, image: Term) -> Term:
        batch, *size, channels = image.shape
        spread = image.reshape((batch, *size, 1, 1, channels))
        if self.are_pixels and tuple(size) == self.out:
            return spread
        spread = spread.broadcast((batch, *size, *self.kernel, channels))
        return spread.apply(
            "patches", out=self.out, stride=self.stride, pad=self.pad, dilation=self.dilation
        )

    def sum_into_image(self, pixels: Term, size: Pair) -> Term:
        """The image whose pixels are the sums of their values in all windows (col2im)."""
        batch, channels = pixels.shape[0], pixels.shape[5]
        if self.are_pixels and size == self.out:
            return pixels.reshape((batch, *size, channels))
        if self.are_tiles and self.fit_in(size):
            return self._tiles_to_image(pixels, (batch, *size, channels))
        spread = pixels.apply(
            "unpatches", size=size, stride=self.stride, pad=self.pad, dilation=self.dilation
        )
        return spread.sum((3, 4))

    def _tiles_to_image(self, pixels: Term, shape: tuple[int, ...]) -> Term:
        batch, *_, channels = shape
        rows, columns = (out * kernel for out, kernel in zip(self.out, self.kernel, strict=True))
        ordered = pixels.apply("transpose", perm=(0, 1, 3, 2, 4, 5))
        covered = ordered.reshape((batch, rows, columns, channels))
        if covered.shape == shape:
            return covered
        return covered.apply("unslice", shape=shape, starts=(0,) * 4, steps=(1,) * 4)


def check_windows(op: str, windows: Windows) -> None:
    for name in ("kernel", "stride", "dilation", "out"):
        if min(getattr(windows, name)) < 1:
            raise ShapeError(f"{op}: {name} must be at least 1, not {getattr(windows, name)}")
    if min(windows.pad) < 0:
        raise ShapeError(f"{op}: pad must not be negative, not {windows.pad}")
