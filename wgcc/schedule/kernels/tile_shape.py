"""The shapes of workgroups: the tile of a matrix product, and the lanes that share a reduction.

A product is cut into the tiles that a GPU of middling size finishes first. Lanes that follow a row
load well where its elements are neighbours. Of a sum over rows, results are neighbours instead, and
lanes that follow those touch an eighth of the memory sectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from itertools import product
from math import ceil

from wgcc.ir.graph import Value
from wgcc.ir.index import INNER, OUTER, Space
from wgcc.kernel.build import functions, statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Declaration, Expr
from wgcc.schedule.codegen.bindings import Touch
from wgcc.schedule.kernel import BYTES, MAX_WORKGROUP_BYTES, VECTOR, WORD

# Results of a thread along each side, and tiles along each side.
BLOCKS = (8, 4, 2, 1)
PAIRS = tuple((m, n) for m in BLOCKS for n in BLOCKS if max(m, n) <= 4 * min(m, n))
SIDES = (128, 64, 32, 16, 8, 4, 2)
# How far a tile may reach along the inner axis, if that is a multiple; if it is of none, so far.
DEPTHS, DEPTH = (16, 32, 64, 48, 24, 20, 13, 12, 10, 8), 16
# Bytes of a sector of memory: depths of whole sectors are tried first, and how many are.
SECTOR, MOST_DEPTHS = 32, 4
# Threads that WebGPU grants. Subgroups of some GPUs have 64 lanes.
MAX_THREADS, MIN_THREADS, SUBGROUP = 256, 64, 32
# Elements of an operand that a thread loads for a tile: more would take too many registers.
MAX_LOADS = 16
# Words that may pad a row of a tile; short ones have more room.
PADDING = 8
SLICES = (1, 2, 4, 8, 16)
# One is used, the others are candidates for tuning.
MOST_SHAPES = 5
# The GPUs that shapes are chosen for, a large and a small one, by their units. In a cycle a unit
# makes 128 multiply-adds and moves 128 bytes of workgroup memory and, if all units do so, 16 of
# memory. Each tile waits so many cycles for what it loads, and some for its barriers.
UNITS, MULTIPLIERS, SHARED_BYTES, CACHED_BYTES, LATENCY, BARRIERS = (46, 10), 128, 128, 16, 600, 40
# A product of more operations than this should have so many workgroups.
LARGE, ENOUGH_WORKGROUPS = 1 << 20, 64
# So much of its arithmetic should be no padding.
LEAST_USEFUL = 0.85


@dataclass(frozen=True, slots=True)
class Sizes:
    """`batch` products of `rows × inner` by `inner × cols`."""

    batch: int
    rows: int
    cols: int
    inner: int

    @classmethod
    def of(cls, a: Value, b: Value) -> Sizes:
        batch = a.shape[0] if len(a.shape) == 3 else 1
        return cls(batch, a.shape[-2], b.shape[-1], a.shape[-1])

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.cols * self.inner


@dataclass(frozen=True, slots=True)
class Tile:
    """`down × across` threads with `tm × tn` results each; `tk` elements of the inner axis.

    `slices` such blocks of threads share a tile: each takes some of the `tk` elements, and their
    results are added in the end. So few results can have many threads with large blocks.
    """

    down: int
    across: int
    tm: int
    tn: int
    tk: int
    slices: int = 1

    @property
    def rows(self) -> int:
        return self.down * self.tm

    @property
    def cols(self) -> int:
        return self.across * self.tn

    @property
    def threads(self) -> int:
        return self.down * self.across * self.slices

    @property
    def row_stride(self) -> int:
        """The distance between rows of slices' results, padded so that no lanes wait for a bank."""
        return self.cols if self.tn == 1 else self.cols + self.across

    @property
    def slice_stride(self) -> int:
        size = self.rows * self.row_stride
        return size + (self.down * self.across - size) % SUBGROUP

    def workgroups(self, sizes: Sizes) -> int:
        return sizes.batch * ceil(sizes.rows / self.rows) * ceil(sizes.cols / self.cols)

    def padding_factor(self, sizes: Sizes) -> float:
        """How many times the product's arithmetic it does, with padding."""
        rows, cols = ceil(sizes.rows / self.rows) * self.rows, ceil(sizes.cols / self.cols)
        inner = ceil(sizes.inner / self.tk) * self.tk
        return rows * cols * self.cols * inner / (sizes.rows * sizes.cols * sizes.inner)


