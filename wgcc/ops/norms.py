"""layer_norm(x, gain, bias; eps): rows (the last axis) with mean 0 and variance 1, then scaled.

rms_norm(x, gain; eps): rows (the last axis) divided by their root mean square, then scaled.

var(x; axes): the mean square difference from the mean (biased, as norm layers use it).

Differences from the mean, and their mean square, accurate also far from zero.

A mean in f32 has a rounding error: where all numbers share a large offset, it may be larger than
their differences. So the mean of the differences is computed, too, and corrects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, ShapeError, check_axes, check_dtype, without_axes

Axes = tuple[int, ...]


def centre(x: Term, axes: Axes) -> Term:
    """x without its mean over `axes`."""
    return _near(x, axes) - _rest(x, axes).spread(axes, x.shape)


def variance(x: Term, axes: Axes) -> Term:
    """The mean square of `centre(x)`, without `axes`.

    In two passes: mean((d - r)²) = mean(d²) - r² for differences d with the mean r, which is small.
    `relu` keeps NaN and removes negative results.
    """
    squares = mean(_near(x, axes).square(), axes)
    return (squares - _rest(x, axes).square()).apply("relu")


def mean(x: Term, axes: Axes) -> Term:
    """Written like the language's `mean`, so that CSE merges it with a `mean` in the program."""
    return x.sum(axes) * (1.0 / prod(x.shape[axis] for axis in axes))


def _near(x: Term, axes: Axes) -> Term:
    """Differences from a number near the mean."""
    return x - mean(x, axes).spread(axes, x.shape)


def _rest(x: Term, axes: Axes) -> Term:
    """The mean's difference from that number."""
    return mean(_near(x, axes), axes)


def infer_layer_norm(x: TensorType, gain: TensorType, bias: TensorType, eps: float) -> TensorType:
    check_dtype("layer_norm", x, FLOATS)
    wanted = TensorType(x.shape[-1:], x.dtype)
    if not x.rank or gain != wanted or bias != wanted:
        raise ShapeError(f"layer_norm of {x} needs {wanted} twice, not {gain} and {bias}")
    return x


def reference_layer_norm(x: Array, gain: Array, bias: Array, eps: float) -> Array:
    distance = x - x.mean(-1, keepdims=True)
    std = np.sqrt(np.square(distance).mean(-1, keepdims=True) + eps)
    return np.asarray(distance / std * gain + bias)


def expand_layer_norm(b: Builder, node: Node) -> Sequence[Value]:
    x, gain, bias = (Term(b, value) for value in node.inputs)
    row = (len(x.shape) - 1,)
    inverse = (variance(x, row) + node.attrs["eps"]).apply("rsqrt")
    normal = centre(x, row) * inverse.spread(row, x.shape)
    return [(normal * gain.broadcast(x.shape) + bias.broadcast(x.shape)).value]


def grad_layer_norm(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # n = normalised x, h = g gain: dx = (h - mean(h) - n mean(h n)) / std,
    # dgain = sum over rows of g n, dbias = sum over rows of g
    if gs[0] is None:
        return [None, None, None]
    g, x, gain = Term(b, gs[0]), Term(b, node.inputs[0]), Term(b, node.inputs[1])
    row, rows, eps = (len(x.shape) - 1,), tuple(range(len(x.shape) - 1)), node.attrs["eps"]
    # As an op, because the formula of `variance` has no gradient where it is 0.
    inverse = (x.apply("var", axes=row) + eps).apply("rsqrt").spread(row, x.shape)
    normal = centre(x, row) * inverse
    h = g * gain.broadcast(x.shape)
    mean_h = h.mean(row).spread(row, x.shape)
    mean_hn = (h * normal).mean(row).spread(row, x.shape)
    dx = (h - mean_h - normal * mean_hn) * inverse
    return [dx.value, (g * normal).sum(rows).value, g.sum(rows).value]


_LAYER_NORM_SHAPES: tuple[tuple[int, ...], ...] = (
    (3,),
    (5, 7),
    (64, 65),
    (257, 7),
    (2, 3, 4),
    (2, 3, 2, 5),
)


def infer_rms_norm(x: TensorType, gain: TensorType, eps: float) -> TensorType:
    check_dtype("rms_norm", x, FLOATS)
    wanted = TensorType(x.shape[-1:], x.dtype)
    if not x.rank or gain != wanted:
        raise ShapeError(f"rms_norm of {x} needs {wanted}, not {gain}")
    return x


def reference_rms_norm(x: Array, gain: Array, eps: float) -> Array:
    rms = np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)
    return np.asarray(x / rms * gain)


