"""cross_entropy(logits, labels; ignore, smoothing): the mean of -log softmax at the labels.

Labels equal to `ignore` do not count; when none is left the loss is 0. `smoothing` s mixes the
label with all classes: target = (1 - s) one_hot + s / classes.

bce(p, t): binary cross entropy of a probability p, -t log p - (1 - t) log(1 - p).

As in PyTorch, each logarithm is at least -100, and the gradient divides by p (1 - p), which is at
least 1e-12.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, INTEGERS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import binary
from wgcc.ops.registry import Expand, Op, Sample, ShapeError
from wgcc.ops.softmax import exp_sum, log_softmax_array, shifted


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
    scores = shifted(logits, row)
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
    probabilities = (shifted(logits, row) - log_sum).exp()
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
