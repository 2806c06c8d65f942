"""Losses that are ops or have labels, and the accuracy: one number each, a mean over all elements
or labels, unless `reduction` asks for a sum or for the losses themselves. The other losses are
written in the language: `grammar/std/functions.wg`.

All of them warn of the wrong kind of numbers: probabilities for scores, or the opposite. How a
value was computed decides, not how it is written: the graph is followed back, through locals,
functions, layers, views and loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.reductions import arg_reduce
from wgcc.elaborate.operators.broadcasting import TensorExpr, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, sizes_note
from wgcc.elaborate.tracing.traced_graph import TracedBody, TracedGraph
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, Node, Value
from wgcc.ir.loops import loop_of
from wgcc.ops import OPS

REDUCTIONS = ("mean", "sum", "none")


def reduce_losses(tracer: Tracer, args: BoundArgs, each: TensorExpr) -> TensorExpr:
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
        return reduce_losses(tracer, args, each).tensor
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
    prediction, target = _pair(tracer, "bce", args, at)
    warn_of_inputs(tracer, "bce", args, at)
    each = prediction.cast("f32").apply("bce", target.cast("f32"))
    weight = _factor(tracer, "bce", args, "weight", prediction)
    each = each if weight is None else each * weight.cast("f32")
    return reduce_losses(tracer, args, each).cast(prediction.dtype).tensor


def bce_logits(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """-p y log σ(x) - (1 - y) log(1 - σ(x)), times a weight, of scores x.

    It is (1 - y) x + (1 + (p - 1) y) softplus(-x), which overflows for no x.
    """
    x, y = _pair(tracer, "bce_logits", args, at)
    warn_of_inputs(tracer, "bce_logits", args, at)
    positive = _factor(tracer, "bce_logits", args, "pos_weight", x)
    tail = (-x).apply("softplus")
    each = (1.0 - y) * x + (tail if positive is None else (y * (positive - 1.0) + 1.0) * tail)
    weight = _factor(tracer, "bce_logits", args, "weight", x)
    return reduce_losses(tracer, args, each if weight is None else each * weight).tensor


def _factor(
    tracer: Tracer, name: str, args: BoundArgs, key: str, like: TensorExpr
) -> TensorExpr | None:
    """A number, or factors that fit the last axes of the losses."""
    if args[key] is None:
        return None
    factor = expect.tensor(tracer, args, key, (like.dtype,))
    axes = like.dims[like.rank - factor.rank :] if factor.rank <= like.rank else ()
    pairs = list(zip(factor.dims, axes, strict=False))
    if len(pairs) < factor.rank or any(not a.is_one and compare(a, b) is DIFF for a, b in pairs):
        text = f"`{key}` of `{name}` must fit the last axes of {like.tensor}, but this is {factor}"
        raise Stop(tracer.report.error("WG0419", text, args.span(key), str(factor)))
    return TensorExpr(tracer, factor).broadcast(like.dims)


def _pair(tracer: Tracer, name: str, args: BoundArgs, at: Span) -> tuple[TensorExpr, TensorExpr]:
    """Two float tensors of one shape: losses do not broadcast, because that hides mistakes."""
    a = expect.tensor(tracer, args, "prediction", FLOATS)
    b = expect.tensor(tracer, args, "target", (a.dtype,))
    differs = a.rank != b.rank or any(
        compare(x, y) is DIFF for x, y in zip(a.dims, b.dims, strict=True)
    )
    if differs:
        text = f"`{name}` compares tensors of one shape, but these are {a} and {b}"
        problem = tracer.report.error("WG0419", text, at)
        problem.also(args.span("prediction"), str(a)).also(args.span("target"), str(b))
        note = sizes_note(a.dims, b.dims)
        raise Stop(problem.note(note) if note else problem)
    for x, y in zip(a.dims, b.dims, strict=True):
        tracer.same_size(x, y, at, f"`{name}`")
    return TensorExpr(tracer, a), TensorExpr(tracer, b)


def cross_entropy(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The mean of -log softmax(logits)[label] over all labels that are not `ignore`."""
    logits, labels = _scores(tracer, "cross_entropy", args, at)
    warn_of_inputs(tracer, "cross_entropy", args, at)
    ignore = _ignored_label(tracer, args)
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
    ignore = _ignored_label(tracer, args)
    tracer.look_up(labels, log_probs.dims[-1].size, "a label", ignore)
    return label_loss(tracer, args, log_probs, labels, ignore)


