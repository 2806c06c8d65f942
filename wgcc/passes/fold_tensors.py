"""Computes tensors that depend on no input at compile time, in float64: rotary tables, sinusoids.

Cheap ones (a causal mask is one comparison of indices) stay as they are: a load would cost more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from wgcc.evaluate import evaluate, to_words
from wgcc.ir.graph import Constant, Graph, Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Pointwise, Source, View

LARGEST = 2**20
# A formula of more steps than this is worth a load where several nodes need it.
FEW_STEPS = 4


def fold_tensors(graph: Graph) -> Graph:
    """The values that are worked out become constants of the graph, under their own names."""
    fixed = _fixed(graph)
    uses = _uses(graph, fixed)
    chosen: dict[str, Value] = {}
    seen: set[str] = set()
    for value, *others in uses.values():
        found = _choose(value, fixed, 1 + len(others), seen)
        chosen.update((item.name, item) for item in found)
    if not chosen:
        return graph
    constants = tuple(_compute(value, fixed) for value in chosen.values())
    nodes = tuple(node for node in graph.nodes if node.outputs[0].name not in chosen)
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants))


def _fixed(graph: Graph) -> dict[str, Node]:
    """The makers of all values that follow from attributes alone.

    A copy is left: it is made where a value must have a place of its own, in memory.
    """
    fixed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "copy" or len(node.outputs) > 1:
            continue
        if all(value.name in fixed for value in node.inputs):
            fixed[node.output.name] = node
    return fixed


def _uses(graph: Graph, fixed: Mapping[str, Node]) -> dict[str, list[Value]]:
    """Fixed values that something not fixed reads, once per reader."""
    readers = [node.inputs for node in graph.nodes if node.outputs[0].name not in fixed]
    uses: dict[str, list[Value]] = {}
    for value in (*(value for inputs in readers for value in inputs), *graph.results):
        if value.name in fixed:
            uses.setdefault(value.name, []).append(value)
    return uses


def _choose(value: Value, fixed: Mapping[str, Node], uses: int, seen: set[str]) -> Iterator[Value]:
    """`value`, or parts of it: a view is never worked out, since it copies nothing."""
    if value.name in seen:
        return
    seen.add(value.name)
    node = fixed[value.name]
    if not isinstance(OPS[node.op].lower, (View, Source)) and _is_worth_it(value, fixed, uses):
        yield value
        return
    for operand in node.inputs:
        yield from _choose(operand, fixed, uses, seen)


def _is_worth_it(value: Value, fixed: Mapping[str, Node], uses: int) -> bool:
    nodes = _cone(value, fixed)
    lowers = [OPS[node.op].lower for node in nodes if not isinstance(OPS[node.op].lower, View)]
    steps = [lower for lower in lowers if not isinstance(lower, Source)]
    dear = any(not (isinstance(lower, Pointwise) and lower.cheap) for lower in steps)
    return value.type.size <= LARGEST and (dear or (uses > 1 and len(steps) > FEW_STEPS))


def _cone(value: Value, fixed: Mapping[str, Node]) -> tuple[Node, ...]:
    """The nodes that `value` is made by, in order."""
    needed, waiting = set(), [value.name]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [operand.name for operand in fixed[name].inputs]
    return tuple(node for name, node in fixed.items() if name in needed)


def _compute(value: Value, fixed: Mapping[str, Node]) -> Constant:
    cone = Graph("constant", nodes=_cone(value, fixed), outputs={"value": value})
    return to_words(evaluate(cone, {}).outputs["value"], value)
