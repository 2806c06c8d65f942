"""Builds the expression of "this value at these coordinates".

Values in memory are loaded; everything else is computed on the spot from its operands.
Statements go to the loop they vary with: a value that does not depend on the inner variable is
computed once, outside. The emitter knows the kinds of lowering; of single ops only `const`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wgcc.ir.dtypes import F16, INTEGER_RANGES, NARROW_INTEGERS
from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Index, Variable, indices, linear, variable
from wgcc.kernel.build import all_of, functions, in_parens, let, pattern, select, u32
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Declaration,
    Element,
    Expr,
    Member,
    Name,
    Return,
    Statement,
)
from wgcc.ops import OPS
from wgcc.ops.registry import FromIndex, Helper, Indirect, Join, Pointwise, View, wgsl_type
from wgcc.schedule.codegen.bindings import (
    Bindings,
    Hoisting,
    clamp_index,
    expr_of,
    identity,
    is_number,
    number,
    zero,
)


def nothing_hoisted(index: Index, load: Expr, kind: str = "f32") -> Expr | None:
    return None


@dataclass(slots=True)
class CodeScope:
    """A run of statements and the values already computed in it."""

    body: list[Statement] = field(default_factory=list)
    known: dict[tuple[str, Coordinates], Expr] = field(default_factory=dict)
    names: dict[Expr, Name] = field(default_factory=dict)


class Emitter:
    """`at` gives the name (or number) that holds a value's element.

    `producers` maps value names to the nodes that may be computed here; a value that is not among
    them is loaded from its place. `hoist` may put an index in terms of what was computed before,
    `loaded` names what was loaded before. `shares`: equal expressions get one name, which is right
    where nothing is assigned to; the elements of a vector have many in common.
    """

    def __init__(self, producers: Mapping[str, Node], bindings: Bindings) -> None:
        self.bindings = bindings
        self.functions: dict[Helper, None] = {}
        self.outer = CodeScope()
        self.inner: CodeScope | None = None
        self.inner_variables: frozenset[Variable] = frozenset()
        self.hoist: Hoisting = identity
        self.hoist_load: Callable[[Index, Expr, str], Expr | None] = nothing_hoisted
        self.shares = False
        self._producers = producers
        self._counts: dict[str, int] = {}

    def at(self, value: Value, coordinates: Coordinates) -> Expr:
        scope = self._scope(coordinates)
        key = (value.name, coordinates)
        if key in self.outer.known:
            return self.outer.known[key]
        if key not in scope.known:
            scope.known[key] = self._make(value, coordinates)
        return scope.known[key]

    def define(self, value: Value, coordinates: Coordinates, element: Expr) -> None:
        """Say that `element` already holds it."""
        self._scope(coordinates).known[value.name, coordinates] = element

    def store(self, value: Value, coordinates: Coordinates, element: Expr) -> Assign:
        """The statement that stores an element."""
        return self.bindings.store(value, linear(coordinates, value.shape), element)

    def let(self, stem: str, value: Expr, coordinates: Coordinates) -> Name:
        """Bind an expression to a fresh name in the loop its coordinates belong to."""
        scope = self._scope(coordinates)
        if self.shares and value in scope.names:
            return scope.names[value]
        name = self.fresh(stem)
        scope.body.append(let(name, value))
        scope.names[value] = Name(name)
        return Name(name)

    def fresh(self, stem: str) -> str:
        self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{self._counts[stem]}"

    def rounded_to_f16(self, element: Expr) -> Expr:
        self.functions["round_f16"] = None
        return Call("wg_round_f16", (element,))

    def function(self, signature: str, *last: Statement) -> tuple[Declaration, ...]:
        """A function of what was computed since the one before, and some statements."""
        body, self.outer = (*self.outer.body, *last), CodeScope()
        return functions(f"fn {signature} {{ BODY(); }}", BODY=body)

    def reader(
        self, signature: str, value: Value, coordinates: Coordinates
    ) -> tuple[Declaration, ...]:
        """A function that returns an element."""
        self.outer = CodeScope()
        return self.function(signature, Return(self.at(value, coordinates)))

    def open_loop(self, variables: frozenset[Variable]) -> CodeScope:
        self.inner, self.inner_variables = CodeScope(), variables
        return self.inner

    def close_loop(self) -> None:
        self.inner, self.inner_variables = None, frozenset()

    def _scope(self, coordinates: Coordinates) -> CodeScope:
        if self.inner is not None and any(
            not self.inner_variables.isdisjoint(c.variables()) for c in coordinates
        ):
            return self.inner
        return self.outer

    def _make(self, value: Value, coordinates: Coordinates) -> Expr:
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

    def _load(self, value: Value, coordinates: Coordinates) -> Expr:
        index = linear(coordinates, value.shape)
        vector = self.bindings.vector(value, index)
        if vector is not None:
            bound, place, component = vector
            four = self.hoist_load(index, self._four(value, bound, expr_of(place)), "vec4<f32>")
            if four is None:
                load = self._four(value, bound, expr_of(self.hoist(place)))
                four = self.let("four", load, coordinates)
            return Member(four, COMPONENTS[component])
        if wgsl_type(value.dtype) == "f32":
            hoisted = self.hoist_load(index, self.bindings.load(value, index), "f32")
            if hoisted is not None:
                return hoisted
        return self.let("x", self.bindings.load(value, index, self.hoist), coordinates)

    def _four(self, value: Value, name: str, place: Expr) -> Expr:
        """The vector of that number."""
        vector = Element(Name(name), place)
        return Call("vec4<f32>", (vector,)) if self.bindings.is_half(value) else vector

    def _pointwise(self, node: Node, coordinates: Coordinates) -> Expr:
        operands = [self.at(v, coordinates) for v in node.inputs]
        lower = OPS[node.op].lower
        assert isinstance(lower, Pointwise)
        if lower.wgsl != "{0}" and all(map(is_number, operands)):
            # A constant expression must be finite; what is computed at run time need not.
            operands = [self.let("number", operand, coordinates) for operand in operands]
        if lower.part:
            part = self._once(lower.part, node, operands, coordinates)
            return self._expression(node, lower, operands, coordinates, **{lower.part: part})
        if node.op in PARTS and node.output.dtype == "f32":
            return self._once(node.op, node, operands, coordinates)
        return self._expression(node, lower, operands, coordinates)

    def _once(self, op: str, node: Node, operands: list[Expr], coordinates: Coordinates) -> Expr:
        """`op` of a node's only operand, computed once for all nodes that use it; not rounded."""
        key = (f"{op} of {node.inputs[0].name}", coordinates)
        known, lower = self._scope(coordinates).known, OPS[op].lower
        if key not in known:
            assert isinstance(lower, Pointwise)
            assert isinstance(lower.wgsl, str) and isinstance(lower.functions, tuple)
            self.functions.update(dict.fromkeys(lower.functions))
            known[key] = self.let(op, pattern(lower.wgsl, *operands), coordinates)
        return known[key]

    def _source(self, node: Node, coordinates: Coordinates) -> Expr:
        if node.op == "const":
            return number(node.attrs["value"], node.output.dtype)
        lower = OPS[node.op].lower
        assert isinstance(lower, FromIndex)
        operands = [self.at(v, ()) for v in node.inputs]
        position = expr_of(self.hoist(linear(coordinates, node.output.shape)))
        return self._expression(node, lower, operands, coordinates, i=in_parens(position))

    def _expression(
        self,
        node: Node,
        lower: Pointwise | FromIndex,
        operands: list[Expr],
        coordinates: Coordinates,
        **named: Expr,
    ) -> Expr:
        called = lower.functions
        self.functions.update(dict.fromkeys(called(node) if callable(called) else called))
        text = lower.wgsl if isinstance(lower.wgsl, str) else lower.wgsl(node)
        value = pattern(text, *operands, **named)
        dtype = node.output.dtype
        if dtype == F16:
            value = self.rounded_to_f16(value)
        if dtype in NARROW_INTEGERS:
            low, high = INTEGER_RANGES[dtype]
            bits = u32((high - low).bit_length())
            wrapped = Call("extractBits", (value, u32(0), bits))
            value = wrapped if low < 0 else Binary("&", in_parens(value), u32(high))
        return self.let(node.op, value, coordinates)

    def _view(self, node: Node, coordinates: Coordinates) -> Expr:
        lower = OPS[node.op].lower
        assert isinstance(lower, View)
        if lower.inside is None:
            return self.at(node.inputs[0], indices(lower.index(node, coordinates)))
        conditions = [self._condition(*c) for c in lower.inside(node, coordinates)]
        return self._select_piece(
            [(all_of(conditions), indices(lower.index(node, coordinates)))],
            node.inputs,
            node.output,
            coordinates,
        )

    def _join(self, node: Node, coordinates: Coordinates) -> Expr:
        axis, start = int(node.attrs["axis"]), 0
        pieces = []
        for value in node.inputs:
            end = start + value.shape[axis]
            place = (*coordinates[:axis], coordinates[axis] - start, *coordinates[axis + 1 :])
            pieces.append((self._condition(start, coordinates[axis], end), place))
            start = end
        return self._select_piece(pieces, node.inputs, node.output, coordinates)

    def _select_piece(
        self,
        pieces: list[tuple[Expr | None, Coordinates]],
        inputs: tuple[Value, ...],
        output: Value,
        coordinates: Coordinates,
    ) -> Expr:
        """The element of the one piece whose condition holds, else zero."""
        result = zero(output.dtype)
        for (condition, place), value in zip(pieces, inputs, strict=True):
            if condition is None:
                result = self.at(value, place)
                continue
            inside = self.let("inside", condition, coordinates)
            piece = self._piece(*self._looked_at(value, place), inside, coordinates)
            result = self.let("piece", select(result, piece, inside), coordinates)
        return result

    def _piece(
        self, value: Value, place: Coordinates, inside: Expr, coordinates: Coordinates
    ) -> Expr:
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
            bound, row, component = vector
            load = self._four(value, bound, self._first_unless(inside, row, coordinates))
            return Member(self.let("four", load, coordinates), COMPONENTS[component])
        self.bindings.look_at(value, index)
        name = self._first_unless(inside, index, coordinates).name
        load = self.bindings.load(value, variable(name, value.type.size), named=True)
        return self.let("x", load, coordinates)

    def _first_unless(self, inside: Expr, index: Index, coordinates: Coordinates) -> Name:
        """An index, or 0 where it is not inside."""
        return self.let("at", select(u32(0), expr_of(self.hoist(index)), inside), coordinates)

    def _looked_at(self, value: Value, place: Coordinates) -> tuple[Value, Coordinates]:
        """Looks through views that always have an element."""
        while True:
            node, part = self._producers.get(value.name), self.bindings.part(value)
            lower = OPS[node.op].lower if node is not None else None
            if node is not None and isinstance(lower, View) and lower.inside is None:
                value, place = node.inputs[0], indices(lower.index(node, place))
            elif node is None and part is not None and self._is_computed(part.whole):
                value, place = part.whole, (self.bindings.round(part), *place)
            else:
                return value, place

    def _condition(self, low: int, index: Index, high: int) -> Expr | None:
        if index.low >= low and index.high < high:
            return None
        index.require_small()
        if index.low >= low:
            return Binary("<", expr_of(self.hoist(index)), u32(high))
        if index.high < high:
            return Binary(">=", expr_of(self.hoist(index)), u32(low))
        # What is below `low` wraps around to a large number.
        return Binary("<", expr_of(self.hoist(index - low)), u32(high - low))

    def _safe(self, index: Index, extent: int, inside: Expr, coordinates: Coordinates) -> Index:
        if index.low >= 0 and index.high < extent:
            return index
        return self._runtime_index(
            self._first_unless(inside, index, coordinates), extent, coordinates
        )

    def _indirect(self, node: Node, coordinates: Coordinates) -> Expr:
        lower = OPS[node.op].lower
        assert isinstance(lower, Indirect)
        table, places = node.inputs
        place = indices(lower.at(node, coordinates))
        limit = lower.limit(node)
        row = self.let("row", clamp_index(self.at(places, place), limit, places.dtype), place)
        index = self._runtime_index(row, limit + 1, place)
        return self.at(table, indices(lower.index(node, coordinates, index)))

    def _runtime_index(self, name: Name, extent: int, coordinates: Coordinates) -> Index:
        """A run-time index; it varies with the inner loop if what it was made from does."""
        index = variable(name.name, extent)
        if self._scope(coordinates) is not self.outer and extent > 1:
            self.inner_variables |= {Variable(name.name, extent)}
        return index


_Rule = Callable[[Emitter, Node, Coordinates], Expr]
_RULES: dict[type, _Rule] = {
    Pointwise: Emitter._pointwise,
    FromIndex: Emitter._source,
    View: Emitter._view,
    Join: Emitter._join,
    Indirect: Emitter._indirect,
}

# Ops that are part of others.
PARTS = {op.lower.part for op in OPS.values() if isinstance(op.lower, Pointwise)} - {""}
# Of a vector.
COMPONENTS = "xyzw"
