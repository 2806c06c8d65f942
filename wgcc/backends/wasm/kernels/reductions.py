"""Which variables a loop only accumulates into: their iterations may then run as lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Expr,
    Let,
    Loop,
    Name,
    Statement,
    expressions_of,
    names_of,
    statements_of,
)

# With what a lane starts; None: with the value so far, which may be taken in several times.
_STARTS: dict[str, float | int | None] = {"+": 0, "*": 1, "max": None, "min": None, "|": 0}
_STARTS |= {"&": None}


@dataclass(frozen=True, slots=True)
class Reduction:
    """`name = combine(name, …)` with an operator or function that may be applied in any order."""

    name: str
    by: str

    @property
    def start(self) -> float | int | None:
        return _STARTS[self.by]

    def combine(self, left: Expr, right: Expr) -> Expr:
        if self.by in ("max", "min"):
            return Call(self.by, (left, right))
        return Binary(self.by, left, right)


def reductions_of(body: Sequence[Statement], outer: set[str]) -> list[Reduction] | None:
    """Those of a loop's body; None if it changes variables of `outer` in another way."""
    own = {s.name for s in body if isinstance(s, Let)}
    outer = outer - own
    found: dict[str, Reduction] = {}
    for statement in body:
        if isinstance(statement, Assign) and isinstance(statement.target, Name):
            name = statement.target.name
            if name not in outer:
                continue
            by = _accumulates(name, statement.value)
            if by is None or name in found:
                return None
            found[name] = Reduction(name, by)
        elif not changed(statement).isdisjoint(outer):
            return None
    for statement in body:
        if _reads(statement) & found.keys():
            return None
    return list(found.values())


def _accumulates(name: str, value: Expr) -> str | None:
    match value:
        case Binary(op, Name(n), other) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Binary(op, other, Name(n)) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Call(op, (Name(n), other)) if n == name and op in _STARTS:
            return op if name not in names_of(other) else None
        case Call("fma", (a, b, Name(n))) if n == name:
            return "+" if name not in {**names_of(a), **names_of(b)} else None
    return None


def changed(statement: Statement) -> set[str]:
    """The variables that a statement may assign."""
    inner = [*statements_of((statement,))]
    assigned = {
        s.target.name for s in inner if isinstance(s, Assign) and isinstance(s.target, Name)
    }
    heads = (first for loop in inner if isinstance(loop, Loop) for first in loop.before)
    return assigned - {first.name for first in heads if isinstance(first, Let)}


def _reads(statement: Statement) -> set[str]:
    """Names that it uses, but for the target it accumulates into."""
    names: set[str] = set()
    for inner in statements_of((statement,)):
        match inner:
            case Assign(Name(name), value):
                names |= names_of(value).keys() - {name}
            case _:
                names = names.union(*map(names_of, expressions_of(inner)))
    return names
