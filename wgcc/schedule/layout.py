"""The buffers of a program while its entries are planned: tensors of all entries come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wgcc.ir.places import Buffers, Place
from wgcc.ir.ports import Ports, port_keys
from wgcc.ir.program import Program
from wgcc.passes.lay_out import beside, buffers_of

GRADS, CONSTANTS = "grads", "constants"


@dataclass(slots=True)
class Layout:
    """`ports` names the buffers of inputs and outputs by entry."""

    buffers: Buffers
    ports: Mapping[str, Ports] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Layout:
        return cls(buffers_of(program), port_keys(program), dict(program.places))

    def gradient(self, parameter: str) -> Place:
        place = self.places[parameter]
        buffer = beside(GRADS, place)
        self.buffers.reserve(buffer, "grads", place.offset + place.count)
        return Place(buffer, place.offset, place.count)


def holds_gradients(buffer: str) -> bool:
    return buffer == GRADS or buffer.startswith(f"{GRADS}.")
