"""The gradient of conv2d with respect to the image, as a convolution of the result's gradient.

With a stride s, pixel h of the padded image is row h / s of phase h % s: each phase is multiplied
only with every s-th element of the kernel. One matrix product computes all phases, so that no
product with the zeros of a transposed convolution is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ops.contract import contract
from wgcc.ops.formula import Term
from wgcc.ops.image_windows import Pair, Windows


@dataclass(frozen=True, slots=True)
class Phase:
    """Along one axis: `taps` kernel elements for each of `phases`, `rows` of each from `first` on.

    With a stride and a dilation above 1 there is one phase, and `stride` is that of the windows.
    """

    phases: int
    taps: int
    stride: int
    dilation: int
    first: int
    rows: int
    cut: int

    @classmethod
    def of(cls, size: int, kernel: int, stride: int, pad: int, dilation: int) -> Phase:
        if stride > 1 and dilation > 1:
            return cls(1, kernel, stride, dilation, pad, size, 0)
        first, last = pad // stride, (size - 1 + pad) // stride
        taps = -(-kernel // stride)
        return cls(stride, taps, 1, dilation, first, last - first + 1, pad - first * stride)


def image_gradient(g: Term, kernels: Term, windows: Windows, size: Pair) -> Term:
    """From g [N, OH, OW, G, O] and kernels [KH, KW, I, G, O] to [N, H, W, G, I]."""
    axes = zip(size, windows.kernel, windows.stride, windows.pad, windows.dilation, strict=True)
    down, right = (Phase.of(*axis) for axis in axes)
    pixels = _pixels(g, windows.out, down, right)
    found = contract(pixels, _by_phase(kernels, down, right), "nhwijgo,irjscgo->nhrwsgc")
    batch, rows, _, columns, _, groups, channels = found.shape
    rows, columns = rows * down.phases, columns * right.phases
    whole = found.reshape((batch, rows, columns, groups, channels))
    wanted = (batch, *size, groups, channels)
    if whole.shape == wanted:
        return whole
    starts = (0, down.cut, right.cut, 0, 0)
    return whole.apply("slice", starts=starts, sizes=wanted, steps=(1,) * 5)


def _pixels(g: Term, out: Pair, down: Phase, right: Phase) -> Term:
    """For each pixel and tap the gradient of its window: [N, H', W', TH, TW, G, O]."""
    batch, _, _, groups, channels = g.shape
    rows, taps = (down.rows, right.rows), (down.taps, right.taps)
    spread = g.reshape((batch, *out, 1, 1, groups * channels))
    stride = (down.stride, right.stride)
    if not (taps == stride == (1, 1) and rows == out and down.first == right.first == 0):
        spread = spread.broadcast((batch, *out, *taps, groups * channels))
        spread = spread.apply(
            "unpatches",
            size=rows,
            stride=stride,
            pad=(down.first, right.first),
            dilation=(down.dilation, right.dilation),
        )
    return spread.reshape((batch, *rows, *taps, groups, channels))


def _by_phase(kernels: Term, down: Phase, right: Phase) -> Term:
    """[TH, phases, TW, phases, I, G, O]; zero beyond the kernel."""
    shape = (down.taps * down.phases, right.taps * right.phases, *kernels.shape[2:])
    if kernels.shape != shape:
        kernels = kernels.apply("unslice", shape=shape, starts=(0,) * 5, steps=(1,) * 5)
    places = (down.taps, down.phases, right.taps, right.phases)
    return kernels.reshape((*places, *shape[2:]))
