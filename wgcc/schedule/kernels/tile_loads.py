"""How the threads of a workgroup load the tile of an operand, by units of one or four elements.

The page `matmul_tiles.wgsl.jinja` names what stands here: the place of each unit, the bounds that a
size does not prove, and what is written to the tile. It says in which order that happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.dtypes import F16
from wgcc.ir.places import ceil_div
from wgcc.schedule.codegen.bindings import VECTOR
from wgcc.schedule.kernels.operands import INNER, Operand
from wgcc.schedule.kernels.tile_shape import Sizes, Tile


@dataclass(frozen=True, slots=True)
class Row:
    """A row or column of a unit: `at` is its index, `bounds` whether it is there."""

    own: str
    part: str
    at: str
    at_inside: str
    name: str
    bounds: str
    call: str


@dataclass(frozen=True, slots=True)
class Unit:
    """What a thread loads at once: `k` is its place along the inner axis.

    `rows` has four of them where vectors along the inner axis are transposed.
    """

    number: int
    k: str
    k_inside: str
    bounds: str
    rows: tuple[Row, ...]
    base: str
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TileLoad:
    """The loads of one operand. `hoisted`: its rows or columns are found before the loop.

    `has_loop`: a thread loads many units, in a loop that drivers unroll; hoisted parts of several
    rows or columns need names, and so no loop.
    """

    name: str
    own: str
    side: str
    hoisted: bool
    has_loop: bool
    each: int
    k_tile: str
    zero: str
    units: tuple[Unit, ...]
    hoisted_rows: tuple[Row, ...]


def tile_load(
    operand: Operand, width: int, half: bool, hoisted: bool, tile: Tile, sizes: Sizes
) -> TileLoad:
    return _Writer(operand, width, half, hoisted, tile, sizes).load()


def plus(count: int, step: str = "") -> str:
    """` + 2u * STEP`, or nothing for none."""
    return f" + {count}u{f' * {step}' if step else ''}" if count else ""


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the parts of a `TileLoad`; `width` is how many rows or columns an element holds."""

    operand: Operand
    width: int
    half: bool
    hoisted: bool
    tile: Tile
    sizes: Sizes

    def load(self) -> TileLoad:
        numbers = range(1 if self.has_loop else self.each)
        units = tuple(self.unit(number) for number in numbers)
        rows = range(1 if self.stays_in_row else self.each)
        return TileLoad(
            self.operand.name,
            self.operand.own,
            self.operand.side,
            self.hoisted,
            self.has_loop,
            self.each,
            f"k_tile{self.fours if self.is_along_inner else ''}",
            "vec4f()" if self.operand.vector else "0.0",
            units,
            tuple(self.row(n, c, _number(n)) for n in rows for c in range(self.rows_each)),
        )

    @property
    def is_along_inner(self) -> bool:
        """Are vectors loaded along the inner axis?"""
        return self.operand.vector and self.operand.fast == INNER

    @property
    def fours(self) -> str:
        return f" / {VECTOR}u"

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
        return self.operand.fast != INNER and self.tile.threads % self.across == 0

    @property
    def has_loop(self) -> bool:
        return self.each > 2 and (self.stays_in_row or not self.hoisted)

    @property
    def neighbours(self) -> int:
        """Vectors side by side along the inner axis that neighbouring threads load."""
        return next((n for n in (4, 2, 3) if self.tile.tk % (4 * n) == 0), 1)

    @property
    def ends(self) -> bool:
        """Do tiles reach past the last row or column?"""
        length = self.sizes.rows if self.operand.own == "m" else self.sizes.cols
        return length % self.size > 0

    @property
    def depth_ends(self) -> bool:
        return self.sizes.inner % self.tile.tk > 0

    @property
    def own_end(self) -> str:
        end = "ROWS" if self.operand.own == "m" else "COLS"
        return end + (self.fours if self.operand.vector and not self.is_along_inner else "")

    @property
    def k_end(self) -> str:
        return f"DEPTH{self.fours if self.is_along_inner else ''}"

    @property
    def own_units(self) -> str:
        """`across`, by the name of a constant."""
        name = "ROWS_TILE" if self.operand.own == "m" else "COLS_TILE"
        return name if self.across == self.size else f"{name}{self.fours}"

    def own_at(self, unit: str) -> str:
        """The place of a unit along the operand's own axis."""
        near = self.neighbours
        if self.is_along_inner:
            wraps = self.tile.tk // VECTOR > near
            return f"{unit} / {near}u" + (f" % ({self.own_units})" if wraps else "")
        if self.operand.fast == INNER:
            return f"{unit} / TK"
        return f"{unit} % {f'({self.own_units})' if self.operand.vector else self.own_units}"

    def inner_at(self, unit: str) -> str:
        near = self.neighbours
        if self.is_along_inner:
            wraps = self.tile.tk // VECTOR > near
            rest = f" + {unit} / ({near}u * {self.own_units}) * {near}u"
            return f"{unit} % {near}u" + (rest if wraps else "")
        if self.operand.fast == INNER:
            return f"{unit} % TK"
        return f"{unit} / {f'({self.own_units})' if self.operand.vector else self.own_units}"

    def unit(self, index: int) -> Unit:
        number = "u" if self.has_loop else _number(index)
        k = f"{self.operand.name}_k{index}"
        is_last = self.has_loop or index == self.each - 1
        bounds = f"{number} < {self.count}u" if self.is_partly and is_last else ""
        may_pass = self.depth_ends or self.is_partly
        rows = tuple(self.row(index, c, number, bounds) for c in range(self.rows_each))
        base = f"({self.inner_at(number)}) * 4u * {self.stride} + {self.own_at(number)}"
        return Unit(
            index,
            self.inner_at(number),
            f"min({k}, {self.k_end} - 1u)" if may_pass else k,
            bounds,
            rows,
            base if self.is_along_inner else "",
            tuple(self.stores(index, number)),
        )

    def row(self, index: int, component: int, number: str, present: str = "") -> Row:
        operand, k = self.operand, f"{self.operand.name}_k{index}"
        is_first = self.stays_in_row and self.hoisted
        part = f"{0 if is_first else index}_{component}"
        own = f"{operand.own}{part}"
        inside = f"min({own}, {self.own_end} - 1u)" if self.ends or self.is_partly else own
        bounds = [present] if present else []
        bounds += [f"{own} < {self.own_end}"] if self.ends else []
        bounds += [f"{k} < {self.k_end}"] if self.depth_ends else []
        order = (own, k) if operand.own == "m" else (k, own)
        plain = f"{operand.name}(z, {', '.join(order)})"
        call = f"{operand.name}({operand.side}{part}, {k}_step)" if self.hoisted else plain
        name = f"{operand.name}{index}_{component}"
        at = self.row_at(number, component)
        return Row(own, part, at, inside, name, " && ".join(bounds), call)

    def row_at(self, number: str, component: int) -> str:
        first, own = f"{self.operand.own}_tile", self.own_at(number)
        if self.rows_each > 1:
            return f"{first} + {own} * 4u{plus(component)}"
        if self.operand.vector and not self.is_along_inner:
            return f"{first}{self.fours} + {own}"
        return f"{first} + {own}"

    @property
    def stride(self) -> str:
        return f"{self.operand.name.upper()}_STRIDE"

    def stores(self, index: int, number: str) -> Sequence[str]:
        """What a unit writes to the tile, element by element."""
        name = self.operand.name
        if not self.is_along_inner:
            at = f"({self.inner_at(number)}) * {self.stride} + {self.own_at(number)}"
            return [f"{name}_tile[{at}] = {self.element(f'{name}{index}_0')};"]
        places = [f"{name}_tile[{name}_at{index}{plus(c, self.stride)}]" for c in range(VECTOR)]
        if self.rows_each == 1:
            values = [self.element(f"{name}{index}_0[{c}]") for c in range(VECTOR)]
        else:
            rows = [f"{name}{index}_{row}" for row in range(VECTOR)]
            columns = [", ".join(f"{row}[{c}]" for row in rows) for c in range(VECTOR)]
            values = [self.element(f"vec4f({column})") for column in columns]
        return [f"{place} = {value};" for place, value in zip(places, values, strict=True)]

    def element(self, text: str) -> str:
        kind = "vec4h" if self.width == VECTOR else F16
        return f"{kind}({text})" if self.half else text


def _number(index: int) -> str:
    """The number in the tile of a thread's unit."""
    return ("slot", "(slot + THREADS)", f"(slot + {index}u * THREADS)")[min(index, 2)]
