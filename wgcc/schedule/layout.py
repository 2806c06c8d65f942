"""Where persistent tensors are stored: parameters, gradients, moments, state; for all entries.

Parameters that are updated together are side by side, each on a 256-byte boundary: one dispatch
updates a whole group, and a kernel can bind any single tensor. An arena that one binding cannot
cover is cut into several buffers, between tensors: `params`, `params.1`, …, and the gradients and
moments of the parameters of `params.1` are in `grads.1` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Node, TensorType
from wgcc.ir.ports import Ports, port_keys
from wgcc.ir.program import Program
from wgcc.schedule.codegen.bindings import SCALARS
from wgcc.schedule.kernel import ALIGNMENT, WORD, Buffer, Place
from wgcc.schedule.limits import MAX_BINDING, check_buffers
from wgcc.schedule.multiplied import may_be_copied, multiplied
from wgcc.schedule.updates import is_update, lists_of, partners

PARAMS, GRADS, STATE, CONSTANTS = "params", "grads", "state", "constants"
# Arenas are cut into buffers of at most so many words; a larger tensor has a buffer of its own.
CUT_WORDS = MAX_BINDING // WORD


@dataclass(slots=True)
class Layout:
    """Grows while entries are laid out; `buffers()` gives the sizes at the end.

    `ports` names the buffers of inputs and outputs by entry; `partners` says which parameter a
    state tensor of an optimizer belongs to.
    """

    ports: Mapping[str, Ports] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    partners: dict[str, str] = field(default_factory=dict)
    _cuts: dict[str, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)
    _roles: dict[str, str] = field(default_factory=dict)

    def append(self, buffer: str, role: str, words: int, in_bytes: bool = False) -> Place:
        """The next place of a buffer; its start is aligned for binding, unless it is a scalar's."""
        step = 1 if buffer == SCALARS else ALIGNMENT
        start = -(-self._ends.get(buffer, 0) // step) * step
        self.reserve(buffer, role, start + words)
        return Place(buffer, start, words, in_bytes=in_bytes)

    def tensor(self, buffer: str, role: str, type_: TensorType) -> Place:
        """The next place of a buffer, for a tensor that callers see."""
        return self.append(buffer, role, type_.words, type_.is_packed)

    def in_arena(self, arena: str, role: str, type_: TensorType) -> Place:
        """The next place of the last buffer of an arena, or the first of another one."""
        buffer = _numbered(arena, self._cuts.get(arena, 0))
        used = self._ends.get(buffer, 0)
        if used and -(-used // ALIGNMENT) * ALIGNMENT + type_.words > CUT_WORDS:
            self._cuts[arena] = self._cuts.get(arena, 0) + 1
            buffer = _numbered(arena, self._cuts[arena])
        return self.tensor(buffer, role, type_)

    def reserve(self, buffer: str, role: str, words: int) -> None:
        """Make a buffer at least this long."""
        self._roles.setdefault(buffer, role)
        self._ends[buffer] = max(self._ends.get(buffer, 0), words)

    def words(self, buffer: str) -> int:
        """Buffers end on 16 bytes, so that they can be copied and bound whole."""
        return -(-max(self._ends.get(buffer, 0), 4) // 4) * 4

    def buffers(self) -> list[Buffer]:
        return [Buffer(name, self.words(name), role) for name, role in self._roles.items()]

    def gradient(self, parameter: str) -> Place:
        place = self.places[parameter]
        buffer = beside(GRADS, place)
        self.reserve(buffer, "grads", place.offset + place.count)
        return Place(buffer, place.offset, place.count)


def beside(arena: str, parameter: Place) -> str:
    """The buffer of another arena for what belongs to a parameter."""
    return arena + parameter.buffer.removeprefix(PARAMS)


def holds_gradients(buffer: str) -> bool:
    return buffer == GRADS or buffer.startswith(f"{GRADS}.")


def _numbered(arena: str, cut: int) -> str:
    return f"{arena}.{cut}" if cut else arena


def lay_out(program: Program) -> Layout:
    """Places for every parameter and state tensor of a program.

    What does not fit into WebGPU's buffers is refused before any work is done for it.
    """
    layout = Layout(port_keys(program))
    updates: list[list[str]] = []
    for graph in program.entries.values():
        owners = partners(graph.nodes)
        layout.partners |= {n: p for n, p in owners.items() if n in program.state}
        updates += [_parameters(node, owners) for node in graph.nodes if is_update(node)]
    for name in _parameter_order(program, updates):
        layout.places[name] = layout.in_arena(PARAMS, "params", program.params[name].type)
    starts = _arena_starts(layout)
    for name, tensor in program.state.items():
        layout.places[name] = _state_place(layout, starts, name, tensor.type)
    check_buffers(program, layout.buffers())
    return layout


def _parameters(node: Node, owners: dict[str, str]) -> list[str]:
    return [owners[value.name] for value in next(iter(lists_of(node).values()))]


def _parameter_order(program: Program, updates: list[list[str]]) -> list[str]:
    """Trained parameters first, those with the same updates side by side.

    Of these, those with copies come first, as many as possible on boundaries where copies, which
    are half as long, can be bound.
    """
    members: dict[str, list[int]] = {name: [] for name in program.params}
    for number, update in enumerate(updates):
        for name in update:
            members[name].append(number)
    copied = _copied(program)
    position = {name: i for i, name in enumerate(program.params)}
    late = {name: name not in copied for name in members}
    odd = {n: n in copied and -(-copied[n].words // ALIGNMENT) % 2 for n in members}
    return sorted(members, key=lambda n: (not members[n], members[n], late[n], odd[n], position[n]))


def _copied(program: Program) -> dict[str, TensorType]:
    """The parameters that may have f16 copies."""
    if program.precision != "f16":
        return {}
    found = set[str]().union(*(multiplied(graph) for graph in program.entries.values()))
    types = {name: tensor.type for name, tensor in program.params.items() if name in found}
    return {name: type_ for name, type_ in types.items() if may_be_copied(type_)}


def _arena(layout: Layout, name: str) -> str:
    """`opt/adam/exp_avg/fc1.w` is stored in the arena `opt/adam/exp_avg`, or in a part of it."""
    parameter = layout.partners[name]
    return beside(name.removesuffix(f"/{parameter}"), layout.places[parameter])


def _arena_starts(layout: Layout) -> dict[str, int]:
    """The offset of the first parameter that an arena of moments holds something for."""
    starts: dict[str, int] = {}
    for name, parameter in layout.partners.items():
        offset, arena = layout.places[parameter].offset, _arena(layout, name)
        starts[arena] = min(starts.get(arena, offset), offset)
    return starts


def _state_place(layout: Layout, starts: dict[str, int], name: str, type_: TensorType) -> Place:
    parameter = layout.partners.get(name)
    if parameter is None:
        if type_.size == 1:
            return layout.tensor(SCALARS, "state", type_)
        return layout.in_arena(STATE, "state", type_)
    arena, place = _arena(layout, name), layout.places[parameter]
    offset = place.offset - starts[arena]
    layout.reserve(arena, "state", offset + place.count)
    return Place(arena, offset, place.count)
