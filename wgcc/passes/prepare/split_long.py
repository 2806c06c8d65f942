"""Work that kernels do best in other forms: thin matrix products become sums of products, long
reductions are done in two steps, long joins piece by piece, ids are sorted before large sums by id.

Split-K: a product with few results and a long inner axis becomes shorter ones and a sum. Gradients
of weights are such products: one element for each pixel of a batch of images. Alone they would
leave most of a GPU idle. The order of the additions is fixed, so results repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.ir.places import ceil_div
from wgcc.ops.formula import Term
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering
from wgcc.passes.prepare.group_ids import group_ids
from wgcc.passes.rewrite import Rewrite

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
# No longer ones for one thread: see codegen/limits.py. Tiled kernels make more iterations.
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
        node = rewrite.updated(old)
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
    a, c = _padded(a, (*batch, rows, parts * length)), _padded(c, (*batch, parts * length, cols))
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


def _padded(term: Term, shape: tuple[int, ...]) -> Term:
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
        pair = a * _transposed(c).broadcast(a.shape)
        return [pair.sum((len(a.shape) - 1,)).reshape(node.output.shape).value]
    pair = _transposed(a).broadcast(c.shape) * c
    return [pair.sum((len(c.shape) - 2,)).reshape(node.output.shape).value]


def _transposed(term: Term) -> Term:
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
