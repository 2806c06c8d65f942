"""Ops over many tensors become one for each run of tensors that are side by side in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import ALIGNMENT, Place, round_up
from wgcc.ir.program import Program
from wgcc.ops.registry import ReduceMany, Update
from wgcc.passes.dataflow import lowering
from wgcc.passes.prepare.split_long import Rule, divisor_near_root, rewrite_by
from wgcc.passes.simplify import simplify
from wgcc.passes.updates import is_update, lists_of, partners, runs, scalars_of

# A vector of at least this length that divides into fewer parts than these is cut at a multiple.
LONG_VECTOR = 1 << 20
FEW_PARTS = 512
ROUND = 4096


def join_arenas(program: Program) -> Program:
    """The places of parameters say which tensors are side by side."""
    entries = {name: _joined(graph, program.places) for name, graph in program.entries.items()}
    return replace(program, entries=entries)


def _joined(graph: Graph, places: Mapping[str, Place]) -> Graph:
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