@lru_cache(maxsize=1024)
def tile_shapes(sizes: Sizes, width: int = WORD) -> tuple[Tile, ...]:
    """The best shapes, the best one first; elements of operands have `width` bytes."""
    depths = _depths(sizes.inner, width)
    for least in (MIN_THREADS, 1):
        fitting = [
            Tile(down, across, tm, tn, depth, slices)
            for down, across, tm, tn, slices in _shapes(sizes)
            if down * across * slices >= least
            for depth in depths
            if _fits(down, across, tm, tn, depth, slices)
        ]
        if fitting:
            break
    return tuple(nsmallest(MOST_SHAPES, fitting, key=lambda tile: _order(sizes, tile)))


def _order(sizes: Sizes, tile: Tile) -> tuple[float, int, int, int, int]:
    """Shapes that take equally long are told apart by their numbers, the larger ones first."""
    return _cycles(sizes, tile), -tile.rows, -tile.cols, -tile.tm, tile.tk


def _depths(inner: int, width: int) -> list[int]:
    if inner <= DEPTH:
        return [inner]
    divisors = [depth for depth in DEPTHS if inner % depth == 0]
    whole = [depth for depth in divisors if depth * width % SECTOR == 0]
    return (whole or divisors or [DEPTH])[:MOST_DEPTHS]


def _fits(down: int, across: int, tm: int, tn: int, tk: int, slices: int) -> bool:
    rows, cols = down * tm, across * tn
    if tk % slices or max(rows, cols) * tk > MAX_LOADS * down * across * slices:
        return False
    return _memory(Tile(down, across, tm, tn, tk, slices)) <= MAX_WORKGROUP_BYTES


# Threads below and beside each other, results of each along both sides, and slices.
Shape = tuple[int, int, int, int, int]


def _shapes(sizes: Sizes) -> Iterator[Shape]:
    """All shapes of tiles that are not far larger than the product."""
    sides = product(_sides(sizes.rows), _sides(sizes.cols))
    for (rows, cols), (tm, tn) in product(sides, PAIRS):
        threads = rows // tm * (cols // tn)
        if rows % tm == 0 and cols % tn == 0 and threads <= MAX_THREADS:
            for slices in _slices(threads, tm * tn):
                yield rows // tm, cols // tn, tm, tn, slices


def _slices(threads: int, results: int) -> Iterator[int]:
    """One, if there are enough threads; else also as many as give enough."""
    yield 1
    if threads < MIN_THREADS and results >= 4:
        yield from (n for n in SLICES if n > 1 and n * threads in (64, 128))


def _sides(size: int) -> list[int]:
    return [side for side in SIDES if side < 2 * size] or [SIDES[-1]]


def _memory(tile: Tile) -> int:
    """Bytes of both tiles, each row with what may pad it, and of what slices have to add."""
    added = tile.slices * (tile.slice_stride + tile.cols) if tile.slices > 1 else 0
    return 4 * (tile.tk * (tile.rows + tile.cols + 2 * PADDING) + added)


