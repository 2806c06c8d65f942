"""What is known at compile time about values of a graph under construction: which node defines
them, and which of them have one known number in all elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Indirect, View

Number = float | int | bool
NUMBERS = frozenset(("const", "not_finite"))


class Known:
    def __init__(self) -> None:
        self._producers: dict[str, Node] = {}

    def note(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._producers.update((value.name, node) for value in node.outputs)

    def producer(self, value: Value, op: str) -> Node | None:
        """The node that defines `value`, if it applies `op`."""
        node = self._producers.get(value.name)
        return node if node and node.op == op else None

    def is_number(self, value: Value) -> bool:
        """Whether `value` itself is a scalar known now, not a view of one."""
        node = self._producers.get(value.name)
        return node is not None and node.op in NUMBERS

    def number(self, value: Value) -> Number | None:
        """The number in every element of `value`, if there is one and it is known."""
        node = self._producers.get(value.name)
        while node and _has_only_elements(node):
            node = self._producers.get(node.inputs[0].name)
        if node is None or node.op not in NUMBERS:
            return None
        found: Number = node.attrs["value"]
        return found


def is_plain_view(node: Node) -> bool:
    """Whether the output consists of elements of the only operand, at other indices."""
    op = OPS[node.op]
    return isinstance(op.lower, View) and op.moves_elements and len(node.inputs) == 1


def _has_only_elements(node: Node) -> bool:
    """Whether all elements are some of the first operand, as in a lookup."""
    return is_plain_view(node) or isinstance(OPS[node.op].lower, Indirect)


Rule = Callable[[Builder, Known, Node], Value | None]


def filled(builder: Builder, number: Number, like: Value) -> Value:
    """A tensor of the type of `like`, every element `number`."""
    op = "const" if isfinite(number) else "not_finite"
    scalar = builder.apply(op, value=number, dtype=like.dtype)
    return builder.apply("broadcast", scalar, shape=like.shape) if like.shape else scalar
