"""The smallest and the largest number of each integer value: rules for ops and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wgcc.ir.dtypes import INTEGER_RANGES
from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.ir.loops import LoopNode, loop_of
from wgcc.ops import OPS

Interval = tuple[int, int]


def within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def hull(*parts: Interval) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)


def overlap(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def is_empty(interval: Interval) -> bool:
    return interval[0] > interval[1]


def same_numbers(graph: Graph) -> Mapping[Value, Value]:
    """Maps each integer value that duplicates an earlier one to the first such value."""
    first: dict[tuple[object, ...], Value] = {}
    originals: dict[Value, Value] = {}
    for node in graph.nodes:
        if len(node.outputs) != 1 or node.output.dtype in FLOATS or "body" in node.attrs:
            continue
        inputs = tuple(originals.get(value, value) for value in node.inputs)
        key = (node.op, inputs, *sorted((name, repr(item)) for name, item in node.attrs.items()))
        known = first.setdefault(key, node.output)
        if known != node.output:
            originals[node.output] = known
    return originals


FAR = 2**70
# Parts of a condition that are looked at; an interval may be wider than what really occurs.
MOST_PARTS = 64
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def in_branch(
    condition: Value,
    is_true: bool,
    value: Value,
    producers: Mapping[str, Node],
    by_name: Mapping[str, Interval],
) -> Interval:
    """The interval of `value` where `condition` is true (or false); empty if that never happens."""
    known, pending = by_name[value.name], [(condition, is_true)]
    parts = 0
    while pending and parts < MOST_PARTS:
        claim, holds = pending.pop()
        parts += 1
        node = producers.get(claim.name)
        if node is None:
            continue
        if node.op == "logical_not":
            pending.append((node.inputs[0], not holds))
        elif node.op == ("logical_and" if holds else "logical_or"):
            pending += [(operand, holds) for operand in node.inputs]
        elif node.op in _OPPOSITE and value in node.inputs:
            known = overlap(known, _compare(node, holds, value, by_name))
    return known


def _compare(node: Node, holds: bool, value: Value, by_name: Mapping[str, Interval]) -> Interval:
    x, other = node.inputs
    relation = node.op if holds else _OPPOSITE[node.op]
    if value != x:
        relation, other = _SWAPPED[relation], x
    low, high = by_name[other.name]
    return {
        "lt": (-FAR, high - 1),
        "le": (-FAR, high),
        "gt": (low + 1, FAR),
        "ge": (low, FAR),
        "eq": (low, high),
        "ne": (-FAR, FAR),
    }[relation]


Narrow = Callable[[Value, Interval], Interval]
Rule = Callable[[Node, Sequence[Interval]], Interval]
# Of intervals of whole numbers or floats.
Arithmetic = Callable[[Sequence[Any]], Any]

# For floats, which are not analysed: wider than any integer, so that casts give the whole dtype.
UNKNOWN: Interval = (-(2**70), 2**70)


def limits(value: Value) -> Interval:
    return INTEGER_RANGES.get(value.dtype, UNKNOWN)


def intervals(graph: Graph, narrow: Narrow = lambda value, known: known) -> Mapping[str, Interval]:
    """The intervals of all values, by name; `narrow` may return a narrower one."""
    producers: dict[str, Node] = {}
    by_name = {value.name: narrow(value, limits(value)) for value in graph.sources}
    for node in graph.nodes:
        producers.update((value.name, node) for value in node.outputs)
        if loop := loop_of(node):
            for value, known in zip(node.outputs, _loop(loop, by_name), strict=True):
                by_name[value.name] = narrow(value, known)
            continue
        if node.outputs[0].dtype not in INTEGER_RANGES:
            known = UNKNOWN
        elif node.op == "where":
            known = _choice(node, producers, by_name)
        elif node.op in RULES:
            known = RULES[node.op](node, [by_name[value.name] for value in node.inputs])
        else:
            known = UNKNOWN
        for value in node.outputs:
            whole = limits(value)
            by_name[value.name] = narrow(value, known if within(known, whole) else whole)
    return by_name


def _loop(loop: LoopNode, by_name: Mapping[str, Interval]) -> list[Interval]:
    """The intervals of its results."""
    inside = body_intervals(
        loop.body, loop.rounds, [by_name[value.name] for value in loop.node.inputs]
    )
    results = (*loop.next_carries, *loop.body.outputs.values())
    return [inside[value.name] for value in results]


def body_intervals(body: Graph, rounds: int, inputs: Sequence[Interval]) -> Mapping[str, Interval]:
    """Intervals of the values of a round; `inputs` are those of the loop's inputs.

    A carry is what it starts as, or what a round makes of any carry.
    """
    count = len(body.state)
    by_name = dict(zip((value.name for value in body.inputs[1:]), inputs[count:], strict=True))
    by_name[body.inputs[0].name] = (0, rounds - 1)
    wide = intervals(body, lambda value, known: by_name.get(value.name, known))
    for carry, start in zip(body.state, inputs, strict=False):
        by_name[carry.name] = hull(start, wide[body.writes[carry.name].name])
    return intervals(body, lambda value, known: by_name.get(value.name, known))


def _choice(node: Node, producers: Mapping[str, Node], by_name: Mapping[str, Interval]) -> Interval:
    """`where(x < 0, 0, x)` is not negative: each branch is taken only under its condition."""
    condition, yes, no = node.inputs
    branches = [
        in_branch(condition, True, yes, producers, by_name),
        in_branch(condition, False, no, producers, by_name),
    ]
    taken = [branch for branch in branches if not is_empty(branch)]
    return hull(*taken) if taken else limits(node.output)


def _corners(rule: Callable[[Any, Any], Any]) -> Arithmetic:
    """The rule for a function of two numbers whose extremes are at the ends of the intervals."""

    def apply(inputs: Sequence[Any]) -> Any:
        x, z = inputs
        corners = [rule(a, b) for a in x for b in z]
        return min(corners), max(corners)

    return apply


def _monotone(rule: Callable[..., Any]) -> Arithmetic:
    """The rule for a function that increases with each operand."""

    def apply(inputs: Sequence[Any]) -> Any:
        return rule(*(low for low, _ in inputs)), rule(*(high for _, high in inputs))

    return apply


def _magnitude(inputs: Sequence[Any]) -> Any:
    ((low, high),) = inputs
    least = 0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


def _square(inputs: Sequence[Any]) -> Any:
    least, most = _magnitude(inputs)
    return least * least, most * most


# Rules that need no node: they hold for floats as well.
ARITHMETIC: dict[str, Arithmetic] = {
    "add": _monotone(lambda a, b: a + b),
    "sub": lambda inputs: (inputs[0][0] - inputs[1][1], inputs[0][1] - inputs[1][0]),
    "mul": _corners(lambda a, b: a * b),
    "maximum": _monotone(max),
    "minimum": _monotone(min),
    "neg": lambda inputs: (-inputs[0][1], -inputs[0][0]),
    "abs": _magnitude,
    "square": _square,
    "sign": lambda inputs: (-1, 1),
}


def _first(node: Node, inputs: Sequence[Interval]) -> Interval:
    return inputs[0]


def _with_zero(node: Node, inputs: Sequence[Interval]) -> Interval:
    """The output has elements of the input, and zeros."""
    return hull(inputs[0], (0, 0))


def _divide(node: Node, inputs: Sequence[Interval]) -> Interval:
    x, z = inputs
    if z[0] <= 0 <= z[1]:
        # x / 0 is 0, and no quotient is larger in magnitude than x.
        most = max(abs(x[0]), abs(x[1]))
        return -most, most
    quotient: Interval = _corners(lambda a, b: a // b)(inputs)
    return quotient


def _remainder(node: Node, inputs: Sequence[Interval]) -> Interval:
    """It has the divisor's sign and is smaller in magnitude; x itself where the divisor is 0."""
    x, z = inputs
    if x[0] >= 0 and x[1] < z[0]:
        return x
    remainders = min(z[0] + 1, 0), max(z[1] - 1, 0)
    return hull(remainders, x) if z[0] <= 0 <= z[1] else remainders


