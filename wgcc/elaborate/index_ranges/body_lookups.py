"""Lookups in the body of a loop: which of them follow from values outside, and which are checked in
every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wgcc.elaborate.index_ranges.input_ranges import Lookup, live_names
from wgcc.elaborate.index_ranges.interval import Interval, within
from wgcc.elaborate.index_ranges.interval_rules import body_intervals, intervals
from wgcc.elaborate.index_ranges.preimages import carries, leaves_out
from wgcc.elaborate.index_ranges.range_guard import failure
from wgcc.ir.builder import Builder
from wgcc.ir.graph import Graph, Node, TensorType, Value
from wgcc.ops.formula import Term


@dataclass(frozen=True, slots=True)
class BodyLookups:
    """`moved`: lookups of sources of the body, which are lookups of what they are outside.
    `checked`: those that every round checks."""

    moved: Sequence[Lookup]
    checked: Sequence[Lookup]


def settle_lookups(
    body: Graph, lookups: Sequence[Lookup], rounds: int, inputs: Sequence[Interval]
) -> BodyLookups:
    """Lookups that cannot fail are left out; `inputs` are the intervals of the loop's inputs."""
    live = live_names(body)
    known = body_intervals(body, rounds, inputs)
    makers = body.producers
    moved: list[Lookup] = []
    checked: list[Lookup] = []
    for lookup in lookups:
        allowed = lookup.allowed
        if lookup.value.name not in live or within(
            known[lookup.value.name], (allowed.low, allowed.high)
        ):
            continue
        origin = lookup.of(_origin(lookup.value, makers))
        after = body.writes.get(origin.value.name)
        # A carry is in range if it starts in range and every round leaves it there.
        stays = after is None or within(known[after.name], allowed.hull)
        if stays and origin.value in (*body.inputs[1:], *body.state):
            moved.append(origin)
        else:
            checked.append(lookup)
    return BodyLookups(moved, checked)


def _origin(value: Value, makers: Mapping[str, Node]) -> Value:
    """The value whose elements `value` has, all of them."""
    node = makers.get(value.name)
    while node and carries(node) and len(node.inputs) == 1 and not leaves_out(node):
        value = node.inputs[0]
        node = makers.get(value.name)
    return value


def intervals_so_far(nodes: Sequence[Node], values: Sequence[Value]) -> list[Interval]:
    """Of `values`, in a graph under construction."""
    made = {value.name for node in nodes for value in node.outputs}
    read = (*(value for node in nodes for value in node.inputs), *values)
    sources = {value.name: value for value in read if value.name not in made}
    known = intervals(Graph("so far", inputs=tuple(sources.values()), nodes=tuple(nodes)))
    return [known[value.name] for value in values]


def with_checks(body: Graph, checked: Sequence[Lookup], builder: Builder) -> Graph:
    """`body` with one more carry for each lookup: 1 after a round in which it has failed."""
    state, writes = list(body.state), dict(body.writes)
    for lookup in checked:
        carry = Value(builder.fresh("guard.round"), TensorType((), "u32"))
        failed = failure(builder, lookup.value, lookup.check, 1)
        state.append(carry)
        writes[carry.name] = Term(builder, carry).apply("maximum", failed).value
    return replace(body, nodes=(*body.nodes, *builder.nodes), state=tuple(state), writes=writes)
