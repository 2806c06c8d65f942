"""conv_transpose(x, w; stride, pad, dilation, groups, size): a transposed convolution.

x is [N, in …, I], w [kernel …, I, O / groups], the result [N, size …, O]. Each pixel of x adds its
kernel to a window of the result: the gradient of a convolution with respect to its image. As in
PyTorch, `pad` pixels of the result are cut off at its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.contract import contract
from wgcc.ops.conv import in_groups, product
from wgcc.ops.conv_image_grad import PLACES, WINDOWS, image_gradient
from wgcc.ops.formula import Term
from wgcc.ops.patches import places
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError
from wgcc.ops.windows import Sizes, Windows, check_windows


def infer(
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


def reference(
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


def effort(node: Node) -> int:
    """A matrix product for every position in the kernel."""
    *kernel, inputs, _ = node.inputs[1].shape
    each = inputs // int(node.attrs["groups"])
    return prod(kernel) * (node.output.type.size * (each // 8 + 2) + 4 * NUMPY_CALL)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, w = (Term(b, value) for value in node.inputs)
    kernels, rank = _kernels(node, w), x.value.type.rank - 2
    # [kernel …, G, I / G, O / G] to [kernel …, O / G, G, I / G]
    order = (*range(rank), rank + 2, rank, rank + 1)
    turned = kernels.apply("transpose", perm=order)
    y = image_gradient(in_groups(node, x), turned, _windows(node), node.attrs["size"])
    return [y.reshape(node.output.shape).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the convolution of g with the same kernels; dw = (pixels of the windows of g)ᵀ x
    if gs[0] is None:
        return [None, None]
    x, w = (Term(b, value) for value in node.inputs)
    pixels = in_groups(node, _windows(node).pixels(Term(b, gs[0])))
    rank = x.value.type.rank - 2
    rows, kernel = WINDOWS[:rank], PLACES[:rank]
    images = f"n{rows}{kernel}go"
    dx = contract(pixels, _kernels(node, w), f"{images},{kernel}gco->n{rows}gc")
    dw = contract(pixels, in_groups(node, x), f"{images},n{rows}gc->{kernel}gco")
    return [dx.reshape(x.shape).value, dw.reshape(w.shape).value]


def _windows(node: Node) -> Windows:
    """Of the convolution whose image is the result."""
    attrs, (x, w) = node.attrs, node.inputs
    kernel, out = w.shape[:-2], x.shape[1:-1]
    return Windows(kernel, attrs["stride"], attrs["pad"], attrs["dilation"], out)


def _kernels(node: Node, w: Term) -> Term:
    """[kernel …, groups, I / groups, O / groups]."""
    groups = int(node.attrs["groups"])
    *kernel, inputs, outputs = w.shape
    return w.reshape((*kernel, groups, inputs // groups, outputs))


# x, w, stride, pad, dilation, groups, size. The last ones are the hardest.
_CASES: tuple[tuple[Sizes, Sizes, Sizes, Sizes, Sizes, int, Sizes], ...] = (
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
    for x, w, stride, pad, dilation, groups, size in _CASES
]

OPS = (Op("conv_transpose", infer, reference, Expand(expand), grad, _SAMPLES, effort=effort),)
