"""The buffers of a program while its entries are planned: tensors of all entries come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Constant, Graph
from wgcc.ir.places import Buffers, Place, span
from wgcc.ir.program import Ports, Program, port_keys
from wgcc.passes.dataflow import is_update, lists_of, partners, replaced_by
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


def constant_places(graph: Graph, layout: Layout) -> dict[str, Place]:
    """Constants of equal content share a place, whatever entry they belong to."""
    places = {}
    for constant in graph.constants:
        key = constant_key(constant)
        if key not in layout.places:
            layout.places[key] = layout.buffers.tensor(CONSTANTS, "constant", constant.value.type)
        places[constant.value.name] = layout.places[key]
    return places


def constant_key(constant: Constant) -> str:
    """Names its content; words and bytes are different, even where they are equal bits."""
    unit = "bytes" if constant.value.type.is_packed else "words"
    return f"{CONSTANTS}/{unit}/{constant.words.hex()}"


def arena_places(graph: Graph, layout: Layout, places: dict[str, Place]) -> dict[str, Place]:
    """Gradients are stored in their arena, and what an update makes replaces the old content."""
    owners, places = partners(graph), dict(places)
    for node in graph.nodes:
        if is_update(node):
            for value in lists_of(node).get("g", ()):
                places.setdefault(value.name, layout.gradient(owners[value.name]))
            places |= {new: places[old.name] for new, old in replaced_by(node).items()}
        if node.op == "flat":
            for value in node.inputs:
                places.setdefault(value.name, layout.gradient(owners[value.name]))
            parts = [places[value.name] for value in node.inputs]
            places[node.output.name] = span(parts)
    return places
