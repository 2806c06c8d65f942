"""Loops as `scan`: the head of a body, what it returns, and the call.

A round knows only what it gets: values from outside travel with the states, and stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.from_onnx.values import Member, Part, Value
from wgcc.from_onnx.writing.blocks import Block

# A loop without states has one that nothing uses.
NO_STATE = ("f32", "0.0")


def joined(items: Sequence[str]) -> str:
    """One item, or a tuple."""
    return items[0] if len(items) == 1 else f"({', '.join(items)})"


def carried(block: Block) -> list[Value | Member]:
    """What goes from round to round: the states, and what comes from outside."""
    assert block.loop is not None and block.loop.body is not None
    return [*block.loop.body.states, *block.inputs]


class RoundText:
    """The body of a loop as a function: names are those that the writer gave its values."""

    def __init__(
        self,
        block: Block,
        name: Callable[[Value | Member], str],
        type_text: Callable[[Value | Member], str],
        fresh: Callable[[str], str],
    ) -> None:
        assert block.loop is not None and block.loop.body is not None
        self.block, self.body = block, block.loop.body
        self.name, self.type_text = name, type_text
        self.unpacked: list[str] = []
        self.state = self._argument("carry", carried(block), fresh)
        self.item = self._argument("items", self.body.items, fresh)

    def _argument(
        self, name: str, parts: Sequence[Value | Member], fresh: Callable[[str], str]
    ) -> str:
        """The name of an argument; several parts are unpacked in the first lines."""
        if len(parts) == 1:
            return self.name(parts[0])
        found = fresh(name)
        if parts:
            self.unpacked.append(f"{', '.join(map(self.name, parts))} = {found}")
        return found

    @property
    def arguments(self) -> str:
        states = self._types(carried(self.block)) or [NO_STATE[0]]
        items = self._types(self.body.items)
        return f"{self.state}: {joined(states)}, {self.item}: {joined(items)}"

    @property
    def result(self) -> str:
        states = [*self._types(self.body.after), *self._types(self.block.inputs)] or [NO_STATE[0]]
        results = self._types(self.body.results) or states[:1]
        return f"({joined(states)}, {joined(results)})"

    def returned(self) -> str:
        """The next state and the results; a loop without results returns a state again."""
        parts = [*self.body.after, *self.block.inputs]
        states = [self.name(part) for part in parts] or [self.state]
        results = [self.name(value) for value in self.body.results] or states[:1]
        return f"{joined(states)}, {joined(results)}"

    def _types(self, parts: Sequence[Value | Member]) -> list[str]:
        return [self.type_text(part) for part in parts]


def call_text(
    block: Block, body: str, name: Callable[[Part], str], bind: Callable[[Value], str]
) -> str:
    """`(h, c), ys = scan(body, (h0, c0), xs)`"""
    loop = block.loop
    assert loop is not None and loop.body is not None
    count = len(loop.body.states)
    starts = [name(part) for part in (*loop.parts[:count], *block.inputs)] or [NO_STATE[1]]
    over = joined([name(part) for part in loop.parts[count:]])
    states = [bind(value) for value in loop.outputs[:count]] + ["_"] * len(block.inputs) or ["_"]
    results = [bind(value) for value in loop.outputs[count:]] or ["_"]
    targets = f"{joined(states)}, {joined(results)}"
    return f"{targets} = scan({body}, {joined(starts)}, {over}{loop.text})"
