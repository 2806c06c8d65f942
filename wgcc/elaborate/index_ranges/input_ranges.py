"""Finds the numbers that inputs of an entry may hold, so that all indices and labels are in range.

A GPU silently clamps an index that is out of range. Runtimes refuse an input that leads to one.
What depends on several inputs, on state or on floats is checked by the entry's range guard:
nodes that compute one number, which is 0, or says which check failed first. Lookups in the body
of a loop are lookups of values outside where that decides them; the others are checked in every
round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from wgcc.elaborate.index_ranges.intervals import (
    Interval,
    body_intervals,
    intervals,
    limits,
    overlap,
    same_numbers,
    within,
)
from wgcc.elaborate.index_ranges.preimages import (
    Allowed,
    Facts,
    carries,
    ends_occur,
    leaves_out,
    preimage,
)
from wgcc.elaborate.report import Report
from wgcc.errors import Span
from wgcc.ir.dtypes import NARROW_INTEGERS
from wgcc.ir.graph import INTEGERS, Builder, Graph, Node, RangeCheck, RangeGuard, TensorType, Value
from wgcc.ir.loops import all_names
from wgcc.ops import infer_types
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
    """The intervals of `values` in a graph under construction."""
    outputs = {value.name for node in nodes for value in node.outputs}
    read = (*(value for node in nodes for value in node.inputs), *values)
    sources = {value.name: value for value in read if value.name not in outputs}
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


@dataclass(frozen=True, slots=True)
class Lookup:
    """Numbers that index something; `what` names one of them: an id, a label, a position.

    `takes_padding`: the numbers may include those that other lookups of them ignore. `shown` is
    reported instead if this fails: the lookup in a loop that `value` says has failed.
    """

    value: Value
    allowed: Allowed
    what: str
    span: Span
    takes_padding: bool = False
    shown: RangeCheck | None = None

    @property
    def check(self) -> RangeCheck:
        allowed = self.allowed
        return RangeCheck(allowed.low, allowed.high, allowed.ignore, self.what, self.span)

    def of(self, value: Value) -> Lookup:
        """The same of other numbers."""
        return replace(self, value=value)


@dataclass(frozen=True, slots=True)
class Demand:
    """A lookup requires this of an input: of all its elements (`whole`) or of some."""

    source: str
    allowed: Allowed
    whole: bool


def check_ranges(graph: Graph, lookups: Sequence[Lookup], report: Report) -> Graph:
    """`graph` with the ranges of its inputs, and a guard for what the ranges do not ensure."""
    live, same = live_names(graph), same_numbers(graph)
    live_lookups = [
        replace(lookup, value=same.get(lookup.value, lookup.value))
        for lookup in lookups
        if lookup.value.name in live
    ]
    analysis = _Analysis(graph, _with_padding(graph, live_lookups), same)
    _report_once(analysis.impossible(), report)
    ranges = {name: (x.low, x.high, x.ignore) for name, x in analysis.ranges.items()}
    unproven = analysis.unproven()
    checks = [(lookup.value, lookup.check) for lookup in unproven]
    shown = tuple(lookup.shown or lookup.check for lookup in unproven)
    return with_range_guard(graph.with_facts(ranges=ranges), checks, shown, same)


def live_names(graph: Graph) -> set[str]:
    """The values that outputs and writes depend on, and all results of loops among them."""
    live = {value.name for value in graph.results}
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.outputs):
            live.update(value.name for value in node.inputs)
            if "body" in node.attrs:
                live.update(value.name for value in node.outputs)
    return live


def _with_padding(graph: Graph, lookups: Sequence[Lookup]) -> list[Lookup]:
    origins: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op == "cast":
            origins[node.output] = origins.get(node.inputs[0], node.inputs[0])
    padding = {
        origins.get(x.value, x.value): x.allowed.ignore
        for x in lookups
        if x.allowed.ignore is not None
    }
    return [
        replace(x, allowed=replace(x.allowed, ignore=padding.get(origins.get(x.value, x.value))))
        if x.takes_padding
        else x
        for x in lookups
    ]


# Steps from lookups back to inputs, so that the work is in proportion to the size of the graph.
STEPS, STEPS_PER_NODE = 100_000, 20
# Numbers that lookups ignore; more are not examined one by one, but widen the range.
MOST_EXCEPTIONS = 16


def _report_once(problems: Iterable[tuple[Lookup, str]], report: Report) -> None:
    """One error for each place: unrolled loops look up in every round, and entries share code."""
    known = {item.span for item in report.diagnostics if item.code == "WG0413"}
    for lookup, text in problems:
        if lookup.span not in known:
            known.add(lookup.span)
            report.error("WG0413", text, lookup.span)


class _Analysis:
    def __init__(
        self, graph: Graph, lookups: Sequence[Lookup], same: Mapping[Value, Value]
    ) -> None:
        """`lookups` have no duplicate values; `same` maps duplicates to the first of them."""
        self.graph = graph
        self.lookups = lookups
        self.same = same
        self.inputs = {value.name: value for value in graph.inputs if value.dtype in INTEGERS}
        self.facts = Facts(graph.producers, intervals(graph))
        self._steps = STEPS + STEPS_PER_NODE * len(graph.nodes)
        self.demands = [self._demands(lookup) for lookup in lookups]
        self.ranges = self._ranges()

    def impossible(self) -> Iterator[tuple[Lookup, str]]:
        """Lookups that fail in every call, with what is wrong."""
        for lookup, demands in zip(self.lookups, self.demands, strict=True):
            known, wanted = self.facts.intervals[lookup.value.name], lookup.allowed
            least, most = wanted.hull
            fails = known[1] < least or known[0] > most
            if fails or (ends_occur(lookup.value, self.facts) and not within(known, wanted.hull)):
                held = f"{known[0]}" if known[0] == known[1] else f"{known[0]} to {known[1]}"
                yield lookup, f"{lookup.what} must be {wanted}, but here it is {held}"
                continue
            ranges = {demand.source: self.ranges.get(demand.source) for demand in demands or ()}
            for name in (name for name, range_ in ranges.items() if range_ and range_.is_empty):
                text = f"no number in `{name}` makes {lookup.what} {wanted} here"
                yield lookup, f"{text} and is allowed by its other uses"

    def unproven(self) -> list[Lookup]:
        """Lookups that can be out of range although the inputs are in theirs.

        A number that is checked needs no second check, and neither do numbers computed from it.
        """
        pending: dict[Value, list[Lookup]] = defaultdict(list)
        for lookup, demands in zip(self.lookups, self.demands, strict=True):
            if demands is None or not all(map(self._is_ensured, demands)):
                pending[lookup.value].append(lookup)
        unproven: list[Lookup] = []
        narrowest: dict[Value, Interval] = {}

        def narrow(value: Value, known: Interval) -> Interval:
            first = self.same.get(value, value)
            if first not in narrowest:
                if value.name in self.ranges:
                    known = overlap(known, self.ranges[value.name].hull)
                # The narrowest first, because it often makes the other checks unnecessary.
                for lookup in sorted(pending.get(first, ()), key=lambda one: one.allowed.width):
                    if not within(known, (lookup.allowed.low, lookup.allowed.high)):
                        unproven.append(lookup)
                        known = overlap(known, lookup.allowed.hull)
                narrowest[first] = known
            return narrowest[first]

        intervals(self.graph, narrow)
        return unproven

    def _demands(self, lookup: Lookup) -> list[Demand] | None:
        """Demands on inputs; None where the lookup depends on more than them, or the way is long.

        A value that is used several times is visited once for the same demand.
        """
        pending = [(lookup.value, lookup.allowed, True)]
        seen = set(pending)
        demands: list[Demand] = []
        while pending:
            value, allowed, whole = pending.pop()
            if value.name in self.inputs:
                demands.append(Demand(value.name, allowed, whole))
                continue
            operands = self._operands(value, allowed) if self._steps > 0 else None
            if operands is None:
                return None
            self._steps -= 1 + len(operands)
            node = self.facts.producers.get(value.name)
            whole = whole and not (node and leaves_out(node))
            for step in ((operand, wanted, whole) for operand, wanted in operands):
                if step not in seen:
                    seen.add(step)
                    pending.append(step)
        return demands

    def _operands(self, value: Value, allowed: Allowed) -> list[tuple[Value, Allowed]] | None:
        """The demands on the operands of a value; nothing where it is in range anyway."""
        node = self.facts.producers.get(value.name)
        in_range = within(self.facts.intervals[value.name], (allowed.low, allowed.high))
        if node is None or (in_range and not carries(node)):
            return [] if in_range else None
        operands = preimage(node, allowed, self.facts)
        return [] if operands is None and in_range else operands

    def _ranges(self) -> dict[str, Allowed]:
        """Ranges by input. A range with all numbers of i32 or u32 is left out."""
        demands: dict[str, list[Demand]] = defaultdict(list)
        for demand in (demand for several in self.demands for demand in several or ()):
            demands[demand.source].append(demand)
        ranges = {}
        for name, group in demands.items():
            joined, everything = _join(group), limits(self.inputs[name])
            low, high = overlap(everything, (joined.low, joined.high))
            ignore = joined.ignore
            if ignore is not None and not within((ignore, ignore), everything):
                ignore = None
            if (low, high) != everything or self.inputs[name].dtype in NARROW_INTEGERS:
                ranges[name] = Allowed(low, high, ignore)
        return ranges

    def _is_ensured(self, demand: Demand) -> bool:
        """Whether the range of an input, shared by all its lookups, is as narrow as required."""
        everything = Allowed(*limits(self.inputs[demand.source]))
        range_, wanted = self.ranges.get(demand.source, everything), demand.allowed
        ignored = range_.ignore is None or wanted.holds(range_.ignore)
        return ignored and within((range_.low, range_.high), (wanted.low, wanted.high))


def _join(demands: Sequence[Demand]) -> Allowed:
    """The numbers that an input may hold for several lookups.

    A number must be allowed by all lookups of the whole input. Of lookups of some elements, one is
    enough: it may be the only one that gets this element, and the range guard checks exactly.
    """
    groups = [[demand.allowed] for demand in demands if demand.whole]
    some = [demand.allowed for demand in demands if not demand.whole]
    groups += [some] if some else []
    low = max(min(allowed.low for allowed in group) for group in groups)
    high = min(max(allowed.high for allowed in group) for group in groups)
    extra = {
        number
        for number in (demand.allowed.ignore for demand in demands)
        if number is not None and not low <= number <= high
    }
    if len(extra) <= MOST_EXCEPTIONS:
        extra = {
            number
            for number in extra
            if all(any(allowed.holds(number) for allowed in group) for group in groups)
        }
    if len(extra) < 2:
        return Allowed(low, high, next(iter(extra), None))
    # A plan can store one exception; several of them widen the range.
    return Allowed(min(low, *extra), max(high, *extra))


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
    guarded = graph.with_facts(range_guard=RangeGuard(shown, _changed_names(graph, checks, same)))
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


def _changed_names(graph: Graph, checks: Checks, same: Mapping[Value, Value]) -> tuple[str, ...]:
    """The tensors that a failed call may have changed.

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