def expand_rms_norm(b: Builder, node: Node) -> Sequence[Value]:
    x, gain = (Term(b, value) for value in node.inputs)
    return [(normalise(x, node.attrs["eps"]) * gain.broadcast(x.shape)).value]


def grad_rms_norm(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # n = normalised x, h = g gain: dx = (h - n mean(h n)) / rms, dgain = sum over rows of g n
    if gs[0] is None:
        return [None, None]
    g, x, gain = Term(b, gs[0]), Term(b, node.inputs[0]), Term(b, node.inputs[1])
    row, rows, eps = (len(x.shape) - 1,), tuple(range(len(x.shape) - 1)), node.attrs["eps"]
    normal = normalise(x, eps)
    h = g * gain.broadcast(x.shape)
    mean_hn = (h * normal).mean(row).spread(row, x.shape)
    dx = (h - normal * mean_hn) * inverse_rms(x, eps).spread(row, x.shape)
    return [dx.value, (g * normal).sum(rows).value]


def normalise(x: Term, eps: float) -> Term:
    return x * inverse_rms(x, eps).spread((len(x.shape) - 1,), x.shape)


def inverse_rms(x: Term, eps: float) -> Term:
    return (x.square().mean((len(x.shape) - 1,)) + eps).apply("rsqrt")


_RMS_NORM_SHAPES: tuple[tuple[int, ...], ...] = (
    (3,),
    (5, 7),
    (64, 65),
    (257, 3),
    (2, 3, 4),
    (2, 3, 2, 5),
)


def infer_var(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    check_axes("var", x, axes)
    check_dtype("var", x, FLOATS)
    return TensorType(without_axes(x.shape, axes), x.dtype)


def reference_var(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(x.var(axes))


def expand_var(b: Builder, node: Node) -> Sequence[Value]:
    return [variance(Term(b, node.inputs[0]), node.attrs["axes"]).value]


def grad_var(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = 2 g (x - mean) / n: the gradient through the mean is zero
    if gs[0] is None:
        return [None]
    x, axes = Term(b, node.inputs[0]), node.attrs["axes"]
    share = Term(b, gs[0]) * (2.0 / prod(x.shape[axis] for axis in axes))
    return [(share.spread(axes, x.shape) * centre(x, axes)).value]


_VAR_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((5,), (0,)),
    ((1, 3), (0,)),
    ((3, 65), (1,)),
    ((257, 7), (0,)),
    ((4, 5, 3), (0, 1)),
    ((2, 3, 4, 5), (1, 3)),
)


OPS = (
    Op(
        "layer_norm",
        infer_layer_norm,
        reference_layer_norm,
        Expand(expand_layer_norm),
        grad_layer_norm,
        [Sample([shape, shape[-1:], shape[-1:]], {"eps": 1e-5}) for shape in _LAYER_NORM_SHAPES],
    ),
    Op(
        "rms_norm",
        infer_rms_norm,
        reference_rms_norm,
        Expand(expand_rms_norm),
        grad_rms_norm,
        [Sample([shape, shape[-1:]], {"eps": 1e-5}) for shape in _RMS_NORM_SHAPES],
    ),
    Op(
        "var",
        infer_var,
        reference_var,
        Expand(expand_var),
        grad_var,
        [Sample([shape], {"axes": axes}) for shape, axes in _VAR_CASES],
    ),
)
