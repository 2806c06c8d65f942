"""Packs the operands of a product into the scratch memory of a thread.

Both operands are functions of the kernel, `left(z, m, k)` and `right(z, k, n)`. Lanes run along the
axis in which their elements are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.schedule.codegen.index import Index, constant
from wgcc.wasm.body import Body
from wgcc.wasm.encoder import V128
from wgcc.wasm.loops import WithEnv
from wgcc.wasm.micro_kernel import COLUMNS, ROWS, SPREAD
from wgcc.wasm.parse import parse_expression, parse_statements
from wgcc.wasm.span import LANES, Span, fixed
from wgcc.wasm.things import Env, Held
from wgcc.wasm.tiling import Tiling

_LEFT = parse_expression("left(z, m, k)")
_RIGHT = parse_statements("scratch[at] = right(z, k, n);")
_RIGHT_VALUE = parse_expression("right(z, k, n)")
# What transposing costs per vector, in instructions.
TRANSPOSE = 2.0
# Which words of two vectors: pairs of the lower halves, of the upper ones; then pairs of those.
_LOW, _HIGH, _FIRST, _SECOND = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)


class Packing:
    """`env` has `z`, the first column `start` and the number of `columns` of a block."""

    def __init__(self, body: Body, tiling: Tiling) -> None:
        self._body, self._tiling = body, tiling

    def left_along_k(self, env: Env, row_of: Callable[[Env], Index]) -> None:
        """Four rows of the left operand, one after the other; `row_of` gives the number of one."""
        body = self._body

        def row(inner: Env) -> None:
            body.bind(inner, "m", row_of(inner))
            start = body.index_of(inner, "row") * LANES + self._tiling.left

            def element(at: Env) -> None:
                k = body.index_of(at, "k")
                count = LANES if body.positions.in_lanes(k) else 1
                self._spread(body.value(_LEFT, at), count, start + k * SPREAD, SPREAD)

            self._along_k(element, inner)

        body.count("row", fixed(ROWS), row, env)

    def left_along_rows(self, env: Env, top: Index) -> None:
        """Rows `top` to `top + 3` of the left operand at once."""
        body = self._body

        def step(inner: Env) -> None:
            body.four("lane", elements, inner)

        def elements(inner: Env) -> None:
            body.bind(inner, "m", top + body.index_of(inner, "lane"))
            start = body.index_of(inner, "k") * SPREAD + self._tiling.left
            self._spread(body.value(_LEFT, inner), ROWS, start, LANES)

        body.count("k", fixed(self._tiling.depth), step, env)

    def _spread(self, held: Held, count: int, start: Index, step: int) -> None:
        """Stores each of the first `count` lanes in a vector of its own, `step` words apart."""
        body, f = self._body, self._body.f
        local = f.local("spread", V128)
        body.push(held, LANES)
        f.set(local)
        for lane in range(count):
            offset = body.positions.address(body.scratch.local, start + lane * step)
            f.get(local).get(local).shuffle(*[lane] * LANES).emit("v128.store", offset=offset)

    def _along_k(self, element: WithEnv, env: Env) -> None:
        """Four elements at a time, then the rest."""
        body, depth = self._body, self._tiling.depth

        def vector(inner: Env) -> None:
            def lanes(at: Env) -> None:
                body.bind(at, "k", body.index_of(at, "v") * LANES + body.index_of(at, "lane"))
                element(at)

            body.four("lane", lanes, inner)

        if depth >= LANES:
            body.count("v", fixed(depth // LANES), vector, env)
        if depth % LANES:
            body.count("k", self._last_steps, element, env)

    @property
    def _last_steps(self) -> Span:
        """What is left over by vectors along `k`."""
        depth = self._tiling.depth
        return Span(constant(depth // LANES * LANES), constant(depth))

    def columns(self, env: Env) -> None:
        """A block of the right operand, with lanes along its columns."""

        def panel(inner: Env) -> None:
            self._body.count("k", fixed(self._tiling.depth), self._row, inner)

        self._panels(panel, env)
        self._last_columns(env, self._column)

    def transposed(self, env: Env) -> None:
        """A block of the right operand, with lanes along `k`."""

        def panel(inner: Env) -> None:
            if self._tiling.depth >= LANES:
                self._body.count("v", fixed(self._tiling.depth // LANES), self._squares, inner)
            if self._tiling.depth % LANES:
                self._body.count("k", self._last_steps, self._row, inner)

        self._panels(panel, env)
        self._last_columns(env, self._column_along_k)

    def _panels(self, panel: WithEnv, env: Env) -> None:
        """All panels of the block that are full."""
        full = self._body.index_of(env, "columns") // COLUMNS
        if full.high > 0:
            self._body.count("panel", Span(constant(0), full), panel, env)

    def _last_columns(self, env: Env, column: WithEnv) -> None:
        """Those of the last block that do not fill a panel."""
        tiling = self._tiling
        rest = tiling.columns % COLUMNS
        if not rest:
            return

        def columns() -> None:
            inner = dict(env)
            self._body.bind(inner, "start", tiling.last)
            self._body.bind(inner, "panel", (tiling.columns - tiling.last) // COLUMNS)
            self._body.count("column", fixed(rest), column, inner)

        if tiling.blocks == 1:
            columns()
            return
        self._body.bind(env, "last", tiling.last)
        self._body.when(self._body.value(parse_expression("start == last"), env), columns)

    def _row(self, env: Env) -> None:
        """Eight columns of one `k`."""
        for half in range(0, COLUMNS, LANES):

            def element(inner: Env, half: int = half) -> None:
                self._element(inner, self._body.index_of(inner, "lane") + half)

            self._body.four("lane", element, env)

    def _column(self, env: Env) -> None:
        def element(inner: Env) -> None:
            self._element(inner, self._body.index_of(inner, "column"))

        self._body.count("k", fixed(self._tiling.depth), element, env)

    def _column_along_k(self, env: Env) -> None:
        def element(inner: Env) -> None:
            self._element(inner, self._body.index_of(inner, "column"))

        self._along_k(element, env)

    def _element(self, env: Env, column: Index) -> None:
        self._place(env, column)
        self._body.run(_RIGHT, env)

    def _place(self, env: Env, column: Index) -> None:
        """Names the column `n` and the place `at` in scratch memory."""
        start, panel, k = (self._body.index_of(env, name) for name in ("start", "panel", "k"))
        self._body.bind(env, "n", start + panel * COLUMNS + column)
        self._body.bind(env, "at", panel * self._tiling.panel + k * COLUMNS + column)

    def _squares(self, env: Env) -> None:
        """Eight columns of four `k`: two squares of 4 × 4 are transposed."""
        for half in range(0, COLUMNS, LANES):
            vectors = [self._vector(env, half + i) for i in range(LANES)]
            for step, vector in enumerate(self._transpose(vectors)):
                inner = dict(env)
                self._body.bind(inner, "k", self._body.index_of(env, "v") * LANES + step)
                self._place(inner, constant(half))
                address = self._body.index_of(inner, "at")
                offset = self._body.positions.address(self._body.scratch.local, address)
                self._body.f.get(vector).emit("v128.store", offset=offset)

    def _vector(self, env: Env, column: int) -> int:
        """A local with four elements of a column, along `k`."""
        body, local = self._body, self._body.f.local("column", V128)

        def element(inner: Env) -> None:
            v, lane = (body.index_of(inner, name) for name in ("v", "lane"))
            body.bind(inner, "k", v * LANES + lane)
            self._place(inner, constant(column))
            body.push(body.value(_RIGHT_VALUE, inner), LANES)
            body.f.set(local)

        body.four("lane", element, env)
        return local

    def _transpose(self, vectors: Sequence[int]) -> list[int]:
        f = self._body.f

        def shuffled(a: int, b: int, words: tuple[int, ...]) -> int:
            local = f.local("square", V128)
            f.get(a).get(b).shuffle(*words).set(local)
            return local

        a, b, c, d = vectors
        low, high = (shuffled(a, b, words) for words in (_LOW, _HIGH))
        low2, high2 = (shuffled(c, d, words) for words in (_LOW, _HIGH))
        pairs = ((low, low2), (high, high2))
        return [shuffled(*pair, words) for pair in pairs for words in (_FIRST, _SECOND)]
