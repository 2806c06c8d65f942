"""The results of a product: a thread has a block of them in registers.

The page `matmul_tiles.wgsl.jinja` says when they are made, and when they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.kernel.build import all_of, expression, in_parens, let, statements, when
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Binary, Call, Expr, If, Let, Name, Statement
from wgcc.schedule.kernel import VECTOR
from wgcc.schedule.kernels.shared_tile import SharedTile
from wgcc.schedule.kernels.tile_loads import add, fours, plus
from wgcc.schedule.kernels.tile_shape import Sizes, Tile


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """The `tm × tn` results of a thread.

    `has_sums`: columns of the right operand are added up, too. `is_octet`: eight neighbours make
    4 x 2 results, not 8 x 1. `is_unrolled`: steps are written one after the other.
    """

    tile: Tile
    sizes: Sizes
    left: SharedTile
    right: SharedTile
    is_vector: bool
    has_sums: bool
    is_octet: bool
    is_unrolled: bool

    def zeros(self) -> Body:
        zero = Call(_vector(self.column_width), ())
        names = [f"c{row}_{j}" for row in range(self.tile.tm) for j in self.vectors]
        if self.has_column_sums:
            names += [f"sum{j}" for j in self.vectors]
        zeros = tuple(Let(name, None, zero, mutable=True) for name in names)
        return (*zeros, *statements("var sum = 0.0;")) if self.has_tile_sums else zeros

    def products(self) -> Body:
        """The steps along the inner axis of a tile, or the one that a loop repeats."""
        if not self.is_unrolled:
            return self._step(None)
        return tuple(s for k in range(self.tile.tk) for s in self._step(k))

    def _step(self, k: int | None) -> Body:
        """Reads of both tiles and their products, for a `k` or for that of a loop."""
        suffix = "" if k is None else f"_{k}"
        sides = (
            ("a", self.left, self.tile.tm, self.down),
            ("b", self.right, self.tile.tn, self.across),
        )
        steps: list[Statement] = [
            let(f"{letter}{number}{suffix}", value)
            for letter, shared, count, lane in sides
            for number, value in enumerate(_reads(shared, k, count, lane))
        ]
        for row in range(self.tile.tm):
            for j in self.vectors:
                factor, b = self.factor(row, suffix), f"b{j}{suffix}"
                steps += statements("C = fma(FACTOR, B, C);", FACTOR=factor, B=b, C=f"c{row}_{j}")
        if self.has_column_sums:
            sums = ((f"sum{j}", f"b{j}{suffix}") for j in self.vectors)
            added = tuple(s for sum_, b in sums for s in statements("SUM += B;", SUM=sum_, B=b))
            steps.append(If(expression("group.y == 0u"), added))
        return tuple(steps)

    def add_columns(self) -> Body:
        """Adds the columns of a tile to what the threads that sum them up have."""
        if not self.has_tile_sums:
            return ()
        if self.is_unrolled:
            elements = [self.right.element_of_step(k, Name("slot")) for k in range(self.tile.tk)]
            text = "if (group.y == 0u && slot < COLS_TILE) { ADDED(); }"
            added = tuple(s for e in elements for s in self._add_to_sum(e))
            return statements(text, ADDED=added)
        return statements(
            "if (group.y == 0u && slot < COLS_TILE) {\n"
            "for (var k = 0u; k < TK; k++) { ADDED(); }\n}",
            ADDED=self._add_to_sum(self.right.element(Name("k"), Name("slot"))),
        )

    def _add_to_sum(self, element: Expr) -> Body:
        element = Call("f32", (element,)) if self.right.half else element
        return statements("sum += ELEMENT;", ELEMENT=element)

    @property
    def has_tile_sums(self) -> bool:
        """Does a thread sum up one column, as it is in the tile?"""
        is_large = self.tile.tn >= VECTOR and self.tile.threads >= self.tile.cols
        return self.has_sums and is_large and self.tile.slices == 1

    @property
    def has_column_sums(self) -> bool:
        """Does a thread sum up all columns whose results it makes?"""
        return self.has_sums and not self.has_tile_sums

    @property
    def down(self) -> str:
        return "down" if self.is_octet else "lane.y"

    @property
    def across(self) -> str:
        return "across" if self.is_octet else "lane.x"

    def results(self) -> Body:
        """Makes use of all results of a thread."""
        body: list[Statement] = []
        if self.has_column_sums:
            sums = (s for j in range(self.tile.tn) for s in self._finish_sum(j))
            body.append(If(expression(f"m_tile + {self.down} == 0u"), tuple(sums)))
        for number in range(self.tile.tm):
            row = Name(f"row{number}")
            place = _place(self.down, "DOWN", number, self.left.width)
            body.append(let(row.name, add(Name("m_tile"), place)))
            bound = Binary("<", row, Name("ROWS")) if self.row_ends else None
            body += when(bound, self._finish_row(number), one_line=False)
        return tuple(body)

    def _finish_row(self, row: int) -> Body:
        """Makes use of the results of a row: vectors, or element by element."""
        if self.is_vector:
            first = expression(f"n_tile / 4u + {self.across}")
            places = [plus(first, j, "ACROSS") for j in self.vectors]
            parts: Sequence[Expr] = [Name(f"c{row}_{j}") for j in self.vectors]
        else:
            columns = range(self.tile.tn)
            places = [self.column_at(j) for j in columns]
            parts = [self.column(f"c{row}_", j) for j in columns]
        end = fours(Name("COLS")) if self.is_vector else Name("COLS")
        return tuple(
            statement
            for n, part in zip(places, parts, strict=True)
            for statement in self._under_columns(
                n, end, statements(f"finish(z, row{row}, N, X);", N=n, X=part)
            )
        )

    def _finish_sum(self, number: int) -> Body:
        n, part = self.column_at(number), self.column("sum", number)
        store = statements("finish_sum(N, X);", N=n, X=part)
        return self._under_columns(n, Name("COLS"), store)

    def _under_columns(self, n: Expr, end: Expr, body: Body) -> Body:
        return when(Binary("<", n, end) if self.column_ends else None, body)

    def parts(self) -> Body:
        """Leaves what a slice has of each result where all slices are added."""
        body = list(statements("let part = lane.z * SLICE_STRIDE + lane.y * ROW_STRIDE + lane.x;"))
        for row in range(self.tile.tm):
            for j in range(self.tile.tn):
                at = plus(plus(Name("part"), row, "DOWN * ROW_STRIDE"), j, "ACROSS")
                body += statements("added[AT] = X;", AT=at, X=self.column(f"c{row}_", j))
        if self.has_sums:
            first = expression("lane.z * COLS_TILE + lane.x")
            sums = [
                statement
                for j in range(self.tile.tn)
                for statement in statements(
                    "added_sums[AT] = X;", AT=plus(first, j, "ACROSS"), X=self.column("sum", j)
                )
            ]
            body.append(If(expression("lane.y == 0u"), tuple(sums)))
        return tuple(body)

    def total(self) -> Body:
        """Makes use of a result that the slices have added."""
        inside_row = expression("m_tile + m < ROWS") if self.row_ends else None
        inside_column = expression("n_tile + n < COLS") if self.column_ends else None
        store = statements("finish(z, m_tile + m, n_tile + n, total);")
        return when(all_of((inside_row, inside_column)), store)

    @property
    def is_ragged(self) -> bool:
        """Do tiles reach past an edge?"""
        return self.row_ends or self.column_ends or self.sizes.inner % self.tile.tk > 0

    @property
    def row_ends(self) -> bool:
        return self.sizes.rows % self.tile.rows > 0

    @property
    def column_ends(self) -> bool:
        return self.sizes.cols % self.tile.cols > 0

    @property
    def column_width(self) -> int:
        return min(self.tile.tn, VECTOR)

    @property
    def vectors(self) -> range:
        return range(self.tile.tn // self.column_width)

    def factor(self, row: int, suffix: str) -> Expr:
        """The factor of a row, in all columns of a vector."""
        width = min(self.tile.tm, VECTOR)
        a = Name(f"a{row // width}{suffix}")
        value = expression(f"A[{row % width}]", A=a) if width > 1 else a
        return Call(_vector(self.column_width), (value,)) if self.column_width > 1 else value

    def column(self, name: str, number: int) -> Expr:
        """One of the columns that are kept in vectors."""
        vector, element = divmod(number, self.column_width)
        whole = Name(f"{name}{vector}")
        return expression(f"X[{element}]", X=whole) if self.column_width > 1 else whole

    def column_at(self, number: int) -> Expr:
        return add(Name("n_tile"), _place(self.across, "ACROSS", number, self.right.width))


def _vector(width: int) -> str:
    return f"vec{width}<f32>" if width > 1 else "f32"


def _place(lane: str, step: str, number: int, width: int) -> Expr:
    """The place of a thread's row or column in the tile, whose elements have `width` of them."""
    if width == 1:
        return plus(expression(lane), number, step)
    element, rest = divmod(number, VECTOR)
    return plus(
        expression("LANE * 4u", LANE=in_parens(plus(expression(lane), element, step))), rest
    )


def _reads(shared: SharedTile, k: int | None, count: int, lane: str) -> list[Expr]:
    """A thread's values of a tile at one `k`: as many vectors as they fill."""
    size, kind = min(count, VECTOR), "vec4<f32>" if shared.width == VECTOR else "f32"
    elements = []
    for number in range(count // shared.width):
        if k is None:
            read = shared.read(Name("k"), number, lane)
        else:
            read = shared.read_step(k, number, lane)
        elements.append(Call(kind, (read,)) if shared.half else read)
    if shared.width == VECTOR or size == 1:
        return elements
    starts = range(0, count, size)
    return [Call(_vector(size), tuple(elements[i : i + size])) for i in starts]
