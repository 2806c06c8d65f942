"""conv(x, w; stride, pad, dilation, groups, out): x [N, size …, I], w [kernel …, I / groups, O].

It becomes matrix products whose operands are views of the image (im2col that is never stored).
An image has one, two or three axes. `pad` counts the zeros before the image; `out`, the size of
the result, determines the zeros after it. As in PyTorch, kernels are not flipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.contract import contract
from wgcc.ops.conv_image_grad import PLACES, WINDOWS, image_gradient
from wgcc.ops.formula import Term
from wgcc.ops.patches import places
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError
from wgcc.ops.windows import Sizes, Windows, check_windows


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
    """Of the axes of windows and of the kernel."""
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
    found = []
    for x, w, stride, pad, dilation, groups, out in _CASES:
        attrs = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "out": out}
        found.append(Sample([x, w], attrs, low=-1, high=1))
    return found


OPS = (Op("conv", infer, reference, Expand(expand), grad, _samples(), effort=effort),)
