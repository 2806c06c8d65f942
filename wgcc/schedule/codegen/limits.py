"""Limits of devices: workgroups along an axis, and iterations of loops.

At most 65,535 workgroups are launched along an axis: longer lines are folded into rows. Loops that
have too many iterations for software adapters take several elements in each.
"""

from __future__ import annotations

from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, u32
from wgcc.kernel.tree import Expr
from wgcc.schedule.kernel import GOOD_ITERATIONS, MAX_WORKGROUPS

Grid = tuple[int, int, int]
# Longer bodies take too long to compile.
MAX_UNROLLED = 64


def unroll_times(iterations: int) -> int:
    """How many elements one iteration should take in loops over `iterations` elements in all."""
    times = 1
    while iterations > times * GOOD_ITERATIONS and times < MAX_UNROLLED:
        times *= 2
    return times


def grid_of(workgroups: int) -> Grid:
    """A line of workgroups, folded into rows when it is too long."""
    if workgroups <= MAX_WORKGROUPS:
        return (workgroups, 1, 1)
    rows = ceil_div(workgroups, MAX_WORKGROUPS)
    return (ceil_div(workgroups, rows), rows, 1)


def thread_index(grid: Grid, threads: int) -> Expr:
    """The number of a thread (`id`: global_invocation_id), or of a workgroup (`threads` = 1)."""
    if grid[1] == 1:
        return expression("id.x")
    return expression("id.y * WIDTH + id.x", WIDTH=u32(grid[0] * threads))
