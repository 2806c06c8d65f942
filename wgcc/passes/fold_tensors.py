"""Constant folding of tensors that depend on no input, in float64: rotary tables, sinusoids.

Cheap ones (a causal mask is one comparison of indices) are not folded: a load would cost more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wgcc.evaluate import evaluate, nodes_effort, to_words
from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS
from wgcc.ops.registry import Pointwise, Source, View

LARGEST = 2**20
# With more steps than this a formula costs more than a load, if several nodes use it.
FEW_STEPS = 4
# Limits for all constants of a graph: elements, and effort (about a second of numpy).
MOST_ELEMENTS = 2**22
MOST_EFFORT = 40_000_000
# How many values that exceed the limit are tried: each try follows all inputs of the value.
MOST_REFUSED = 100


def fold_tensors(graph: Graph) -> Graph:
    """The values that are computed become constants of the graph, under their own names."""
    fixed = _fixed(graph)
    chosen = _affordable(_wanted(graph, fixed), fixed)
    if not chosen:
        return graph
    computed = evaluate(_cone(chosen, fixed), {}).outputs
    constants = tuple(
        to_words(computed[name], value)
        for name, value in chosen.items()
        if _can_be_stored(computed[name], value)
    )
    done = {constant.value.name for constant in constants}
    nodes = tuple(node for node in graph.nodes if node.outputs[0].name not in done)
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants))


def _can_be_stored(array: Array, value: Value) -> bool:
    """Bundles store finite numbers only: tensors with others are left to the GPU."""
    with np.errstate(all="ignore"):
        return value.dtype not in FLOATS or bool(np.isfinite(array.astype(np.float32)).all())


def _fixed(graph: Graph) -> dict[str, Node]:
    """The nodes of all values that depend on attributes only.

    A copy is not folded, because it exists to store a value separately.
    """
    fixed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "copy" or len(node.outputs) > 1:
            continue
        if all(value.name in fixed for value in node.inputs):
            fixed[node.output.name] = node
    return fixed


def _wanted(graph: Graph, fixed: Mapping[str, Node]) -> list[Value]:
    """Values that are cheaper to load than to compute, or their operands: views are not folded."""
    formulas = _formulas(fixed)
    found: list[Value] = []
    tables: list[Value] = []
    seen: set[str] = set()
    for value, *others in _uses(graph, fixed).values():
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if part.name in seen:
                continue
            seen.add(part.name)
            node = fixed[part.name]
            lower = OPS[node.op].lower
            formula = formulas[part.name]
            if isinstance(lower, Source) and not lower.cheap(node):
                tables.append(part)
            elif not isinstance(lower, (View, Source)) and formula.is_worth(part, 1 + len(others)):
                found.append(part)
            else:
                waiting += reversed(node.inputs)
    return [*tables, *found]


def _uses(graph: Graph, fixed: Mapping[str, Node]) -> dict[str, list[Value]]:
    """Fixed values that nodes that are not fixed read, once per reader."""
    readers = [node.inputs for node in graph.nodes if node.outputs[0].name not in fixed]
    uses: dict[str, list[Value]] = {}
    for value in (*(value for inputs in readers for value in inputs), *graph.results):
        if value.name in fixed:
            uses.setdefault(value.name, []).append(value)
    return uses


@dataclass(frozen=True, slots=True)
class _Formula:
    """How a value is computed: whether a step of it is expensive, and its first steps."""

    is_expensive: bool
    steps: frozenset[str]

    def is_worth(self, value: Value, uses: int) -> bool:
        often = uses > 1 and len(self.steps) > FEW_STEPS
        return value.type.size <= LARGEST and (self.is_expensive or often)


def _formulas(fixed: Mapping[str, Node]) -> dict[str, _Formula]:
    found: dict[str, _Formula] = {}
    for name, node in fixed.items():
        lower = OPS[node.op].lower
        parts = [found[value.name] for value in node.inputs]
        steps = frozenset(step for part in parts for step in part.steps)
        expensive = any(part.is_expensive for part in parts)
        if not isinstance(lower, (View, Source)):
            steps |= {name}
            expensive = expensive or not (isinstance(lower, Pointwise) and lower.cheap)
        # Only as many as are needed to decide whether they are few.
        found[name] = _Formula(expensive, frozenset(sorted(steps)[: FEW_STEPS + 1]))
    return found


def _affordable(wanted: Sequence[Value], fixed: Mapping[str, Node]) -> dict[str, Value]:
    """By name, those within the limits on numpy's time and on the size of the bundle."""
    chosen: dict[str, Value] = {}
    made: set[str] = set()
    elements = spent = refused = 0
    for value in wanted:
        new = _producers(value, fixed, made)
        more = nodes_effort(fixed[name] for name in new)
        if elements + value.type.size > MOST_ELEMENTS or spent + more > MOST_EFFORT:
            refused += 1
            if refused > MOST_REFUSED:
                break
            continue
        made |= new
        elements, spent = elements + value.type.size, spent + more
        chosen[value.name] = value
    return chosen


def _producers(value: Value, fixed: Mapping[str, Node], made: set[str]) -> set[str]:
    """`value` and the values it is computed from, without those already `made`."""
    needed: set[str] = set()
    waiting = [value.name]
    while waiting:
        name = waiting.pop()
        if name not in needed and name not in made:
            needed.add(name)
            waiting += [operand.name for operand in fixed[name].inputs]
    return needed


def _cone(chosen: Mapping[str, Value], fixed: Mapping[str, Node]) -> Graph:
    needed: set[str] = set()
    for value in chosen.values():
        needed |= _producers(value, fixed, needed)
    nodes = tuple(node for name, node in fixed.items() if name in needed)
    return Graph("constants", nodes=nodes, outputs=chosen)
