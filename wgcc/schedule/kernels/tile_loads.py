"""How the threads of a product's kernel load the tile of an operand.

The page `matmul_tiles.wgsl.jinja` says when. What sizes decide stands here: places of units (one
or four elements), and the bounds that a size does not prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wgcc.ir.dtypes import F16
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import (
    all_of,
    counted_loop,
    expression,
    in_parens,
    let,
    statements,
    u32,
    when,
)
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Assign, Binary, Call, Expr, If, Let, Name, Statement
from wgcc.schedule.kernel import VECTOR
from wgcc.schedule.kernels.operands import INNER, Operand
from wgcc.schedule.kernels.shared_tile import SharedTile
from wgcc.schedule.kernels.tile_shape import Sizes, Tile


def plus(start: Expr, count: int, step: str = "") -> Expr:
    """`start + 2u * STEP`, or `start` itself for none."""
    if not count:
        return start
    by = expression(f"COUNT * {step}", COUNT=count) if step else u32(count)
    return Binary("+", start, by)


def add(first: Expr, second: Expr) -> Expr:
    """A sum without parentheses around its second part."""
    match second:
        case Binary("+", left, right, False):
            return Binary("+", add(first, left), right)
    return Binary("+", first, second)


def fours(count: Expr) -> Expr:
    """Elements counted by vectors."""
    return Binary("/", count, u32(VECTOR))


# What is declared first, and places in a tile.
Places = tuple[tuple[Statement, ...], tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class TileLoad:
    """The loads of one operand, into a tile whose elements hold `width` rows or columns.

    `hoisted`: its rows or columns are found before the loop over tiles.
    """

    operand: Operand
    hoisted: bool
    shared: SharedTile
    tile: Tile
    sizes: Sizes

    def before(self) -> Body:
        """Finds what is the same in every tile.

        The rows or columns that a thread loads, and where it stores them, if drivers do not find
        by themselves that these stay: where steps are written out.
        """
        lets = (*self._stays(), *(self._rows() if self.hoisted else ()))
        if not lets:
            return ()
        what = f"the {self.operand.side}s that a thread loads"
        what = what if self.hoisted else f"where a thread stores {self.operand.side}s"
        return (replace(lets[0], comment=f"What is the same in every tile: {what}."), *lets[1:])

    def _stays(self) -> Iterator[Let]:
        """The minima tell drivers how large these can be, so that sums with them do not wrap."""
        lanes, upper = Name(self.shared.lanes), self.operand.name.upper()
        if self.is_placed:
            own, step = (expression(f"slot {sign} {self.side_by_side}u") for sign in "%/")
            if self.stays_in_row:
                part = expression("OWN / LANES", OWN=own, LANES=lanes)
                yield let(self.place("part0").name, self.within(part, u32(self.shared.parts)))
                own = expression("OWN % LANES", OWN=own, LANES=lanes)
            yield let(self.place("lane0").name, self.within(own, lanes))
            yield let(self.place("step0").name, self.within(step, u32(self.steps_apart)))
        for unit in range(self.each if self.shared.is_grouped else 0):
            number = self.number(unit)
            own, inner = in_parens(self.own_at(unit, number)), self.inner_at(unit, number)
            part = expression(f"OWN / LANES * {self.shared.groups}u", OWN=own, LANES=lanes)
            group, lane = Binary("+", part, inner), expression("OWN % LANES", OWN=own, LANES=lanes)
            yield let(self.place(f"group{unit}").name, self.within(group, Name(f"{upper}_GROUPS")))
            yield let(self.place(f"lane{unit}").name, self.within(lane, lanes))

    def _rows(self) -> Iterator[Let]:
        operand = self.operand
        for unit in range(1 if self.stays_in_row else self.each):
            for component in range(self.rows_each):
                part, own = self.part(unit, component), self.own(unit, component)
                inside = self.within(own, self.own_end) if self.ends or self.is_partly else own
                function = f"{operand.name}_{operand.side}"
                yield let(own.name, self.row_at(unit, _number(unit), component))
                yield let(f"{operand.side}{part}", Call(function, (Name("z"), inside)))

    def loads(self) -> Body:
        """Loads the units of a thread; many of them in a loop, which stores them, too."""
        units = range(1 if self.has_loop else self.each)
        loads = tuple(
            load for unit in units for load in self._under_one_condition(self._load_unit(unit))
        )
        if not self.has_loop:
            return loads
        body = (*statements("let u = slot + i * THREADS;"), *loads, *self._store_unit(0))
        return (counted_loop("i", u32(0), u32(self.each), body),)

    def stores(self) -> Body:
        """Writes what was loaded without a loop to the tile."""
        units = range(0 if self.has_loop else self.each)
        return tuple(
            store for unit in units for store in self._under_one_condition(self._store_unit(unit))
        )

    def _under_one_condition(self, unit: Iterator[Statement]) -> Body:
        """Has one condition for all that a unit loads or stores, where steps are written out."""
        body = tuple(unit)
        guarded = [statement for statement in body if isinstance(statement, If)]
        if not self.shared.is_grouped or len({each.condition for each in guarded}) != 1:
            return body
        lets = tuple(statement for statement in body if not isinstance(statement, If))
        return (*lets, If(guarded[0].condition, tuple(s for each in guarded for s in each.then)))

    def _load_unit(self, unit: int) -> Iterator[Statement]:
        k, start = self.k(unit), Name("k_tile")
        along = self.inner_at(unit, self.number(unit))
        yield let(k.name, add(fours(start) if self.is_along_inner else start, along))
        if self.hoisted:
            inside = self.within(k, self.k_end) if self.depth_ends or self.is_partly else k
            yield let(f"{k.name}_step", Call(f"{self.operand.name}_step", (inside,)))
        for component in range(self.rows_each):
            if not self.hoisted:
                own = self.row_at(unit, self.number(unit), component)
                yield let(self.own(unit, component).name, own)
            yield from self._load_row(unit, component)

    def _load_row(self, unit: int, component: int) -> Body:
        """Loads one element of a unit, or a vector; zero beyond the edges."""
        operand, k, own = self.operand, self.k(unit), self.own(unit, component)
        name = self.value(unit, component)
        places = (own, k) if operand.own == "m" else (k, own)
        if self.hoisted:
            row = Name(f"{operand.side}{self.part(unit, component)}")
            call = Call(operand.name, (row, Name(f"{k.name}_step")))
        else:
            call = Call(operand.name, (Name("z"), *places))
        beyond_own = Binary("<", own, self.own_end) if self.ends else None
        beyond_inner = Binary("<", k, self.k_end) if self.depth_ends else None
        inside = all_of((self.present(unit), beyond_own, beyond_inner))
        if inside is None:
            return (let(name.name, call),)
        zero = expression("vec4f()" if operand.vector else "0.0")
        return (Let(name.name, None, zero, mutable=True), *when(inside, (Assign(name, call),)))

    def _store_unit(self, unit: int) -> Iterator[Statement]:
        number = self.number(unit)
        inner, own = self.inner_at(unit, number), self.own_at(unit, number)
        values = tuple(self._transpose(unit)) if self.is_along_inner else (self.value(unit, 0),)
        if self.width == VECTOR:
            lets, places = self._vector_places(unit, inner, own)
        elif self.is_along_inner:
            lets, places = self._scalar_places(unit, inner, own)
        else:
            lets, places = (), (self.shared.place(inner, own),)
        yield from lets
        for place, value in zip(places, values, strict=True):
            yield from when(self.present(unit), (Assign(place, self.element(value)),))

    def _scalar_places(self, unit: int, inner: Expr, own: Expr) -> Places:
        """Four numbers of one row or column."""
        name, stride = self.operand.name, f"{self.operand.name.upper()}_STRIDE"
        at = Name(f"{name}_at{unit}")
        first = expression(f"INNER * 4u * {stride} + OWN", INNER=in_parens(inner), OWN=own)
        places = (plus(at, component, stride) for component in range(VECTOR))
        return (let(at.name, first),), tuple(map(self.shared.at, places))

    def _vector_places(self, unit: int, inner: Expr, own: Expr) -> Places:
        """One vector, or four transposed ones, by where they are along both axes."""
        if self.is_placed:
            part = self.place("part0") if self.stays_in_row else u32(unit // self.passes)
            return (), (self.shared.at_part(part, inner, self.place("lane0")),)
        if self.shared.is_grouped:
            group, lane = self.place(f"group{unit}"), self.place(f"lane{unit}")
            return (), tuple(self.shared.at_group(group, rest, lane) for rest in range(VECTOR))
        at, k = Name(f"{self.operand.name}_at{unit}"), Name(f"{self.operand.name}_in{unit}")
        if not self.is_along_inner:
            return (let(at.name, own),), (self.shared.place(inner, at),)
        first = let(k.name, expression("INNER * 4u", INNER=in_parens(inner)))
        steps = (plus(k, component) for component in range(VECTOR))
        return (let(at.name, own), first), tuple(self.shared.place(k, at) for k in steps)

    def _transpose(self, unit: int) -> Iterator[Expr]:
        """The elements for each place along the inner axis, of vectors along that axis."""
        for component in range(VECTOR):
            rows = [
                expression(f"ROW[{component}]", ROW=self.value(unit, row))
                for row in range(self.rows_each)
            ]
            yield rows[0] if len(rows) == 1 else Call("vec4<f32>", tuple(rows))

    def element(self, value: Expr) -> Expr:
        kind = "vec4<f16>" if self.width == VECTOR else F16
        return Call(kind, (value,)) if self.shared.half else value

    def number(self, unit: int) -> Expr:
        return Name("u") if self.has_loop else _number(unit)

    def present(self, unit: int) -> Expr | None:
        """Whether a thread has this unit, where some have one less than others."""
        is_last = self.has_loop or unit == self.each - 1
        if not (self.is_partly and is_last):
            return None
        return Binary("<", self.number(unit), u32(self.count))

    def part(self, unit: int, component: int) -> str:
        return f"{0 if self.stays_in_row and self.hoisted else unit}_{component}"

    def own(self, unit: int, component: int) -> Name:
        """The row or column of an element."""
        return Name(f"{self.operand.own}{self.part(unit, component)}")

    def k(self, unit: int) -> Name:
        return Name(f"{self.operand.name}_k{unit}")

    def value(self, unit: int, component: int) -> Name:
        return Name(f"{self.operand.name}{unit}_{component}")

    def within(self, at: Expr, end: Expr) -> Expr:
        return expression("min(AT, END - 1u)", AT=at, END=end)

    def row_at(self, unit: int, number: Expr, component: int) -> Expr:
        first, own = Name(f"{self.operand.own}_tile"), self.own_at(unit, number)
        if self.rows_each > 1:
            return plus(expression("FIRST + OWN * 4u", FIRST=first, OWN=own), component)
        is_vector = self.operand.vector and not self.is_along_inner
        return add(fours(first) if is_vector else first, own)

    @property
    def width(self) -> int:
        return self.shared.width

    @property
    def is_along_inner(self) -> bool:
        """Are vectors loaded along the inner axis?"""
        return self.operand.vector and self.operand.fast == INNER

    @property
    def rows_each(self) -> int:
        """Rows or columns of a unit: four where vectors along the inner axis are transposed."""
        return self.width if self.is_along_inner else 1

    @property
    def size(self) -> int:
        return self.tile.rows if self.operand.own == "m" else self.tile.cols

    @property
    def across(self) -> int:
        """Units side by side along the operand's own axis."""
        if self.is_along_inner:
            return self.size // self.width
        return self.size // VECTOR if self.operand.vector else self.size

    @property
    def count(self) -> int:
        return self.across * (self.tile.tk // VECTOR if self.is_along_inner else self.tile.tk)

    @property
    def each(self) -> int:
        return ceil_div(self.count, self.tile.threads)

    @property
    def is_partly(self) -> bool:
        """Have some threads a unit less than others?"""
        return self.count % self.tile.threads > 0

    @property
    def stays_in_row(self) -> bool:
        """Are all units of a thread in one row or column?"""
        is_row = self.operand.fast != INNER and self.tile.threads % self.across == 0
        return is_row and (self.hoisted or not self.is_placed)

    @property
    def has_loop(self) -> bool:
        """Drivers unroll it; hoisted parts of several rows or columns need names instead."""
        has_loop = self.each > 2 and (self.stays_in_row or not self.hoisted)
        return has_loop and not self.shared.is_unrolled

    @property
    def is_placed(self) -> bool:
        """Is it known before the loop where a thread stores, but for constants?

        Units are some steps apart, and in the next part of the tile after the last step; all of
        one part if rows or columns are hoisted, which takes registers for each.
        """
        is_vector = self.width == VECTOR and not self.is_along_inner
        is_whole = not self.is_partly and self.tile.tk % self.steps_apart == 0
        return self.shared.is_unrolled and is_vector and is_whole

    @property
    def side_by_side(self) -> int:
        """Units of one step that the threads load at once."""
        is_row = self.hoisted and self.tile.threads % self.across == 0
        return self.across if is_row else self.shared.count

    @property
    def steps_apart(self) -> int:
        return max(1, self.tile.threads // self.side_by_side)

    @property
    def passes(self) -> int:
        """The units of a thread for one part of the tile."""
        return max(1, self.tile.tk // self.steps_apart)

    def place(self, what: str) -> Name:
        """The name of what is the same in every tile."""
        return Name(f"{self.operand.name}_{what}")

    @property
    def ends(self) -> bool:
        """Do tiles reach past the last row or column?"""
        length = self.sizes.rows if self.operand.own == "m" else self.sizes.cols
        return length % self.size > 0

    @property
    def depth_ends(self) -> bool:
        return self.sizes.inner % self.tile.tk > 0

    @property
    def own_end(self) -> Expr:
        end = Name("ROWS" if self.operand.own == "m" else "COLS")
        return fours(end) if self.operand.vector and not self.is_along_inner else end

    @property
    def k_end(self) -> Expr:
        return fours(Name("DEPTH")) if self.is_along_inner else Name("DEPTH")

    @property
    def own_units(self) -> Expr:
        """`across`, by the name of a constant."""
        name = Name("ROWS_TILE" if self.operand.own == "m" else "COLS_TILE")
        return name if self.across == self.size else in_parens(fours(name))

    @property
    def neighbours(self) -> int:
        """Vectors side by side along the inner axis that neighbouring threads load."""
        return next((n for n in (4, 2, 3) if self.tile.tk % (4 * n) == 0), 1)

    @property
    def wraps(self) -> bool:
        """Are there more vectors along the inner axis than neighbours?"""
        return self.tile.tk // VECTOR > self.neighbours

    def own_at(self, unit: int, number: Expr) -> Expr:
        """The place of a unit along the operand's own axis."""
        if self.is_placed and not self.stays_in_row:
            return plus(self.place("lane0"), unit // self.passes, self.shared.lanes)
        if self.is_along_inner:
            own = Binary("/", number, u32(self.neighbours))
            return Binary("%", own, self.own_units) if self.wraps else own
        if self.operand.fast == INNER:
            return Binary("/", number, Name("TK"))
        return Binary("%", number, self.own_units)

    def inner_at(self, unit: int, number: Expr) -> Expr:
        if self.is_placed:
            return plus(self.place("step0"), unit % self.passes * self.steps_apart)
        if not self.is_along_inner:
            is_fast = self.operand.fast == INNER
            by = Name("TK") if is_fast else self.own_units
            return Binary("%" if is_fast else "/", number, by)
        text = "UNIT % NEAR + UNIT / (NEAR * UNITS) * NEAR" if self.wraps else "UNIT % NEAR"
        return expression(text, UNIT=number, NEAR=self.neighbours, UNITS=self.own_units)


def _number(unit: int) -> Expr:
    """The number in the tile of a thread's unit."""
    steps = Name("THREADS") if unit == 1 else expression("UNIT * THREADS", UNIT=unit)
    return in_parens(Binary("+", Name("slot"), steps)) if unit else Name("slot")
