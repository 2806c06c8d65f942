"""Attention by tiles of workgroup memory: how they are shared by threads.

The scores of `OWN` rows and `TILE` keys (or of keys and rows) are a small product of matrices, and
so are results. Each thread has four rows of both: so few that all it keeps fits into registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from wgcc.ir.places import ceil_div
from wgcc.kernel.build import take_several
from wgcc.kernel.rewrite.unroll import unroll
from wgcc.schedule.codegen.bindings import thread_index
from wgcc.schedule.kernel import (
    GOOD_ITERATIONS,
    MAX_WORKGROUP_BYTES,
    Launch,
    WorkgroupVariable,
    grid_of,
    workgroup_bytes,
)
from wgcc.schedule.kernels.attention_access import AttentionAccess, AttentionSizes, TileLoop
from wgcc.schedule.kernels.attention_steps import steps_of, words_of_page

# Rows (or keys) of a thread, threads below each other, and what a workgroup takes of both sides.
EACH, DOWN = 4, 8
OWN, TILE = EACH * DOWN, 32
# From the weights of a key to those of the next: no more than two threads wait for a bank.
WEIGHTS_STRIDE = DOWN + 1
# Vectors of the head that are shared at a time, and those of rows that are added up.
CHUNK, SHARED_VECTORS = 8, 256
# Threads side by side, and the registers that are as good as free on most GPUs: with more, threads
# are few or spill. Beyond so many vectors of results in a row nothing helps.
ACROSS, REGISTERS, MOST_COLUMNS = (8, 16, 32), 128, 8
# Lanes of a workgroup that makes one row, by the most keys for which so many are enough.
ONE_ROW = {64: 64, 256: 128}
MOST_THREADS = 256
# Threads that share a key or a value, at most.
MOST_PARTS, MOST_SPREAD = 8, 32
# Elements, or keys of a tile, that one iteration takes at most: more would compile slowly.
MAX_UNROLLED = 8
# What the gradients need of each row.
STATS = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """`across` threads share each row; heads are so many vectors long."""

    across: int
    inner_4: int
    width_4: int

    @property
    def threads(self) -> int:
        return self.across * DOWN

    @property
    def chunk(self) -> int:
        return min(CHUNK, max(self.inner_4, self.width_4))

    def columns(self, vectors: int) -> int:
        """Vectors of a row that each thread has."""
        return ceil_div(vectors, self.across)

    def part(self, vectors: int) -> int:
        """How many rows of so many vectors are shared at a time to be added up."""
        part = TILE
        while part > 1 and part * vectors > SHARED_VECTORS:
            part //= 2
        return part

    @property
    def own_area(self) -> int:
        """Vectors that hold a chunk of the own rows, and weights after that."""
        return max(OWN * _odd(self.chunk), TILE * WEIGHTS_STRIDE)

    def other_area(self, sums: Iterable[int]) -> int:
        """The same for the other side; threads without a column read a bit further.

        `sums`: the vectors of each row that is added up. Others are shared by chunks only.
        """
        added = (self.part(n) * n + self.across for n in sums)
        return max(TILE * _odd(self.chunk), *added)

    def constants(self, loop: TileLoop) -> dict[str, int]:
        return {
            **{"ACROSS": self.across, "DOWN": DOWN, "THREADS": self.threads},
            **{"OWN": OWN, "TILE": TILE, "EACH": TILE // self.across},
            **{"CHUNK": self.chunk, "STRIDE": _odd(self.chunk), "WEIGHTS_STRIDE": WEIGHTS_STRIDE},
            **{"INNER_COLUMNS": self.columns(self.inner_4), "INNER_PART": self.part(self.inner_4)},
            **{"WIDTH_COLUMNS": self.columns(self.width_4), "WIDTH_PART": self.part(self.width_4)},
            **{"OWN_AREA": self.own_area, "OTHER_AREA": self.other_area(loop.sums)},
            "STATS": STATS,
        }

    def work(self, loop: TileLoop, times: int) -> int:
        """Iterations of a thread for a tile, if the longest loops take so many elements in each.

        Each loop counts once more, since it is also entered to find that it has ended.
        """
        total = 1 + _rounds(self.across if loop.joins else TILE * STATS / self.threads, times)
        for vectors in loop.products:
            loads = self._loads(OWN * self.chunk, times)
            chunks = ceil_div(vectors, self.chunk)
            total += chunks * (loads + _rounds(self.chunk, times)) + _outer(chunks)
        for vectors in loop.sums:
            part = self.part(vectors)
            loads = self._loads(part * vectors, times)
            total += TILE // part * (loads + _rounds(part, times)) + _outer(TILE // part)
        return total

    def _loads(self, count: int, times: int) -> int:
        return 0 if count <= self.threads else _rounds(count / self.threads, times)


def _rounds(count: float, times: int) -> int:
    return ceil(count / times) + 1


def _outer(count: int) -> int:
    """The iterations that a loop adds; with one iteration no loop is written."""
    return 0 if count == 1 else count + 1


@dataclass(frozen=True, slots=True)
class Kept:
    """Counts what a thread keeps in registers.

    `results`: the vectors of a row of each result; `scores`: how many numbers of each row and key;
    `beside`: words of rows, of factors of a product and of what else there is.
    """

    results: tuple[int, ...]
    scores: int
    beside: int

    def columns(self, shape: Shape) -> int:
        return sum(shape.columns(vectors) for vectors in self.results)

    def registers(self, shape: Shape) -> int:
        scores = EACH * TILE // shape.across * self.scores
        return 4 * EACH * self.columns(shape) + scores + self.beside


def _odd(stride: int) -> int:
    """Rows that are an odd number of vectors apart are in different banks."""
    return stride | 1


def tile_shape(sizes: AttentionSizes, kept: Kept) -> Shape | None:
    """As few threads side by side as registers allow; None if heads are too large for tiles."""
    shapes = [Shape(across, sizes.inner_4, sizes.width_4) for across in ACROSS]
    fits = (shape for shape in shapes if kept.registers(shape) <= REGISTERS)
    best = next(fits, shapes[-1])
    return best if kept.columns(best) <= MOST_COLUMNS else None


def launch_tiles(
    template: str,
    access: AttentionAccess,
    sizes: AttentionSizes,
    loop: TileLoop,
    shape: Shape,
    flags: Mapping[str, bool],
    memory: tuple[WorkgroupVariable, ...] = (),
) -> Launch:
    """A workgroup for every `OWN` rows (or keys) of each problem."""
    grid = grid_of(sizes.pairs * ceil_div(loop.length, OWN))
    tiles = ceil_div(loop.steps, TILE) + 1
    times = 1
    while times < MAX_UNROLLED and tiles * shape.work(loop, times) > GOOD_ITERATIONS:
        times *= 2
    halves = access.context.halves
    constants = {**sizes.constants(), **shape.constants(loop), "UNROLLED": times}
    return access.context.launch(
        template,
        access.emitter,
        constants=constants,
        functions=access.functions,
        # Tiles of a model with `precision = f16` hold halves; all else is computed in f32.
        holes={
            "INDEX": thread_index(grid, 1),
            **steps_of(template, constants, "vec4h" if halves else "vec4f"),
        },
        values={
            **flags,
            "f32_tile": "row_tile" if halves else "own_tile",
            "scores_replaced": not halves,
            **words_of_page(template, flags.get("makes_stats", False)),
        },
        variant=lambda body: take_several(unroll(body, "rjn", constants), "ic", times),
        iterations=tiles * shape.work(loop, times),
        workgroup=(shape.threads, 1, 1),
        grid=grid,
        shared=(*_areas(flags["moving"], halves), *memory),
    )


def _areas(moving: bool, halves: bool) -> tuple[WorkgroupVariable, ...]:
    element = "vec4h" if halves else "vec4f"
    return (
        WorkgroupVariable("own_tile", element, ("OWN_AREA",)),
        WorkgroupVariable("other_tile", element, ("OTHER_AREA",)),
        *_offset(moving),
    )


# What the threads of a row tell each other: their greatest scores, then their sums. In f32 the own
# tile holds that, so that three waves a SIMD become four on an RX 6800.
ROW_TILE = WorkgroupVariable("row_tile", "vec4f", ("ACROSS", "WEIGHTS_STRIDE"))
# Of each row that is shared: what the forward pass and `attention_stats` kept.
STATS_TILE = WorkgroupVariable("stats_tile", "f32", ("TILE", "STATS"))
# Of a workgroup that makes one row.
ROW_AREAS = (
    WorkgroupVariable("part_tile", "f32", ("THREADS", "PART_STRIDE")),
    WorkgroupVariable("score_tile", "f32", ("THREADS",)),
    WorkgroupVariable("group_tile", "vec2f", ("GROUPS",)),
    WorkgroupVariable("result_tile", "vec4f", ("THREADS",)),
)


def launch_one_row(
    access: AttentionAccess, sizes: AttentionSizes, keys: int, flags: Mapping[str, bool]
) -> Launch:
    """The launch for decoding: a workgroup for each row, whose threads share the keys."""
    threads = next((n for most, n in ONE_ROW.items() if keys <= most), MOST_THREADS)
    shared = (*ROW_AREAS, *_offset(flags["moving"]))
    shape = _one_row(sizes, threads, shared)
    grid = grid_of(sizes.pairs * sizes.shared)
    return access.context.launch(
        "attention_one_row",
        access.emitter,
        constants={**sizes.constants(), **shape},
        functions=access.functions,
        holes={"INDEX": thread_index(grid, 1)},
        values=flags,
        variant=lambda body: unroll(body, "un", shape),
        workgroup=(threads, 1, 1),
        grid=grid,
        iterations=(ceil_div(keys, threads) + 1) * (shape["PARTS"] + 2 * shape["SPREAD"] + 1)
        + 3 * threads,
        shared=shared,
    )


def _one_row(
    sizes: AttentionSizes, threads: int, shared: tuple[WorkgroupVariable, ...]
) -> dict[str, int]:
    """As many threads share each key as workgroup memory allows."""
    parts = min(MOST_PARTS, 1 << (sizes.inner_4.bit_length() - 1))
    shape = _row_shape(sizes, threads, parts)
    while workgroup_bytes(shared, shape) > MAX_WORKGROUP_BYTES:
        parts //= 2
        shape = _row_shape(sizes, threads, parts)
    return shape


def _row_shape(sizes: AttentionSizes, threads: int, parts: int) -> dict[str, int]:
    spread = min(MOST_SPREAD, 1 << (sizes.width_4 - 1).bit_length())
    each = ceil_div(sizes.inner_4, parts)
    is_ragged = each > 1 and sizes.inner_4 % parts > 0
    return {
        **{"THREADS": threads, "PARTS": parts, "PART_STRIDE": _odd(parts), "SPREAD": spread},
        **{"GROUPS": threads // spread, "PART_VEC4": each},
        "WHOLE_PARTS": each - is_ragged,
        "WIDTH_COLUMNS": ceil_div(sizes.width_4, spread),
    }


def _offset(moving: bool) -> tuple[WorkgroupVariable, ...]:
    return (WorkgroupVariable("shared_offset", "i32"),) if moving else ()
