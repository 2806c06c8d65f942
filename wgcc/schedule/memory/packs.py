"""Stacks of a loop that are stored side by side, so that a kernel binds all of them as one.

A round of a loop stacks several values, and its gradient reads them again: with a binding for each,
the kernels of a round would need more than there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, TensorType, Value
from wgcc.ir.loops import Loop
from wgcc.ir.places import MAX_BINDING
from wgcc.schedule.codegen.bindings import Part
from wgcc.schedule.kernel import WORD, Place
from wgcc.schedule.memory.halves import LARGE, is_narrow

# Elements: a tensor of halves has an even number of them.
EVEN = 2


@dataclass(slots=True)
class Packs:
    """`fixed` are stacks that have places already; `halves`: large ones are stored as f16."""

    fixed: Set[str] = frozenset()
    halves: bool = False
    members: dict[str, list[Value]] = field(default_factory=dict)
    _pack: dict[str, str] = field(default_factory=dict)
    half_packs: set[str] = field(default_factory=set)

    def of(self, name: str) -> str | None:
        return self._pack.get(name)

    def add(self, loop: Loop, body: Graph, parts: Mapping[str, Part]) -> None:
        """Pack the stacks of a loop, floats of one size of element with each other."""
        for whole, value in zip(loop.stacks, body.outputs.values(), strict=True):
            is_free = whole.name not in self.fixed and whole.name not in parts
            if is_free and whole.dtype == "f32" and whole.type.size > 1:
                self._put(whole, loop, self.halves and _is_half(whole, value, body))

    def places(self, pack: str, place: Place) -> dict[str, Place]:
        """Where each stack is, if the pack is there."""
        found, at = {}, 0
        for whole in self.members[pack]:
            offset = place.offset + (at // EVEN if place.half else at)
            count = _count(whole)
            found[whole.name] = Place(place.buffer, offset, count, place.half, pack=place)
            at += count
        return found

    def value(self, pack: str) -> Value:
        """All stacks of a pack as one."""
        return Value(pack, TensorType((sum(map(_count, self.members[pack])),)))

    def _put(self, whole: Value, loop: Loop, is_half: bool) -> None:
        stem = f"{loop.index.name}.{'halves' if is_half else 'stacks'}"
        number = 0
        while not self._has_room(pack := f"{stem}{number or ''}", whole):
            number += 1
        self.members.setdefault(pack, []).append(whole)
        self._pack[whole.name] = pack
        if is_half:
            self.half_packs.add(pack)

    def _has_room(self, pack: str, whole: Value) -> bool:
        """A kernel binds so much at once; a stack that is larger is alone."""
        held = sum(map(_count, self.members.get(pack, ())))
        return not held or (held + _count(whole)) * WORD <= MAX_BINDING


def _count(whole: Value) -> int:
    return -(-whole.type.size // EVEN) * EVEN


def _is_half(whole: Value, value: Value, body: Graph) -> bool:
    """Large stacks of what rounds compute are f16, not of what they carry."""
    makers = {output.name: node for node in body.nodes for output in node.outputs}
    maker = makers.get(value.name)
    if maker is not None and maker.op == "copy":
        maker = makers.get(maker.inputs[0].name)
    return maker is not None and is_narrow(maker) and whole.type.size >= LARGE


__all__ = ["Packs"]
