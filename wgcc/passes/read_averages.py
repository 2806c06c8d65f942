"""Entries `with ema` read the averages of parameters where others read the parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from wgcc.ir.graph import Graph, Value
from wgcc.ir.state_names import AVERAGE, OptimizerState
from wgcc.passes.rewrite import renamed


def read_averages(graph: Graph, optimizer: str, stored: Collection[str]) -> Graph:
    """`stored` are the names of all state; a parameter without an average is read itself."""
    averages = {
        value.name: Value(OptimizerState(optimizer, AVERAGE, value.name).name, value.type)
        for value in graph.params
    }
    averages = {name: value for name, value in averages.items() if value.name in stored}
    return replace(
        graph,
        params=tuple(value for value in graph.params if value.name not in averages),
        state=(*graph.state, *averages.values()),
        nodes=tuple(renamed(node, averages) for node in graph.nodes),
        outputs={n: averages.get(value.name, value) for n, value in graph.outputs.items()},
        writes={n: averages.get(value.name, value) for n, value in graph.writes.items()},
    )