def accuracy(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """How many labels have the highest score, as a fraction of those that are not `ignore`."""
    logits, labels = _scores(tracer, "accuracy", args, at)
    best = arg_reduce("argmax", TensorExpr(tracer, logits), logits.rank - 1)
    label = TensorExpr(tracer, labels)
    correct = best.compare("eq", label)
    ignore = _ignored_label(tracer, args)
    classes = logits.dims[-1].size
    # A label that only the loss ignores counts as a miss.
    tracer.look_up(labels, classes, "a label", ignore, takes_padding=ignore is None)
    if ignore is None:
        return correct.cast("f32").mean().tensor
    counts = label.compare("ne", ignore)
    count = counts.cast("f32").sum().apply("maximum", 1.0)
    return ((correct & counts).cast("f32").sum() / count).tensor


def _ignored_label(tracer: Tracer, args: BoundArgs) -> int | None:
    if args["ignore"] is None:
        return None
    return expect.whole(tracer, args, "ignore", least=-(2**31)).size


def _scores(
    tracer: Tracer, name: str, args: BoundArgs, at: Span, scores: str = "logits"
) -> tuple[Tensor, Tensor]:
    """`logits [.., C]` and i32 `labels [..]`."""
    labels = args["labels"]
    kinds = [getattr(value, "dtype", "") for value in (args[scores], labels)]
    if kinds[0] in INTEGERS and kinds[1] in FLOATS:
        problem = tracer.report.error("WG0501", f"{name}: `{scores}` come first, then `labels`", at)
        raise Stop(problem.help(f"write `{name}({args.text('labels')}, {args.text(scores)})`"))
    logits = expect.tensor(tracer, args, scores, FLOATS)
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
    BuiltinFunction("bce", 'prediction, target, reduction="mean", *, weight=none', bce),
    BuiltinFunction(
        "bce_logits",
        'prediction, target, reduction="mean", *, weight=none, pos_weight=none',
        bce_logits,
    ),
    BuiltinFunction("nll", 'log_probs, labels, ignore=none, weight=none, reduction="mean"', nll),
    BuiltinFunction(
        "cross_entropy",
        'logits, labels, ignore=none, smoothing=0.0, weight=none, reduction="mean"',
        cross_entropy,
    ),
    BuiltinFunction("accuracy", "logits, labels, ignore=none", accuracy),
)


# Loss: ops whose results it must not get, and what it does with its argument.
WRONG = {
    "cross_entropy": (("softmax",), "applies `softmax` itself"),
    "nll": (("softmax",), "takes logarithms of probabilities"),
    "kl_div": (("softmax",), "takes logarithms of probabilities"),
    "bce_logits": (("sigmoid", "softmax"), "applies `sigmoid` itself"),
}
# Activations that do not keep numbers within 0 and 1.
UNBOUNDED = ("gelu", "relu", "silu", "tanh")
PRODUCTS = ("matmul", "conv", "conv_transpose")
# A score is a product, with a bias, a scale and an activation.
MOST_STEPS = 8


def warn_of_inputs(tracer: Tracer, name: str, args: BoundArgs, at: Span) -> None:
    """Warn if a built-in function is a loss, and gets the wrong kind of numbers."""
    argument = next(iter(args.values))
    value = args[argument]
    if name == "bce":
        _warn_of_scores(tracer, args, at)
    elif name in WRONG and isinstance(value, Tensor):
        _warn_of_probabilities(tracer, name, args, argument, value)


def _warn_of_probabilities(
    tracer: Tracer, name: str, args: BoundArgs, argument: str, value: Tensor
) -> None:
    """Warn if a loss that takes scores or logarithms gets probabilities."""
    ops, does = WRONG[name]
    _, node = _Sources(tracer.trace).origin(value.value)
    if node is None or node.op not in ops:
        return
    text = f"`{name}` {does}, but this is a {node.op}"
    problem = tracer.report.warning("WG0911", text, args.span(argument))
    if node.span is not None and not _inside(node.span, args.span(argument)):
        problem.also(node.span, f"the {node.op} is computed here")
    if "logarithms" in does:
        edits = _replace_word(args.span(argument), node.op, "log_softmax")
        problem.help("take `log_softmax` instead of `softmax`", *edits)
    else:
        edits = _unwrap(args.span(argument), node.op)
        problem.help(f"give it the scores, without `{node.op}`", *edits)


