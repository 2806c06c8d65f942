"""The parts of a product's kernel: how threads load tiles, and what becomes of their results.

The page `matmul_tiles.wgsl.jinja` names what stands here, and says in which order it happens: the
places of units (one or four elements), the bounds that a size does not prove, stores and reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wgcc.ir.places import ceil_div
from wgcc.schedule.kernel import VECTOR
from wgcc.schedule.kernels.operands import INNER, Operand
from wgcc.schedule.kernels.tile_shape import Sizes, Tile

# Elements are counted by vectors.
FOURS = f" / {VECTOR}u"


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
    """The elements a thread loads at once: `k` is their place along the inner axis.

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
    side: str
    hoisted: bool
    has_loop: bool
    each: int
    k_tile: str
    zero: str
    units: tuple[Unit, ...]
    hoisted_rows: tuple[Row, ...]


def plus(count: int, step: str = "") -> str:
    """` + 2u * STEP`, or nothing for none."""
    return f" + {count}u{f' * {step}' if step else ''}" if count else ""


@dataclass(frozen=True, slots=True)
class TileWriter:
    """Writes a `TileLoad`; `width` is how many rows or columns an element holds."""

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
            self.operand.side,
            self.hoisted,
            self.has_loop,
            self.each,
            f"k_tile{FOURS if self.is_along_inner else ''}",
            "vec4f()" if self.operand.vector else "0.0",
            units,
            tuple(self.row(n, c, _number(n)) for n in rows for c in range(self.rows_each)),
        )

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
        return end + (FOURS if self.operand.vector and not self.is_along_inner else "")

    @property
    def k_end(self) -> str:
        return f"DEPTH{FOURS if self.is_along_inner else ''}"

    @property
    def own_units(self) -> str:
        """`across`, by the name of a constant; a quotient stands in parentheses."""
        name = "ROWS_TILE" if self.operand.own == "m" else "COLS_TILE"
        return name if self.across == self.size else f"({name}{FOURS})"

    def own_at(self, unit: str) -> str:
        """The place of a unit along the operand's own axis."""
        near = self.neighbours
        if self.is_along_inner:
            wraps = self.tile.tk // VECTOR > near
            return f"{unit} / {near}u" + (f" % {self.own_units}" if wraps else "")
        if self.operand.fast == INNER:
            return f"{unit} / TK"
        return f"{unit} % {self.own_units}"

    def inner_at(self, unit: str) -> str:
        near = self.neighbours
        if self.is_along_inner:
            wraps = self.tile.tk // VECTOR > near
            rest = f" + {unit} / ({near}u * {self.own_units}) * {near}u"
            return f"{unit} % {near}u" + (rest if wraps else "")
        if self.operand.fast == INNER:
            return f"{unit} % TK"
        return f"{unit} / {self.own_units}"

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
            return f"{first}{FOURS} + {own}"
        return f"{first} + {own}"

    @property
    def stride(self) -> str:
        return f"{self.operand.name.upper()}_STRIDE"

    def stores(self, index: int, number: str) -> Sequence[str]:
        """The statements that write a unit to the tile, element by element."""
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
        return f"{'vec4h' if self.width == VECTOR else 'f16'}({text})" if self.half else text


