"""Attention and its gradients over packed panels, with the micro-kernel of products.

All three have one form (`by_threads.py` says it for one row): a row is multiplied by the columns it
sees, `weigh` makes weights of the products, and the results are sums of factors with these weights.
Here four rows are multiplied at a time; columns and factors are packed once for all rows that see
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from wgcc.backends.wasm.kernels.body import KernelBody, share
from wgcc.backends.wasm.kernels.scopes import LANES, Env, LoopRange
from wgcc.backends.wasm.panels.by_threads import SHAPES
from wgcc.backends.wasm.panels.micro_kernel import (
    COLUMNS,
    ROWS,
    SPREAD,
    Tiling,
    cheapest_axis,
    multiply,
    whole_panels,
)
from wgcc.backends.wasm.panels.packing import TRANSPOSE, LeftPacking, RightPacking, along_k
from wgcc.ir.index import Index, constant
from wgcc.ir.places import ceil_div
from wgcc.kernel.parse import parse_expression, parse_statements

# With fewer, packing is not worth it: rows are done one by one.
MIN_ROWS, MIN_COLUMNS = 8, 8
# What `env` has for a row: its `m`, the columns it sees, and where its products are.
_WEIGH = parse_statements("weigh(z, h, m, row_first, row_end, at_0, at_1);")
# Weights of columns that only other rows of the four see are zero.
_CLEAR = [
    parse_statements(f"""
        for (var n = low; n < min(row_first, high); n++) {{ scratch[at_{i} + n] = 0.0; }}
        for (var n = max(row_end, low); n < high; n++) {{ scratch[at_{i} + n] = 0.0; }}
    """)
    for i in range(2)
]
_FINISH = [parse_statements(f"finish_{i}(z, h, m, n, scratch[at]);") for i in range(2)]


@dataclass(frozen=True, slots=True)
class ScratchLayout:
    """Sizes, and where the scratch memory of a thread holds what, in words.

    `rights` and `factors` are tilings of the operands that are packed; there are `scores` for each
    of `rights`.
    """

    pairs: int
    heads: int
    rows: int
    columns: int
    rights: tuple[Tiling, ...]
    factors: tuple[Tiling, ...]

    @property
    def tiles(self) -> int:
        return ceil_div(self.rows, ROWS)

    @property
    def row_words(self) -> int:
        """The words of a row of scores, padded to whole panels."""
        return whole_panels(self.columns)

    @property
    def packed_starts(self) -> tuple[int, ...]:
        """The word at which each packed operand starts, and where the last one ends."""
        sizes = [tiling.packed for tiling in (*self.rights, *self.factors)]
        return tuple(accumulate(sizes, initial=0))

    @property
    def left(self) -> int:
        return self.packed_starts[-1]

    @property
    def scores(self) -> int:
        depth = max(self.row_words, *(tiling.depth for tiling in self.rights))
        return self.left + depth * SPREAD

    @property
    def out(self) -> int:
        return self.scores + len(self.rights) * ROWS * self.row_words

    @property
    def words(self) -> int:
        return self.out + ROWS * max(tiling.block for tiling in self.factors)


def layout_of(op: str, constants: Mapping[str, int]) -> ScratchLayout | None:
    """None where panels do not pay."""
    shape = SHAPES[op]
    rows, columns = constants[shape.rows], constants[shape.columns]
    if rows < MIN_ROWS or columns < MIN_COLUMNS:
        return None

    def tiling(columns: int, depth: int) -> Tiling:
        return Tiling(1, rows, columns, depth, sums=False, block=whole_panels(columns))

    rights = tuple(tiling(columns, constants[name]) for name in shape.depths)
    factors = tuple(tiling(constants[name], columns) for name in shape.widths)
    return ScratchLayout(constants["PAIRS"], constants["KEY_HEADS"], rows, columns, rights, factors)


def write_attention(
    new_body: Callable[[], KernelBody], layout: ScratchLayout, first: int, env: Env
) -> KernelBody:
    """Parameter `first` of the function is the thread's number."""
    batch = layout.pairs // layout.heads

    def axis(name: str, tiling: Tiling) -> str:
        axes = (("z", batch), ("h", layout.heads), ("k", tiling.depth), ("n", tiling.columns))
        return cheapest_axis(name, axes, {"n": 0, "k": TRANSPOSE}, new_body)

    rights = [axis(f"right_{i}", tiling) for i, tiling in enumerate(layout.rights)]
    factors = [axis(f"factor_{i}", tiling) for i, tiling in enumerate(layout.factors)]
    body = new_body()
    _Attention(body, layout, [*rights, *factors]).write(env, first)
    return body


