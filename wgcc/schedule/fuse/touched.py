"""What nodes read from memory, seen through what is computed on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wgcc.ir.graph import Node


class Touched:
    """Called with a node, gives the names of what it reads from memory.

    That is seen through what is computed on the way, which is `inlined`.
    """

    def __init__(self, inlined: Mapping[str, Node]) -> None:
        self._inlined = inlined
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, node: Node) -> frozenset[str]:
        name = node.outputs[0].name
        if name not in self._known:
            below = _below(node, self._inlined)
            self._known[name] = frozenset(n for n in below if n not in self._inlined)
        return self._known[name]


def _below(node: Node, inlined: Mapping[str, Node]) -> Iterator[str]:
    """The names of all values that a node is computed from, down to what is stored."""
    pending, seen = list(node.inputs), set()
    while pending:
        value = pending.pop()
        if value.name not in seen:
            seen.add(value.name)
            yield value.name
            producer = inlined.get(value.name)
            pending.extend(producer.inputs if producer else ())
