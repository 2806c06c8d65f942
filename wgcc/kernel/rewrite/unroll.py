"""Writes loops out, with a name of its own for what each iteration has.

    for (var r = 0u; r < 2u; r++) { var x = 0.0; }      var x_0 = 0.0; var x_1 = 0.0;
    for (var r = 0u; r < 2u; r++) { x[r] += m[r]; }     x_0 += m.x; x_1 += m.y;

`x` is declared in such a loop, so that `x[r]` is that of iteration r; `m` is not: it is a vector.
So pages say once what a thread does for each of its rows, and registers hold what it keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from wgcc.kernel.rewrite.transform import (
    Body,
    map_functions,
    with_bodies,
    with_children,
    with_expressions,
)
from wgcc.kernel.tree import (
    Binary,
    Element,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Module,
    Name,
    Statement,
    counting_head,
    root_of,
)

_COMPONENTS = "xyzw"
# The number of each counter of the loops around a statement, outermost first.
Numbers = Mapping[str, int]


def unroll(page: Module, counters: Collection[str], constants: Mapping[str, int]) -> Module:
    """Writes out the loops that count by these names; constants say from where, and how far."""

    def function(body: Body) -> Body:
        loops = _Loops(counters, constants, {})
        names = dict(loops.declarations(body))
        return tuple(replace(loops, names=names).unroll(body, {}))

    return map_functions(page, function)


@dataclass(frozen=True, slots=True)
class _Loops:
    """`names` are those that loops declare which are written out: by how many loops are around."""

    counters: Collection[str]
    constants: Mapping[str, int]
    names: Mapping[str, int]

    def declarations(
        self, body: Body, depth: int = 0, is_own: bool = False
    ) -> Iterator[tuple[str, int]]:
        for statement in body:
            match statement:
                case Let(name) if is_own:
                    yield name, depth
                case Loop(body=inner):
                    is_written_out = self._numbers(statement) is not None
                    yield from self.declarations(inner, depth + is_written_out, is_written_out)
                case If(_, then, other):
                    yield from self.declarations((*then, *other), depth)

    def unroll(self, body: Body, at: Numbers, is_own: bool = False) -> Iterator[Statement]:
        """`is_own`: these are the statements of a loop that is written out."""
        for statement in body:
            if isinstance(statement, Loop) and (numbers := self._numbers(statement)) is not None:
                yield from self._write_out(statement, numbers, at)
            elif isinstance(statement, If) and (known := _is_later(statement, at)) is not None:
                yield from self.unroll(statement.then if known else statement.other, at, is_own)
            else:
                yield self._statement(statement, at, is_own)

    def _numbers(self, loop: Loop) -> range | None:
        head = counting_head(loop)
        if head is None or head[0] not in self.counters:
            return None
        return range(self._number(head[1]), self._number(head[2]))

    def _number(self, expr: Expr) -> int:
        return int(expr.value) if isinstance(expr, Literal) else self.constants[_name(expr)]

    def _write_out(self, loop: Loop, numbers: range, at: Numbers) -> Iterator[Statement]:
        """The comment of the loop is that of its first statement."""
        head, comment = counting_head(loop), loop.comment
        assert head is not None
        for number in numbers:
            for statement in self.unroll(loop.body, {**at, head[0]: number}, is_own=True):
                yield replace(statement, comment=comment or statement.comment)
                comment = ""

    def _statement(self, statement: Statement, at: Numbers, is_own: bool) -> Statement:
        inside = with_bodies(statement, lambda body: self._block(body, at))
        changed = with_expressions(inside, lambda expr: self._rename(expr, at))
        if isinstance(changed, Let) and is_own:
            return replace(changed, name=_with_numbers(changed.name, at.values()))
        return changed

    def _block(self, body: Body, at: Numbers) -> Body:
        """A block inside hides names that it declares itself."""
        own = {statement.name for statement in body if isinstance(statement, Let)}
        names = {name: depth for name, depth in self.names.items() if name not in own}
        return tuple(replace(self, names=names).unroll(body, at))

    def _rename(self, expr: Expr, at: Numbers) -> Expr:
        root = _name(root_of(expr))
        match expr:
            case Name(name) if name in at:
                return Literal(at[name], "u32")
            case Name(name):
                assert not (at and name in self.names), f"`{name}` needs the number of its loop"
            case Element() if root in self.names:
                return self._own(root, [self._rename(index, at) for index in _indices(expr)])
            case Element(whole, Name(counter)) if counter in at:
                return Member(self._rename(whole, at), _COMPONENTS[at[counter]])
        return _fold(with_children(expr, lambda part: self._rename(part, at)))

    def _own(self, name: str, indices: list[Expr]) -> Expr:
        """`x[0][1]` is the name of a variable; further indices are those of what it holds."""
        depth = self.names[name]
        numbers = [index.value for index in indices[:depth] if isinstance(index, Literal)]
        assert len(numbers) == depth, f"`{name}` is indexed by numbers of iterations"
        expr: Expr = Name(_with_numbers(name, numbers))
        for index in indices[depth:]:
            expr = Element(expr, index)
        return expr


def _is_later(statement: If, at: Numbers) -> bool | None:
    """Whether an iteration is not the first, if that is asked."""
    match statement.condition:
        case Binary(">", Name(counter), Literal(0)) if counter in at:
            return at[counter] > 0
    return None


def _fold(expr: Expr) -> Expr:
    """The first numbers leave nothing to add, or nothing to multiply with."""
    match expr:
        case Binary("*", Literal(0, "u32") as zero, _):
            return zero
        case Binary("*", Literal(1, "u32"), other) | Binary("+", other, Literal(0, "u32")):
            return other
    return expr


def _indices(expr: Expr) -> list[Expr]:
    return [*_indices(expr.whole), expr.index] if isinstance(expr, Element) else []


def _name(expr: Expr) -> str:
    return expr.name if isinstance(expr, Name) else ""


def _with_numbers(name: str, numbers: Collection[object]) -> str:
    return "_".join((name, *map(str, numbers)))
