"""Warns of `for` loops whose rounds are all alike, and many: `scan` would compile one of them."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import AnyValue
from wgcc.ir.graph import Node
from wgcc.syntax import ast

MANY = 64


class Rounds:
    """What the rounds of a loop append to the graph."""

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
        found = self.context.report.warning("WG0905", text, self.node.iterable)
        found.help(
            "compile the body once, as a function of its state and what it loops over: "
            "`state, ys = scan(body, state, xs)`"
        )


def _form(node: Node) -> tuple[object, ...]:
    return (node.op, *(value.type for value in (*node.inputs, *node.outputs)))
