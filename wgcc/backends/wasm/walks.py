"""In which order a loop over all threads of a kernel may run, and how many of them together.

Lanes are neighbouring threads, in rows of a length that saves divisions, or threads that are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.backends.wasm.kernels.scopes import LANES
from wgcc.backends.wasm.panels.by_threads import ThreadProgram
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Expr,
    If,
    Literal,
    Loop,
    Name,
    expressions_of,
    parts_of,
)

# Each thread gets this many iterations at least, and whole vectors of them.
GRAIN = 16
# Columns that are summed at a time, with one sum each: two lines of a cache, half of the registers.
WIDE_BLOCK = 32
MOST_WIDE_SUMS = 2
# The same of bytes, if each row is as long as half a page: few columns of it are not worth reaching
# for a page. The sums are then in memory.
BYTE_BLOCK = 256
LONG_BYTE_ROW = 2048
# So many rows are then added to each sum at a time.
BYTE_STEPS = 4
# With fewer rows than this, columns are shared out.
MIN_ROWS = 8
# Loops with more statements are not run for several vectors at a time: registers are few. Where
# bytes are unpacked, many statements are known before the loop, or never used.
MAX_TOGETHER, MAX_UNPACKING = 10, 20
# Rows of threads that one loop runs: as many sums as registers hold.
MOST_ROWS_TOGETHER = 9


@dataclass(frozen=True, slots=True)
class Walk:
    """The order of threads: lanes along rows of `columns`; none: threads run one by one.

    `together`: so many rows are run in one loop. `stride`: neighbouring lanes are so many threads
    apart, and so are the rows that they make up.
    """

    columns: int | None = None
    together: int = 0
    stride: int = 1


ONE_BY_ONE = Walk()


def walks_in_rows(program: ThreadProgram, lengths: Sequence[int]) -> list[Walk]:
    """Ways to go through all threads in rows of these lengths."""
    walks = []
    for columns in lengths:
        rows = program.count // columns
        group = max(n for n in range(1, MOST_ROWS_TOGETHER + 1) if rows % n == 0)
        if group > 1 and _has_one_loop(program):
            walks.append(Walk(columns, group))
        walks.append(Walk(columns))
    return walks


def strided_walks(program: ThreadProgram) -> list[Walk]:
    """Lanes along an axis of the results that is neither the first nor the last one.

    Long sums may find their operands side by side along such an axis only.
    """
    if not _has_one_loop(program):
        return []
    loop = next(statement for statement in program.body if isinstance(statement, Loop))
    texts = (parts_of(whole) for s in loop.body for whole in expressions_of(s))
    axes = {_axis_of(part, program.variable) for parts in texts for part in parts} - {None}
    return [
        Walk(columns, stride=stride)
        for stride, columns in sorted(axis for axis in axes if axis)
        if columns % LANES == 0 and program.count // columns >= MIN_ROWS
    ]


def _axis_of(part: Expr, name: str) -> tuple[int, int] | None:
    """The stride and the length of the axis that `name / stride % length` is the number of."""
    match part:
        case Binary("%", Binary("/", Name(n), Literal(int(stride))), Literal(int(length))):
            return (stride, length) if n == name else None
    return None


def _has_one_loop(program: ThreadProgram) -> bool:
    """Whether each thread has a single loop, without loops or branches in it."""
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    return len(loops) == 1 and not any(isinstance(s, Loop | If) for s in loops[0].body)


def block_of(program: ThreadProgram) -> int | None:
    """How many threads run together, if each has a short loop in which neighbours read neighbours.

    One vector of each row would be a small part of what a cache loads.
    """
    loops = [statement for statement in program.body if isinstance(statement, Loop)]
    if program.count < GRAIN or len(loops) != 1 or not _has_one_loop(program):
        return None
    if len(loops[0].body) > (MAX_UNPACKING if _loads_bytes(loops[0]) else MAX_TOGETHER):
        return None
    if sum(isinstance(statement, Assign) for statement in loops[0].body) > MOST_WIDE_SUMS:
        return GRAIN
    if program.count >= LONG_BYTE_ROW and _loads_bytes(loops[0]):
        return BYTE_BLOCK
    return WIDE_BLOCK if program.count >= WIDE_BLOCK else GRAIN


def _loads_bytes(loop: Loop) -> bool:
    """Whether the loop takes numbers out of words."""
    parts = (
        part
        for statement in loop.body
        for whole in expressions_of(statement)
        for part in parts_of(whole)
    )
    return any(isinstance(part, Call) and part.name == "extractBits" for part in parts)
