"""The gradient of a convolution with respect to the image, as a convolution of the result's
gradient. It is also the transposed convolution.

With a stride s, pixel h of the padded image is row h / s of phase h % s: each phase is multiplied
only with every s-th element of the kernel. One matrix product computes all phases, so that no
product with the zeros of a transposed convolution is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from wgcc.ops.contract import contract
from wgcc.ops.formula import Term
from wgcc.ops.windows import Sizes, Windows

# The letters of the axes in patterns: of windows, of the kernel, of phases.
WINDOWS, PLACES, PHASES = "hwd", "ijk", "rst"


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


def image_gradient(g: Term, kernels: Term, windows: Windows, size: Sizes) -> Term:
    """From g [N, out …, G, O] and kernels [kernel …, I, G, O] to [N, size …, G, I]."""
    axes = zip(size, windows.kernel, windows.stride, windows.pad, windows.dilation, strict=True)
    phases = [Phase.of(*axis) for axis in axes]
    rank = len(phases)
    rows, places, parts = WINDOWS[:rank], PLACES[:rank], PHASES[:rank]
    by_phase = "".join(chain.from_iterable(zip(places, parts, strict=True)))
    result = "".join(chain.from_iterable(zip(rows, parts, strict=True)))
    pattern = f"n{rows}{places}go,{by_phase}cgo->n{result}gc"
    found = contract(_pixels(g, windows.out, phases), _by_phase(kernels, phases), pattern)
    batch, groups, channels = found.shape[0], *found.shape[-2:]
    pixels = [phase.rows * phase.phases for phase in phases]
    whole = found.reshape((batch, *pixels, groups, channels))
    wanted = (batch, *size, groups, channels)
    if whole.shape == wanted:
        return whole
    starts = (0, *(phase.cut for phase in phases), 0, 0)
    return whole.apply("slice", starts=starts, sizes=wanted, steps=(1,) * len(starts))


def _pixels(g: Term, out: Sizes, phases: Sequence[Phase]) -> Term:
    """For each pixel and tap the gradient of its window: [N, rows …, taps …, G, O]."""
    batch, groups, channels = g.shape[0], *g.shape[-2:]
    rows, taps, stride, first = (
        tuple(getattr(phase, name) for phase in phases)
        for name in ("rows", "taps", "stride", "first")
    )
    spread = g.reshape((batch, *out, *(1,) * len(out), groups * channels))
    if not (set(taps + stride) == {1} and rows == out and set(first) == {0}):
        spread = spread.broadcast((batch, *out, *taps, groups * channels))
        dilation = tuple(phase.dilation for phase in phases)
        spread = spread.apply("unpatches", size=rows, stride=stride, pad=first, dilation=dilation)
    return spread.reshape((batch, *rows, *taps, groups, channels))


def _by_phase(kernels: Term, phases: Sequence[Phase]) -> Term:
    """[taps, phases, taps, phases, …, I, G, O]; zero beyond the kernel."""
    rest = kernels.shape[len(phases) :]
    shape = (*(phase.taps * phase.phases for phase in phases), *rest)
    if kernels.shape != shape:
        every = len(shape)
        kernels = kernels.apply("unslice", shape=shape, starts=(0,) * every, steps=(1,) * every)
    places = chain.from_iterable((phase.taps, phase.phases) for phase in phases)
    return kernels.reshape((*places, *rest))
