"""How losses become one number, and losses of labels with class weights, as formulas."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs
from wgcc.elaborate.tracing.dims import DIFF, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor

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
