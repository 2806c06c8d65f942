"""Values that a kernel loads, sums or stores beside what it is built around.

- Column sums: a kernel that takes rows one after the other sums columns over a few rows each.
- Column parts: gradients that are columns of one product are each stored in a place of their own.
- Bias gradients: the gradient of a bias is a column sum of the operand that the product of the
  weight's gradient loads anyway, so one kernel makes both.
- Joined operands: values joined of several are stored where a kernel family loads them many times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import (
    Coordinates,
    Space,
    coordinates_of,
    indices,
    linear,
    reduction_space,
    variable,
)
from wgcc.ops.registry import Join, Pointwise, Reduce, Special, View
from wgcc.passes.dataflow import (
    Flow,
    behind_views,
    computes_by_element,
    keeps_order,
    lowering,
    moves,
)
from wgcc.passes.prepare.split_long import ENOUGH_GROUPS, LEAST_ROWS, MOST_COLUMNS, MOST_ROWS
from wgcc.schedule.fuse.group import own_space
from wgcc.schedule.kernel import VECTOR

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
    """The space of a kernel over the rows that a node adds up, some at a time."""
    runs = own_space(node).runs
    if len(runs) != 3:
        return None
    (_, groups), (_, each), (_, columns) = runs
    space = Space(((False, groups * each), (True, columns)))
    return space if rows_of(node, space) else None


def column_sums(roots: list[Node], space: Space) -> list[Node]:
    return [node for node in roots if rows_of(node, space)]


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """`width` columns of a product from `start` on; both are whole vectors."""

    start: int
    width: int

    @property
    def end(self) -> int:
        return self.start + self.width


def column_part(node: Node, product: Value, inlined: Mapping[str, Node]) -> ColumnPart | None:
    """The columns of a product that a node copies, if it does nothing else."""
    part = inlined.get(node.inputs[0].name) if node.op == "copy" else None
    lower = lowering(part) if part is not None and part.inputs else None
    if part is None or part.inputs[0].name != product.name or not isinstance(lower, View):
        return None
    if len(part.output.shape) != 2 or part.output.shape[0] != product.shape[0] or lower.inside:
        return None
    width = part.output.shape[1]
    row, column = variable("row", product.shape[0]), variable("column", width)
    at_row, at_column = indices(lower.index(part, (row, column)))
    start = at_column - column
    is_whole = start.is_constant and start.offset % VECTOR == 0 and width % VECTOR == 0
    return ColumnPart(start.offset, width) if at_row == row and is_whole else None


Leaf = tuple[str, Coordinates]


def find_bias_gradients(flow: Flow, materialised: set[str]) -> dict[str, Node]:
    """The sum fused with each product, by the name of the product's value."""
    sums: dict[tuple[Leaf, int, int], Node] = {}
    for node in flow.graph.nodes:
        if node.op == "sum" and node.output.dtype == "f32":
            key = _column_sum(flow, materialised, node)
            if key is not None:
                sums.setdefault(key, node)
    bias_gradients: dict[str, Node] = {}
    for node in flow.graph.nodes:
        if node.op == "matmul" and len(node.output.shape) == 2:
            depth, cols = node.inputs[1].shape
            at = (variable("k", depth), variable("n", cols))
            bias_gradient = sums.pop(
                (_leaf(flow, materialised, node.inputs[1], at), depth, cols), None
            )
            if bias_gradient is not None:
                bias_gradients[node.output.name] = bias_gradient
    return bias_gradients


def _column_sum(flow: Flow, materialised: set[str], node: Node) -> tuple[Leaf, int, int] | None:
    operand = node.inputs[0]
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    if [reduced for reduced, _ in runs] != [True, False]:
        return None
    (_, depth), (_, cols) = runs
    position = linear((variable("k", depth), variable("n", cols)), (depth, cols))
    at = coordinates_of(position, operand.shape)
    return _leaf(flow, materialised, operand, at), depth, cols


def _leaf(flow: Flow, materialised: set[str], value: Value, at: Coordinates) -> Leaf:
    """The value behind plain views, and the coordinates there of an element at `at`."""
    while True:
        node = flow.producers.get(value.name)
        lower = lowering(node) if node is not None and value.name not in materialised else None
        if node is None or not isinstance(lower, View) or lower.inside is not None:
            return value.name, at
        value, at = node.inputs[0], indices(lower.index(node, at))


def loads_often(node: Node) -> bool:
    return isinstance(lowering(node), Special)


def joined_operands(flow: Flow) -> set[str]:
    """The joined operands none of whose parts is in memory anyway.

    Where one is, storing it once more would move its bytes for nothing: products then load each
    element from the part it is in.
    """

    follow_products = _follow_products(flow)

    def is_in_memory(value: Value, join: Node) -> bool:
        if any(loads_often(n) for n in flow.readers(value, lambda n: moves(n) and n is not join)):
            return True
        value = behind_views(value, flow.producers)
        node = flow.producers.get(value.name)
        computed = node is not None and (computes_by_element(node) or moves(node))
        return not computed or value.name in follow_products

    def is_stored(join: Node) -> bool:
        is_operand = any(map(loads_often, flow.readers(join.output)))
        return is_operand and not any(is_in_memory(value, join) for value in join.inputs)

    joins = (node for node in flow.graph.nodes if isinstance(lowering(node), Join))
    return {node.output.name for node in joins if is_stored(node)}


def _follow_products(flow: Flow) -> set[str]:
    """Names of products and of values that their kernels can compute from them and store."""
    names: set[str] = set()
    for node in flow.graph.nodes:
        if node.op == "matmul":
            names.add(node.output.name)
        elif keeps_order(node) or isinstance(lowering(node), Pointwise):
            size = node.output.type.size
            if any(v.name in names and v.type.size == size for v in node.inputs):
                names.add(node.output.name)
    return names
