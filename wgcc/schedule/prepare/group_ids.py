"""Sums by id over large tables: ids are sorted first, so that the work is that of their elements.

Otherwise every element of the table looks through all ids, which is quick for small tables only.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops.id_sums import FAN, RUN

# By the model of `wgcc/access`, sorting 2,048 ids takes 14 µs on the fastest of its GPUs and 53 on
# the slowest, and one more dispatch. Looking at so many ids takes 5 and 130 µs.
MANY_LOOKS = 1 << 25


def group_ids(b: Builder, node: Node) -> Sequence[Value] | None:
    """`gather_grad` in steps, if its table is large."""
    g, ids = node.inputs
    if node.output.type.size * ids.type.size < MANY_LOOKS:
        return None
    rows, run = int(node.attrs["rows"]), RUN
    order = b.apply("order_ids", ids, rows=rows)
    while run < ids.type.size:
        order = b.apply("merge_ids", order, ids, rows=rows, run=run)
        run *= FAN
    return [b.apply("sum_in_order", g, ids, order, rows=rows)]
