"""Rewrite a graph into what the kernel families do best, without changing what it computes.

Thin matrix products become sums of products, long reductions are done in two steps, and every
result gets a node of its own whose value can be put in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.ir.loops import map_bodies
from wgcc.ir.program import Program
from wgcc.ops.formula import Term
from wgcc.ops.registry import Reduce, ReduceMany, Update
from wgcc.passes.prune import prune
from wgcc.passes.rewrite import Rewrite
from wgcc.passes.simplify import simplify
from wgcc.schedule.dataflow import lowering
from wgcc.schedule.kernel import ALIGNMENT
from wgcc.schedule.layout import Layout
from wgcc.schedule.prepare.flatten_joins import flatten_joins
from wgcc.schedule.prepare.fold_stats import fold_stats
from wgcc.schedule.prepare.group_ids import add_onto, group_ids
from wgcc.schedule.prepare.join_gradients import join_gradients
from wgcc.schedule.prepare.join_products import join_products
from wgcc.schedule.prepare.own_carries import own_carries
from wgcc.schedule.prepare.own_gradients import own_gradients
from wgcc.schedule.prepare.pack_results import pack_results
from wgcc.schedule.prepare.place_results import place_results
from wgcc.schedule.prepare.random_sites import sites_in_memory
from wgcc.schedule.prepare.split_columns import split_columns
from wgcc.schedule.prepare.split_k import split_k
from wgcc.schedule.prepare.turn_products import turn_products
from wgcc.schedule.prepare.update_numbers import update_numbers_in_memory
from wgcc.schedule.updates import lists_of, partners, runs, scalars_of

# One thread or workgroup reduces at most about this many elements alone.
LONG_REDUCTION = 2048
# With this many results the machine is busy even if each of them takes long.
MANY_RESULTS = 1024
# So it is with fewer results, if they are side by side: large workgroups share eight of them.
MANY_COLUMNS, LONG_COLUMNS = 512, 8192
# A vector of at least this length that divides into fewer parts than these is cut at a multiple.
LONG_VECTOR = 1 << 20
FEW_PARTS = 512
ROUND = 4096
# Bindings of one kernel are few, so long concatenations are made piece by piece.
MAX_PIECES = 5

Rule = Callable[[Builder, Node], Sequence[Value] | None]


def prepare(program: Program, layout: Layout) -> Program:
    """Every entry as kernels can best compute it; `layout` says which tensors are side by side."""
    entries = {name: _prepared(graph, layout) for name, graph in program.entries.items()}
    return replace(program, entries=entries)


def _prepared(graph: Graph, layout: Layout) -> Graph:
    graph = simplify(_with_rules(graph))
    if any(isinstance(lowering(node), Update) for node in graph.nodes):
        # Gradients get places when they have their final form, which nothing changes any more.
        graph = own_gradients(graph)
        graph = simplify(_once_more(_rewritten(graph, _arena_rules(graph, layout))))
    graph = update_numbers_in_memory(sites_in_memory(graph))
    return _placed(place_results(pack_results(graph)))


def _with_rules(graph: Graph) -> Graph:
    graph = split_columns(fold_stats(join_gradients(join_products(graph))))
    flat = prune(add_onto(turn_products(flatten_joins(graph))))
    return map_bodies(_once_more(_rewritten(flat, _RULES)), _with_rules)


def _placed(graph: Graph) -> Graph:
    """With carries and results of rounds that can be put in their places."""
    return map_bodies(own_carries(graph), _placed_body)


def _placed_body(body: Graph) -> Graph:
    """A carry that stays what it is needs no place for its next value."""
    changed = {name: value for name, value in body.writes.items() if value.name != name}
    placed = place_results(replace(body, writes=changed))
    writes = {name: placed.writes.get(name, value) for name, value in body.writes.items()}
    return _placed(replace(placed, writes=writes))


def _rewritten(graph: Graph, rules: Mapping[str, Rule]) -> Graph:
    rewrite = Rewrite(graph)
    for old in graph.nodes:
        node = rewrite.updated(old)
        rule = rules.get(node.op) or (_split if isinstance(lowering(node), Reduce) else None)
        if rule is None:
            rewrite.keep(node)
        else:
            rewrite.replace(node, partial(rule, rewrite.builder, node))
    return rewrite.finish()


def _once_more(graph: Graph) -> Graph:
    """What the first round made may itself be long: sums of squares over an arena."""
    return _rewritten(graph, {})


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
    parts = _divisor_near_root(length)
    # Parts come before the axes behind those reduced, whose elements stay side by side.
    last = max(axes)
    before, behind = ([a for a in kept if a < last], [a for a in kept if a > last])
    is_wide = behind and results >= MANY_COLUMNS and length < LONG_COLUMNS
    if length < LONG_REDUCTION or results >= MANY_RESULTS or parts < 8 or is_wide:
        return None
    ordered = b.apply("transpose", operand, perm=(*before, *axes, *behind))
    outer, columns = (prod(operand.shape[a] for a in found) for found in (before, behind))
    shape = (outer, parts, length // parts, *((columns,) if behind else ()))
    rows = b.apply("reshape", ordered, shape=shape)
    partial = b.apply(node.op, rows, axes=(2,))
    total = b.apply(node.op, partial, axes=(1,))
    return [b.apply("reshape", total, shape=node.output.shape)]


def _divisor_near_root(length: int) -> int:
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


def _arena_rules(graph: Graph, layout: Layout) -> dict[str, Rule]:
    """Ops over many tensors become one per run of tensors that are side by side."""
    owners = partners(graph.nodes)

    def cut(values: Sequence[Value]) -> list[list[int]]:
        return runs([owners[value.name] for value in values], layout.places)

    def reduce_runs(b: Builder, node: Node) -> Sequence[Value] | None:
        lower = lowering(node)
        assert isinstance(lower, ReduceMany)
        tensors = [[node.inputs[i] for i in run] for run in cut(node.inputs)]
        vectors = (part for run in tensors for part in _divisible(b, _flat(b, run)))
        found = [lower.flat(b, vector) for vector in vectors]
        return [reduce(partial(b.apply, lower.combine), found)]

    def update_runs(b: Builder, node: Node) -> Sequence[Value] | None:
        return _update_runs(b, node, cut(next(iter(lists_of(node).values()))))

    ops = {node.op: lowering(node) for node in graph.nodes}
    rules: dict[str, Rule] = {}
    for op, lower in ops.items():
        if isinstance(lower, ReduceMany):
            rules[op] = reduce_runs
        elif isinstance(lower, Update):
            rules[op] = update_runs
    return rules


def _flat(b: Builder, values: list[Value]) -> Value:
    whole = sum(-(-value.type.size // ALIGNMENT) * ALIGNMENT for value in values[:-1])
    return b.apply("flat", *values, words=whole + values[-1].type.size)


def _divisible(b: Builder, vector: Value) -> list[Value]:
    """A long vector without a divisor near its root, as one that has such a divisor, and a rest."""
    (length,) = vector.shape
    rest = length % ROUND
    if length < LONG_VECTOR or not rest or _divisor_near_root(length) >= FEW_PARTS:
        return [vector]
    pieces = (0, length - rest), (length - rest, rest)
    return [
        b.apply("slice", vector, starts=(start,), sizes=(size,), steps=(1,))
        for start, size in pieces
    ]


def _update_runs(b: Builder, node: Node, cut: list[list[int]]) -> Sequence[Value] | None:
    in_order = list(range(node.attrs["n"]))
    if cut == [in_order]:
        return None
    lists, scalars = lists_of(node), scalars_of(node).values()
    found: dict[int, Value] = {}
    for run in cut:
        inputs = [values[i] for values in lists.values() for i in run]
        attrs = {**node.attrs, "n": len(run)}
        outputs = b.apply_many(node.op, *inputs, *scalars, **attrs)
        for i, value in enumerate(outputs):
            found[i // len(run) * node.attrs["n"] + run[i % len(run)]] = value
    return [found[i] for i in range(len(node.outputs))]
