"""softmax(x; axis), log_softmax(x; axis), logsumexp(x; axes): the maximum is subtracted first.

All three, and cross entropy, build their row statistics by the same functions, so that CSE merges
them. The maximum of a row is not added to a logarithm before it has to be: max + log(sum) is
rounded to the precision of max, and at 1e8 nothing of the logarithm would be left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_axes, check_axis, check_dtype, without_axes
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample

Axes = tuple[int, ...]


def shifted(x: Term, axes: Axes, by: str = "peak") -> Term:
    """x minus its maximum over `axes`: at most 0, and exact where x is near the maximum."""
    top = x.apply(by, axes=axes).apply("stop_grad")  # any number would do
    return x - top.spread(axes, x.shape)


def exp_sum(x: Term, axes: Axes, by: str = "peak") -> Term:
    """The sum of exp(shifted x) over `axes`, which are removed: at least 1."""
    return shifted(x, axes, by).exp().sum(axes)


def softmax(x: Term, axes: Axes, by: str = "peak") -> Term:
    return shifted(x, axes, by).exp() / exp_sum(x, axes, by).spread(axes, x.shape)


def expand_softmax(b: Builder, node: Node) -> Sequence[Value]:
    return [softmax(Term(b, node.inputs[0]), (node.attrs["axis"],)).value]


def grad_softmax(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = y (g - sum(y g))
    (g_value,), axes = gs, (node.attrs["axis"],)
    if g_value is None:
        return [None]
    g, y = Term(b, g_value), Term(b, node.output)
    return [(y * (g - (y * g).sum(axes).spread(axes, y.shape))).value]


def expand_log_softmax(b: Builder, node: Node) -> Sequence[Value]:
    x, axes = Term(b, node.inputs[0]), (node.attrs["axis"],)
    log_sum = exp_sum(x, axes).apply("log").spread(axes, x.shape)
    return [(shifted(x, axes) - log_sum).value]


def grad_log_softmax(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g - exp(y) sum(g)
    (g_value,), axes = gs, (node.attrs["axis"],)
    if g_value is None:
        return [None]
    g, y = Term(b, g_value), Term(b, node.output)
    return [(g - y.exp() * g.sum(axes).spread(axes, y.shape)).value]


def expand_logsumexp(b: Builder, node: Node) -> Sequence[Value]:
    x, axes = Term(b, node.inputs[0]), node.attrs["axes"]
    # A row with infinity or NaN has its maximum as the result: x minus that is not a number.
    top = x.apply("max", axes=axes)
    total = exp_sum(x, axes, "max").apply("log") + top
    return [top.apply("is_finite").choose(total, top).value]


def grad_logsumexp(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g softmax(x); exp(x - y) is the same, but y has lost digits
    (g,), axes = gs, node.attrs["axes"]
    if g is None:
        return [None]
    x = Term(b, node.inputs[0])
    return [(Term(b, g).spread(axes, x.shape) * softmax(x, axes, "max")).value]


def _infer_along(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, axis: int) -> TensorType:
        check_dtype(name, x, FLOATS)
        check_axis(name, x, axis)
        return x

    return infer


def infer_logsumexp(x: TensorType, axes: Axes) -> TensorType:
    check_dtype("logsumexp", x, FLOATS)
    check_axes("logsumexp", x, axes)
    return TensorType(without_axes(x.shape, axes), x.dtype)


def softmax_array(x: Array, axis: int) -> Array:
    exponents = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(exponents / exponents.sum(axis, keepdims=True))


def log_softmax_array(x: Array, axis: int) -> Array:
    below = x - x.max(axis, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis, keepdims=True)))


def logsumexp_array(x: Array, axes: Axes) -> Array:
    top = x.max(axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axes, keepdims=True)) + top
    return np.reshape(total, without_axes(x.shape, axes))


_CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 0),
    ((5,), 0),
    ((257,), 0),
    ((3, 7), 1),
    ((64, 63), 1),
    ((7, 65), 0),
    ((2, 3, 4, 5), 2),
    ((2, 3, 4, 5), 3),
)
_ALONG = [
    *(Sample([shape], {"axis": axis}) for shape, axis in _CASES),
    Sample([(3, 11)], {"axis": 1}, low=-200.0, high=200.0, differentiable=False),
]

OPS = (
    Op(
        "softmax",
        _infer_along("softmax"),
        softmax_array,
        Expand(expand_softmax),
        grad_softmax,
        _ALONG,
    ),
    Op(
        "log_softmax",
        _infer_along("log_softmax"),
        log_softmax_array,
        Expand(expand_log_softmax),
        grad_log_softmax,
        _ALONG,
    ),
    Op(
        "logsumexp",
        infer_logsumexp,
        logsumexp_array,
        Expand(expand_logsumexp),
        grad_logsumexp,
        [
            *(Sample([shape], {"axes": (axis,)}) for shape, axis in _CASES),
            Sample([(2, 3, 4, 5)], {"axes": (1, 3)}),
            Sample([(3, 11)], {"axes": (0, 1)}, low=-200.0, high=200.0, differentiable=False),
        ],
    ),
)
