"""Sums by id over large tables: ids are sorted first, so that the work is that of their elements.

Otherwise every element of the table looks through all ids, which is quick for small tables only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.id_sums import FAN, RUN
from wgcc.passes.dataflow import Flow
from wgcc.passes.rewrite import Rewrite

# By the model of `wgcc/access`, sorting 2,048 ids takes 14 µs on the fastest of its GPUs and 53 on
# the slowest, and one more dispatch. Looking at so many ids takes 5 and 130 µs.
MANY_LOOKS = 1 << 25


def group_ids(b: Builder, node: Node) -> Sequence[Value] | None:
    """`gather_grad` in steps, if its table is large."""
    g, ids, *base = node.inputs
    if node.output.type.size * ids.type.size < MANY_LOOKS:
        return None
    rows, run = int(node.attrs["rows"]), RUN
    order = b.apply("order_ids", ids, rows=rows)
    while run < ids.type.size:
        order = b.apply("merge_ids", order, ids, rows=rows, run=run)
        run *= FAN
    return [b.apply("sum_in_order", g, ids, order, *base, rows=rows)]


def add_onto(graph: Graph) -> Graph:
    """With sums by id that start from what they are added to: of a table that is used twice."""
    flow, rewrite = Flow.of(graph), Rewrite(graph)
    for old in graph.nodes:
        node, sums = rewrite.updated(old), _sums_of(flow, old)
        if sums is None:
            rewrite.keep(node)
        else:
            base = next(v for v in node.inputs if v.name != rewrite.current(sums.output).name)
            new = partial(_with_base, rewrite.builder, rewrite.updated(sums), base)
            rewrite.replace(node, new)
    return rewrite.finish()


def _sums_of(flow: Flow, node: Node) -> Node | None:
    """The sums by id that this node alone adds to something else."""
    if node.op != "add" or node.inputs[0] == node.inputs[1]:
        return None
    for value in reversed(node.inputs):
        made = flow.producers.get(value.name)
        is_sum = made is not None and made.op == "gather_grad" and len(made.inputs) == 2
        if is_sum and flow.consumers[value.name] == (node,) and value.name not in flow.results:
            return made
    return None


def _with_base(b: Builder, sums: Node, base: Value) -> Sequence[Value]:
    return [b.apply("gather_grad", *sums.inputs, base, **sums.attrs)]
