"""How lanes of a workgroup share a reduction: which of them are side by side in memory.

Lanes that follow a row load well where its elements are neighbours. Of a sum over rows, results are
neighbours instead, and lanes that follow those touch an eighth of the memory sectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.index import INNER, OUTER, Space
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


@dataclass(frozen=True, slots=True)
class LaneShape:
    """`lanes` of a workgroup make `width` results."""

    lanes: int = LANES
    width: int = 1

    @property
    def rows(self) -> int:
        """Lanes that share one result."""
        return self.lanes // self.width


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
