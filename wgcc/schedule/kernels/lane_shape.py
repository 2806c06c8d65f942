"""How lanes of a workgroup share a reduction: which of them are side by side in memory.

Lanes that follow a row load well where its elements are neighbours. Of a sum over rows, results are
neighbours instead, and lanes that follow those touch an eighth of the memory sectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.index import INNER, OUTER, Space
from wgcc.kernel.build import functions, statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Declaration, Expr
from wgcc.schedule.codegen.bindings import Touch
from wgcc.schedule.kernel import BYTES, WORD

# Lanes of a subgroup, and bytes in a sector of memory.
SUBGROUP, SECTOR = 32, 32
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
