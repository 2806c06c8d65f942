"""Matrix products over packed panels.

For each block of columns, the right operand is packed into panels of 8 columns by the kernel's own
`right`, so whatever it computes is computed once. For each 4 rows the left operand is packed, the
micro-kernel multiplies, and the kernel's `finish` gets the results, row by row. Each result is one
sum in the order of `k`, whichever thread computes it.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.backends.wasm.kernels.body import KernelBody, share
from wgcc.backends.wasm.kernels.loops import WithEnv
from wgcc.backends.wasm.kernels.scopes import LANES, Env, LoopRange
from wgcc.backends.wasm.panels.micro_kernel import COLUMNS, ROWS, Tiling, cheapest_axis, multiply
from wgcc.backends.wasm.panels.packing import TRANSPOSE, LeftPacking, RightPacking, run_of
from wgcc.ir.index import Index, constant
from wgcc.kernel.parse import parse_expression, parse_statements
from wgcc.kernel.tree import Statement

_FINISH = parse_statements("finish(z, m, n, scratch[at]);")
_FINISH_SUM = parse_statements("""
    var total = 0.0;
    for (var k = 0u; k < DEPTH; k++) { total += scratch[at + k * 8u]; }
    finish_sum(n, total);
""")


def write_product(
    new_body: Callable[[], KernelBody], tiling: Tiling, first: int, env: Env
) -> KernelBody:
    """Parameter `first` of the function is the thread's number."""
    z, m, k, n = (
        ("z", tiling.batch),
        ("m", tiling.rows),
        ("k", tiling.depth),
        ("n", tiling.columns),
    )
    lefts = {"k": 0.0, "m": 0.0} if tiling.rows >= ROWS else {"k": 0.0}
    left = cheapest_axis("left", (z, m, k), lefts, new_body)
    right = cheapest_axis("right", (z, k, n), {"n": 0, "k": TRANSPOSE}, new_body)
    body = new_body()
    _Product(body, tiling, left, right).write(env, first)
    return body


