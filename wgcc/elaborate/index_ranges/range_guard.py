"""Adds nodes that check indices at run time, where checks of the inputs are not enough.

They are part of the entry like any other node: each call returns one more number, which is 0, or
says which check failed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from wgcc.ir.graph import Builder, Graph, RangeCheck, RangeGuard, Value
from wgcc.ir.loops import all_names
from wgcc.ops import infer_types
from wgcc.ops.formula import Term

FLAG = "guard.range"


Checks = Sequence[tuple[Value, RangeCheck]]


def with_range_guard(
    graph: Graph, checks: Checks, shown: tuple[RangeCheck, ...], same: Mapping[Value, Value]
) -> Graph:
    """`graph` with nodes that compute which of the `checks` fails first, if there are any.

    `shown` is what is reported for each. `same` maps values to others that hold the same numbers.
    """
    if not checks:
        return graph
    builder = Builder(infer_types, all_names(graph))
    count = len(checks)
    failures = [failure(builder, *check, count - i) for i, check in enumerate(checks)]
    first = reduce(lambda a, b: a.apply("maximum", b), failures)
    guarded = graph.with_facts(range_guard=RangeGuard(shown, _restored(graph, checks, same)))
    return replace(guarded, nodes=(*graph.nodes, *builder.nodes), range_flag=first.value)


def failure(builder: Builder, value: Value, check: RangeCheck, number: int) -> Term:
    """`number` if one element is out of range, else 0."""
    with builder.at(check.span, FLAG):
        x = Term(builder, value)
        bad = x.apply("lt", x.like(check.low)).apply("logical_or", x.exceeds(check.high))
        if check.ignore is not None:
            bad = bad.apply("logical_and", x.apply("ne", x.like(check.ignore)))
        if x.shape:
            bad = bad.apply("any", axes=tuple(range(len(x.shape))))
        return bad.choose(Term(builder, builder.constant(number, "u32")), 0)


def _restored(graph: Graph, checks: Checks, same: Mapping[Value, Value]) -> tuple[str, ...]:
    """What a failed call may have changed.

    A window out of range is not written. So a tensor whose windows all depend on the only check of
    the entry need not be restored.
    """
    if len(checks) != 1:
        return tuple(graph.writes)
    ((value, check),) = checks
    # By name of a value: what it is but for windows that the check is about.
    under: dict[str, str] = {}
    for node in graph.nodes:
        if node.op != "window_update":
            continue
        base, update, at = node.inputs
        axis = node.attrs["axis"]
        last = base.shape[axis] - update.shape[axis]
        if (same.get(at, at), 0, last) == (value, check.low, check.high):
            under[node.output.name] = under.get(base.name, base.name)
    return tuple(name for name, new in graph.writes.items() if under.get(new.name) != name)
