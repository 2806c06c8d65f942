"""Packs the operands of a product into the scratch memory of a thread.

An element of an operand is what the kernel computes of `z`, `m` and `k` (the left one) or `z`, `k`
and `n`. Lanes run along the axis in which elements are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.backends.wasm.encoding.instructions import V128
from wgcc.backends.wasm.kernels.body import KernelBody
from wgcc.backends.wasm.kernels.loops import WithEnv
from wgcc.backends.wasm.kernels.scopes import LANES, Env, Held, LoopRange, span_of
from wgcc.backends.wasm.panels.micro_kernel import COLUMNS, ROWS, SPREAD, Tiling
from wgcc.ir.index import Index, constant
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Element,
    Expr,
    FunctionDef,
    Literal,
    Name,
    expressions_of,
    parts_of,
)

# What transposing costs per vector, in instructions.
TRANSPOSE = 2.0
# Vectors of a row that are packed at a time.
MIN_VECTORS, MOST_VECTORS = 8, 32
# Rows of so many vectors are packed whole, if they consist of runs: four fill half of a cache.
MOST_OF_ROW = 128
# Which words of two vectors: pairs of the lower halves, of the upper ones; then pairs of those.
_LOW, _HIGH, _FIRST, _SECOND = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)


class LeftPacking:
    """Four rows of `depth` elements, from word `at` of the scratch memory on.

    `run`: so many elements of a row follow each other in memory, such as the channels of one tap of
    a convolution; whether they are inside the image is asked once for all of them.
    """

    def __init__(
        self, body: KernelBody, element: str, depth: int, at: int, run: int | None = None
    ) -> None:
        self._body, self._depth, self._at, self._run = body, depth, at, run
        self._element = parse_expression(element)

    def along_k(self, env: Env, row_of: Callable[[Env], Index]) -> None:
        """One row after the other; `row_of` gives the number of one."""
        body, vectors = self._body, self._depth // LANES
        size = _part_of(vectors)

        def rows(of_one: WithEnv, outer: Env) -> None:
            def row(inner: Env) -> None:
                body.bind(inner, "m", row_of(inner))
                of_one(inner)

            body.count("row", span_of(ROWS), row, outer)

        if self._run:
            runs = span_of(self._depth // self._run)
            if vectors <= MOST_OF_ROW:
                rows(lambda one: body.count("run", runs, self._run_of_row, one), env)
            else:
                body.count("run", runs, lambda own: rows(self._run_of_row, own), env)
            return

        def part(inner: Env) -> None:
            start = body.index_of(inner, "part") * size
            span = LoopRange(start, start + size, guess=size)
            rows(lambda one: vectors_along_k(body, span, self._row_element, one), inner)

        if size == vectors:
            rows(lambda one: along_k(body, self._depth, self._row_element, one), env)
            return
        body.count("part", span_of(vectors // size), part, env)
        if self._depth % LANES:
            span = last_steps(self._depth)
            rows(lambda one: body.count("k", span, self._row_element, one), env)

    def _run_of_row(self, env: Env) -> None:
        body, run = self._body, self._run
        assert run
        start = body.index_of(env, "run") * run

        def lanes(own: Env) -> None:
            v, lane = (body.index_of(own, name) for name in ("v", "lane"))
            body.bind(own, "k", start + v * LANES + lane)
            self._row_element(own)

        def vectors(own: Env) -> None:
            body.count("v", span_of(run // LANES), lambda each: body.four("lane", lanes, each), own)

        body.unswitch(vectors, env)

    def part_along_k(self, env: Env, vectors: LoopRange) -> None:
        """Only some vectors of each row; what is beyond the last element must be there, too."""

        def row(inner: Env) -> None:
            vectors_along_k(self._body, vectors, self._row_element, inner)

        self._body.count("row", span_of(ROWS), row, env)

    def _row_element(self, env: Env) -> None:
        k, row = (self._body.index_of(env, name) for name in ("k", "row"))
        count = LANES if self._body.positions.in_lanes(k) else 1
        start = row * LANES + k * SPREAD + self._at
        self._spread(self._body.value(self._element, env), count, start, SPREAD)

    def along_rows(self, env: Env, top: Index) -> None:
        """Rows `top` to `top + 3` at once."""
        body = self._body

        def step(inner: Env) -> None:
            body.four("lane", elements, inner)

        def elements(inner: Env) -> None:
            body.bind(inner, "m", top + body.index_of(inner, "lane"))
            start = body.index_of(inner, "k") * SPREAD + self._at
            self._spread(body.value(self._element, inner), ROWS, start, LANES)

        body.count("k", span_of(self._depth), step, env)

    def _spread(self, held: Held, count: int, start: Index, step: int) -> None:
        """Stores each of the first `count` lanes in a vector of its own, `step` words apart."""
        body, f = self._body, self._body.f
        local = f.local("spread", V128)
        body.push(held, LANES)
        f.set(local)
        for lane in range(count):
            offset = body.positions.address(body.scratch.local, start + lane * step)
            f.get(local).get(local).shuffle(*[lane] * LANES).emit("v128.store", offset=offset)


def run_of(function: FunctionDef, depth: int) -> int | None:
    """How many elements along the last parameter have equal quotients by all of its divisors."""
    name = function.params[-1][0]
    parts = (
        part
        for statement in function.body
        for whole in expressions_of(statement)
        for part in parts_of(whole)
    )
    divisors = {number for part in parts if (number := _divisor(part, name))}
    least = min(divisors, default=0)
    if least < 2 * LANES or depth % least or any(number % least for number in divisors):
        return None
    return least if least % LANES == 0 else None


def _divisor(part: Expr, name: str) -> int | None:
    match part:
        case Binary("/" | "%", Name(n), Literal(int(number))) if n == name:
            return number
    return None


def _part_of(vectors: int) -> int:
    """How many vectors of a row are packed before those of the next row; all of them, if need be.

    Rows are packed into the same cache lines, which should still be in the first cache.
    """
    if vectors <= MOST_VECTORS:
        return vectors
    fitting = (size for size in range(MOST_VECTORS, MIN_VECTORS - 1, -1) if vectors % size == 0)
    return next(fitting, vectors)


class RightPacking:
    """A block of columns, in panels from word `at` of the scratch memory on.

    `env` has the first column `start` and the number of `columns` of the block.
    """

    def __init__(self, body: KernelBody, element: str, tiling: Tiling, at: int = 0) -> None:
        self._body, self._tiling, self._at = body, tiling, at
        self._value = parse_expression(element)
        self._store = (Assign(Element(Name("scratch"), Name("at")), self._value),)

    @property
    def _last_steps(self) -> LoopRange:
        return last_steps(self._tiling.depth)

    def pack(self, env: Env, along: str) -> None:
        """Packs a block with its lanes along `n` or along `k`."""
        if along == "k":
            self.pack_transposed(env)
        else:
            self.columns(env)

    def columns(self, env: Env) -> None:
        """Packs a block of the right operand with lanes along its columns.

        A row of all panels is read at a time: rows are pages apart in large operands.
        """

        def step(inner: Env) -> None:
            self._panels(self._row, inner)

        self._body.count("k", span_of(self._tiling.depth), step, env)
        self._last_columns(env, self._column)

    def pack_transposed(self, env: Env) -> None:
        """Packs a block of the right operand with lanes along `k`."""

        def panel(inner: Env) -> None:
            if self._tiling.depth >= LANES:
                self._body.count("v", span_of(self._tiling.depth // LANES), self._squares, inner)
            if self._tiling.depth % LANES:
                self._body.count("k", self._last_steps, self._row, inner)

        self._panels(panel, env)
        self._last_columns(env, self._column_along_k)

    def _panels(self, panel: WithEnv, env: Env) -> None:
        """All panels of the block that are full."""
        full = self._body.index_of(env, "columns") // COLUMNS
        if full.high > 0:
            self._body.count("panel", LoopRange(constant(0), full), panel, env)

    def _last_columns(self, env: Env, column: WithEnv) -> None:
        """Packs the columns of the last block that do not fill a panel."""
        tiling = self._tiling
        rest = tiling.columns % COLUMNS
        if not rest:
            return

        def columns() -> None:
            inner = dict(env)
            self._body.bind(inner, "start", tiling.last)
            self._body.bind(inner, "panel", (tiling.columns - tiling.last) // COLUMNS)
            self._body.count("column", span_of(rest), column, inner)

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

        self._body.count("k", span_of(self._tiling.depth), element, env)

    def _column_along_k(self, env: Env) -> None:
        def element(inner: Env) -> None:
            self._element(inner, self._body.index_of(inner, "column"))

        along_k(self._body, self._tiling.depth, element, env)

    def _element(self, env: Env, column: Index) -> None:
        self._place(env, column)
        self._body.run(self._store, env)

    def _place(self, env: Env, column: Index) -> None:
        """Names the column `n` and the place `at` in scratch memory."""
        start, panel, k = (self._body.index_of(env, name) for name in ("start", "panel", "k"))
        self._body.bind(env, "n", start + panel * COLUMNS + column)
        at = panel * self._tiling.panel + k * COLUMNS + column
        self._body.bind(env, "at", at + self._at)

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
            body.push(body.value(self._value, inner), LANES)
            body.f.set(local)

        body.four("lane", element, env)
        return local

    def _transpose(self, vectors: Sequence[int]) -> list[int]:
        f = self._body.f

        def shuffle(a: int, b: int, words: tuple[int, ...]) -> int:
            local = f.local("square", V128)
            f.get(a).get(b).shuffle(*words).set(local)
            return local

        a, b, c, d = vectors
        low, high = (shuffle(a, b, words) for words in (_LOW, _HIGH))
        low2, high2 = (shuffle(c, d, words) for words in (_LOW, _HIGH))
        pairs = ((low, low2), (high, high2))
        return [shuffle(*pair, words) for pair in pairs for words in (_FIRST, _SECOND)]


def along_k(body: KernelBody, depth: int, element: WithEnv, env: Env) -> None:
    """Four elements at a time, then the rest."""
    if depth >= LANES:
        vectors_along_k(body, span_of(depth // LANES), element, env)
    if depth % LANES:
        body.count("k", last_steps(depth), element, env)


def vectors_along_k(body: KernelBody, vectors: LoopRange, element: WithEnv, env: Env) -> None:
    def vector(inner: Env) -> None:
        body.four("lane", lanes, inner)

    def lanes(inner: Env) -> None:
        body.bind(inner, "k", body.index_of(inner, "v") * LANES + body.index_of(inner, "lane"))
        element(inner)

    body.count("v", vectors, vector, env)


def last_steps(depth: int) -> LoopRange:
    """The steps along `k` after the last whole vector."""
    return LoopRange(constant(depth // LANES * LANES), constant(depth))
