"""Work that kernels do best in other forms: thin matrix products become sums of products, long
reductions are done in two steps, long joins piece by piece, ids are sorted before large sums by id.

Split-K: a product with few results and a long inner axis becomes shorter ones and a sum. Gradients
of weights are such products: one element for each pixel of a batch of images. Alone they would
leave most of a GPU idle. The order of the additions is fixed, so results repeat to the bit.

Sums over rows of what a kernel loops over row by row become partial sums of a few rows each.

The gradient of a norm's gain is such a sum: the kernel that makes the gradient of the norm's
operand has all of its elements at hand, and adds up the columns of the rows that it takes.

Sums by id over large tables: ids are sorted first, so that the work is that of their elements.

Otherwise every element of the table looks through all ids, which is quick for small tables only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from math import prod

from wgcc.ir.graph import FLOATS, Builder, Graph, Node, Value
from wgcc.ir.index import reduction_space
from wgcc.ir.places import ceil_div
from wgcc.ops.formula import Term
from wgcc.ops.gather import FAN, RUN
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
                _split_columns(rewrite, column_sum)
            waiting = {}
        if _is_split(flow, node, leaves, streamed):
            # Its kernel must be known by then.
            waiting[node.output.name] = node
        else:
            rewrite.keep(node)
    return rewrite.finish()


def _streamed_by_rows(flow: Flow, leaves: Leaves) -> dict[Sizes, list[Set[str]]]:
    """The tensors that each reduction of rows reads, by numbers of rows and columns."""
    reads: dict[Sizes, list[Set[str]]] = {}
    for node in flow.graph.nodes:
        if isinstance(lowering(node), Reduce):
            runs = reduction_space(node.inputs[0].shape, node.attrs["axes"]).runs
            if [reduced for reduced, _ in runs] == [False, True]:
                sizes = runs[0][1], runs[1][1]
                reads.setdefault(sizes, []).append(leaves[node.inputs[0].name])
    return reads


def _leaves(flow: Flow) -> dict[str, frozenset[str]]:
    """The tensors each value is computed from by element; only itself if these are many."""
    leaves_of = {value.name: frozenset({value.name}) for value in flow.graph.sources}
    for node in flow.graph.nodes:
        for value in node.outputs:
            leaves = frozenset({value.name})
            if computes_by_element(node) or moves(node):
                leaves = frozenset().union(*(_few(leaves_of, operand) for operand in node.inputs))
            leaves_of[value.name] = leaves
    return leaves_of


def _few(leaves_of: Leaves, value: Value) -> frozenset[str]:
    leaves = leaves_of[value.name]
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


def _split_columns(rewrite: Rewrite, node: Node) -> None:
    b, operand = rewrite.builder, rewrite.current(node.inputs[0])
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    (_, rows), (_, columns) = runs
    each = rows_each(rows)

    def build() -> list[Value]:
        groups = b.apply("reshape", operand, shape=(rows // each, each, columns))
        partial = b.apply("sum", groups, axes=(1,))
        return [b.apply("reshape", b.apply("sum", partial, axes=(0,)), shape=node.output.shape)]

    rewrite.replace(node, build)


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
    """Sums by id start from the tensor they are added to, as for a table that is used twice."""
    flow, rewrite = Flow.of(graph), Rewrite(graph)
    for old in graph.nodes:
        node, sums = rewrite.current_node(old), _sums_of(flow, old)
        if sums is None:
            rewrite.keep(node)
        else:
            base = next(v for v in node.inputs if v.name != rewrite.current(sums.output).name)
            new = partial(_with_base, rewrite.builder, rewrite.current_node(sums), base)
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


# One thread or workgroup reduces at most about this many elements alone.
LONG_REDUCTION = 2048
# With this many results the machine is busy even if each of them takes long.
MANY_RESULTS = 1024
# Fewer results are enough if they are side by side: large workgroups share eight of them.
MANY_COLUMNS, LONG_COLUMNS = 512, 8192
# Bindings of one kernel are few, so long concatenations are made piece by piece.
MAX_PIECES = 5
# A product with at least so many tiles keeps a GPU busy.
TILE, ENOUGH_TILES = 32, 16
# Shorter inner axes are not worth a second dispatch; parts should stay as long as this.
LONG, LONG_PART = 4096, 512
# No longer ones for one thread: see schedule/kernel.py. Tiled kernels make more iterations.
LONGEST = 32_768
# With so many parts and tiles there is enough to do.
ENOUGH_PARTS = 64

Rule = Callable[[Builder, Node], Sequence[Value] | None]


def split_long(graph: Graph) -> Graph:
    return rewrite_by(graph, _RULES)


def rewrite_by(graph: Graph, rules: Mapping[str, Rule]) -> Graph:
    """Each op as its rule says. Reductions are split, and so is what rules made: sums of squares
    over an arena may be long themselves.
    """
    return _rewrite(_rewrite(graph, rules), {})


def _rewrite(graph: Graph, rules: Mapping[str, Rule]) -> Graph:
    rewrite = Rewrite(graph)
    for old in graph.nodes:
        node = rewrite.current_node(old)
        rule = rules.get(node.op) or (_split if isinstance(lowering(node), Reduce) else None)
        if rule is None:
            rewrite.keep(node)
        else:
            rewrite.replace(node, partial(rule, rewrite.builder, node))
    return rewrite.finish()


def split_k(b: Builder, node: Node) -> Sequence[Value] | None:
    """a @ b with its inner axis in parts, or None where it is good as it is."""
    a, c = (Term(b, value) for value in node.inputs)
    *batch, rows, inner = a.shape
    parts = parts_of(node)
    if parts == 1:
        return None
    cols, length = c.shape[-1], ceil_div(inner, parts)
    a, c = _pad(a, (*batch, rows, parts * length)), _pad(c, (*batch, parts * length, cols))
    if not batch:
        left = a.reshape((rows, parts, length)).apply("transpose", perm=(1, 0, 2))
        right = c.reshape((parts, length, cols))
        return [left.apply("matmul", right).sum((0,)).value]
    (many,) = batch
    left = a.reshape((many, rows, parts, length)).apply("transpose", perm=(2, 0, 1, 3))
    right = c.reshape((many, parts, length, cols)).apply("transpose", perm=(1, 0, 2, 3))
    left = left.reshape((parts * many, rows, length))
    product = left.apply("matmul", right.reshape((parts * many, length, cols)))
    return [product.reshape((parts, many, rows, cols)).sum((0,)).value]


def _pad(term: Term, shape: tuple[int, ...]) -> Term:
    if term.shape == shape:
        return term
    return term.apply("unslice", shape=shape, starts=(0,) * len(shape), steps=(1,) * len(shape))


def parts_of(node: Node) -> int:
    """Into how many parts the inner axis is cut; equal ones, if any will do."""
    a, c = (value.shape for value in node.inputs)
    inner, tiles = a[-1], ceil_div(a[-2], TILE) * ceil_div(c[-1], TILE)
    if len(a) == 2 and inner >= LONG and tiles < ENOUGH_TILES:
        most = min(ceil_div(ENOUGH_PARTS, tiles), inner // LONG_PART)
        parts = next((n for n in range(most, 1, -1) if inner % n == 0), 1)
        if inner // parts <= LONGEST:
            return parts
    least = ceil_div(inner, LONGEST)
    return next((n for n in range(least, 2 * least) if inner % n == 0), least)


def _thin_product(b: Builder, node: Node) -> Sequence[Value] | None:
    """a @ b with one row, one column or an inner size of 1, as a product and (perhaps) a sum."""
    a, c = (Term(b, value) for value in node.inputs)
    *batch, rows, inner = a.shape
    cols = c.shape[-1]
    if inner == 1:
        shape = (*batch, rows, cols)
        return [(a.broadcast(shape) * c.broadcast(shape)).value]
    if rows != 1 and cols != 1:
        return None
    if cols == 1:
        pair = a * _transpose(c).broadcast(a.shape)
        return [pair.sum((len(a.shape) - 1,)).reshape(node.output.shape).value]
    pair = _transpose(a).broadcast(c.shape) * c
    return [pair.sum((len(c.shape) - 2,)).reshape(node.output.shape).value]


def _transpose(term: Term) -> Term:
    """The last two axes exchanged; one of them has size 1."""
    return term.reshape((*term.shape[:-2], term.shape[-1], term.shape[-2]))


def _split(b: Builder, node: Node) -> Sequence[Value] | None:
    """A reduction of many elements to few results, in two steps of about equal length."""
    operand, axes = node.inputs[0], tuple(node.attrs["axes"])
    kept = [axis for axis in range(len(operand.shape)) if axis not in axes]
    results = prod(operand.shape[axis] for axis in kept)
    length = operand.type.size // results
    parts = divisor_near_root(length)
    # Parts come before the axes behind those reduced, whose elements stay side by side.
    last = max(axes)
    before, behind = ([a for a in kept if a < last], [a for a in kept if a > last])
    is_wide = behind and results >= MANY_COLUMNS and length < LONG_COLUMNS
    if length < LONG_REDUCTION or results >= MANY_RESULTS or parts < 8 or is_wide:
        return None
    ordered = b.apply("transpose", operand, perm=(*before, *axes, *behind))
    outer, columns = (prod(operand.shape[a] for a in side) for side in (before, behind))
    shape = (outer, parts, length // parts, *((columns,) if behind else ()))
    rows = b.apply("reshape", ordered, shape=shape)
    partial = b.apply(node.op, rows, axes=(2,))
    total = b.apply(node.op, partial, axes=(1,))
    return [b.apply("reshape", total, shape=node.output.shape)]


def divisor_near_root(length: int) -> int:
    root = int(length**0.5)
    return next((d for d in range(root, 0, -1) if length % d == 0), 1)


def _short_concat(b: Builder, node: Node) -> Sequence[Value] | None:
    parts = list(node.inputs)
    if len(parts) <= MAX_PIECES:
        return None
    axis = node.attrs["axis"]
    while len(parts) > MAX_PIECES:
        batches = [parts[i : i + MAX_PIECES] for i in range(0, len(parts), MAX_PIECES)]
        parts = [b.apply("copy", b.apply("concat", *batch, axis=axis)) for batch in batches]
    return [b.apply("concat", *parts, axis=axis)]


def _first_extreme(reduction: str, b: Builder, node: Node) -> Sequence[Value]:
    """The first position whose element equals the extreme one; that of the first NaN, if any."""
    x, axis = Term(b, node.inputs[0]), int(node.attrs["axis"])
    size = x.shape[axis]
    reduction = "max" if reduction == "peak" and x.dtype not in FLOATS else reduction
    extreme = x.apply(reduction, axes=(axis,)).spread((axis,), x.shape)
    shape = tuple(size if k == axis else 1 for k in range(len(x.shape)))
    positions = Term(b, b.apply("iota", n=size, dtype="i32")).reshape(shape).broadcast(x.shape)
    equal = x.equals(extreme).choose(positions, size)
    if x.dtype not in FLOATS:
        return [equal.apply("min", axes=(axis,)).value]
    # A NaN counts before all others. Where nothing is equal, all elements are minus infinity.
    first = x.apply("is_nan").choose(positions - size, equal).apply("min", axes=(axis,))
    return [(first + size).apply("mod", first.like(size)).value]


_RULES: dict[str, Rule] = {
    "matmul": lambda b, node: _thin_product(b, node) or split_k(b, node),
    "concat": _short_concat,
    # Softmax of the same scores needs `peak`, too.
    "argmax": partial(_first_extreme, "peak"),
    "argmin": partial(_first_extreme, "min"),
    "gather_grad": group_ids,
}
