"""Finds blocks that are the same but for their numbers: they become one layer, used many times."""

from __future__ import annotations

from collections.abc import Hashable

from wgcc.from_onnx.values import Member, Value
from wgcc.from_onnx.writing.blocks import Block


def signature(block: Block) -> Hashable:
    """Equal for blocks that compute the same from the same kinds of parameters."""
    numbers: dict[Value | Member, int] = {}

    def number(part: object) -> object:
        if isinstance(part, Value | Member):
            return numbers.setdefault(part, len(numbers))
        return part

    def kind(part: Value | Member) -> Hashable:
        if isinstance(part, Member):
            return part.kind
        return (part.dtype, part.stored_shape)

    heads = tuple((number(part), kind(part)) for part in (*block.inputs, *block.given))
    lines: list[Hashable] = []
    for item in block.body:
        if isinstance(item, Block):
            ports = tuple(number(part) for part in (*item.read, *item.outputs))
            options = item.loop.text if item.loop else ""
            lines.append((signature(item), ports, options))
        else:
            held = tuple(kind(part) for part in item.parts if isinstance(part, Member))
            results = tuple((number(value), kind(value)) for value in item.outputs)
            lines.append(
                (item.text, item.targets, tuple(number(part) for part in item.parts), held, results)
            )
    members = tuple((number(member), member.kind) for member in block.members)
    return heads, tuple(lines), members, tuple(number(value) for value in block.returned)
