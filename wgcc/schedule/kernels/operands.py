"""The functions that load elements of a matrix operand, whatever they are computed from.

An operand is loaded along the axis on which its elements are side by side in memory: four at once,
as a vector, where the sizes allow that. What depends on one side of the loop only, divisions and
loads, is hoisted out of it: an operand that is a view of an image finds its pixel by divisions, of
which those of the row are the same along the whole inner axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import (
    Atom,
    Coordinates,
    Index,
    Quotient,
    Remainder,
    Variable,
    constant,
    variable,
)
from wgcc.kernel.build import member
from wgcc.kernel.tree import Call, Declaration, Expr, FunctionDef, Member, Return, Struct
from wgcc.passes.dataflow import moves
from wgcc.passes.lay_out import may_be_copied
from wgcc.schedule.codegen.bindings import Parts, Touch, expr_of, identity
from wgcc.schedule.codegen.emitter import COMPONENTS, CodeScope, Emitter, nothing_hoisted
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import VECTOR, Place
from wgcc.schedule.kernels.context import GroupContext

INNER = "k"
# Lanes of a subgroup, elements in a sector of memory, and a tile, for choosing an axis.
LANES, SECTOR, TILE, TILE_DEPTH = 32, 8, 32, 16


@dataclass(frozen=True, slots=True)
class Operand:
    """`name(arguments)` gives its element; `side` is what its own axis counts, a row or a column.

    Arguments are (letter, extent), with `k` for the inner axis. `fast`: the letter of the axis on
    which neighbours are loaded; `vector`: as vectors of four, numbered by `k4` instead of `k`.
    """

    name: str
    side: str
    value: Value
    arguments: tuple[tuple[str, int], ...]
    fast: str = INNER
    vector: bool = False

    @property
    def own(self) -> str:
        """The letter of its own axis."""
        return next(letter for letter, _ in self.arguments if letter not in (INNER, "z"))

    def extent(self, letter: str) -> int:
        return dict(self.arguments)[letter]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The loading function's parameters: positions of elements or, on one axis, of vectors."""
        return tuple(
            f"{letter}{VECTOR}" if self.vector and letter == self.fast else letter
            for letter, _ in self.arguments
        )

    def at(self, component: int) -> Coordinates:
        """The coordinates of an element of a vector, in terms of the parameters."""
        coordinates = []
        for letter, extent in self.arguments[-len(self.value.shape) :]:
            if self.vector and letter == self.fast:
                whole = variable(f"{letter}{VECTOR}", extent // VECTOR)
                coordinates.append(whole * VECTOR + component)
            else:
                coordinates.append(variable(letter, extent))
        return tuple(coordinates)


def orient(operand: Operand, context: GroupContext) -> Operand:
    """The operand with the axis along which it is loaded best."""
    for letter in (operand.own, INNER):
        if operand.extent(letter) % VECTOR == 0:
            along = replace(operand, fast=letter, vector=True)
            if _is_loaded_by_vectors(along, context):
                return along
    positions = [touch.position for touch in touched_by(operand, context)]
    sectors = {letter: _sectors(operand, positions, letter) for letter in (operand.own, INNER)}
    return replace(operand, fast=min(sectors, key=lambda letter: sectors[letter]))


def touched_by(operand: Operand, context: GroupContext) -> list[Touch]:
    """The elements that loading it touches; good for no code."""
    bindings = context.bindings()
    trial = Emitter(context.inlined, bindings)
    trial.shares = True
    for component in range(VECTOR if operand.vector else 1):
        trial.at(operand.value, operand.at(component))
    return bindings.touched


def streamed_by(operand: Operand, context: GroupContext) -> set[Place]:
    """The regions in which it reads other elements along the axis on which it is loaded."""
    return _streamed_regions(operand, touched_by(operand, context))


def _streamed_regions(operand: Operand, touched: Sequence[Touch]) -> set[Place]:
    name = f"{operand.fast}{VECTOR}" if operand.vector else operand.fast
    return {t.region for t in touched if name in {v.name for v in t.position.variables()}}


def vector_regions(touched: Sequence[Touch]) -> set[Place]:
    """The regions all of whose elements are reached as parts of vectors."""
    return {t.region for t in touched} - {t.region for t in touched if not t.may_be_vector}


def _is_loaded_by_vectors(operand: Operand, context: GroupContext) -> bool:
    touched = touched_by(operand, context)
    streamed = _streamed_regions(operand, touched)
    return bool(streamed) and streamed <= vector_regions(touched)


def _sectors(operand: Operand, positions: list[Index], fast: str) -> tuple[int, int]:
    """Sectors that a subgroup touches if its lanes follow an axis first; ties go to its own."""
    slow = operand.own if fast == INNER else INNER
    length = min(TILE_DEPTH if fast == INNER else TILE, operand.extent(fast))
    total = 0
    for position in positions:
        sectors = set()
        for lane in range(LANES):
            place = {fast: lane % length, slow: min(lane // length, operand.extent(slow) - 1)}
            at = {v: constant(place.get(v.name, 0)) for v in position.variables()}
            sectors.add(position.substitute(at).offset // SECTOR)
        total += len(sectors)
    return total, int(fast == INNER)


Loader = tuple[tuple[Declaration, ...], bool]


def write_loader(operand: Operand, context: GroupContext, emitter: Emitter) -> Loader:
    """The loading function, and whether its arguments are `NAME_side(…)` and `NAME_step(k)`."""
    inner = (INNER, f"{INNER}{VECTOR}")
    own = tuple(name for name in operand.parameters if name not in inner)
    step = tuple(name for name in operand.parameters if name in inner)
    sides = {operand.side: own, "step": step}
    if not _try_hoisting(operand, context, Hoist(sides), emitter.bindings.vectors).saves:
        return write_plain_loader(operand, context, emitter)
    hoist = Hoist(sides)
    emitter.hoist, emitter.hoist_load = hoist, hoist.hoist_load
    parameters = ", ".join(f"{side}: {hoist.struct(operand.name, side)}" for side in sides)
    load = _loader(operand, parameters, emitter)
    emitter.hoist, emitter.hoist_load = identity, nothing_hoisted
    return (*hoist.functions(operand.name), *load), True


def write_plain_loader(operand: Operand, context: GroupContext, emitter: Emitter) -> Loader:
    """The loading function, of plain coordinates."""
    parameters = ", ".join(f"{name}: u32" for name in operand.parameters)
    return _loader(operand, parameters, emitter), False


def _try_hoisting(
    operand: Operand, context: GroupContext, hoist: Hoist, vectors: Set[Place]
) -> Hoist:
    """Shows what could be hoisted; good for no code, because buffers have other names here."""
    trial = Emitter(context.inlined, context.bindings(vectors))
    trial.hoist, trial.hoist_load = hoist, hoist.hoist_load
    _loader(operand, "", trial)
    return hoist


def _loader(operand: Operand, parameters: str, emitter: Emitter) -> tuple[Declaration, ...]:
    emitter.outer = CodeScope()
    emitter.shares = operand.vector
    count = VECTOR if operand.vector else 1
    parts = [emitter.at(operand.value, operand.at(component)) for component in range(count)]
    emitter.shares = False
    kind = "vec4f" if operand.vector else "f32"
    signature = f"{operand.name}({parameters}) -> {kind}"
    return emitter.function(signature, Return(vector_of(parts)))


def vector_of(parts: list[Expr]) -> Expr:
    """`vec4f(a, b, c, d)`, or `v` for `v.x`, `v.y`, `v.z`, `v.w`."""
    match parts:
        case [only]:
            return only
        case [Member(whole, _), *_] if parts == [Member(whole, field) for field in COMPONENTS]:
            return whole
    return Call("vec4<f32>", tuple(parts))


Inlined = Mapping[str, Node]


def loaded_weights(
    group: Group, params: Mapping[str, Value], inlined: Inlined, parts: Parts
) -> set[str]:
    """Large parameters that a product loads as they are, and uses in no other way."""
    if group.roots[0].op != "matmul":
        return set()
    ways = set(_reads(group, inlined, parts))
    as_operands = {name for name, moved in ways if moved and name in params}
    large = {name for name in as_operands if may_be_copied(params[name].type)}
    return large - {name for name, moved in ways if not moved}


def _reads(group: Group, inlined: Inlined, parts: Parts) -> Iterator[tuple[str, bool]]:
    """The values it reads, and whether each is an operand of the product as it is."""
    pending = [(value, i == 0) for i, root in enumerate(group.roots) for value in root.inputs]
    seen = {(name, moved) for name in group.names for moved in (True, False)}
    while pending:
        value, moved = pending.pop()
        if (value.name, moved) in seen:
            continue
        seen.add((value.name, moved))
        node, part = inlined.get(value.name), parts.get(value.name)
        if node is not None:
            pending += [(operand, moved and moves(node)) for operand in node.inputs]
        elif part is not None:
            pending.append((part.whole, moved))
        else:
            yield value.name, moved


class Hoist:
    """Called with an index, gives it in terms of hoisted parts.

    `sides` are (name, variables); the parts of a side become fields of a struct of that name. What
    mixes both sides stays what it is.
    """

    def __init__(self, sides: Mapping[str, tuple[str, ...]]) -> None:
        self._sides = sides
        self._parts: dict[str, dict[Index, str]] = {side: {} for side in sides}
        self._loads: dict[str, dict[Expr, tuple[str, str]]] = {side: {} for side in sides}

    def __call__(self, index: Index) -> Index:
        shares: dict[tuple[str, int], list[tuple[Atom, int]]] = {}
        rest: list[tuple[Atom, int]] = []
        for atom, factor in index.terms:
            side, sign = self._side(atom), 1 if factor > 0 else -1
            if side is None:
                rest.append((self._through(atom), factor))
            else:
                shares.setdefault((side, sign), []).append((atom, abs(factor)))
        named = [(self._part(side, Index(tuple(s))), sign) for (side, sign), s in shares.items()]
        return Index((*named, *rest), index.offset)

    def hoist_load(self, index: Index, load: Expr, kind: str) -> Expr | None:
        """Hoists a load into a field and gives that, if the index depends on one side only."""
        names = {variable.name for variable in index.variables()}
        side = next((side for side, own in self._sides.items() if names <= set(own)), None)
        if side is None or not names:
            return None
        field, _ = self._loads[side].setdefault(load, (f"v{len(self._loads[side])}", kind))
        return member(f"{side}.{field}")

    @property
    def saves(self) -> bool:
        """Whether both sides have something, and some of it takes a division or a load."""
        parts = [part for parts in self._parts.values() for part in parts]
        divisions = any(not isinstance(atom, Variable) for part in parts for atom, _ in part.terms)
        loads = any(self._loads.values())
        return (divisions or loads) and all(map(self._has_fields, self._sides))

    def _has_fields(self, side: str) -> bool:
        return bool(self._parts[side] or self._loads[side])

    def functions(self, name: str) -> list[Declaration]:
        """For each side a struct and the function that fills it: `NAME_SIDE(variables)`."""
        return [part for side in self._sides for part in self._function(name, side)]

    def struct(self, name: str, side: str) -> str:
        return f"{name}_{side}".title().replace("_", "")

    def _function(self, name: str, side: str) -> tuple[Declaration, Declaration]:
        struct, parts, loads = self.struct(name, side), self._parts[side], self._loads[side]
        fields = (*((field, "u32") for field in parts.values()), *loads.values())
        values = Call(struct, (*map(expr_of, parts), *loads), tall=True)
        arguments = tuple((variable, "u32") for variable in self._sides[side])
        function = FunctionDef(f"{name}_{side}", arguments, struct, (Return(values),))
        return Struct(struct, fields), function

    def _side(self, atom: Atom) -> str | None:
        names = {v.name for v in Index(((atom, 1),)).variables()}
        return next((side for side, own in self._sides.items() if names <= set(own)), None)

    def _part(self, side: str, part: Index) -> Variable:
        field = self._parts[side].setdefault(part, f"p{len(self._parts[side])}")
        return Variable(f"{side}.{field}", 2)

    def _through(self, atom: Atom) -> Atom:
        if isinstance(atom, Variable):
            return atom
        kind = Quotient if isinstance(atom, Quotient) else Remainder
        return kind(self(atom.dividend.require_small()), atom.divisor)
