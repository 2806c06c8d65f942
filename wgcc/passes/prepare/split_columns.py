"""Sums over rows of what a kernel loops over row by row become partial sums of a few rows each.

The gradient of a norm's gain is such a sum: the kernel that makes the gradient of the norm's
operand has all of its elements at hand, and adds up the columns of the rows that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.iteration_space import reduction_space
from wgcc.ops.registry import Pointwise, Reduce, ReduceMany, Update
from wgcc.passes.dataflow import Flow, computes_by_element, lowering, moves
from wgcc.passes.rewrite import Rewrite

# Rows of a workgroup: with fewer, sums would be a large part of what is moved. So many workgroups
# keep a GPU busy.
LEAST_ROWS, MOST_ROWS, ENOUGH_GROUPS = 8, 16, 256
# Sums of a workgroup are in its memory.
MOST_COLUMNS = 1024
# Shorter rows are reduced by one thread each.
LEAST_COLUMNS = 32
# A sum of more tensors, as of all layers before, is taken for one.
MOST_LEAVES = 4
Sizes = tuple[int, int]
Leaves = Mapping[str, frozenset[str]]


def split_columns(graph: Graph) -> Graph:
    rewrite, flow = Rewrite(graph), Flow.of(graph)
    leaves = _leaves(flow)
    streamed = _streamed_by_rows(flow, leaves)
    waiting: dict[str, Node] = {}
    for node in graph.nodes:
        if isinstance(lowering(node), Update | ReduceMany):
            for column_sum in waiting.values():
                _split(rewrite, column_sum)
            waiting = {}
        if _is_split(flow, node, leaves, streamed):
            # Its kernel must be known by then.
            waiting[node.output.name] = node
        else:
            rewrite.keep(node)
    return rewrite.finish()


def _streamed_by_rows(flow: Flow, leaves: Leaves) -> dict[Sizes, list[Set[str]]]:
    """What each reduction of rows reads, by rows and columns."""
    found: dict[Sizes, list[Set[str]]] = {}
    for node in flow.graph.nodes:
        if isinstance(lowering(node), Reduce):
            runs = reduction_space(node.inputs[0].shape, node.attrs["axes"]).runs
            if [reduced for reduced, _ in runs] == [False, True]:
                sizes = runs[0][1], runs[1][1]
                found.setdefault(sizes, []).append(leaves[node.inputs[0].name])
    return found


def _leaves(flow: Flow) -> dict[str, frozenset[str]]:
    """What each value is computed from, element by element; of many tensors only itself."""
    found = {value.name: frozenset({value.name}) for value in flow.graph.sources}
    for node in flow.graph.nodes:
        for value in node.outputs:
            leaves = frozenset({value.name})
            if computes_by_element(node) or moves(node):
                leaves = frozenset().union(*(_few(found, operand) for operand in node.inputs))
            found[value.name] = leaves
    return found


def _few(found: Leaves, value: Value) -> frozenset[str]:
    leaves = found[value.name]
    return leaves if len(leaves) <= MOST_LEAVES else frozenset({value.name})


def _is_split(
    flow: Flow, node: Node, leaves: Leaves, streamed: dict[Sizes, list[Set[str]]]
) -> bool:
    """Is it a gradient that only the optimizer reads, of what another kernel has by rows?"""
    if node.op != "sum" or node.output.dtype != "f32" or node.output.name in flow.results:
        return False
    operand = node.inputs[0]
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    readers = flow.consumers.get(node.output.name, ())
    are_last = all(isinstance(lowering(reader), Update | ReduceMany) for reader in readers)
    if [reduced for reduced, _ in runs] != [True, False] or not readers or not are_last:
        return False
    (_, rows), (_, columns) = runs
    fits = LEAST_COLUMNS <= columns <= MOST_COLUMNS and rows_each(rows) > 0
    large = {n for n in leaves[operand.name] if flow.size(n) == operand.type.size}
    at_hand = any(large <= read for read in streamed.get((rows, columns), ()))
    return fits and bool(large) and at_hand and not _is_bias_gradient(flow, operand)


def _is_bias_gradient(flow: Flow, value: Value) -> bool:
    """Is there a product that adds up these columns anyway?"""
    node = flow.producers.get(value.name)
    while node is not None and not isinstance(lowering(node), Pointwise) and moves(node):
        value = node.inputs[0]
        node = flow.producers.get(value.name)
    return any(reader.op == "matmul" for reader in flow.readers(value))


def rows_each(rows: int) -> int:
    """How many rows a workgroup takes, so that there are enough workgroups; 0 if there are not."""
    counts = range(MOST_ROWS, LEAST_ROWS - 1, -1)
    return next((n for n in counts if rows % n == 0 and rows // n >= ENOUGH_GROUPS), 0)


def _split(rewrite: Rewrite, node: Node) -> None:
    b, operand = rewrite.builder, rewrite.current(node.inputs[0])
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    (_, rows), (_, columns) = runs
    each = rows_each(rows)

    def build() -> list[Value]:
        groups = b.apply("reshape", operand, shape=(rows // each, each, columns))
        partial = b.apply("sum", groups, axes=(1,))
        return [b.apply("reshape", b.apply("sum", partial, axes=(0,)), shape=node.output.shape)]

    rewrite.replace(node, build)
