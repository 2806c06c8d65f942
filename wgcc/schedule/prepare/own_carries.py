"""Gives every loop initial carries of its own: values that nothing else uses.

A loop's carry is in one place from before the first round until its final value was read, so the
kernel that makes the initial value writes it there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import loop_of
from wgcc.ops.registry import Repeat, Source
from wgcc.passes.rewrite import builder_for
from wgcc.schedule.dataflow import lowering, moves
from wgcc.schedule.updates import is_update


def own_carries(graph: Graph) -> Graph:
    uses = Counter(value.name for node in graph.nodes for value in node.inputs)
    uses.update(value.name for value in graph.results)
    made = {value.name: node for node in graph.nodes for value in node.outputs}
    builder = builder_for(graph)

    def is_own(value: Value) -> bool:
        return uses[value.name] == 1 and _can_be_put(made.get(value.name))

    for node in graph.nodes:
        if loop := loop_of(node):
            inits = list(loop.inits)
            for i, (value, final) in enumerate(zip(loop.inits, loop.finals, strict=True)):
                if not is_own(value):
                    with builder.at(node.span, final.name):
                        inits[i] = builder.apply("copy", value, name=f"{final.name}.start")
            node = replace(node, inputs=(*inits, *node.inputs[len(inits) :]))
        builder.nodes.append(node)
    return replace(graph, nodes=tuple(builder.nodes))


def _can_be_put(maker: Node | None) -> bool:
    """Is it computed by one kernel, which can store it anywhere?"""
    if maker is None or moves(maker) or is_update(maker):
        return False
    return not isinstance(lowering(maker), Source | Repeat)


__all__ = ["own_carries"]
