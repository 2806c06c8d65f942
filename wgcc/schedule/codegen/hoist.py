"""Hoists what depends on one side of a loop only, divisions and loads, out of the loop.

A matrix operand that is a view of an image finds its pixel by divisions. Those of the row are the
same along the whole inner axis, those of the inner axis are the same for all rows of a thread. So
are the factors of an operand that is scaled by row or column.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.index import Atom, Index, Quotient, Remainder, Variable
from wgcc.kernel.build import named
from wgcc.kernel.tree import Call, Declaration, Expr, FunctionDef, Return, Struct
from wgcc.schedule.codegen.terms import expr_of


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

    def loaded(self, index: Index, load: Expr, kind: str) -> Expr | None:
        """The field that holds what was loaded at an index, if that depends on one side only."""
        names = {variable.name for variable in index.variables()}
        side = next((side for side, own in self._sides.items() if names <= set(own)), None)
        if side is None or not names:
            return None
        field, _ = self._loads[side].setdefault(load, (f"v{len(self._loads[side])}", kind))
        return named(f"{side}.{field}")

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
        return kind(self(atom.dividend.compared()), atom.divisor)
