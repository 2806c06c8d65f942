"""Dead-code elimination: drops every node that no result depends on, also in bodies of loops, and
carries, stacks and inputs of loops that nothing needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from wgcc.ir.graph import Graph, Node
from wgcc.ir.loops import Loop, loop_of
from wgcc.passes.rewrite import are_same


def prune(graph: Graph) -> Graph:
    live = {value.name for value in graph.results}
    kept = []
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.outputs):
            loop = loop_of(node)
            kept.append(_narrowed(loop, live) if loop else node)
            live.update(value.name for value in kept[-1].inputs)
    kept.reverse()
    return graph if are_same(kept, graph.nodes) else replace(graph, nodes=tuple(kept))


def _narrowed(loop: Loop, live: Collection[str]) -> Node:
    """The loop with what its `live` outputs depend on; the node itself if that is all of it."""
    body = _live_body(loop, live)
    if body == loop.body:
        return loop.node
    carried, read = {v.name for v in body.state}, {v.name for v in body.inputs}
    outputs = (
        *(v for v, c in zip(loop.finals, loop.carries, strict=True) if c.name in carried),
        *(
            v
            for v, name in zip(loop.stacks, loop.body.outputs, strict=True)
            if name in body.outputs
        ),
    )
    inputs = (
        *(v for v, c in zip(loop.inits, loop.carries, strict=True) if c.name in carried),
        *(v for v, inner in (*loop.sliced, *loop.captured) if inner.name in read),
    )
    attrs = {**loop.node.attrs, "body": body}
    return replace(loop.node, inputs=inputs, outputs=outputs, attrs=attrs)


def _live_body(loop: Loop, live: Collection[str]) -> Graph:
    """A carry is needed if its final value is, or if something needed reads it."""
    old = loop.body
    stacks = zip(loop.stacks, old.outputs.items(), strict=True)
    outputs = {name: value for stack, (name, value) in stacks if stack.name in live}
    needed = {c.name for v, c in zip(loop.finals, old.state, strict=True) if v.name in live}
    while True:
        writes = {name: value for name, value in old.writes.items() if name in needed}
        body = prune(replace(old, outputs=outputs, writes=writes))
        read = _read(body)
        more = needed | {value.name for value in old.state if value.name in read}
        if more == needed:
            break
        needed = more
    state = tuple(value for value in old.state if value.name in needed)
    inputs = tuple(value for value in old.inputs[1:] if value.name in read)
    return replace(body, inputs=(old.inputs[0], *inputs), state=state)


def _read(graph: Graph) -> set[str]:
    nodes = (value.name for node in graph.nodes for value in node.inputs)
    return {*nodes, *(value.name for value in graph.results)}
