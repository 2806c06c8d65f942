"""rms_norm(x, gain; eps): rows (the last axis) divided by their root mean square, then scaled."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, ShapeError


def infer(x: TensorType, gain: TensorType, eps: float) -> TensorType:
    check_dtype("rms_norm", x, FLOATS)
    wanted = TensorType(x.shape[-1:], x.dtype)
    if not x.rank or gain != wanted:
        raise ShapeError(f"rms_norm of {x} needs {wanted}, not {gain}")
    return x


def reference(x: Array, gain: Array, eps: float) -> Array:
    rms = np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)
    return np.asarray(x / rms * gain)


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, gain = (Term(b, value) for value in node.inputs)
    return [(normalised(x, node.attrs["eps"]) * gain.broadcast(x.shape)).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # n = normalised x, h = g gain: dx = (h - n mean(h n)) / rms, dgain = sum over rows of g n
    if gs[0] is None:
        return [None, None]
    g, x, gain = Term(b, gs[0]), Term(b, node.inputs[0]), Term(b, node.inputs[1])
    row, rows, eps = (len(x.shape) - 1,), tuple(range(len(x.shape) - 1)), node.attrs["eps"]
    normal = normalised(x, eps)
    h = g * gain.broadcast(x.shape)
    mean_hn = (h * normal).mean(row).spread(row, x.shape)
    dx = (h - normal * mean_hn) * inverse_rms(x, eps).spread(row, x.shape)
    return [dx.value, (g * normal).sum(rows).value]


def normalised(x: Term, eps: float) -> Term:
    return x * inverse_rms(x, eps).spread((len(x.shape) - 1,), x.shape)


def inverse_rms(x: Term, eps: float) -> Term:
    return (x.square().mean((len(x.shape) - 1,)) + eps).apply("rsqrt")


_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (5, 7), (64, 65), (257, 3), (2, 3, 4), (2, 3, 2, 5))

OPS = (
    Op(
        "rms_norm",
        infer,
        reference,
        Expand(expand),
        grad,
        [Sample([shape, shape[-1:]], {"eps": 1e-5}) for shape in _SHAPES],
    ),
)
