"""softmax(x; axis), log_softmax(x; axis), logsumexp(x; axes): the maximum is subtracted first.

All three, and cross entropy, build their row statistics by the same functions, so that CSE merges
them. The maximum of a row is not added to a logarithm before it has to be: max + log(sum) is
rounded to the precision of max, and at 1e8 nothing of the logarithm would be left.

cross_entropy(logits, labels; ignore, smoothing): the mean of -log softmax at the labels.

Labels equal to `ignore` do not count; when none is left the loss is 0. `smoothing` s mixes the
label with all classes: target = (1 - s) one_hot + s / classes.

bce(p, t): binary cross entropy of a probability p, -t log p - (1 - t) log(1 - p).

As in PyTorch, each logarithm is at least -100, and the gradient divides by p (1 - p), which is at
least 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.graph import FLOATS, INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term, binary
from wgcc.ops.registry import (
    Expand,
    Op,
    Sample,
    ShapeError,
    check_axes,
    check_axis,
    check_dtype,
    without_axes,
)

Axes = tuple[int, ...]


def subtract_peak(x: Term, axes: Axes, by: str = "peak") -> Term:
    """x minus its maximum over `axes`: at most 0, and exact where x is near the maximum."""
    top = x.apply(by, axes=axes).apply("stop_grad")  # any number would do
    return x - top.spread(axes, x.shape)


def exp_sum(x: Term, axes: Axes, by: str = "peak") -> Term:
    """The sum of exp(shifted x) over `axes`, which are removed: at least 1."""
    return subtract_peak(x, axes, by).exp().sum(axes)


def softmax(x: Term, axes: Axes, by: str = "peak") -> Term:
    return subtract_peak(x, axes, by).exp() / exp_sum(x, axes, by).spread(axes, x.shape)


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
    return [(subtract_peak(x, axes) - log_sum).value]


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


def infer(
    logits: TensorType, labels: TensorType, ignore: int | None, smoothing: float
) -> TensorType:
    check_dtype("cross_entropy: logits", logits, FLOATS)
    check_dtype("cross_entropy: labels", labels, INTEGERS)
    if not logits.rank or logits.shape[:-1] != labels.shape:
        raise ShapeError(
            f"cross_entropy: {logits} does not hold one row for each label of {labels}"
        )
    if not 0 <= smoothing < 1:
        raise ShapeError(f"cross_entropy: smoothing must be from 0 to below 1, not {smoothing}")
    return TensorType((), logits.dtype)


def reference(logits: Array, labels: Array, ignore: int | None, smoothing: float) -> Array:
    classes = logits.shape[-1]
    log_p = log_softmax_array(logits, -1)
    hit = (np.arange(classes) == labels[..., None]).astype(logits.dtype)
    target = (1 - smoothing) * hit + smoothing / classes
    losses = -(log_p * target).sum(-1)
    valid = np.ones(labels.shape, bool) if ignore is None else labels != ignore
    return np.asarray(np.where(valid, losses, 0).sum() / max(int(valid.sum()), 1))


def expand(b: Builder, node: Node) -> Sequence[Value]:
    logits, labels = (Term(b, value) for value in node.inputs)
    ignore, smoothing = node.attrs["ignore"], node.attrs["smoothing"]
    row = (len(logits.shape) - 1,)
    scores = subtract_peak(logits, row)
    picked = hits(logits, labels).choose(scores, 0).sum(row) * (1 - smoothing)
    wanted = picked if not smoothing else picked + scores.mean(row) * smoothing
    losses = exp_sum(logits, row).apply("log") - wanted
    if ignore is not None:
        losses = labels.equals(ignore).choose(losses.like(0), losses)
    rows = tuple(range(len(labels.shape)))
    return [(losses.sum(rows) / label_count(logits, labels, ignore)).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dlogits = g / count (softmax - (1 - s) one_hot - s / classes), 0 in ignored rows
    if gs[0] is None:
        return [None, None]
    logits, labels = (Term(b, value) for value in node.inputs)
    ignore, smoothing = node.attrs["ignore"], node.attrs["smoothing"]
    row, shape = (len(logits.shape) - 1,), logits.shape
    scale = (Term(b, gs[0]) / label_count(logits, labels, ignore)).broadcast(labels.shape)
    if ignore is not None:
        scale = labels.equals(ignore).choose(scale.like(0), scale)
    rest = smoothing / shape[-1]
    target = hits(logits, labels).choose(logits.like(1 - smoothing + rest), rest)
    # Not exp / sum: then the loss's exp, as large as the logits, would be stored for this kernel.
    log_sum = exp_sum(logits, row).apply("log").spread(row, shape)
    probabilities = (subtract_peak(logits, row) - log_sum).exp()
    return [((probabilities - target) * scale.spread(row, shape)).value, None]


def hits(logits: Term, labels: Term) -> Term:
    """True in each row at its label."""
    shape = logits.shape
    classes = Term(logits.b, logits.b.apply("iota", n=shape[-1], dtype=labels.dtype))
    return classes.broadcast(shape).equals(labels.spread((len(shape) - 1,), shape))


def label_count(logits: Term, labels: Term, ignore: int | None) -> Term:
    """How many labels count, as a scalar of the logits' dtype; at least 1."""
    if ignore is None:
        size = labels.value.type.size
        return Term(logits.b, logits.b.constant(size, logits.dtype))
    valid = labels.apply("ne", labels.like(ignore)).cast(logits.dtype)
    count = valid.sum(tuple(range(len(labels.shape))))
    return count.apply("maximum", count.like(1))


def _sample(
    shape: tuple[int, ...], ignore: int | None = None, smoothing: float = 0.0, low: int = 0
) -> Sample:
    types: list[tuple[int, ...] | TensorType] = [shape, TensorType(shape[:-1], "i32")]
    attrs = {"ignore": ignore, "smoothing": smoothing}
    return Sample(types, attrs, integers=(low, shape[-1] - 1))


LEAST_LOG, LEAST_VARIANCE = -100.0, 1e-12


def reference_bce(p: Array, t: Array) -> Array:
    with np.errstate(divide="ignore"):
        yes, no = (np.maximum(np.log(q), LEAST_LOG) for q in (p, 1 - p))
    return np.asarray(-t * yes - (1 - t) * no)


def derivative(g: Term, p: Term, t: Term, y: Term) -> tuple[Term, Term]:
    # dp = g (p - t) / max(p (1 - p), 1e-12); dt = g (log(1 - p) - log p)
    variance = p * (1 - p)
    dp = g * ((p - t) / variance.apply("maximum", p.like(LEAST_VARIANCE)))
    return dp, g * (_log(-p, "log1p") - _log(p, "log"))


def _log(x: Term, op: str) -> Term:
    return x.apply(op).apply("maximum", x.like(LEAST_LOG))


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
    Op(
        "cross_entropy",
        infer,
        reference,
        Expand(expand),
        grad,
        [
            _sample((5,)),
            _sample((3, 7)),
            _sample((65, 10)),
            _sample((7, 257), smoothing=0.1),
            _sample((9, 4), ignore=-1, low=-1),
            _sample((2, 3, 5), ignore=2, smoothing=0.2),
            _sample((3, 2), ignore=-1, low=-1),
        ],
    ),
    binary(
        "bce",
        "wg_bce({0}, {1})",
        reference_bce,
        derivative,
        functions=("bce", "log", "log1p"),
        dtypes=("f32",),
        low=0.05,
        high=0.95,
        cheap=False,
        samples=[Sample([(257,), (257,)], low=0.0, high=1.0, differentiable=False)],
    ),
)
