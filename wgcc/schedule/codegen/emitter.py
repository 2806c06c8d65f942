"""Write WGSL for "this value at these coordinates".

Values in memory are loaded; everything else is computed on the spot from its operands.
Statements go to the loop they vary with: a value that does not depend on the inner variable is
computed once, outside. The emitter knows the kinds of lowering; of single ops only `const`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Index, Variable, indices, linear, variable
from wgcc.ops import OPS
from wgcc.ops.registry import Indirect, Join, Pointwise, Source, View
from wgcc.schedule.codegen.bindings import Bindings, Hoisting, unchanged
from wgcc.schedule.codegen.wgsl import is_literal, literal, wgsl_type, zero


def nothing_hoisted(index: Index, text: str, kind: str = "f32") -> str | None:
    return None


@dataclass(slots=True)
class Scope:
    """A run of statements and the values already computed in it."""

    lines: list[str] = field(default_factory=list)
    known: dict[tuple[str, Coordinates], str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


class Emitter:
    """`at` gives the name of a WGSL variable (or literal) holding a value's element.

    `producers` maps value names to the nodes that may be computed here; a value that is not among
    them is loaded from its place. `hoist` may put an index in terms of what was computed before,
    `loaded` names what was loaded before. `shares`: equal expressions get one name, which is right
    where nothing is assigned to; the elements of a vector have many in common.
    """

    def __init__(self, producers: Mapping[str, Node], bindings: Bindings) -> None:
        self.bindings = bindings
        self.functions: dict[str, None] = {}
        self.outer = Scope()
        self.inner: Scope | None = None
        self.inner_variables: frozenset[Variable] = frozenset()
        self.hoist: Hoisting = unchanged
        self.loaded: Callable[[Index, str, str], str | None] = nothing_hoisted
        self.shares = False
        self._producers = producers
        self._counts: dict[str, int] = {}

    def at(self, value: Value, coordinates: Coordinates) -> str:
        scope = self._scope(coordinates)
        key = (value.name, coordinates)
        if key in self.outer.known:
            return self.outer.known[key]
        if key not in scope.known:
            scope.known[key] = self._make(value, coordinates)
        return scope.known[key]

    def define(self, value: Value, coordinates: Coordinates, text: str) -> None:
        """Say that `text` already holds this element."""
        self._scope(coordinates).known[value.name, coordinates] = text

    def store(self, value: Value, coordinates: Coordinates, text: str) -> str:
        """The statement that stores an element."""
        return self.bindings.store(value, linear(coordinates, value.shape), text)

    def let(self, stem: str, expression: str, coordinates: Coordinates) -> str:
        """Bind an expression to a fresh name in the loop its coordinates belong to."""
        scope = self._scope(coordinates)
        if self.shares and expression in scope.texts:
            return scope.texts[expression]
        name = self.fresh(stem)
        scope.lines.append(f"let {name} = {expression};")
        scope.texts[expression] = name
        return name

    def fresh(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{self._counts[stem]}"

    def rounded_to_f16(self, text: str) -> str:
        self.functions["round_f16"] = None
        return f"wg_round_f16({text})"

    def open_loop(self, variables: frozenset[Variable]) -> Scope:
        self.inner, self.inner_variables = Scope(), variables
        return self.inner

    def close_loop(self) -> None:
        self.inner, self.inner_variables = None, frozenset()

    def _scope(self, coordinates: Coordinates) -> Scope:
        if self.inner is not None and any(
            not self.inner_variables.isdisjoint(c.variables()) for c in coordinates
        ):
            return self.inner
        return self.outer

    def _make(self, value: Value, coordinates: Coordinates) -> str:
        node = self._producers.get(value.name)
        if node is None:
            part = self.bindings.part(value)
            if part is not None and self._is_computed(part.whole):
                return self.at(part.whole, (self.bindings.round(part), *coordinates))
            return self._load(value, coordinates)
        rule = _RULES[type(OPS[node.op].lower)]
        return rule(self, node, coordinates)

    def _is_computed(self, value: Value) -> bool:
        """Is it, or the tensor it is a part of, no tensor in memory but a view of one?"""
        part = self.bindings.part(value)
        return value.name in self._producers or (part is not None and self._is_computed(part.whole))

    def _load(self, value: Value, coordinates: Coordinates) -> str:
        index = linear(coordinates, value.shape)
        vector = self.bindings.vector(value, index)
        if vector is not None:
            bound, number, component = vector
            four = self.loaded(index, self._four(value, bound, number), "vec4f")
            if four is None:
                text = self._four(value, bound, self.hoist(number))
                four = self.let("four", text, coordinates)
            return f"{four}.{COMPONENTS[component]}"
        if wgsl_type(value.dtype) == "f32":
            name = self.loaded(index, self.bindings.load(value, index), "f32")
            if name is not None:
                return name
        return self.let("x", self.bindings.load(value, index, self.hoist), coordinates)

    def _four(self, value: Value, name: str, number: Index | str) -> str:
        """The vector of that number."""
        text = f"{name}[{number if isinstance(number, str) else number.wgsl()}]"
        return f"vec4f({text})" if self.bindings.is_half(value) else text

    def _pointwise(self, node: Node, coordinates: Coordinates) -> str:
        operands = [self.at(v, coordinates) for v in node.inputs]
        lower = OPS[node.op].lower
        assert isinstance(lower, Pointwise)
        if lower.wgsl != "{0}" and all(is_literal(operand) for operand in operands):
            # A constant expression must be finite; what is computed at run time need not.
            operands = [self.let("number", operand, coordinates) for operand in operands]
        if lower.part:
            part = self._once(lower.part, node, operands, coordinates)
            return self._expression(node, lower, operands, coordinates, **{lower.part: part})
        if node.op in PARTS and node.output.dtype == "f32":
            return self._once(node.op, node, operands, coordinates)
        return self._expression(node, lower, operands, coordinates)

    def _once(self, op: str, node: Node, operands: list[str], coordinates: Coordinates) -> str:
        """`op` of a node's only operand, computed once for all nodes that use it; not rounded."""
        key = (f"{op} of {node.inputs[0].name}", coordinates)
        known, lower = self._scope(coordinates).known, OPS[op].lower
        if key not in known:
            assert isinstance(lower, Pointwise)
            assert isinstance(lower.wgsl, str) and isinstance(lower.functions, tuple)
            self.functions.update(dict.fromkeys(lower.functions))
            known[key] = self.let(op, lower.wgsl.format(*operands), coordinates)
        return known[key]

    def _source(self, node: Node, coordinates: Coordinates) -> str:
        if node.op == "const":
            return literal(node.attrs["value"], node.output.dtype)
        lower = OPS[node.op].lower
        assert isinstance(lower, Source)
        operands = [self.at(v, ()) for v in node.inputs]
        position = self.hoist(linear(coordinates, node.output.shape)).wgsl()
        return self._expression(node, lower, operands, coordinates, i=f"({position})")

    def _expression(
        self,
        node: Node,
        lower: Pointwise | Source,
        operands: list[str],
        coordinates: Coordinates,
        **extra: str,
    ) -> str:
        called = lower.functions
        self.functions.update(dict.fromkeys(called(node) if callable(called) else called))
        pattern = lower.wgsl if isinstance(lower.wgsl, str) else lower.wgsl(node)
        text = pattern.format(*operands, **{**node.attrs, **extra})
        dtype = node.output.dtype
        if dtype == "f16":
            text = self.rounded_to_f16(text)
        if dtype == "u8":
            text = f"({text}) & 255u"
        if dtype == "i8":
            text = f"extractBits({text}, 0u, 8u)"
        return self.let(node.op, text, coordinates)

    def _view(self, node: Node, coordinates: Coordinates) -> str:
        lower = OPS[node.op].lower
        assert isinstance(lower, View)
        if lower.inside is None:
            return self.at(node.inputs[0], indices(lower.index(node, coordinates)))
        conditions = [self._condition(*c) for c in lower.inside(node, coordinates)]
        return self._guarded(
            [(" && ".join(c for c in conditions if c), indices(lower.index(node, coordinates)))],
            node.inputs,
            node.output,
            coordinates,
        )

    def _join(self, node: Node, coordinates: Coordinates) -> str:
        axis, start = int(node.attrs["axis"]), 0
        pieces = []
        for value in node.inputs:
            end = start + value.shape[axis]
            place = (*coordinates[:axis], coordinates[axis] - start, *coordinates[axis + 1 :])
            pieces.append((self._condition(start, coordinates[axis], end), place))
            start = end
        return self._guarded(pieces, node.inputs, node.output, coordinates)

    def _guarded(
        self,
        pieces: list[tuple[str, Coordinates]],
        inputs: tuple[Value, ...],
        output: Value,
        coordinates: Coordinates,
    ) -> str:
        """The element of the one piece whose condition holds, else zero."""
        result = zero(output.dtype)
        for (condition, place), value in zip(pieces, inputs, strict=True):
            if not condition:
                result = self.at(value, place)
                continue
            inside = self.let("inside", condition, coordinates)
            found = self._piece(*self._looked_at(value, place), inside, coordinates)
            result = self.let("piece", f"select({result}, {found}, {inside})", coordinates)
        return result

    def _piece(
        self, value: Value, place: Coordinates, inside: str, coordinates: Coordinates
    ) -> str:
        """An element that may not exist: then the first is read, so no load is out of bounds.

        One that this thread has computed itself need not be stored anywhere.
        """
        known = self.outer.known.get((value.name, place))
        if known is not None:
            return known
        if value.name in self._producers or value.type.size == 1:
            extents = zip(place, value.shape, strict=True)
            return self.at(value, tuple(self._safe(c, n, inside, coordinates) for c, n in extents))
        index = linear(place, value.shape)
        vector = self.bindings.vector(value, index)
        if vector is not None:
            bound, number, component = vector
            text = f"select(0u, {self.hoist(number).wgsl()}, {inside})"
            found = self._four(value, bound, self.let("at", text, coordinates))
            return f"{self.let('four', found, coordinates)}.{COMPONENTS[component]}"
        self.bindings.look_at(value, index)
        name = self.let("at", f"select(0u, {self.hoist(index).wgsl()}, {inside})", coordinates)
        text = self.bindings.load(value, variable(name, value.type.size), named=True)
        return self.let("x", text, coordinates)

    def _looked_at(self, value: Value, place: Coordinates) -> tuple[Value, Coordinates]:
        """What is behind views that always have an element."""
        while True:
            node, part = self._producers.get(value.name), self.bindings.part(value)
            lower = OPS[node.op].lower if node is not None else None
            if node is not None and isinstance(lower, View) and lower.inside is None:
                value, place = node.inputs[0], indices(lower.index(node, place))
            elif node is None and part is not None and self._is_computed(part.whole):
                value, place = part.whole, (self.bindings.round(part), *place)
            else:
                return value, place

    def _condition(self, low: int, index: Index, high: int) -> str:
        if index.low >= low and index.high < high:
            return ""
        index.compared()
        if index.low >= low:
            return f"{self.hoist(index).wgsl()} < {high}u"
        if index.high < high:
            return f"{self.hoist(index).wgsl()} >= {low}u"
        # What is below `low` wraps around to a large number.
        return f"{self.hoist(index - low).wgsl()} < {high - low}u"

    def _safe(self, index: Index, extent: int, inside: str, coordinates: Coordinates) -> Index:
        if index.low >= 0 and index.high < extent:
            return index
        name = self.let("at", f"select(0u, {self.hoist(index).wgsl()}, {inside})", coordinates)
        return self._named(name, extent, coordinates)

    def _indirect(self, node: Node, coordinates: Coordinates) -> str:
        lower = OPS[node.op].lower
        assert isinstance(lower, Indirect)
        table, places = node.inputs
        place = indices(lower.at(node, coordinates))
        raw = self.at(places, place)
        limit = lower.limit(node)
        clamped = (
            f"min({raw}, {limit}u)"
            if wgsl_type(places.dtype) == "u32"
            else f"u32(clamp({raw}, 0, {limit}))"
        )
        found = self._named(self.let("row", clamped, place), limit + 1, place)
        return self.at(table, indices(lower.index(node, coordinates, found)))

    def _named(self, name: str, extent: int, coordinates: Coordinates) -> Index:
        """A run-time index; it varies with the inner loop if what it was made from does."""
        index = variable(name, extent)
        if self._scope(coordinates) is not self.outer and extent > 1:
            self.inner_variables |= {Variable(name, extent)}
        return index


_Rule = Callable[[Emitter, Node, Coordinates], str]
_RULES: dict[type, _Rule] = {
    Pointwise: Emitter._pointwise,
    Source: Emitter._source,
    View: Emitter._view,
    Join: Emitter._join,
    Indirect: Emitter._indirect,
}

# Ops that are part of others.
PARTS = {op.lower.part for op in OPS.values() if isinstance(op.lower, Pointwise)} - {""}
# Of a vector.
COMPONENTS = "xyzw"

__all__ = ["COMPONENTS", "Coordinates", "Emitter", "Scope", "nothing_hoisted", "unchanged"]
