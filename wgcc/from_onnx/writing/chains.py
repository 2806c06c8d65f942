"""Finds lists of equal blocks that are called one after the other: they become a `for`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from wgcc.from_onnx.values import Part
from wgcc.from_onnx.writing.blocks import Block
from wgcc.from_onnx.writing.inline import Line


@dataclass(frozen=True, slots=True)
class Chain:
    """Equal blocks, each of which gets what the one before it gives, at one place."""

    name: str
    blocks: tuple[Block, ...]
    place: int


def chained(items: Sequence[object], calls: dict[int, str]) -> list[object]:
    found: list[object] = []
    rest = list(items)
    while rest:
        run = _chain(rest, calls)
        if run is None:
            found.append(rest.pop(0))
        else:
            found.append(run)
            del rest[: len(run.blocks)]
    return found


def _chain(items: Sequence[object], calls: dict[int, str]) -> Chain | None:
    """A whole list, called one after the other."""
    run: list[Block] = []
    for item in items:
        expected = f".{len(run)}"
        if not isinstance(item, Block) or not calls[id(item)].endswith(expected):
            break
        if item.loop is not None:
            break
        if len(item.outputs) != 1 or (run and _place(run[-1], item) is None):
            break
        run.append(item)
    if len(run) < 2:
        return None
    name = calls[id(run[0])].removesuffix(".0")
    size = sum(call.rpartition(".")[0] == name for call in calls.values())
    places = {_place(a, b) for a, b in pairwise(run)}
    if size != len(run) or len(places) != 1:
        return None
    used = {part for item in items[len(run) :] for part in item_parts(item)}
    if any(block.outputs[0] in used for block in run[:-1]):
        return None
    return Chain(name, tuple(run), places.pop() or 0)


def _place(before: Block, after: Block) -> int | None:
    """Where the result of one enters the other, if all else is the same."""
    result = before.outputs[0]
    differing = [
        place
        for place, (a, b) in enumerate(zip(before.inputs, after.inputs, strict=True))
        if a is not b
    ]
    if len(differing) == 1 and after.inputs[differing[0]] is result:
        return differing[0]
    return None


def item_parts(item: object) -> Sequence[Part]:
    """What a line or a block reads."""
    if isinstance(item, Block):
        return item.read
    return item.parts if isinstance(item, Line) else ()
