"""Sums of columns over a few rows each, in a kernel that takes rows one after the other."""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.iteration_space import Space
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering
from wgcc.passes.prepare.split_columns import ENOUGH_GROUPS, LEAST_ROWS, MOST_COLUMNS, MOST_ROWS
from wgcc.schedule.fuse.group import own_space

# A kernel may have a few of them.
MOST_SUMS = 3


def rows_of(node: Node, space: Space) -> int:
    """How many rows of a space that reduces rows a node adds up at a time; 0 if it does not."""
    if node.op != "sum" or not isinstance(lowering(node), Reduce):
        return 0
    own = own_space(node).runs
    if [reduced for reduced, _ in own] != [False, True, False]:
        return 0
    (_, groups), (_, each), (_, columns) = own
    fits = LEAST_ROWS <= each <= MOST_ROWS and groups >= ENOUGH_GROUPS and columns <= MOST_COLUMNS
    return each if fits and space.runs == ((False, groups * each), (True, columns)) else 0


def space_by_rows(node: Node) -> Space | None:
    """What a kernel loops over that has rows of which a node adds up some at a time."""
    runs = own_space(node).runs
    if len(runs) != 3:
        return None
    (_, groups), (_, each), (_, columns) = runs
    space = Space(((False, groups * each), (True, columns)))
    return space if rows_of(node, space) else None


def column_sums(roots: list[Node], space: Space) -> list[Node]:
    return [node for node in roots if rows_of(node, space)]
