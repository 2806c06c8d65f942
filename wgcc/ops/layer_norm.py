"""layer_norm(x, gain, bias; eps): rows (the last axis) with mean 0 and variance 1, then scaled."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.centring import centred, variance
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, ShapeError


def infer(x: TensorType, gain: TensorType, bias: TensorType, eps: float) -> TensorType:
    check_dtype("layer_norm", x, FLOATS)
    wanted = TensorType(x.shape[-1:], x.dtype)
    if not x.rank or gain != wanted or bias != wanted:
        raise ShapeError(f"layer_norm of {x} needs {wanted} twice, not {gain} and {bias}")
    return x


def reference(x: Array, gain: Array, bias: Array, eps: float) -> Array:
    distance = x - x.mean(-1, keepdims=True)
    std = np.sqrt(np.square(distance).mean(-1, keepdims=True) + eps)
    return np.asarray(distance / std * gain + bias)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, gain, bias = (Term(b, value) for value in node.inputs)
    row = (len(x.shape) - 1,)
    inverse = (variance(x, row) + node.attrs["eps"]).apply("rsqrt")
    normal = centred(x, row) * inverse.spread(row, x.shape)
    return [(normal * gain.broadcast(x.shape) + bias.broadcast(x.shape)).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # n = normalised x, h = g gain: dx = (h - mean(h) - n mean(h n)) / std,
    # dgain = sum over rows of g n, dbias = sum over rows of g
    if gs[0] is None:
        return [None, None, None]
    g, x, gain = Term(b, gs[0]), Term(b, node.inputs[0]), Term(b, node.inputs[1])
    row, rows, eps = (len(x.shape) - 1,), tuple(range(len(x.shape) - 1)), node.attrs["eps"]
    # As an op, because the formula of `variance` has no gradient where it is 0.
    inverse = (x.apply("var", axes=row) + eps).apply("rsqrt").spread(row, x.shape)
    normal = centred(x, row) * inverse
    h = g * gain.broadcast(x.shape)
    mean_h = h.mean(row).spread(row, x.shape)
    mean_hn = (h * normal).mean(row).spread(row, x.shape)
    dx = (h - mean_h - normal * mean_hn) * inverse
    return [dx.value, (g * normal).sum(rows).value, g.sum(rows).value]


_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (5, 7), (64, 65), (257, 7), (2, 3, 4), (2, 3, 2, 5))

OPS = (
    Op(
        "layer_norm",
        infer,
        reference,
        Expand(expand),
        grad,
        [Sample([shape, shape[-1:], shape[-1:]], {"eps": 1e-5}) for shape in _SHAPES],
    ),
)
