"""Sequences that `for` iterates over, and a warning for loops unrolled into many copies."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.declarations.signatures import dim_of
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import as_sequence
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    RangeValue,
    describe,
)
from wgcc.errors import Diagnostic
from wgcc.ir.graph import Node
from wgcc.syntax import ast

MOST_ITERATIONS = 4096


def range_value(context: Context, node: ast.Range) -> RangeValue:
    """`low..high step n`: Python's `range(low, high)[::n]`."""
    low, high, step = dim_of(context, node.low), dim_of(context, node.high), _step(context, node)
    context.choose(node.span, step)
    count = high - low
    if count.size < 0 and not count.generic:
        raise Stop(_backward(context, node, low, high))
    return RangeValue(range(low.size, low.size + context.repetitions(count))[::step])


def _backward(context: Context, node: ast.Range, low: Dim, high: Dim) -> Diagnostic:
    text = f"this range runs backward, from {low.full} to {high.full}, so it would be empty"
    problem = context.report.error("WG0308", text, node)
    problem.note("a range counts up from its first number and ends before its second")
    # `T - 1..0` is meant to reach 0; `T - 1..-1`, as in Python, ends before its last number.
    first = high + Dim.literal(1) if high.size < 0 else high
    upward = f"{first}..{low + Dim.literal(1)}"
    step = node.step.span.text if node.step is not None else "-1"
    down = f"{upward} step {step}"
    choice = f"`reversed({upward})` or `{down}`" if step == "-1" else f"`{down}`"
    return problem.help(f"to count down, write {choice}", (node.span, down))


def _step(context: Context, node: ast.Range) -> int:
    if node.step is None:
        return 1
    step = dim_of(context, node.step)
    if step.size == 0:
        text = "the step of a range must not be 0"
        raise Stop(context.report.error("WG0308", text, node.step))
    return step.size


def iterations(context: Context, node: ast.For) -> Sequence[AnyValue]:
    """The values of the loop's name, one for each iteration."""
    value = context.require(context.value(node.iterable))
    sequence = as_sequence(context, value, node.iterable)
    if sequence is None:
        text = f"`for` needs a list, a range or a dim, but this is {describe(value)}"
        raise Stop(context.report.error("WG0308", text, node.iterable))
    count = sequence.count if isinstance(sequence, RangeValue) else len(sequence.items)
    if count > MOST_ITERATIONS:
        limit = f"loops are unrolled, so at most {MOST_ITERATIONS} are allowed"
        text = f"this loop runs {count} times; {limit}"
        raise Stop(context.report.error("WG0308", text, node.iterable))
    context.spend(node.iterable.span, count)
    if isinstance(sequence, RangeValue):
        return [Dim.literal(number) for number in sequence.numbers]
    return sequence.items


MANY = 64


class LoopRounds:
    """Records the nodes of each round of a loop, and warns if many rounds have the same nodes."""

    def __init__(self, context: Context, node: ast.For, items: Sequence[AnyValue]) -> None:
        self.context, self.node, self.items = context, node, items
        self._nodes = context.trace.builder.nodes
        self._starts: list[int] = []

    def begin(self) -> None:
        self._starts.append(len(self._nodes))

    def end(self) -> None:
        """The first round may differ: it gets the values from before the loop."""
        count = len(self._starts)
        # Layers and parameters differ from round to round: only numbers are considered.
        if count <= MANY or self.context.generic or not isinstance(self.items[0], Dim):
            return
        ends = [*self._starts[1:], len(self._nodes)]
        forms = {
            tuple(map(_form, self._nodes[start:end]))
            for start, end in list(zip(self._starts, ends, strict=True))[1:]
        }
        if len(forms) > 1 or not next(iter(forms)):
            return
        text = f"this loop is unrolled: the program has {count} copies of its body"
        problem = self.context.report.warning("WG0905", text, self.node.iterable)
        problem.help(
            "compile the body once, as a function of its state and what it loops over: "
            "`state, ys = scan(body, state, xs)`"
        )


def _form(node: Node) -> tuple[object, ...]:
    return (node.op, *(value.type for value in (*node.inputs, *node.outputs)))
