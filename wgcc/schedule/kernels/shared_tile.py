"""The tile of an operand in workgroup memory: its type, and where its elements are.

Compilers for GPUs find one address for all that a thread reads in a step where the reads differ by
constants, and WGSL's clamps are computed once where an index does not change in the loop. So
vectors are in arrays of arrays: `tile[part][k][lane]`, where a thread's vectors differ in `part`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.dtypes import F16
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, in_parens
from wgcc.kernel.tree import Binary, Expr
from wgcc.schedule.kernel import VECTOR, WorkgroupVariable
from wgcc.schedule.kernels.operands import INNER, Operand
from wgcc.schedule.kernels.tile_shape import SUBGROUP, Tile


@dataclass(frozen=True, slots=True)
class SharedTile:
    """`width`: how many rows or columns an element holds; `half`: they are f16."""

    operand: Operand
    width: int
    half: bool
    tile: Tile

    @property
    def name(self) -> str:
        return f"{self.operand.name}_tile"

    @property
    def parts(self) -> int:
        """Elements that a thread reads in each step."""
        return (self.tile.tm if self._is_left else self.tile.tn) // self.width

    @property
    def lanes(self) -> str:
        """The constant that says how many threads read different elements."""
        return "DOWN" if self._is_left else "ACROSS"

    @property
    def constants(self) -> Mapping[str, int]:
        upper = self.operand.name.upper()
        named = {f"{upper}_STRIDE": self._stride()}
        return {**named, f"{upper}_PARTS": self.parts} if self._has_parts else named

    @property
    def variable(self) -> WorkgroupVariable:
        upper = self.operand.name.upper()
        scalar, vector = (F16, "vec4h") if self.half else ("f32", "vec4f")
        if self.width == 1:
            return WorkgroupVariable(self.name, scalar, ("TK", f"{upper}_STRIDE"))
        parts = (f"{upper}_PARTS",) if self._has_parts else ()
        lengths = (*parts, "TK", f"{upper}_STRIDE")
        return WorkgroupVariable(self.name, vector, lengths, is_nested=True)

    def read(self, k: Expr, part: int, lane: str) -> Expr:
        """An element of a thread, by the number of its lane."""
        if self.width == 1:
            start = expression(f"K * {self.operand.name.upper()}_STRIDE + {lane}", K=k)
            step = expression(f"{part}u * {self.lanes}")
            return self.at(Binary("+", start, step) if part else start)
        at = f"{self.name}[{part}u][K][{lane}]" if self._has_parts else f"{self.name}[K][{lane}]"
        return expression(at, K=k)

    def place(self, k: Expr, own: Expr) -> Expr:
        """An element by its place along both axes; `own` is a name where it is a vector."""
        if self.width == 1:
            stride = f"{self.operand.name.upper()}_STRIDE"
            return self.at(expression(f"K * {stride} + OWN", K=in_parens(k), OWN=own))
        if not self._has_parts:
            return expression(f"{self.name}[K][OWN]", K=k, OWN=own)
        at = f"{self.name}[OWN / {self.lanes}][K][OWN % {self.lanes}]"
        return expression(at, K=k, OWN=own)

    def element(self, k: Expr, own: Expr) -> Expr:
        """A number in the tile, by its row or column."""
        if self.width == 1:
            return self.place(k, own)
        place = self.place(k, expression("OWN / 4u", OWN=own))
        return expression("VECTOR[OWN % 4u]", VECTOR=place, OWN=own)

    def at(self, index: Expr) -> Expr:
        """An element of a tile that is one array."""
        return expression(f"{self.name}[AT]", AT=index)

    @property
    def _is_left(self) -> bool:
        return self.operand.own == "m"

    @property
    def _has_parts(self) -> bool:
        return self.width == VECTOR and self.parts > 1

    def _stride(self) -> int:
        """The length of a row, padded so that no lanes wait for the same bank."""
        down, across = self.tile.down, self.tile.across
        size = self.tile.rows if self._is_left else self.tile.cols
        if self.width == VECTOR:
            lanes = down if self._is_left else across
            return lanes | 1 if self.operand.fast == INNER else lanes
        if self.operand.fast != INNER:
            return size
        if self.operand.vector:
            return size + (2 - size) % 8
        # Rows that a subgroup stores side by side, rounded up to a power of two.
        side_by_side = 1 << (ceil_div(SUBGROUP, self.tile.tk) - 1).bit_length()
        return size + (side_by_side - size) % (2 * side_by_side)