def _warn_of_scores(tracer: Tracer, args: BoundArgs, at: Span) -> None:
    """Warn if `bce`, which takes probabilities, gets scores."""
    value = args["prediction"]
    if not isinstance(value, Tensor) or not _Sources(tracer.trace).is_score(value.value):
        return
    text = "`bce` takes probabilities, but these are scores: they need not be within 0 and 1"
    problem = tracer.report.warning("WG0911", text, args.span("prediction"))
    problem.help("`bce_logits` takes scores", *_replace_word(at, "bce", "bce_logits"))


class _Sources:
    """How values were computed, in a graph under construction and those around it."""

    def __init__(self, trace: TracedGraph) -> None:
        self._trace = trace
        self._traces = list(_outwards(trace))
        self._aliases = {
            inner: outer
            for graph in self._traces
            if isinstance(graph, TracedBody)
            for outer, inner in graph.captured.items()
        }
        self._in_bodies: dict[Value, Node] = {}

    def origin(self, value: Value) -> tuple[Value, Node | None]:
        """The value whose elements these are, and its node, if it has one."""
        value = self._trace.own(value)
        while True:
            value = self._aliases.get(value, value)
            node = self._node(value)
            stacked = self._value_of_round(node, value) if node is not None else None
            if stacked is not None:
                value = stacked
            elif node is not None and (OPS[node.op].moves_elements or node.op == "cast"):
                value = node.inputs[0]
            else:
                return value, node

    def is_score(self, value: Value, steps: int = MOST_STEPS) -> bool:
        """Whether it is a product with a parameter, plus a bias, times a number, activated."""
        _, node = self.origin(value)
        if node is None or not steps:
            return False
        if node.op in PRODUCTS:
            return any(self._is_parameter(operand) for operand in node.inputs)
        if node.op in UNBOUNDED:
            return self.is_score(node.inputs[0], steps - 1)
        scores = [self.is_score(operand, steps - 1) for operand in node.inputs]
        if node.op == "add":
            pairs = zip(scores, node.inputs, strict=True)
            return any(scores) and all(yes or self._is_parameter(x) for yes, x in pairs)
        if node.op not in ("mul", "div") or not any(scores):
            return False
        return self._is_constant(node.inputs[1 if scores[0] else 0])

    def _is_parameter(self, value: Value) -> bool:
        source, _ = self.origin(value)
        return source in self._traces[-1].params.values()

    def _is_constant(self, value: Value) -> bool:
        _, node = self.origin(value)
        return node is not None and node.op == "const"

    def _node(self, value: Value) -> Node | None:
        producers = (graph.producer(value) for graph in self._traces)
        return next((node for node in producers if node is not None), self._in_bodies.get(value))

    def _value_of_round(self, node: Node, value: Value) -> Value | None:
        """The value of one round, if `value` stacks those of all rounds of a loop."""
        loop = loop_of(node)
        if loop is None or value not in loop.stacks:
            return None
        self._aliases |= {inner: outer for outer, inner in loop.invariants}
        self._in_bodies |= {made: node for node in loop.body.nodes for made in node.outputs}
        return list(loop.body.outputs.values())[loop.stacks.index(value)]


def _outwards(trace: TracedGraph) -> Iterator[TracedGraph]:
    yield trace
    if isinstance(trace, TracedBody):
        yield from _outwards(trace.outer)


def _inside(inner: Span, outer: Span) -> bool:
    return inner.source is outer.source and outer.start <= inner.start and inner.end <= outer.end


def _replace_word(at: Span, word: str, other: str) -> list[tuple[Span, str]]:
    """An edit, if the text is a call of `word`."""
    if not at.text.startswith(f"{word}("):
        return []
    return [(Span(at.source, at.start, at.start + len(word)), other)]


def _unwrap(at: Span, word: str) -> list[tuple[Span, str]]:
    """An edit, if the text is a call of `word` with one argument that has no comma."""
    inner = at.text.removeprefix(f"{word}(").removesuffix(")")
    is_one = len(inner) == len(at.text) - len(word) - 2 and not set(inner) & set(",|\n")
    return [(at, inner)] if is_one and _closes(inner) else []


def _closes(text: str) -> bool:
    """Whether no bracket is closed that was not opened."""
    depths = [0, *accumulate((letter in "([") - (letter in ")]") for letter in text)]
    return min(depths) == depths[-1] == 0
