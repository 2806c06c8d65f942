"""The places of persistent tensors, which are parameters and state, for all entries.

Parameters that are updated together are side by side, each on a 256-byte boundary: one dispatch
updates a whole group, and a kernel can bind any single tensor. An arena that one binding cannot
cover is cut into several buffers, between tensors: `params`, `params.1`, …, and the gradients and
moments of the parameters of `params.1` are in `grads.1` and so on. Parameters that no optimizer
updates are in an arena of their own, which no training step writes or copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wgcc.errors import WgError
from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Graph, Node, TensorType
from wgcc.ir.loops import loop_of
from wgcc.ir.places import (
    ALIGNMENT,
    LARGEST,
    MAX_BINDING,
    MIB,
    SCALARS,
    WORD,
    Buffer,
    Buffers,
    Place,
    ceil_div,
    round_up,
)
from wgcc.ir.program import Program
from wgcc.passes.dataflow import Flow, is_update, lists_of, partners

PARAMS, FROZEN, STATE = "params", "frozen", "state"
# Arenas are cut into buffers of at most so many words; a larger tensor has a buffer of its own.
CUT_WORDS = MAX_BINDING // WORD
# Smaller parameters get no f16 copies: these would save nothing worth losing digits for.
LARGE = 1024


def lay_out(program: Program) -> Program:
    """The program with places for every parameter and state tensor.

    What does not fit into WebGPU's buffers is refused before any work is done for it.
    """
    owners: dict[str, str] = {}
    updates: list[list[str]] = []
    for graph in program.entries.values():
        of_graph = partners(graph)
        owners |= {name: owner for name, owner in of_graph.items() if name in program.state}
        updates += [_parameters(node, of_graph) for node in graph.nodes if is_update(node)]
    placing = _Placing(program, owners)
    trained = set[str]().union(*updates)
    for name in _parameter_order(program, updates):
        placing.put_parameter(name, FROZEN if trained and name not in trained else PARAMS)
    placing.put_state()
    check_buffers(program, placing.buffers.with_sizes())
    return replace(program, places=placing.places)


def buffers_of(program: Program) -> Buffers:
    """The buffers that hold the tensors of a program that is laid out."""
    buffers = Buffers()
    for name, place in program.places.items():
        buffers.reserve(place.buffer, _role(name, program), place.offset + place.count)
    return buffers


def beside(arena: str, parameter: Place) -> str:
    """The buffer of another arena for what belongs to a parameter."""
    return arena + parameter.buffer.removeprefix(PARAMS)


def check_buffers(program: Program, buffers: Iterable[Buffer]) -> None:
    for buffer in buffers:
        if buffer.words * WORD > LARGEST:
            raise WgError(_too_large(buffer, program))


def may_be_copied(type_: TensorType) -> bool:
    return type_.dtype == "f32" and type_.size >= LARGE


class _Placing:
    """`owners` says which parameter a state tensor of an optimizer belongs to."""

    def __init__(self, program: Program, owners: Mapping[str, str]) -> None:
        self._program, self._owners = program, owners
        self.buffers = Buffers()
        self.places: dict[str, Place] = {}
        self._cuts: dict[str, int] = {}

    def put_parameter(self, name: str, arena: str) -> None:
        self.places[name] = self._in_arena(arena, "params", self._program.params[name].type)

    def put_state(self) -> None:
        starts = self._arena_starts()
        for name, tensor in self._program.state.items():
            self.places[name] = self._state_place(starts, name, tensor.type)

    def _in_arena(self, arena: str, role: str, type_: TensorType) -> Place:
        """The next place of the last buffer of an arena, or the first of another one."""
        buffer = _buffer_name(arena, self._cuts.get(arena, 0))
        used = self.buffers.end(buffer)
        if used and round_up(used, ALIGNMENT) + type_.words > CUT_WORDS:
            self._cuts[arena] = self._cuts.get(arena, 0) + 1
            buffer = _buffer_name(arena, self._cuts[arena])
        return self.buffers.tensor(buffer, role, type_)

    def _arena_of(self, name: str) -> str:
        """`opt/adam/exp_avg/fc1.w` is stored in the arena `opt/adam/exp_avg`, or a part of it."""
        parameter = self._owners[name]
        return beside(name.removesuffix(f"/{parameter}"), self.places[parameter])

    def _arena_starts(self) -> dict[str, int]:
        """The offset of the first parameter that an arena of moments holds something for."""
        starts: dict[str, int] = {}
        for name, parameter in self._owners.items():
            offset, arena = self.places[parameter].offset, self._arena_of(name)
            starts[arena] = min(starts.get(arena, offset), offset)
        return starts

    def _state_place(self, starts: Mapping[str, int], name: str, type_: TensorType) -> Place:
        parameter = self._owners.get(name)
        if parameter is None:
            if type_.size == 1:
                return self.buffers.tensor(SCALARS, "state", type_)
            return self._in_arena(STATE, "state", type_)
        arena, place = self._arena_of(name), self.places[parameter]
        offset = place.offset - starts[arena]
        self.buffers.reserve(arena, "state", offset + place.count)
        return Place(arena, offset, place.count)


def _role(name: str, program: Program) -> str:
    return "params" if name in program.params else "state"


def _buffer_name(arena: str, cut: int) -> str:
    return f"{arena}.{cut}" if cut else arena


def _parameters(node: Node, owners: Mapping[str, str]) -> list[str]:
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
    copied = _copied_params(program)
    position = {name: i for i, name in enumerate(program.params)}
    late = {name: name not in copied for name in members}
    odd = {n: n in copied and ceil_div(copied[n].words, ALIGNMENT) % 2 for n in members}
    return sorted(members, key=lambda n: (not members[n], members[n], late[n], odd[n], position[n]))


def _copied_params(program: Program) -> dict[str, TensorType]:
    """The parameters that may have f16 copies."""
    if program.precision != F16:
        return {}
    names = set[str]().union(*(_product_operands(graph) for graph in program.entries.values()))
    types = {name: tensor.type for name, tensor in program.params.items() if name in names}
    return {name: type_ for name, type_ in types.items() if may_be_copied(type_)}


def _product_operands(graph: Graph) -> set[str]:
    """The parameters and other sources that products load as they are, also inside loops."""
    flow = Flow.of(graph)
    names = {
        value.name
        for value in graph.sources
        if any(node.op == "matmul" for node in flow.readers(value))
    }
    for loop in (loop for node in graph.nodes if (loop := loop_of(node))):
        inside = _product_operands(loop.body)
        pairs = (*loop.invariants, *loop.sliced)
        names |= {outer.name for outer, inner in pairs if inner.name in inside}
    return names


def _too_large(buffer: Buffer, program: Program) -> str:
    size = buffer.words * WORD / MIB
    sizes = {name: t.type.words for name, t in program.params.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    named = f"; the largest parameters are {', '.join(largest)}" if largest else ""
    return (
        f"{buffer.name} would take {size:.0f} MiB, but a WebGPU buffer holds at most "
        f"{ceil_div(LARGEST, MIB)}{named}"
    )
