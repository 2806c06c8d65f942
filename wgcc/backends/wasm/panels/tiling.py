"""How a matrix product is cut into blocks, and where a thread's scratch memory holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.backends.wasm.panels.micro_kernel import COLUMNS, ROWS, SPREAD
from wgcc.ir.places import ceil_div

# Words of scratch memory that a block of the right operand may take: it should stay in the cache.
MOST_PACKED = 1 << 17
# With fewer rows, threads share out columns: blocks of at least MIN_BLOCK, about SHARES of them.
FEW_ROWS, MIN_BLOCK, SHARES = 64, 32, 16
# Smaller products, or with fewer rows, columns or inner elements, are dot products one by one.
MIN_ROWS, MIN_COLUMNS, MIN_DEPTH, MIN_WORK = 2, 2, 4, 1 << 10


@dataclass(frozen=True, slots=True)
class Tiling:
    """`batch` products of `rows` × `depth` by `depth` × `columns`, `block` columns at a time.

    `sums`: the sums of the right operand's columns are wanted, too.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    sums: bool
    block: int

    @property
    def tiles(self) -> int:
        """How many blocks of rows there are."""
        return ceil_div(self.rows, ROWS)

    @property
    def blocks(self) -> int:
        return ceil_div(self.columns, self.block)

    @property
    def last(self) -> int:
        """The first column of the last block."""
        return (self.blocks - 1) * self.block

    @property
    def is_even(self) -> bool:
        """Whether all blocks are full."""
        return self.columns == self.blocks * self.block

    @property
    def panel(self) -> int:
        """Words of a panel of the right operand."""
        return self.depth * COLUMNS

    @property
    def left(self) -> int:
        """The word from which on four rows of the left operand are packed."""
        return self.depth * self.block

    @property
    def out(self) -> int:
        """The word from which on results wait to be finished."""
        return self.left + self.depth * SPREAD

    @property
    def words(self) -> int:
        return self.out + self.block * ROWS


def tiling_of(constants: Mapping[str, int]) -> Tiling | None:
    """None where panels do not pay."""
    batch, rows, columns, depth = (constants[n] for n in ("BATCH", "ROWS", "COLS", "DEPTH"))
    if rows < MIN_ROWS or columns < MIN_COLUMNS or depth < MIN_DEPTH:
        return None
    if rows * columns * depth < MIN_WORK:
        return None
    block = _block(rows, columns, depth)
    return Tiling(batch, rows, columns, depth, bool(constants["SUMS"]), block)


def _block(rows: int, columns: int, depth: int) -> int:
    most = max(COLUMNS, MOST_PACKED // depth // COLUMNS * COLUMNS)
    if rows < FEW_ROWS:
        most = min(most, max(MIN_BLOCK, whole_panels(ceil_div(columns, SHARES))))
    blocks = ceil_div(whole_panels(columns), most)
    for count in range(blocks, 2 * blocks):
        if columns % (count * COLUMNS) == 0:
            return columns // count
    return whole_panels(ceil_div(columns, blocks))


def whole_panels(columns: int) -> int:
    """In whole panels."""
    return ceil_div(columns, COLUMNS) * COLUMNS
