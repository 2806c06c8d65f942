"""conv2d(x, w; stride, pad, dilation, groups, out): x [N, H, W, I], w [KH, KW, I / groups, O].

It becomes matrix products whose operands are views of the image (im2col that is never stored).
`pad` counts the zeros before the image; `out`, the size of the result, determines the zeros after
it. As in PyTorch, kernels are not flipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.contract import contract
from wgcc.ops.conv2d_image_grad import image_gradient
from wgcc.ops.formula import Term
from wgcc.ops.image_windows import Pair, Windows, check_windows
from wgcc.ops.patches import overlap
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError


def infer(
    x: TensorType, w: TensorType, stride: Pair, pad: Pair, dilation: Pair, groups: int, out: Pair
) -> TensorType:
    check_dtype("conv2d", x, FLOATS)
    if x.rank != 4 or w.rank != 4 or x.dtype != w.dtype:
        raise ShapeError(f"conv2d takes [N, H, W, I] and [KH, KW, I / groups, O], not {x} and {w}")
    channels, results = x.shape[3], w.shape[3]
    if groups < 1 or channels % groups or results % groups or w.shape[2] != channels // groups:
        raise ShapeError(f"conv2d: {groups} groups of channels do not fit {x} and {w}")
    check_windows("conv2d", Windows((w.shape[0], w.shape[1]), stride, pad, dilation, out))
    return TensorType((x.shape[0], *out, results), x.dtype)


def reference(
    x: Array, w: Array, stride: Pair, pad: Pair, dilation: Pair, groups: int, out: Pair
) -> Array:
    """For each position in the kernel: y[window] += x[pixel of the window at it] w[position]."""
    kh, kw, inputs, results = w.shape
    batch, *size, _ = x.shape
    images = x.reshape(batch, *size, groups, inputs)
    kernels = w.reshape(kh, kw, inputs, groups, results // groups)
    y = np.zeros((batch, *out, groups, results // groups), x.dtype)
    for place in np.ndindex(kh, kw):
        axes = zip(size, out, stride, pad, place, dilation, strict=True)
        (rows, ys), (columns, xs) = (overlap(n, m, s, i * d - p) for n, m, s, p, i, d in axes)
        pixels = np.moveaxis(images[:, ys, xs], -2, 0)
        by_group = np.matmul(pixels, kernels[place].swapaxes(0, 1)[:, None, None])
        y[:, rows, columns] += np.moveaxis(by_group, 0, -2)
    return y.reshape(batch, *out, results)


def effort(node: Node) -> int:
    """A matrix product for every position in the kernel."""
    rows, columns, inputs, _ = node.inputs[1].shape
    places = rows * columns
    return places * (node.output.type.size * (inputs // 8 + 2) + 4 * NUMPY_CALL)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, w = (Term(b, value) for value in node.inputs)
    pixels, kernels = _pixels(node, x), _in_groups(node, w)
    y = contract(pixels, kernels, "nhwijgc,ijcgo->nhwgo")
    return [y.reshape(node.output.shape).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = at each pixel the sum of g wᵀ over the windows that contain it; dw = (their pixels)ᵀ g
    if gs[0] is None:
        return [None, None]
    x, w = (Term(b, value) for value in node.inputs)
    g, kernels = _in_groups(node, Term(b, gs[0])), _in_groups(node, w)
    dx = image_gradient(g, kernels, _windows(node), (x.shape[1], x.shape[2]))
    dw = contract(_pixels(node, x), g, "nhwijgc,nhwgo->ijcgo")
    return [dx.reshape(x.shape).value, dw.reshape(w.shape).value]


def _windows(node: Node) -> Windows:
    attrs, kernel = node.attrs, node.inputs[1].shape
    pads = attrs["stride"], attrs["pad"], attrs["dilation"], attrs["out"]
    return Windows((kernel[0], kernel[1]), *pads)


def _pixels(node: Node, x: Term) -> Term:
    """[N, OH, OW, KH, KW, groups, I / groups]."""
    return _in_groups(node, _windows(node).pixels(x))


def _in_groups(node: Node, x: Term) -> Term:
    """The last axis as [groups, channels of each]."""
    groups = int(node.attrs["groups"])
    return x.reshape((*x.shape[:-1], groups, x.shape[-1] // groups))


# x, w, stride, pad, dilation, groups, out. The last ones are the hardest: their gradients are
# tested on every adapter.
_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], Pair, Pair, Pair, int, Pair], ...] = (
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0), (1, 1), 1, (1, 1)),
    ((2, 5, 4, 3), (1, 1, 3, 5), (1, 1), (0, 0), (1, 1), 1, (5, 4)),
    ((2, 5, 7, 3), (3, 3, 3, 9), (1, 1), (1, 1), (1, 1), 1, (5, 7)),
    ((1, 6, 5, 2), (2, 3, 2, 1), (1, 1), (0, 1), (1, 1), 1, (5, 5)),
    ((2, 4, 6, 2), (2, 3, 2, 5), (2, 3), (0, 0), (1, 1), 1, (2, 2)),
    ((1, 7, 6, 8), (3, 3, 4, 10), (1, 1), (1, 1), (1, 1), 2, (7, 6)),
    ((2, 5, 6, 2), (2, 2, 1, 4), (1, 1), (1, 1), (1, 1), 2, (6, 7)),
    ((2, 9, 1, 3), (4, 1, 1, 3), (1, 1), (3, 0), (1, 1), 3, (9, 1)),
    ((1, 5, 5, 3), (3, 3, 3, 7), (1, 1), (2, 2), (2, 2), 1, (5, 5)),
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


OPS = (Op("conv2d", infer, reference, Expand(expand), grad, _samples(), effort=effort),)
