"""The tile of an operand in workgroup memory: its type, and where its elements are.

Compilers for GPUs find one address for all that a thread reads in a step where the reads differ by
constants, and WGSL's clamps are computed once where an index does not change in the loop. So
vectors are in arrays of arrays: `tile[part][k][lane]`, where a thread's vectors differ in `part`.
A thread that stores four steps of a lane side by side finds one address for them, too, if the tile
is in groups of four steps: `tile[part * TK / 4 + k / 4][k % 4][lane]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.dtypes import F16
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, in_parens, u32
from wgcc.kernel.tree import Binary, Expr
from wgcc.schedule.kernel import VECTOR, WorkgroupVariable
from wgcc.schedule.kernels.operands import INNER, Operand
from wgcc.schedule.kernels.tile_shape import SUBGROUP, Tile


@dataclass(frozen=True, slots=True)
class SharedTile:
    """`width`: how many rows or columns an element holds; `half`: they are f16.

    `is_unrolled`: steps are written one after the other, so each knows its `k`.
    """

    operand: Operand
    width: int
    half: bool
    tile: Tile
    is_unrolled: bool = False

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
    def count(self) -> int:
        """How many threads read different elements."""
        return self.tile.down if self._is_left else self.tile.across

    @property
    def constants(self) -> Mapping[str, int]:
        upper = self.operand.name.upper()
        named = {f"{upper}_STRIDE": self._stride()}
        if self.is_grouped:
            return {**named, "STEPS": VECTOR, f"{upper}_GROUPS": self.parts * self.groups}
        return {**named, f"{upper}_PARTS": self.parts} if self._has_parts else named

    @property
    def is_grouped(self) -> bool:
        """Does a thread store four steps of a lane?"""
        is_along_inner = self.operand.vector and self.operand.fast == INNER
        return self.is_unrolled and self.width == VECTOR and is_along_inner

    @property
    def groups(self) -> int:
        """Groups of steps of a part."""
        return self.tile.tk // VECTOR

    @property
    def variable(self) -> WorkgroupVariable:
        upper = self.operand.name.upper()
        scalar, vector = (F16, "vec4h") if self.half else ("f32", "vec4f")
        if self.width == 1:
            return WorkgroupVariable(self.name, scalar, ("TK", f"{upper}_STRIDE"))
        parts = (f"{upper}_PARTS",) if self._has_parts else ()
        steps = (f"{upper}_GROUPS", "STEPS") if self.is_grouped else (*parts, "TK")
        lengths = (*steps, f"{upper}_STRIDE")
        return WorkgroupVariable(self.name, vector, lengths, is_nested=True)

    def read_step(self, k: int, part: int, lane: str) -> Expr:
        """An element of a thread in a step that is written out."""
        if not self.is_grouped:
            return self.read(u32(k), part, lane)
        group, rest = divmod(k, VECTOR)
        return self.at_group(u32(part * self.groups + group), rest, expression(lane))

    def at_group(self, group: Expr, rest: int, lane: Expr) -> Expr:
        """An element of a tile in groups of four steps."""
        at = f"{self.name}[GROUP][{rest}u][LANE]"
        return expression(at, GROUP=group, LANE=lane)

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

    def element_of_step(self, k: int, own: Expr) -> Expr:
        """The same in a step that is written out."""
        if not self.is_grouped:
            return self.element(u32(k), own)
        part = expression(f"OWN / 4u / {self.lanes} * {self.groups}u", OWN=own)
        group = Binary("+", part, u32(k // VECTOR)) if k // VECTOR else part
        lane = expression(f"OWN / 4u % {self.lanes}", OWN=own)
        place = self.at_group(group, k % VECTOR, lane)
        return expression("VECTOR[OWN % 4u]", VECTOR=place, OWN=own)

    def at_part(self, part: Expr, k: Expr, lane: Expr) -> Expr:
        """A vector by the number of its lane."""
        at = f"{self.name}[PART][K][LANE]" if self._has_parts else f"{self.name}[K][LANE]"
        return expression(at, PART=part, K=k, LANE=lane)

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
        size = self.tile.rows if self._is_left else self.tile.cols
        if self.width == VECTOR:
            return self.count | 1 if self.operand.fast == INNER else self.count
        if self.operand.fast != INNER:
            return size
        if self.operand.vector:
            return size + (2 - size) % 8
        # Rows that a subgroup stores side by side, rounded up to a power of two.
        side_by_side = 1 << (ceil_div(SUBGROUP, self.tile.tk) - 1).bit_length()
        return size + (side_by_side - size) % (2 * side_by_side)
