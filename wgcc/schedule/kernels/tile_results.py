"""What a thread does with its block of a product: reads of both tiles, results, and bounds on them.

The page `matmul_tiles.wgsl.jinja` names what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.schedule.kernels.tile_loads import plus
from wgcc.schedule.kernels.tile_shape import VECTOR, Sizes, Tile


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of the block: its `factor` in each product, its index, and how its results end."""

    number: int
    factor: str
    at: str
    added: str
    finish: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the block: `part` is its element of a row's vectors."""

    part: str
    sum_part: str
    added: str
    finish_sum: str


@dataclass(frozen=True, slots=True)
class Block:
    """The `tm × tn` results of a thread; `left`, `right` are the widths of the tiles' elements."""

    tile: Tile
    sizes: Sizes
    left: int
    right: int
    is_vector: bool

    def holes(self, halves: Mapping[str, bool]) -> dict[str, object]:
        sliced = self.tile.slices > 1
        ragged = self.row_ends or self.column_ends or self.sizes.inner % self.tile.tk > 0
        return {
            "sliced": sliced,
            "workgroup": "ACROSS, DOWN, SLICES" if sliced else "ACROSS, DOWN",
            "padding": "; zeros pad the edges" if ragged else "",
            "first_k": "lane.z" if sliced else "0u",
            "next_k": "k += SLICES" if sliced else "k++",
            "vector": _vector(self.column_width),
            "vectors": range(self.tile.tn // self.column_width),
            "left_values": _reads("left", self.left, self.tile.tm, halves["left"]),
            "right_values": _reads("right", self.right, self.tile.tn, halves["right"]),
            "rows": tuple(map(self.row, range(self.tile.tm))),
            "columns": tuple(map(self.column, range(self.tile.tn))),
            "row_bounds": self.row_ends,
            "slot_bounds": " && n_tile + slot < COLS" if self.column_ends else "",
            "finish_total": self.finish_total(),
        }

    @property
    def row_ends(self) -> bool:
        """Do tiles reach past the last row?"""
        return self.sizes.rows % self.tile.rows > 0

    @property
    def column_ends(self) -> bool:
        return self.sizes.cols % self.tile.cols > 0

    @property
    def column_width(self) -> int:
        return min(self.tile.tn, VECTOR)

    def row(self, number: int) -> ResultRow:
        width = min(self.tile.tm, VECTOR)
        value = "a0" if width == 1 else f"a{number // width}[{number % width}]"
        is_wide = self.column_width > 1
        return ResultRow(
            number,
            f"{_vector(self.column_width)}({value})" if is_wide else value,
            f"m_tile + {_place('lane.y', 'DOWN', number, self.left)}",
            plus(number, "DOWN * ROW_STRIDE"),
            tuple(self.finish(number)),
        )

    def column(self, number: int) -> ResultColumn:
        vector, element = divmod(number, self.column_width)
        inside = f"[{element}]" if self.column_width > 1 else ""
        at = self.column_at(number)
        store = f"finish_sum({at}, sum{vector}{inside});"
        return ResultColumn(
            f"_{vector}{inside}",
            f"{vector}{inside}",
            plus(number, "ACROSS"),
            _guarded([f"{at} < COLS"] if self.column_ends else [], store),
        )

    def column_at(self, number: int) -> str:
        return f"n_tile + {_place('lane.x', 'ACROSS', number, self.right)}"

    def finish(self, row: int) -> list[str]:
        """Makes use of the results of a row: vectors, or element by element."""
        if self.is_vector:
            places = [f"n_tile / 4u + lane.x{plus(j, 'ACROSS')}" for j in range(self.tile.tn // 4)]
            parts, end = [f"_{j}" for j in range(len(places))], "COLS / 4u"
        else:
            columns = range(self.tile.tn)
            places, end = [self.column_at(j) for j in columns], "COLS"
            parts = [self.column(j).part for j in columns]
        return [
            _guarded(
                [f"{n} < {end}"] if self.column_ends else [],
                f"finish(z, row{row}, {n}, c{row}{part});",
            )
            for n, part in zip(places, parts, strict=True)
        ]

    def finish_total(self) -> str:
        """Makes use of a result that the slices have added."""
        bounds = ["m_tile + m < ROWS"] if self.row_ends else []
        bounds += ["n_tile + n < COLS"] if self.column_ends else []
        return _guarded(bounds, "finish(z, m_tile + m, n_tile + n, total);")


def _guarded(bounds: list[str], statement: str) -> str:
    return f"if ({' && '.join(bounds)}) {{ {statement} }}" if bounds else statement


def _vector(width: int) -> str:
    return f"vec{width}f" if width > 1 else "f32"


def _place(lane: str, step: str, number: int, width: int) -> str:
    """The place of a thread's row or column in the tile, whose elements have `width` of them."""
    if width == 1:
        return f"{lane}{plus(number, step)}"
    element, rest = divmod(number, VECTOR)
    return f"{f'({lane}{plus(element, step)})' if element else lane} * 4u{plus(rest)}"


def _reads(name: str, width: int, count: int, half: bool) -> tuple[str, ...]:
    """A thread's values of a tile at one `k`: as many vectors as they fill."""
    lane, step = ("lane.y", "DOWN") if name == "left" else ("lane.x", "ACROSS")
    at = [f"{name}_tile[k * {name.upper()}_STRIDE + {lane}{plus(n, step)}]" for n in range(count)]
    size = min(count, VECTOR)
    if width == VECTOR:
        return tuple(f"vec4f({text})" if half else text for text in at[: count // VECTOR])
    elements = [f"f32({text})" if half else text for text in at]
    if size == 1:
        return tuple(elements)
    starts = range(0, count, size)
    return tuple(f"{_vector(size)}({', '.join(elements[i : i + size])})" for i in starts)