def _sum(node: Node, inputs: Sequence[Interval]) -> Interval:
    count = node.inputs[0].type.size // max(node.output.type.size, 1)
    return inputs[0][0] * count, inputs[0][1] * count


def _constant(node: Node, inputs: Sequence[Interval]) -> Interval:
    return int(node.attrs["value"]), int(node.attrs["value"])


def _of_list(node: Node) -> Sequence[int]:
    return tuple(node.attrs["values"])


def _place(node: Node, inputs: Sequence[Interval]) -> Interval:
    return 0, node.inputs[0].shape[node.attrs["axis"]] - 1


def _of_numbers(rule: Arithmetic) -> Rule:
    return lambda node, inputs: rule(inputs)


RULES: dict[str, Rule] = {
    **{name: _of_numbers(rule) for name, rule in ARITHMETIC.items()},
    "const": _constant,
    "literal": lambda node, inputs: (int(min(_of_list(node))), int(max(_of_list(node)))),
    "iota": lambda node, inputs: (0, node.attrs["n"] - 1),
    "argmax": _place,
    "argmin": _place,
    "argsort": _place,
    "running_argmax": _place,
    "div": _divide,
    "mod": _remainder,
    "sum": _sum,
    "concat": lambda node, inputs: hull(*inputs),
    "window_update": lambda node, inputs: hull(*inputs[:2]),
    **dict.fromkeys(("unslice", "patches"), _with_zero),
    **dict.fromkeys(("cast", "max", "min"), _first),
    **{op.name: _first for op in OPS.values() if op.moves_elements},
}