def _number(index: int) -> str:
    """The number in the tile of a thread's unit."""
    return ("slot", "(slot + THREADS)", f"(slot + {index}u * THREADS)")[min(index, 2)]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of the block: its `factor` in each product, its index, and how its results end."""

    number: int
    factor: str
    at: str
    added: str
    finish: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the block: `part` says which element of which vector of a row it is."""

    part: str
    added: str
    finish_sum: str


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """The `tm × tn` results of a thread; `left`, `right` are the widths of the tiles' elements."""

    tile: Tile
    sizes: Sizes
    left: int
    right: int
    is_vector: bool

    def holes(self, halves: Mapping[str, bool]) -> dict[str, object]:
        sliced = self.tile.slices > 1
        ragged = self.row_ends or self.column_ends or self.sizes.inner % self.tile.tk > 0
        return {
            "sliced": sliced,
            "workgroup": "ACROSS, DOWN, SLICES" if sliced else "ACROSS, DOWN",
            "padding": "; zeros pad the edges" if ragged else "",
            "first_k": "lane.z" if sliced else "0u",
            "next_k": "k += SLICES" if sliced else "k++",
            "vector": _vector(self.column_width),
            "vectors": range(self.tile.tn // self.column_width),
            "left_values": _reads("left", self.left, self.tile.tm, halves["left"]),
            "right_values": _reads("right", self.right, self.tile.tn, halves["right"]),
            "rows": tuple(map(self.row, range(self.tile.tm))),
            "columns": tuple(map(self.column, range(self.tile.tn))),
            "row_bounds": self.row_ends,
            "slot_bounds": " && n_tile + slot < COLS" if self.column_ends else "",
            "finish_total": self.finish_total(),
        }

    @property
    def row_ends(self) -> bool:
        """Do tiles reach past the last row?"""
        return self.sizes.rows % self.tile.rows > 0

    @property
    def column_ends(self) -> bool:
        return self.sizes.cols % self.tile.cols > 0

    @property
    def column_width(self) -> int:
        return min(self.tile.tn, VECTOR)

    def row(self, number: int) -> ResultRow:
        width, columns = min(self.tile.tm, VECTOR), self.column_width
        value = "a0" if width == 1 else f"a{number // width}[{number % width}]"
        return ResultRow(
            number,
            f"{_vector(columns)}({value})" if columns > 1 else value,
            f"m_tile + {_place('lane.y', 'DOWN', number, self.left)}",
            plus(number, "DOWN * ROW_STRIDE"),
            tuple(self.finish(number)),
        )

    def column(self, number: int) -> ResultColumn:
        vector, element = divmod(number, self.column_width)
        inside = f"[{element}]" if self.column_width > 1 else ""
        at = self.column_at(number)
        store = f"finish_sum({at}, sum{vector}{inside});"
        finish = _under([f"{at} < COLS"] if self.column_ends else [], store)
        return ResultColumn(f"{vector}{inside}", plus(number, "ACROSS"), finish)

    def column_at(self, number: int) -> str:
        return f"n_tile + {_place('lane.x', 'ACROSS', number, self.right)}"

    def finish(self, row: int) -> list[str]:
        """Makes use of the results of a row: vectors, or element by element."""
        if self.is_vector:
            places = [f"n_tile / 4u + lane.x{plus(j, 'ACROSS')}" for j in range(self.tile.tn // 4)]
            parts, end = [f"{j}" for j in range(len(places))], "COLS / 4u"
        else:
            columns = range(self.tile.tn)
            places, end = [self.column_at(j) for j in columns], "COLS"
            parts = [self.column(j).part for j in columns]
        return [
            _under(
                [f"{n} < {end}"] if self.column_ends else [],
                f"finish(z, row{row}, {n}, c{row}_{part});",
            )
            for n, part in zip(places, parts, strict=True)
        ]

    def finish_total(self) -> str:
        """Makes use of a result that the slices have added."""
        bounds = ["m_tile + m < ROWS"] if self.row_ends else []
        bounds += ["n_tile + n < COLS"] if self.column_ends else []
        return _under(bounds, "finish(z, m_tile + m, n_tile + n, total);")


def _under(bounds: list[str], statement: str) -> str:
    return f"if ({' && '.join(bounds)}) {{ {statement} }}" if bounds else statement


def _vector(width: int) -> str:
    return f"vec{width}f" if width > 1 else "f32"


def _place(lane: str, step: str, number: int, width: int) -> str:
    """The place of a thread's row or column in the tile, whose elements have `width` of them."""
    if width == 1:
        return f"{lane}{plus(number, step)}"
    element, rest = divmod(number, VECTOR)
    return f"{f'({lane}{plus(element, step)})' if element else lane} * 4u{plus(rest)}"


def _reads(name: str, width: int, count: int, half: bool) -> tuple[str, ...]:
    """A thread's values of a tile at one `k`: as many vectors as they fill."""
    lane, step = ("lane.y", "DOWN") if name == "left" else ("lane.x", "ACROSS")
    at = [f"{name}_tile[k * {name.upper()}_STRIDE + {lane}{plus(n, step)}]" for n in range(count)]
    size = min(count, VECTOR)
    if width == VECTOR:
        return tuple(f"vec4f({text})" if half else text for text in at[: count // VECTOR])
    elements = [f"f32({text})" if half else text for text in at]
    if size == 1:
        return tuple(elements)
    starts = range(0, count, size)
    return tuple(f"{_vector(size)}({', '.join(elements[i : i + size])})" for i in starts)