def _cycles(sizes: Sizes, tile: Tile) -> float:
    """The cycles of the busiest part of a unit, or of one workgroup if that takes longer."""
    subgroups = tile.threads / SUBGROUP
    reads = _reads(tile.tm) + _reads(tile.tn)
    issued = subgroups * (tile.tm * tile.tn + reads) * SUBGROUP / MULTIPLIERS
    shared = subgroups * (tile.tm + tile.tn) * SUBGROUP * VECTOR / SHARED_BYTES
    loaded = VECTOR * (tile.rows + tile.cols) / CACHED_BYTES
    tiles = ceil(sizes.inner / tile.tk)
    # A slice makes its own steps along the inner axis, all slices together each of them once.
    own, other = issued / tile.slices, shared / tile.slices
    step = tile.tk * (max(own, other, loaded) + (own + other) / 4) + BARRIERS
    added = 2 * tile.slices * tile.rows * tile.cols * VECTOR / SHARED_BYTES + BARRIERS
    stored = VECTOR * tile.rows * tile.cols / CACHED_BYTES + (added if tile.slices > 1 else 0)
    workgroups = tile.workgroups(sizes)
    alone = tiles * (LATENCY + tile.tk // tile.slices * (tile.tm * tile.tn + reads))
    busy = [ceil(workgroups / units) * (tiles * step + stored) for units in UNITS]
    padded = tile.padding_factor(sizes)
    few = sizes.flops > LARGE and workgroups < ENOUGH_WORKGROUPS
    wasteful = sizes.flops > LARGE and padded > 1 / LEAST_USEFUL
    # Padding costs energy even where it costs no time.
    time = sum(max(time, alone) for time in busy) * padded**2
    return time * (4 if few else 1) * (2 if wasteful else 1)


def _reads(block: int) -> int:
    return block // VECTOR if block >= VECTOR else block


# Results side by side that one workgroup makes.
WIDTHS = (1, 2, 4, 8, 16, 32)
# So many workgroups keep a GPU busy.
BUSY = 256
# Sectors are counted for one place of many, so what is hardly more is as good. Lanes follow rows,
# which takes no more than a few barriers for each result, unless that touches many more.
AS_GOOD, MANY_MORE = 1.1, 1.5
# Lanes of a workgroup that follow a row; those of one that follows results, if there are rows for
# all of them.
LANES, MANY_LANES = 64, 256
LEAST_ROWS = 4
# Rows of one lane whose loads are under way at once, the fewest that are worth it, and statements
# that this may write out.
AT_ONCE, WORTH_WRITING, MOST_WRITTEN_OUT = 8, 4, 64

ROWS = """
// One workgroup per result: its lanes share the row, then combine what they found by halves.
@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = INDEX;
  if (o >= OUTER) { return; }
  BODY();
}
"""
COLUMNS = """
// One workgroup for WIDTH results that are side by side. Each of its lanes takes every ROWS-th row
// of one of them; then they combine what they found by halves.
@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let tile = INDEX;
  let first = tile * WIDTH;
  if (first >= OUTER) { return; }
  let column = lane % WIDTH;
  OWN();
  BODY();
}
"""
WHOLE = "let o = first + column; let row = lane / WIDTH;"
RAGGED = """
// Lanes beyond the last result make it again; they store nothing.
let o = min(first + column, OUTER - 1u);
let row = lane / WIDTH;
"""
# Two lanes must not store an element that they read before.
RAGGED_STORES = """
// Lanes beyond the last result have no rows; they only wait for the others.
let o = min(first + column, OUTER - 1u);
let row = select(INNER, lane / WIDTH, first + column < OUTER);
"""


@dataclass(frozen=True, slots=True)
class LaneShape:
    """`lanes` of a workgroup make `width` results."""

    lanes: int = LANES
    width: int = 1

    @property
    def rows(self) -> int:
        """Lanes that share one result."""
        return self.lanes // self.width

    def at_once(self, rows: int, statements: int) -> tuple[int, int]:
        """How many of so many rows a lane takes per iteration, and how many rows that covers.

        A row takes `statements`, which are written out.
        """
        most = min(AT_ONCE, MOST_WRITTEN_OUT // statements)
        if most < WORTH_WRITING or rows <= AT_ONCE * self.rows:
            return 1, rows
        fitting = (n for n in range(most, most // 2, -1) if rows % (n * self.rows) == 0)
        times = next(fitting, most)
        return times, rows - rows % (times * self.rows)

    def function(
        self, outer: int, index: Expr, body: Body, stores_rows: bool
    ) -> tuple[Declaration, ...]:
        """The function of a workgroup that makes one result, or several that are side by side."""
        if self.width == 1:
            return functions(ROWS, INDEX=index, BODY=body)
        ragged = RAGGED_STORES if stores_rows else RAGGED
        own = ragged if outer % self.width else WHOLE
        return functions(COLUMNS, INDEX=index, OWN=statements(own), BODY=body)


def lane_shape(space: Space, touched: Sequence[Touch]) -> LaneShape:
    """The shape that loads and stores these elements, at positions in terms of o and r, best."""
    sectors = {
        width: _sectors(space, touched, width) for width in WIDTHS if width < 2 * space.outer
    }
    least = min(sectors.values())
    if sectors[1] <= MANY_MORE * least:
        return LaneShape()
    good = [width for width, count in sectors.items() if count <= AS_GOOD * least]
    busy = [width for width in good if space.outer >= BUSY * width]
    width = max(busy, default=min(good))
    many = space.inner * width >= LEAST_ROWS * MANY_LANES
    return LaneShape(MANY_LANES if many else LANES, width)


def _sectors(space: Space, touched: Sequence[Touch], width: int) -> float:
    """Sectors for each lane of a subgroup, if so many of its lanes are side by side."""
    start = space.outer // 2 // width * width
    places = [
        {OUTER: start + lane % width, INNER: lane // width}
        for lane in range(SUBGROUP)
        if start + lane % width < space.outer and lane // width < space.inner
    ]
    sectors = 0
    for touch in touched:
        elements = SECTOR // BYTES.get(touch.element, WORD)
        sectors += len({touch.position.value(place) // elements for place in places})
    return sectors / len(places)
