"""Follows rows through the nodes of a graph: what kind each value is."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose, prod

from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.ir.loops import Loop, loop_of
from wgcc.ops import OPS
from wgcc.ops.registry import Join, Source, View
from wgcc.passes.known_values import Known
from wgcc.passes.row_axes import separate_axes
from wgcc.passes.row_kinds import ByRow, Digit, Fixed, Kind, Mixed, Total, reshaped, whole_axis

# A carry of a loop begins as one kind and may become another; it changes once or twice.
MOST_ROUNDS = 4


def kinds_of(graph: Graph, inputs: Sequence[str], count: int) -> dict[str, Kind]:
    """The kind of every value, by name, if these inputs have `count` rows each."""
    flow = _Flow(count)
    for value in graph.sources:
        row = Digit(0, 1, count)
        flow.kinds[value.name] = ByRow(row) if value.name in inputs else _fixed(value)
    flow.follow(graph)
    return flow.kinds


class _Flow:
    def __init__(self, count: int) -> None:
        self.count = count
        self.kinds: dict[str, Kind] = {}
        self._known = Known()

    def follow(self, graph: Graph) -> None:
        for node in graph.nodes:
            loop = loop_of(node)
            kinds = self._loop(loop) if loop else self._results(node)
            self.kinds.update((v.name, kind) for v, kind in zip(node.outputs, kinds, strict=True))
            self._known.note([node])

    def _results(self, node: Node) -> list[Kind]:
        given = [self.kinds[value.name] for value in node.inputs]
        mixed = next((kind for kind in given if isinstance(kind, Mixed)), None)
        if mixed:
            return [mixed] * len(node.outputs)
        if any(isinstance(kind, Total) for kind in given):
            return [self._of_totals(node, given)] * len(node.outputs)
        if isinstance(OPS[node.op].lower, Source):
            return [_fixed(node.output)]
        if node.op == "reshape":
            return [_reshaped(node, given[0])]
        rows = [kind for kind in given if isinstance(kind, ByRow)]
        if not rows:
            return self._of_fixed(node, [kind for kind in given if isinstance(kind, Fixed)])
        if node.op == "sum" and rows[0].row.axis in node.attrs["axes"]:
            shape = node.inputs[0].shape
            return [Total(False, prod(shape[axis] for axis in node.attrs["axes"]))]
        return self._of_rows(node, given)

    def _of_fixed(self, node: Node, given: list[Fixed]) -> list[Kind]:
        found: list[set[Digit]] = [set() for _ in node.outputs]
        for before, after in separate_axes(node):
            read = [
                (kind, axis) for kind, axis in zip(given, before, strict=True) if axis is not None
            ]
            for output, axis, digits in zip(node.outputs, after, found, strict=True):
                if axis is not None:
                    digits |= _common(read, axis, output)
        return [
            Fixed(frozenset(digits) | _fixed(value).uniform)
            for value, digits in zip(node.outputs, found, strict=True)
        ]

    def _of_rows(self, node: Node, given: list[Kind]) -> list[Kind]:
        for before, after in separate_axes(node):
            row = _row_along(given, before)
            if row is not None:
                return [
                    Mixed(node.span) if axis is None else ByRow(Digit(axis, row.inner, row.size))
                    for axis in after
                ]
        return [Mixed(node.span)] * len(node.outputs)

    def _of_totals(self, node: Node, given: list[Kind]) -> Kind:
        """Sums and means stay what they are in linear functions."""
        op = OPS[node.op]
        totals = [kind for kind in given if isinstance(kind, Total)]
        alike = all(total == totals[0] for total in totals)
        first = totals[0]
        if isinstance(op.lower, View) or op.identity or node.op == "neg":
            return first
        if node.op == "cast":
            return first if node.output.dtype in FLOATS else Mixed(node.span)
        if node.op == "sum":
            shape = node.inputs[0].shape
            return Total(first.is_mean, first.count * prod(shape[k] for k in node.attrs["axes"]))
        if isinstance(op.lower, Join) or node.op in ("add", "sub"):
            fits = first.is_mean and all(isinstance(kind, Total | Fixed) for kind in given)
            same = alike and len(totals) == len(given)
            means = fits and all(total.is_mean for total in totals)
            return first if means or same else Mixed(node.span)
        if node.op in ("mul", "div") and len(totals) == 1 and node.output.dtype in FLOATS:
            return self._scaled(node, given, first)
        return Mixed(node.span)

    def _scaled(self, node: Node, given: list[Kind], total: Total) -> Kind:
        other = node.inputs[1] if given[0] is total else node.inputs[0]
        if not isinstance(self.kinds[other.name], Fixed):
            return Mixed(node.span)
        if node.op == "div" and given[1] is total:
            return Mixed(node.span)
        number = self._known.number(other)
        if number is None or number == 0 or total.is_mean:
            return total
        divisor = number if node.op == "div" else 1 / number
        is_mean = any(isclose(divisor, n, rel_tol=1e-6) for n in (self.count, total.count))
        return Total(is_mean, total.count)

    def _loop(self, loop: Loop) -> list[Kind]:
        outside = [self.kinds[value.name] for value in loop.node.inputs]
        mixed = next((kind for kind in outside if isinstance(kind, Mixed | Total)), None)
        if mixed:
            return [Mixed(loop.node.span)] * len(loop.node.outputs)
        self.kinds[loop.index.name] = _fixed(loop.index)
        for x, inner in loop.sliced:
            self.kinds[inner.name] = _of_round(self.kinds[x.name], loop.node)
        for value, inner in loop.captured:
            self.kinds[inner.name] = self.kinds[value.name]
        carries = [self.kinds[value.name] for value in loop.inits]
        for _ in range(MOST_ROUNDS):
            for value, kind in zip(loop.carries, carries, strict=True):
                self.kinds[value.name] = kind
            for constant in loop.body.constants:
                self.kinds[constant.value.name] = _fixed(constant.value)
            self.follow(loop.body)
            before = carries
            after = [self.kinds[value.name] for value in loop.next_carries]
            carries = [_either(*pair, loop.node) for pair in zip(before, after, strict=True)]
            if carries == before:
                break
        else:
            carries = [Mixed(loop.node.span)] * len(carries)
        stacks = [_of_all_rounds(self.kinds[v.name], loop.node) for v in loop.body.outputs.values()]
        return [*carries, *stacks]


def _fixed(value: Value) -> Fixed:
    """A value that does not depend on rows, of which no more is known."""
    return Fixed(frozenset(whole_axis(k, value.shape) for k, n in enumerate(value.shape) if n == 1))


def _reshaped(node: Node, kind: Kind) -> Kind:
    before, after = node.inputs[0].shape, node.output.shape
    if isinstance(kind, Fixed):
        return Fixed(frozenset(d for digit in kind.uniform for d in reshaped(digit, before, after)))
    assert isinstance(kind, ByRow)
    found = list(reshaped(kind.row, before, after))
    return ByRow(found[0]) if [d.size for d in found] == [kind.row.size] else Mixed(node.span)


def _common(read: list[tuple[Fixed, int]], axis: int, output: Value) -> set[Digit]:
    """The digits of an axis along which all that is read is uniform."""
    if not read:
        return {whole_axis(axis, output.shape)}
    each = [
        {Digit(axis, d.inner, d.size) for d in kind.uniform if d.axis == own} for kind, own in read
    ]
    return set.intersection(*each)


def _row_along(given: list[Kind], axes: Sequence[int | None]) -> Digit | None:
    """The row, if it is in this axis of all inputs that have one, and the others have none."""
    rows = {
        (axis == kind.row.axis, kind.row.inner, kind.row.size)
        for kind, axis in zip(given, axes, strict=True)
        if isinstance(kind, ByRow)
    }
    if len(rows) != 1:
        return None
    ((fits, inner, size),) = rows
    uniform = all(
        kind.is_uniform_along(Digit(axis, inner, size))
        for kind, axis in zip(given, axes, strict=True)
        if isinstance(kind, Fixed) and axis is not None
    )
    return Digit(0, inner, size) if fits and uniform else None


def _of_round(kind: Kind, node: Node) -> Kind:
    """A slice of the leading axis."""
    if isinstance(kind, Fixed):
        inner = (Digit(d.axis - 1, d.inner, d.size) for d in kind.uniform if d.axis)
        return Fixed(frozenset(inner))
    if isinstance(kind, ByRow) and kind.row.axis:
        return ByRow(Digit(kind.row.axis - 1, kind.row.inner, kind.row.size))
    return Mixed(node.span)


def _of_all_rounds(kind: Kind, node: Node) -> Kind:
    if isinstance(kind, Fixed):
        return Fixed(frozenset(Digit(d.axis + 1, d.inner, d.size) for d in kind.uniform))
    if isinstance(kind, ByRow):
        return ByRow(Digit(kind.row.axis + 1, kind.row.inner, kind.row.size))
    return kind if isinstance(kind, Mixed) else Mixed(node.span)


def _either(one: Kind, other: Kind, node: Node) -> Kind:
    """What is known of a value that is one of the two."""
    if one == other or isinstance(one, Mixed):
        return one
    if isinstance(one, Fixed) and isinstance(other, Fixed):
        return Fixed(one.uniform & other.uniform)
    if isinstance(one, Fixed) and isinstance(other, ByRow) and one.is_uniform_along(other.row):
        return other
    if isinstance(other, Fixed) and isinstance(one, ByRow) and other.is_uniform_along(one.row):
        return one
    return other if isinstance(other, Mixed) else Mixed(node.span)
