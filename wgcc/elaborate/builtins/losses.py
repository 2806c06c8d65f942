"""Losses that are ops or have labels, and the accuracy: one number each, a mean over all elements
or labels, unless `reduction` asks for a sum or for the losses themselves.

The other losses are written in the language: `grammar/std/functions.wg`.
"""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.loss_inputs import warn_of_inputs
from wgcc.elaborate.builtins.reductions import arg_reduce
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, sizes_note
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS

REDUCTIONS = ("mean", "sum", "none")


def reduced(tracer: Tracer, args: BoundArgs, each: TensorExpr) -> TensorExpr:
    """The mean of all losses, their sum, or the losses themselves."""
    reduction = expect.choice(tracer, args, "reduction", REDUCTIONS)
    if reduction == "none":
        return each
    return each.mean() if reduction == "mean" else each.sum()


def label_loss(
    tracer: Tracer, args: BoundArgs, log_probs: Tensor, labels: Tensor, ignore: int | None,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-w[label] log_probs[label], smoothed over all classes.

    A mean divides by the sum of w[label].
    """
    scores, label = TensorExpr(tracer, log_probs), TensorExpr(tracer, labels)
    weight = _weight(tracer, args, log_probs)
    is_label = label.new_axis(-1).compare("eq", iota(tracer, log_probs.dims[-1]))
    last = [scores.rank - 1]
    weighted = scores if weight is None else scores * weight
    each = -is_label.choose(weighted, 0.0).sum(last)
    if smoothing:
        each = each * (1.0 - smoothing) - weighted.sum(last) * (smoothing / weighted.dims[-1].size)
    counts = None if ignore is None else label.compare("ne", ignore)
    each = each if counts is None else counts.choose(each, 0.0)
    if expect.choice(tracer, args, "reduction", REDUCTIONS) != "mean":
        return reduced(tracer, args, each).tensor
    if weight is None and counts is None:
        return each.mean().tensor
    return (each.sum() / _total(is_label, weight, counts, scores.dtype)).tensor


def _total(
    is_label: TensorExpr, weight: TensorExpr | None, counts: TensorExpr | None, dtype: str
) -> TensorExpr:
    """The sum of the weights of all labels that count, but 1 if it is 0."""
    if weight is None:
        assert counts is not None
        return counts.cast("f32").sum().apply("maximum", 1.0).cast(dtype)
    spread = weight.broadcast(is_label.dims)
    of_label = is_label.choose(spread, 0.0).sum([is_label.rank - 1])
    total = (of_label if counts is None else counts.choose(of_label, 0.0)).sum()
    return total.compare("gt", 0.0).choose(total, 1.0)


def _weight(tracer: Tracer, args: BoundArgs, log_probs: Tensor) -> TensorExpr | None:
    """One factor for each class."""
    if args["weight"] is None:
        return None
    weight = expect.tensor(tracer, args, "weight", (log_probs.dtype,), rank=1)
    classes = log_probs.dims[-1]
    if compare(weight.dims[0], classes) is DIFF:
        text = f"`weight` has one number for each class, {classes.full}, but this is {weight}"
        raise Stop(tracer.report.error("WG0419", text, args.span("weight"), str(weight)))
    return TensorExpr(tracer, weight)


def bce(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Binary cross entropy of probabilities; in f32, whose smallest numbers it needs."""
    prediction, target = _pair(tracer, args, at)
    warn_of_inputs(tracer, "bce", args, at)
    each = prediction.cast("f32").apply("bce", target.cast("f32"))
    return reduced(tracer, args, each).cast(prediction.dtype).tensor


def _pair(tracer: Tracer, args: BoundArgs, at: Span) -> tuple[TensorExpr, TensorExpr]:
    """Two float tensors of one shape: losses do not broadcast, because that hides mistakes."""
    a = expect.tensor(tracer, args, "prediction", FLOATS)
    b = expect.tensor(tracer, args, "target", (a.dtype,))
    differs = a.rank != b.rank or any(
        compare(x, y) is DIFF for x, y in zip(a.dims, b.dims, strict=True)
    )
    if differs:
        text = f"`bce` compares tensors of one shape, but these are {a} and {b}"
        problem = tracer.report.error("WG0419", text, at)
        problem.also(args.span("prediction"), str(a)).also(args.span("target"), str(b))
        note = sizes_note(a.dims, b.dims)
        raise Stop(problem.note(note) if note else problem)
    for x, y in zip(a.dims, b.dims, strict=True):
        tracer.same_size(x, y, at, "`bce`")
    return TensorExpr(tracer, a), TensorExpr(tracer, b)


def cross_entropy(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The mean of -log softmax(logits)[label] over all labels that are not `ignore`."""
    logits, labels = _scores(tracer, "cross_entropy", args, at)
    warn_of_inputs(tracer, "cross_entropy", args, at)
    ignore = _ignored(tracer, args)
    smoothing = expect.number(tracer, args, "smoothing")
    if not 0 <= smoothing < 1:
        text = f"`smoothing` must be at least 0 and below 1, but it is {smoothing:g}"
        raise Stop(tracer.report.error("WG0503", text, args.span("smoothing")))
    tracer.look_up(labels, logits.dims[-1].size, "a label", ignore)
    scores = tracer.cast(logits, "f32")
    if args["weight"] is None and expect.choice(tracer, args, "reduction", REDUCTIONS) == "mean":
        result = tracer.emit(
            "cross_entropy", scores, labels, dims=(), dtype="f32",
            ignore=ignore, smoothing=smoothing,
        )  # fmt: skip
        return tracer.cast(result, logits.dtype)
    axis = scores.rank - 1
    log_probs = tracer.emit("log_softmax", scores, dims=scores.dims, dtype="f32", axis=axis)
    return tracer.cast(label_loss(tracer, args, log_probs, labels, ignore, smoothing), logits.dtype)


def nll(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The mean of -log_probs[label] over all labels that are not `ignore`."""
    log_probs, labels = _scores(tracer, "nll", args, at, "log_probs")
    warn_of_inputs(tracer, "nll", args, at)
    ignore = _ignored(tracer, args)
    tracer.look_up(labels, log_probs.dims[-1].size, "a label", ignore)
    return label_loss(tracer, args, log_probs, labels, ignore)


def accuracy(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """How many labels have the highest score, as a fraction of those that are not `ignore`."""
    logits, labels = _scores(tracer, "accuracy", args, at)
    best = arg_reduce("argmax", TensorExpr(tracer, logits), logits.rank - 1)
    label = TensorExpr(tracer, labels)
    correct = best.compare("eq", label)
    ignore = _ignored(tracer, args)
    classes = logits.dims[-1].size
    # A label that only the loss ignores counts as a miss.
    tracer.look_up(labels, classes, "a label", ignore, takes_padding=ignore is None)
    if ignore is None:
        return correct.cast("f32").mean().tensor
    counts = label.compare("ne", ignore)
    count = counts.cast("f32").sum().apply("maximum", 1.0)
    return ((correct & counts).cast("f32").sum() / count).tensor


def _ignored(tracer: Tracer, args: BoundArgs) -> int | None:
    if args["ignore"] is None:
        return None
    return expect.whole(tracer, args, "ignore", least=-(2**31)).size


def _scores(
    tracer: Tracer, name: str, args: BoundArgs, at: Span, scores: str = "logits"
) -> tuple[Tensor, Tensor]:
    """`logits [.., C]` and i32 `labels [..]`."""
    logits = expect.tensor(tracer, args, scores, FLOATS)
    labels = args["labels"]
    if isinstance(labels, Tensor) and labels.dtype in FLOATS:
        text = f"`labels` must be class numbers (i32), but this is {labels}"
        problem = tracer.report.error("WG0501", text, args.span("labels"), str(labels))
        text = args.text("labels")
        if labels.rank == logits.rank:
            raise Stop(problem.help(f"for one-hot rows take `argmax({text}, axis = -1)` first"))
        advice = f"declare them as i32, or convert whole numbers: `i32({text})`"
        raise Stop(problem.help(advice, (args.span("labels"), f"i32({text})")))
    whole = expect.tensor(tracer, args, "labels", INTEGERS)
    if not logits.dims or not _same_shape(logits.dims[:-1], whole.dims):
        text = f"{name}: `labels` must have the shape of `{scores}` without the last axis"
        problem = tracer.report.error("WG0419", text, at)
        raise Stop(
            problem.also(args.span(scores), str(logits)).also(args.span("labels"), str(whole))
        )
    for x, y in zip(logits.dims, whole.dims, strict=False):
        tracer.same_size(x, y, at, f"`{name}`")
    return logits, tracer.cast(whole, "i32")


def _same_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(compare(x, y) is not DIFF for x, y in zip(a, b, strict=True))


FUNCTIONS = (
    BuiltinFunction("bce", 'prediction, target, reduction="mean"', bce),
    BuiltinFunction("nll", 'log_probs, labels, ignore=none, weight=none, reduction="mean"', nll),
    BuiltinFunction(
        "cross_entropy",
        'logits, labels, ignore=none, smoothing=0.0, weight=none, reduction="mean"',
        cross_entropy,
    ),
    BuiltinFunction("accuracy", "logits, labels, ignore=none", accuracy),
)
