"""Give every gradient that an update reads a value of its own, which can be stored in its arena.

A gradient may be a view, a constant, or the same value for two parameters; an arena holds none of
these. Everything that reads the gradients of an update then reads the copies.

Ops over many tensors become one for each run of tensors that are side by side in memory.

The statistics that gradients of attention need are made by the kernel of the first of them.

Each workgroup of it has the rows of the result and of its gradient at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.places import ALIGNMENT, Place, round_up
from wgcc.ir.program import Program
from wgcc.ops.registry import FromIndex, ReduceMany, Repeat, Update
from wgcc.passes.dataflow import (
    Flow,
    is_update,
    lists_of,
    lowering,
    moves,
    partners,
    runs,
    scalars_of,
)
from wgcc.passes.prepare.split_long import Rule, divisor_near_root, rewrite_by
from wgcc.passes.rewrite import Rewrite, builder_for
from wgcc.passes.simplify import simplify

# The values of one gradient, by the parameters it belongs to.
Own = dict[str, Value]


def own_gradients(graph: Graph) -> Graph:
    """Gradients have their final form by now, which nothing changes any more."""
    if not any(is_update(node) for node in graph.nodes):
        return graph
    owners, builder = partners(graph), builder_for(graph)
    made = graph.producers
    wanted = _parameters_by_gradient(graph, owners, made)
    own: dict[str, Own] = {}
    for node in graph.nodes:
        if is_update(node) or isinstance(lowering(node), ReduceMany):
            for value in dict.fromkeys(node.inputs):
                if value.name in wanted and value.name not in own:
                    own[value.name] = _values(builder, value, made, wanted[value.name])
            node = _with_own(node, own, owners)
        builder.nodes.append(node)
    return replace(graph, nodes=tuple(builder.nodes))


def _parameters_by_gradient(
    graph: Graph, owners: Mapping[str, str], made: Mapping[str, Node]
) -> dict[str, list[str]]:
    """Gradients by name, each with its parameters; what another update made is in an arena."""
    parameters_of: dict[str, list[str]] = {}
    for node in graph.nodes:
        for value, parameter in _gradients(node, owners):
            maker = made.get(value.name)
            if maker is None or not is_update(maker):
                known = parameters_of.setdefault(value.name, [])
                known += [parameter] if parameter not in known else []
    return parameters_of


def _gradients(node: Node, owners: Mapping[str, str]) -> list[tuple[Value, str]]:
    lists = lists_of(node) if is_update(node) else {}
    if "g" not in lists:
        return []
    partner = next(values for name, values in lists.items() if name != "g")
    return [(g, owners[p.name]) for g, p in zip(lists["g"], partner, strict=True)]


def _values(builder: Builder, value: Value, made: Mapping[str, Node], parameters: list[str]) -> Own:
    """The value itself for one parameter, if it can be put anywhere; copies for the others."""
    own, last = {}, value
    for i, parameter in enumerate(parameters):
        if i or not _can_be_put(value, made):
            maker = made.get(value.name)
            with builder.at(maker.span if maker else None, value.name):
                # A copy of the last one, because equal nodes would be merged.
                last = builder.apply("copy", last, name=f"{value.name}.copy")
        own[parameter] = last
    return own


def _can_be_put(value: Value, made: Mapping[str, Node]) -> bool:
    """Is it computed, by no loop, and from something that is not known beforehand?"""
    maker = made.get(value.name)
    if maker is None or moves(maker) or isinstance(lowering(maker), FromIndex | Repeat):
        return False
    return not _is_fixed(value, made)


def _is_fixed(value: Value, made: Mapping[str, Node]) -> bool:
    """Does it depend on no source of the graph, so that it may become a constant?"""
    waiting, seen = [value], {value.name}
    while waiting:
        maker = made.get(waiting.pop().name)
        if maker is None:
            return False
        new = [operand for operand in maker.inputs if operand.name not in seen]
        seen.update(operand.name for operand in new)
        waiting += new
    return True


def _with_own(node: Node, own: Mapping[str, Own], owners: Mapping[str, str]) -> Node:
    inputs = list(node.inputs)
    if is_update(node):
        gradients = _gradients(node, owners)
        start = list(lists_of(node)).index("g") * node.attrs["n"] if gradients else 0
        for i, (value, parameter) in enumerate(gradients):
            inputs[start + i] = own.get(value.name, {}).get(parameter, value)
        return replace(node, inputs=tuple(inputs))
    # The values of one gradient are equal, so it does not matter which of them is taken first.
    left = {name: list(values.values()) for name, values in own.items()}
    for i, value in enumerate(inputs):
        if left.get(value.name):
            inputs[i] = left[value.name].pop(0)
    return replace(node, inputs=tuple(inputs))


# A vector of at least this length that divides into fewer parts than these is cut at a multiple.
LONG_VECTOR = 1 << 20
FEW_PARTS = 512
ROUND = 4096


def join_arenas(program: Program) -> Program:
    """The places of parameters say which tensors are side by side."""
    entries = {
        name: _join_in_graph(graph, program.places) for name, graph in program.entries.items()
    }
    return replace(program, entries=entries)


def _join_in_graph(graph: Graph, places: Mapping[str, Place]) -> Graph:
    if not any(is_update(node) for node in graph.nodes):
        return graph
    return simplify(rewrite_by(graph, _arena_rules(graph, places)))


def _arena_rules(graph: Graph, places: Mapping[str, Place]) -> dict[str, Rule]:
    owners = partners(graph)

    def cut(values: Sequence[Value]) -> list[list[int]]:
        return runs([owners[value.name] for value in values], places)

    def reduce_runs(b: Builder, node: Node) -> Sequence[Value] | None:
        lower = lowering(node)
        assert isinstance(lower, ReduceMany)
        tensors = [[node.inputs[i] for i in run] for run in cut(node.inputs)]
        vectors = (part for run in tensors for part in _divisible(b, _flat(b, run)))
        results = [lower.flat(b, vector) for vector in vectors]
        return [reduce(partial(b.apply, lower.combine), results)]

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
    whole = sum(round_up(value.type.size, ALIGNMENT) for value in values[:-1])
    return b.apply("flat", *values, words=whole + values[-1].type.size)


def _divisible(b: Builder, vector: Value) -> list[Value]:
    """A long vector without a divisor near its root, as one that has such a divisor, and a rest."""
    (length,) = vector.shape
    rest = length % ROUND
    if length < LONG_VECTOR or not rest or divisor_near_root(length) >= FEW_PARTS:
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
    results: dict[int, Value] = {}
    for run in cut:
        inputs = [values[i] for values in lists.values() for i in run]
        attrs = {**node.attrs, "n": len(run)}
        outputs = b.apply_many(node.op, *inputs, *scalars, **attrs)
        for i, value in enumerate(outputs):
            results[i // len(run) * node.attrs["n"] + run[i % len(run)]] = value
    return [results[i] for i in range(len(node.outputs))]


# q, k, v, dy and the statistics; offset and mask come after them, and would take bindings.
INPUTS = 5


def fold_stats(graph: Graph) -> Graph:
    rewrite, flow = Rewrite(graph), Flow.of(graph)
    folded: set[str] = set()
    for node in graph.nodes:
        first = _first_gradient(flow, node) if node.op == "attention_stats" else None
        if first is not None:
            folded.add(first.output.name)
            rewrite.keep(_both(node, first))
        elif node.outputs[0].name not in folded:
            rewrite.keep(node)
    return rewrite.finish()


def _first_gradient(flow: Flow, stats: Node) -> Node | None:
    """The gradient of q that reads these statistics; none of its other inputs is made later."""
    readers = flow.consumers.get(stats.output.name, ())
    gradients = [n for n in readers if n.op == "attention_grad_q" and len(n.inputs) == INPUTS]
    y, dy = stats.inputs[0], stats.inputs[2]
    attention = flow.producers.get(y.name)
    if len(gradients) != 1 or attention is None or gradients[0].inputs[3] != dy:
        return None
    return gradients[0] if gradients[0].inputs[:3] == attention.inputs[:3] else None


def _both(stats: Node, first: Node) -> Node:
    q, k, v, dy, _ = first.inputs
    y, rows, _ = stats.inputs
    outputs = stats.output, first.output
    return Node("attention_grad_stats_q", (q, k, v, dy, y, rows), outputs, first.attrs, first.span)
