"""How many workgroups to launch, and how a thread finds its number, within 65,535 per axis."""

from __future__ import annotations

from wgcc.ir.places import ceil_div
from wgcc.schedule.kernel import MAX_WORKGROUPS

Grid = tuple[int, int, int]


def grid_of(workgroups: int) -> Grid:
    """A line of workgroups, folded into rows when it is too long."""
    if workgroups <= MAX_WORKGROUPS:
        return (workgroups, 1, 1)
    rows = ceil_div(workgroups, MAX_WORKGROUPS)
    return (ceil_div(workgroups, rows), rows, 1)


def thread_index(grid: Grid, threads: int) -> str:
    """The number of a thread (`id`: global_invocation_id), or of a workgroup (`threads` = 1)."""
    return "id.x" if grid[1] == 1 else f"id.y * {grid[0] * threads}u + id.x"
