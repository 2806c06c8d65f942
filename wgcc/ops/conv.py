"""conv(x, w; stride, pad, dilation, groups, out): x [N, size …, I], w [kernel …, I / groups, O].

It becomes matrix products whose operands are views of the image (im2col that is never stored).
An image has one, two or three axes. `pad` counts the zeros before the image; `out`, the size of
the result, determines the zeros after it. As in PyTorch, kernels are not flipped.

The gradient of a convolution with respect to the image, as a convolution of the result's
gradient. It is also the transposed convolution.

With a stride s, pixel h of the padded image is row h / s of phase h % s: each phase is multiplied
only with every s-th element of the kernel. One matrix product computes all phases, so that no
product with the zeros of a transposed convolution is computed.

conv_transpose(x, w; stride, pad, dilation, groups, size): a transposed convolution.

x is [N, in …, I], w [kernel …, I, O / groups], the result [N, size …, O]. Each pixel of x adds its
kernel to a window of the result: the gradient of a convolution with respect to its image. As in
PyTorch, `pad` pixels of the result are cut off at its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.matmul import contract
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError, check_dtype
from wgcc.ops.windows import Sizes, Windows, check_windows, places


def infer(
    x: TensorType, w: TensorType, stride: Sizes, pad: Sizes, dilation: Sizes, groups: int,
    out: Sizes,
) -> TensorType:  # fmt: skip
    check_dtype("conv", x, FLOATS)
    if not 3 <= x.rank <= 5 or x.rank != w.rank or x.dtype != w.dtype:
        raise ShapeError(
            f"conv takes [N, size …, I] and [kernel …, I / groups, O], not {x} and {w}"
        )
    channels, results = x.shape[-1], w.shape[-1]
    if groups < 1 or channels % groups or results % groups or w.shape[-2] != channels // groups:
        raise ShapeError(f"conv: {groups} groups of channels do not fit {x} and {w}")
    check_windows("conv", Windows(w.shape[:-2], stride, pad, dilation, out))
    return TensorType((x.shape[0], *out, results), x.dtype)


def reference(
    x: Array, w: Array, stride: Sizes, pad: Sizes, dilation: Sizes, groups: int, out: Sizes
) -> Array:
    """For each position in the kernel: y[window] += x[pixel of the window at it] w[position]."""
    inputs, results = w.shape[-2:]
    batch, *size, _ = x.shape
    images = x.reshape(batch, *size, groups, inputs)
    kernels = w.reshape(*w.shape[:-1], groups, results // groups)
    y = np.zeros((batch, *out, groups, results // groups), x.dtype)
    for place, windows, pixels in places(w.shape[:-2], x.shape[1:-1], out, stride, pad, dilation):
        y[windows] += product(images[pixels], kernels[place].swapaxes(0, 1))
    return y.reshape(batch, *out, results)


def product(pixels: Array, kernels: Array) -> Array:
    """[…, G, C] times [G, C, O], as matrix products."""
    groups, *matrix = kernels.shape
    stack = kernels.reshape(groups, *(1,) * (pixels.ndim - 3), *matrix)
    return np.moveaxis(np.matmul(np.moveaxis(pixels, -2, 0), stack), 0, -2)


def effort(node: Node) -> int:
    """A matrix product for every position in the kernel."""
    *kernel, inputs, _ = node.inputs[1].shape
    return prod(kernel) * (node.output.type.size * (inputs // 8 + 2) + 4 * NUMPY_CALL)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, w = (Term(b, value) for value in node.inputs)
    rows, kernel = _letters(node)
    pattern = f"n{rows}{kernel}gc,{kernel}cgo->n{rows}go"
    y = contract(_pixels(node, x), in_groups(node, w), pattern)
    return [y.reshape(node.output.shape).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = at each pixel the sum of g wᵀ over the windows that contain it; dw = (their pixels)ᵀ g
    if gs[0] is None:
        return [None, None]
    x, w = (Term(b, value) for value in node.inputs)
    g, kernels = in_groups(node, Term(b, gs[0])), in_groups(node, w)
    dx = image_gradient(g, kernels, _windows(node), x.shape[1:-1])
    rows, kernel = _letters(node)
    dw = contract(_pixels(node, x), g, f"n{rows}{kernel}gc,n{rows}go->{kernel}cgo")
    return [dx.reshape(x.shape).value, dw.reshape(w.shape).value]


def _letters(node: Node) -> tuple[str, str]:
    """Letters for the axes of windows and of the kernel."""
    rank = node.output.type.rank - 2
    return WINDOWS[:rank], PLACES[:rank]


def _windows(node: Node) -> Windows:
    attrs, kernel = node.attrs, node.inputs[1].shape[:-2]
    return Windows(kernel, attrs["stride"], attrs["pad"], attrs["dilation"], attrs["out"])


def _pixels(node: Node, x: Term) -> Term:
    """[N, out …, kernel …, groups, I / groups]."""
    return in_groups(node, _windows(node).pixels(x))


def in_groups(node: Node, x: Term) -> Term:
    """The last axis as [groups, channels of each]."""
    groups = int(node.attrs["groups"])
    return x.reshape((*x.shape[:-1], groups, x.shape[-1] // groups))


# x, w, stride, pad, dilation, groups, out. The last ones are the hardest: their gradients are
# tested on every adapter.
_CASES: tuple[tuple[Sizes, Sizes, Sizes, Sizes, Sizes, int, Sizes], ...] = (
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1, (1, 1)),
    ((2, 5, 4, 3), (1, 1, 3, 5), (1, 1), (0, 0), (1, 1), 1, (5, 4)),
    ((2, 5, 7, 3), (3, 3, 3, 9), (1, 1), (1, 1), (1, 1), 1, (5, 7)),
    ((1, 6, 5, 2), (2, 3, 2, 1), (1, 1), (0, 1), (1, 1), 1, (5, 5)),
    ((2, 4, 6, 2), (2, 3, 2, 5), (2, 3), (0, 0), (1, 1), 1, (2, 2)),
    ((1, 7, 6, 8), (3, 3, 4, 10), (1, 1), (1, 1), (1, 1), 2, (7, 6)),
    ((2, 5, 6, 2), (2, 2, 1, 4), (1, 1), (1, 1), (1, 1), 2, (6, 7)),
    ((2, 9, 1, 3), (4, 1, 1, 3), (1, 1), (3, 0), (1, 1), 3, (9, 1)),
    ((1, 5, 5, 3), (3, 3, 3, 7), (1, 1), (2, 2), (2, 2), 1, (5, 5)),
    ((2, 9, 3), (3, 3, 8), (1,), (1,), (1,), 1, (9,)),
    ((2, 11, 6), (4, 2, 9), (2,), (2,), (3,), 3, (3,)),
    ((1, 5, 4, 6, 3), (3, 2, 3, 3, 5), (1, 1, 1), (1, 0, 1), (1, 1, 1), 1, (5, 3, 6)),
    ((1, 6, 5, 7, 4), (2, 3, 3, 2, 6), (2, 1, 2), (0, 1, 1), (1, 2, 1), 2, (3, 3, 4)),
    ((2, 9, 7, 5), (3, 4, 5, 6), (2, 2), (1, 1), (1, 1), 1, (5, 3)),
    ((1, 9, 8, 7), (3, 3, 1, 7), (2, 2), (1, 1), (1, 1), 7, (5, 4)),
    ((1, 9, 7, 6), (2, 3, 2, 9), (3, 2), (2, 1), (2, 3), 3, (4, 2)),
)


def _samples() -> list[Sample]:
    samples = []
    for x, w, stride, pad, dilation, groups, out in _CASES:
        attrs = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "out": out}
        samples.append(Sample([x, w], attrs, low=-1, high=1))
    return samples


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
        taps = ceil_div(kernel, stride)
        return cls(stride, taps, 1, dilation, first, last - first + 1, pad - first * stride)


def image_gradient(g: Term, kernels: Term, windows: Windows, size: Sizes) -> Term:
    """Makes [N, size …, G, I] of g [N, out …, G, O] and kernels [kernel …, I, G, O]."""
    axes = zip(size, windows.kernel, windows.stride, windows.pad, windows.dilation, strict=True)
    phases = [Phase.of(*axis) for axis in axes]
    rank = len(phases)
    rows, places, parts = WINDOWS[:rank], PLACES[:rank], PHASES[:rank]
    by_phase = "".join(chain.from_iterable(zip(places, parts, strict=True)))
    result = "".join(chain.from_iterable(zip(rows, parts, strict=True)))
    pattern = f"n{rows}{places}go,{by_phase}cgo->n{result}gc"
    phase_sums = contract(
        _phase_pixels(g, windows.out, phases), _by_phase(kernels, phases), pattern
    )
    batch, groups, channels = phase_sums.shape[0], *phase_sums.shape[-2:]
    pixels = [phase.rows * phase.phases for phase in phases]
    whole = phase_sums.reshape((batch, *pixels, groups, channels))
    wanted = (batch, *size, groups, channels)
    if whole.shape == wanted:
        return whole
    starts = (0, *(phase.cut for phase in phases), 0, 0)
    return whole.apply("slice", starts=starts, sizes=wanted, steps=(1,) * len(starts))


def _phase_pixels(g: Term, out: Sizes, phases: Sequence[Phase]) -> Term:
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


def infer_conv_transpose(
    x: TensorType, w: TensorType, stride: Sizes, pad: Sizes, dilation: Sizes, groups: int,
    size: Sizes,
) -> TensorType:  # fmt: skip
    check_dtype("conv_transpose", x, FLOATS)
    if not 3 <= x.rank <= 5 or x.rank != w.rank or x.dtype != w.dtype:
        raise ShapeError(
            f"conv_transpose takes [N, in …, I] and [kernel …, I, O / groups], not {x} and {w}"
        )
    if groups < 1 or x.shape[-1] % groups or w.shape[-2] != x.shape[-1]:
        raise ShapeError(f"conv_transpose: {groups} groups of channels do not fit {x} and {w}")
    windows = Windows(w.shape[:-2], stride, pad, dilation, x.shape[1:-1])
    check_windows("conv_transpose", windows)
    if len(size) != windows.rank or min(size) < 1:
        raise ShapeError(f"conv_transpose: {size} is not a size of {windows.rank} axes")
    return TensorType((x.shape[0], *size, w.shape[-1] * groups), x.dtype)


def reference_conv_transpose(
    x: Array, w: Array, stride: Sizes, pad: Sizes, dilation: Sizes, groups: int, size: Sizes
) -> Array:
    """For each position in the kernel: y[pixel of the window at it] += x[window] w[position]."""
    batch, *out, channels = x.shape
    each = w.shape[-1]
    images = x.reshape(batch, *out, groups, channels // groups)
    kernels = w.reshape(*w.shape[:-2], groups, channels // groups, each)
    y = np.zeros((batch, *size, groups, each), x.dtype)
    kernel = w.shape[:-2]
    for place, windows, pixels in places(kernel, size, x.shape[1:-1], stride, pad, dilation):
        y[pixels] += product(images[windows], kernels[place])
    return y.reshape(batch, *size, groups * each)


def effort_conv_transpose(node: Node) -> int:
    """A matrix product for every position in the kernel."""
    *kernel, inputs, _ = node.inputs[1].shape
    each = inputs // int(node.attrs["groups"])
    return prod(kernel) * (node.output.type.size * (each // 8 + 2) + 4 * NUMPY_CALL)


def expand_conv_transpose(b: Builder, node: Node) -> Sequence[Value]:
    x, w = (Term(b, value) for value in node.inputs)
    kernels, rank = _kernels(node, w), x.value.type.rank - 2
    # [kernel …, G, I / G, O / G] to [kernel …, O / G, G, I / G]
    order = (*range(rank), rank + 2, rank, rank + 1)
    turned = kernels.apply("transpose", perm=order)
    y = image_gradient(
        in_groups(node, x), turned, _windows_conv_transpose(node), node.attrs["size"]
    )
    return [y.reshape(node.output.shape).value]


def grad_conv_transpose(
    b: Builder, node: Node, gs: Sequence[Value | None]
) -> Sequence[Value | None]:
    # dx = the convolution of g with the same kernels; dw = (pixels of the windows of g)ᵀ x
    if gs[0] is None:
        return [None, None]
    x, w = (Term(b, value) for value in node.inputs)
    pixels = in_groups(node, _windows_conv_transpose(node).pixels(Term(b, gs[0])))
    rank = x.value.type.rank - 2
    rows, kernel = WINDOWS[:rank], PLACES[:rank]
    images = f"n{rows}{kernel}go"
    dx = contract(pixels, _kernels(node, w), f"{images},{kernel}gco->n{rows}gc")
    dw = contract(pixels, in_groups(node, x), f"{images},n{rows}gc->{kernel}gco")
    return [dx.reshape(x.shape).value, dw.reshape(w.shape).value]


def _windows_conv_transpose(node: Node) -> Windows:
    """Windows of the convolution whose image is the result."""
    attrs, (x, w) = node.attrs, node.inputs
    kernel, out = w.shape[:-2], x.shape[1:-1]
    return Windows(kernel, attrs["stride"], attrs["pad"], attrs["dilation"], out)


def _kernels(node: Node, w: Term) -> Term:
    """[kernel …, groups, I / groups, O / groups]."""
    groups = int(node.attrs["groups"])
    *kernel, inputs, outputs = w.shape
    return w.reshape((*kernel, groups, inputs // groups, outputs))


# x, w, stride, pad, dilation, groups, size. The last ones are the hardest.
_CONV_TRANSPOSE_CASES: tuple[tuple[Sizes, Sizes, Sizes, Sizes, Sizes, int, Sizes], ...] = (
    ((1, 1, 1), (1, 1, 1), (1,), (0,), (1,), 1, (1,)),
    ((2, 5, 3), (3, 3, 8), (1,), (1,), (1,), 1, (5,)),
    ((2, 5, 4), (4, 4, 3), (3,), (1,), (1,), 2, (15,)),
    ((1, 4, 3, 5), (2, 2, 5, 7), (2, 2), (0, 0), (1, 1), 1, (8, 6)),
    ((2, 3, 4, 6), (3, 3, 6, 2), (2, 1), (1, 1), (1, 1), 3, (6, 4)),
    ((1, 3, 4, 3), (3, 2, 3, 5), (2, 3), (1, 0), (2, 2), 1, (7, 12)),
    ((1, 2, 3, 2, 4), (2, 3, 2, 4, 3), (2, 1, 2), (0, 1, 0), (1, 1, 1), 2, (4, 3, 4)),
)
_SAMPLES = [
    Sample(
        [x, w],
        {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "size": size},
        low=-1,
        high=1,
    )
    for x, w, stride, pad, dilation, groups, size in _CONV_TRANSPOSE_CASES
]


OPS = (
    Op("conv", infer, reference, Expand(expand), grad, _samples(), effort=effort),
    Op(
        "conv_transpose",
        infer_conv_transpose,
        reference_conv_transpose,
        Expand(expand_conv_transpose),
        grad_conv_transpose,
        _SAMPLES,
        effort=effort_conv_transpose,
    ),
)
