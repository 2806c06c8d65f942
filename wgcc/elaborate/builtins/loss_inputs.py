"""Warns of losses that get the wrong kind of numbers: probabilities for scores, or the opposite.

It follows the graph back, through locals, functions, layers, views and loops: how a value was
computed decides, not how it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from wgcc.elaborate.tracing.arguments import BoundArgs
from wgcc.elaborate.tracing.traced_graph import TracedBody, TracedGraph
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import Node, Value
from wgcc.ir.loops import loop_of
from wgcc.ops import OPS

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
    """For any built-in function: warns if it is a loss, and gets the wrong kind of numbers."""
    argument = next(iter(args.values))
    value = args[argument]
    if name == "bce":
        _warn_of_scores(tracer, args, at)
    elif name in WRONG and isinstance(value, Tensor):
        _warn_of_probabilities(tracer, name, args, argument, value)


def _warn_of_probabilities(
    tracer: Tracer, name: str, args: BoundArgs, argument: str, value: Tensor
) -> None:
    """For losses that take scores or logarithms."""
    ops, does = WRONG[name]
    _, node = _Sources(tracer.trace).origin(value.value)
    if node is None or node.op not in ops:
        return
    text = f"`{name}` {does}, but this is a {node.op}"
    problem = tracer.report.warning("WG0911", text, args.span(argument))
    if node.span is not None and not _inside(node.span, args.span(argument)):
        problem.also(node.span, f"the {node.op} is computed here")
    if "logarithms" in does:
        edits = _replaced(args.span(argument), node.op, "log_softmax")
        problem.help("take `log_softmax` instead of `softmax`", *edits)
    else:
        edits = _unwrapped(args.span(argument), node.op)
        problem.help(f"give it the scores, without `{node.op}`", *edits)


def _warn_of_scores(tracer: Tracer, args: BoundArgs, at: Span) -> None:
    """For `bce`, which takes probabilities."""
    value = args["prediction"]
    if not isinstance(value, Tensor) or not _Sources(tracer.trace).is_score(value.value):
        return
    text = "`bce` takes probabilities, but these are scores: they need not be within 0 and 1"
    problem = tracer.report.warning("WG0911", text, args.span("prediction"))
    problem.help("`bce_logits` takes scores", *_replaced(at, "bce", "bce_logits"))


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
            stacked = self._stacked(node, value) if node is not None else None
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
        made = (graph.producer(value) for graph in self._traces)
        return next((node for node in made if node is not None), self._in_bodies.get(value))

    def _stacked(self, node: Node, value: Value) -> Value | None:
        """The value of one round, if `value` stacks those of all rounds of a loop."""
        loop = loop_of(node)
        if loop is None or value not in loop.stacks:
            return None
        self._aliases |= {inner: outer for outer, inner in loop.captured}
        self._in_bodies |= {made: node for node in loop.body.nodes for made in node.outputs}
        return list(loop.body.outputs.values())[loop.stacks.index(value)]


def _outwards(trace: TracedGraph) -> Iterator[TracedGraph]:
    yield trace
    if isinstance(trace, TracedBody):
        yield from _outwards(trace.outer)


def _inside(inner: Span, outer: Span) -> bool:
    return inner.source is outer.source and outer.start <= inner.start and inner.end <= outer.end


def _replaced(at: Span, word: str, other: str) -> list[tuple[Span, str]]:
    """An edit, if the text is a call of `word`."""
    if not at.text.startswith(f"{word}("):
        return []
    return [(Span(at.source, at.start, at.start + len(word)), other)]


def _unwrapped(at: Span, word: str) -> list[tuple[Span, str]]:
    """An edit, if the text is a call of `word` with one argument that has no comma."""
    inner = at.text.removeprefix(f"{word}(").removesuffix(")")
    is_one = len(inner) == len(at.text) - len(word) - 2 and not set(inner) & set(",|\n")
    return [(at, inner)] if is_one and _closes(inner) else []


def _closes(text: str) -> bool:
    """Whether no bracket is closed that was not opened."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            return False
    return depth == 0