class _Product:
    """`left`, `right`: the axes along which the operands are packed."""

    def __init__(self, body: KernelBody, tiling: Tiling, left: str, right: str) -> None:
        self._body, self._tiling = body, tiling
        self._left, self._right = left, right
        run = run_of(body.function("left"), tiling.depth)
        self._pack_left = LeftPacking(body, "left(z, m, k)", tiling.depth, tiling.left, run)
        self._pack_right = RightPacking(body, "right(z, k, n)", tiling)

    def write(self, env: Env, first: int) -> None:
        tiling = self._tiling
        span = share(self._body, first, tiling.batch * tiling.blocks * tiling.tiles, 1)

        def item(inner: Env) -> None:
            self._body.bind(inner, "first", span.start)
            self._item(inner)

        self._body.count("item", span, item, env)

    def _item(self, env: Env) -> None:
        """Four rows of a block of columns."""
        body, tiling = self._body, self._tiling
        item = body.index_of(env, "item")
        block = item // tiling.tiles
        body.bind(env, "tile", item % tiling.tiles)
        body.bind(env, "z", block // tiling.blocks)
        body.bind(env, "start", block % tiling.blocks * tiling.block)
        body.bind(env, "columns", self._columns(env))
        self._when(
            "tile == 0u || item == first",
            lambda inner: self._pack_right.pack(inner, self._right),
            env,
        )
        if tiling.sums:
            self._when("tile == 0u", self._sum_columns, env)
        body.bind(env, "top", self._top(env))
        self._multiply(env)
        self._finish(env)

    def _when(self, condition: str, then: WithEnv, env: Env) -> None:
        held = self._body.value(parse_expression(condition), env)
        self._body.when(held, lambda: then(dict(env)))

    def _columns(self, env: Env) -> Index:
        """How many columns the block has."""
        tiling = self._tiling
        if tiling.blocks == 1 or tiling.is_even:
            return constant(min(tiling.block, tiling.columns))
        self._body.bind(env, "block", tiling.block)
        self._body.bind(env, "all", tiling.columns)
        return self._body.at_most("min(block, all - start)", env, tiling.block)

    def _top(self, env: Env) -> Index:
        """The first row of a panel; the last panel has rows of the one before it, too."""
        rows, top = self._tiling.rows, self._body.index_of(env, "tile") * ROWS
        if rows % ROWS == 0 or self._left == "k":
            return top
        self._body.bind(env, "last", rows - ROWS)
        return self._body.at_most("min(tile * 4u, last)", env, rows - ROWS)

    def _multiply(self, env: Env) -> None:
        body, tiling = self._body, self._tiling
        if self._left == "k":
            self._pack_left.along_k(env, self._row)
        else:
            self._pack_left.along_rows(env, body.index_of(env, "top"))
        operands = (constant(tiling.left), constant(0))
        panels = (body.index_of(env, "columns") + (COLUMNS - 1)) // COLUMNS
        out = (constant(tiling.out), tiling.block)
        multiply(body, operands, out, panels, constant(tiling.depth), constant(tiling.apart))

    def _row(self, env: Env) -> Index:
        """The number of a row; beyond the last one, that of the last one."""
        rows, row = self._tiling.rows, self._body.index_of(env, "row")
        if rows % ROWS == 0:
            return self._body.index_of(env, "tile") * ROWS + row
        self._body.bind(env, "last", rows - 1)
        return self._body.at_most("min(tile * 4u + row, last)", env, rows - 1)

    def _finish(self, env: Env) -> None:
        body, tiling = self._body, self._tiling
        rows = constant(ROWS)
        if tiling.rows % ROWS:
            body.bind(env, "all", tiling.rows)
            rows = body.at_most("min(4u, all - tile * 4u)", env, ROWS)

        def row(inner: Env) -> None:
            m = body.index_of(inner, "tile") * ROWS + body.index_of(inner, "row")
            body.bind(inner, "m", m)
            out = (m - body.index_of(inner, "top")) * tiling.block + tiling.out
            self._over_columns(_FINISH, lambda column: out + column, inner)

        body.count("row", LoopRange(constant(0), rows), row, env)

    def _sum_columns(self, env: Env) -> None:
        tiling = self._tiling

        def place(column: Index) -> Index:
            return column // COLUMNS * tiling.panel + column % COLUMNS

        self._over_columns(_FINISH_SUM, place, env)

    def _over_columns(
        self, statements: tuple[Statement, ...], place: Callable[[Index], Index], env: Env
    ) -> None:
        """Runs `statements` for each column `n` of the block; `at` is what `place` says of it."""
        body, tiling = self._body, self._tiling

        def element(inner: Env) -> None:
            column = body.index_of(inner, "column")
            body.bind(inner, "n", body.index_of(inner, "start") + column)
            body.bind(inner, "at", place(column))
            body.run(statements, inner)

        def lanes(inner: Env) -> None:
            v, lane = (body.index_of(inner, name) for name in ("v", "lane"))
            body.bind(inner, "column", v * LANES + lane)
            element(inner)

        def vector(inner: Env) -> None:
            body.four("lane", lanes, inner)

        vectors = body.index_of(env, "columns") // LANES
        body.count("v", LoopRange(constant(0), vectors), vector, env)
        if tiling.columns % LANES:
            self._last_columns(element, env)

    def _last_columns(self, element: WithEnv, env: Env) -> None:
        """Runs `element` for the columns of the last block that do not fill a vector."""
        tiling = self._tiling
        count = tiling.columns - tiling.last

        def columns(inner: Env) -> None:
            self._body.bind(inner, "start", tiling.last)
            span = LoopRange(constant(count // LANES * LANES), constant(count))
            self._body.count("column", span, element, inner)

        if tiling.blocks == 1:
            columns(dict(env))
            return
        self._body.bind(env, "last", tiling.last)
        self._when("start == last", columns, env)