class _Attention:
    """`axes`: along which each operand is packed."""

    def __init__(self, body: KernelBody, layout: ScratchLayout, axes: list[str]) -> None:
        self._body, self._layout, self._axes = body, layout, axes

    def write(self, env: Env, first: int) -> None:
        layout = self._layout
        span = share(self._body, first, layout.pairs * layout.tiles, 1)

        def item(inner: Env) -> None:
            self._body.bind(inner, "begin", span.start)
            self._item(inner)

        self._body.count("item", span, item, env)

    def _item(self, env: Env) -> None:
        """Four rows of one problem."""
        body, layout = self._body, self._layout
        item = body.index_of(env, "item")
        pair = item // layout.tiles
        body.bind(env, "tile", item % layout.tiles)
        body.bind(env, "z", pair // layout.heads)
        body.bind(env, "h", pair % layout.heads)
        is_new = body.value(parse_expression("tile == 0u || item == begin"), env)
        body.when(is_new, lambda: self._pack(dict(env)))
        self._bind_range(env)
        for i in range(len(layout.rights)):
            self._score(env, i)
        self._weigh(env)
        for i in range(len(layout.factors)):
            self._sum(env, i)

    def _pack(self, env: Env) -> None:
        layout = self._layout
        names = [f"right_{i}" for i in range(len(layout.rights))]
        names += [f"factor_{i}" for i in range(len(layout.factors))]
        tilings = (*layout.rights, *layout.factors)
        for name, tiling, axis, at in zip(
            names, tilings, self._axes, layout.packed_starts, strict=False
        ):
            inner = dict(env)
            self._body.bind(inner, "start", 0)
            self._body.bind(inner, "columns", tiling.columns)
            RightPacking(self._body, f"{name}(z, h, k, n)", tiling, at).pack(inner, axis)

    def _bind_range(self, env: Env) -> None:
        """The columns that any of the four rows sees: from `low`, a multiple of 4, to `end`."""
        body, columns = self._body, self._layout.columns
        body.bind(env, "all", columns)
        for row in range(ROWS):
            inner = dict(env)
            body.bind(inner, "row", row)
            body.bind(env, f"m{row}", self._row(inner))
        first, end = (_extreme(by, f"{at}_seen") for by, at in (("min", "first"), ("max", "end")))
        body.bind(env, "end", body.at_most(f"min(all, {end})", env, columns))
        body.bind(env, "first", body.at_most(f"min({first}, end)", env, columns))
        body.bind(env, "low", body.index_of(env, "first") // LANES * LANES)
        body.bind(env, "high", (body.index_of(env, "end") + (LANES - 1)) // LANES * LANES)

    def _row(self, env: Env) -> Index:
        """The number of a row; beyond the last one, that of the last one."""
        body, rows = self._body, self._layout.rows
        if rows % ROWS == 0:
            return body.index_of(env, "tile") * ROWS + body.index_of(env, "row")
        body.bind(env, "last", rows - 1)
        return body.at_most("min(tile * 4u + row, last)", env, rows - 1)

    def _score(self, env: Env, number: int) -> None:
        """Products of the four rows with the panels of columns that they see."""
        body, layout = self._body, self._layout
        tiling = layout.rights[number]
        left = LeftPacking(body, f"left_{number}(z, h, m, k)", tiling.depth, layout.left)
        left.along_k(dict(env), self._row)
        first = body.index_of(env, "first") // COLUMNS
        panels = (body.index_of(env, "end") + (COLUMNS - 1)) // COLUMNS - first
        right = first * tiling.panel + layout.packed_starts[number]
        out = (first * COLUMNS + self._scores(number), layout.row_words)
        operands, skip = (constant(layout.left), right), constant(tiling.apart)
        multiply(body, operands, out, panels, constant(tiling.depth), skip)

    def _scores(self, number: int) -> int:
        return self._layout.scores + number * ROWS * self._layout.row_words

    def _rows(self, row: Callable[[Env], None], env: Env) -> None:
        """`row` for each of the four rows that there is, with its number `m`."""
        body, rows, count = self._body, self._layout.rows, constant(ROWS)
        if rows % ROWS:
            inner = dict(env)
            body.bind(inner, "rows", rows)
            count = body.at_most("min(4u, rows - tile * 4u)", inner, ROWS)

        def one(inner: Env) -> None:
            m = body.index_of(inner, "tile") * ROWS + body.index_of(inner, "row")
            body.bind(inner, "m", m)
            row(inner)

        body.count("row", LoopRange(constant(0), count), one, env)

    def _weigh(self, env: Env) -> None:
        body, layout = self._body, self._layout

        def row(inner: Env) -> None:
            start = body.index_of(inner, "row") * layout.row_words
            for i in range(2):
                body.bind(inner, f"at_{i}", start + self._scores(min(i, len(layout.rights) - 1)))
            for name in ("first", "end"):
                seen = body.at_most(f"min({name}_seen(m), all)", inner, layout.columns)
                body.bind(inner, f"row_{name}", seen)
            body.run(_WEIGH, inner)
            for i in range(len(layout.factors)):
                body.run(_CLEAR[i], inner)

        self._rows(row, env)

    def _sum(self, env: Env, number: int) -> None:
        """Sums of the factors with the weights."""
        body, layout = self._body, self._layout
        tiling, low = layout.factors[number], body.index_of(env, "low")
        at = f"row * {layout.row_words}u + {self._scores(number)}u + k"
        vectors = LoopRange(low // LANES, body.index_of(env, "high") // LANES)
        LeftPacking(body, f"scratch[{at}]", 0, layout.left).part_along_k(dict(env), vectors)
        start = layout.packed_starts[len(layout.rights) + number]
        operands = (low * SPREAD + layout.left, low * COLUMNS + start)
        depth = body.index_of(env, "end") - low
        skip = (constant(layout.columns) - depth) * COLUMNS + tiling.apart
        panels = constant(tiling.block // COLUMNS)
        multiply(body, operands, (constant(layout.out), tiling.block), panels, depth, skip)
        self._rows(lambda inner: self._finish(inner, number), env)

    def _finish(self, env: Env, number: int) -> None:
        body, tiling = self._body, self._layout.factors[number]
        start = body.index_of(env, "row") * tiling.block + self._layout.out

        def element(inner: Env) -> None:
            n = body.index_of(inner, "k")
            body.bind(inner, "n", n)
            body.bind(inner, "at", start + n)
            body.run(_FINISH[number], inner)

        along_k(body, tiling.columns, element, env)


def _extreme(by: str, function: str) -> str:
    """The text of the least (`min`) or greatest (`max`) value of a function of the four rows."""
    values = [f"{function}(m{row})" for row in range(ROWS)]
    return f"{by}({by}({values[0]}, {values[1]}), {by}({values[2]}, {values[3]}))"
