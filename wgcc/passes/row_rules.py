"""Follows rows through the nodes of a graph: what kind each value is.

The axes along which a node computes each index alone, from the same index of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.ir.graph import Node, Value
from wgcc.ir.loops import LoopNode, loop_of
from wgcc.ops import OPS
from wgcc.ops.registry import FromIndex, Join, Pointwise, Reduce, SharedAxis, View
from wgcc.passes.row_kinds import (
    ByRow,
    Digit,
    Family,
    Fixed,
    Kind,
    Mixed,
    Total,
    power_of,
    reshape_digit,
    total_of,
    whole_axis,
)


def separate_axes(node: Node) -> list[SharedAxis]:
    """An axis that no input has is one along which all elements are equal."""
    op = OPS[node.op]
    rank, inputs = node.outputs[0].type.rank, len(node.inputs)
    if isinstance(op.lower, Pointwise):
        return [((k,) * inputs, (k,)) for k in range(rank)]
    if isinstance(op.lower, View):
        return _of_view(node, op.lower)
    if isinstance(op.lower, Join):
        return [((k,) * inputs, (k,)) for k in range(rank) if k != node.attrs["axis"]]
    if isinstance(op.lower, Reduce):
        gone = node.attrs["axes"]
        kept = [k for k in range(node.inputs[0].type.rank) if k not in gone]
        return [((before,), (after,)) for after, before in enumerate(kept)]
    return list(op.separate(node)) if op.separate else []


def _of_view(node: Node, lower: View) -> list[SharedAxis]:
    shape, source = node.output.shape, node.inputs[0].shape
    position = tuple(_Coordinate(frozenset({k}), k) for k in range(len(shape)))
    places = [_coordinate(item) for item in lower.index(node, position)]
    conditions = lower.inside(node, position) if lower.inside else ()
    bounded = frozenset().union(*(_coordinate(item).axes for _, item, _ in conditions))
    others = (None,) * (len(node.inputs) - 1)
    shared_axes: list[SharedAxis] = []
    for k, size in enumerate(shape):
        readers = [axis for axis, place in enumerate(places) if k in place.axes]
        if k in bounded:
            continue
        if not readers:
            shared_axes.append(((None, *others), (k,)))
        elif len(readers) == 1 and places[readers[0]].is_axis == k and source[readers[0]] == size:
            shared_axes.append(((readers[0], *others), (k,)))
    return shared_axes


class _Coordinate:
    """Stands for an integer in index arithmetic: the axes it depends on, and whether it is one."""

    def __init__(self, axes: frozenset[int], is_axis: int | None = None) -> None:
        self.axes, self.is_axis = axes, is_axis

    def _with(self, other: Any) -> _Coordinate:
        return _Coordinate(self.axes | _coordinate(other).axes)

    def __add__(self, other: Any) -> _Coordinate:
        return self if isinstance(other, int) and other == 0 else self._with(other)

    __radd__ = __sub__ = __add__

    def __rsub__(self, other: Any) -> _Coordinate:
        return self._with(other)

    __mul__ = __rmul__ = __floordiv__ = __mod__ = __rsub__


def _coordinate(item: Any) -> _Coordinate:
    return item if isinstance(item, _Coordinate) else _Coordinate(frozenset())


# A carry of a loop begins as one kind and may become another; it changes once or twice.
MOST_ROUNDS = 4


def kinds_of(family: Family, inputs: Sequence[str]) -> dict[str, Kind]:
    """The kind of every value, by name, if these inputs have rows."""
    flow = _Flow(family)
    for value in family.graph.sources:
        row = Digit(0, 1, family.counts[0])
        flow.kinds[value.name] = ByRow(row) if value.name in inputs else flow.source(value)
    flow.follow(family.graph.nodes)
    return flow.kinds


class _Flow:
    def __init__(self, family: Family) -> None:
        self.family = family
        self.kinds: dict[str, Kind] = {}

    def source(self, value: Value) -> Kind:
        """The kind of a value that no node computes: a parameter, state, constant or input."""
        return Mixed(None, by_number=True) if value.name in self.family.odd else _fixed_kind(value)

    def follow(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            loop = loop_of(node)
            kinds = self._loop(loop) if loop else self._results(node)
            self.kinds.update((v.name, kind) for v, kind in zip(node.outputs, kinds, strict=True))

    def _results(self, node: Node) -> list[Kind]:
        given = [self.kinds[value.name] for value in node.inputs]
        mixed = next((kind for kind in given if isinstance(kind, Mixed)), None)
        if mixed:
            return [mixed] * len(node.outputs)
        if isinstance(OPS[node.op].lower, FromIndex):
            return [self._of_source(node)]
        if node.op == "sum" and not any(isinstance(kind, Total) for kind in given):
            return [self._sum(node, given[0])]
        return self._of_others(node, given)

    def _of_others(self, node: Node, given: list[Kind]) -> list[Kind]:
        axes = [axis for axis in separate_axes(node) if self._is_shared(node, axis)]
        odd = not self.family.odd.isdisjoint(value.name for value in node.outputs)
        uncovered = [] if node.op == "reshape" else self._uncovered_axes(node, axes)
        if odd or uncovered:
            rows = [(v, kind.row.axis) for v, kind in zip(node.inputs, given, strict=True)
                    if isinstance(kind, ByRow)]  # fmt: skip
            by_number = not any(axis in uncovered for axis in rows)
            return [Mixed(node.span, by_number)] * len(node.outputs)
        if any(isinstance(kind, Total) for kind in given):
            return [total_of(node, given)] * len(node.outputs)
        power = power_of(node, given)
        if power is None:
            return [Mixed(node.span, by_number=True)] * len(node.outputs)
        if node.op == "reshape":
            return [_kind_after_reshape(node, given[0])]
        if any(isinstance(kind, ByRow) for kind in given):
            return _of_rows(node, given, axes, power)
        return _of_fixed(node, [kind for kind in given if isinstance(kind, Fixed)], axes, power)

    def _of_source(self, node: Node) -> Kind:
        name = node.output.name
        if name in self.family.odd:
            return Mixed(node.span, by_number=True)
        return Fixed(_fixed_kind(node.output).uniform, self.family.powers.get(name, 0))

    def _is_shared(self, node: Node, axis: SharedAxis) -> bool:
        """Whether the axis is the same in inputs and outputs for any number of rows."""
        before, after = axis
        pairs = [(v, k) for v, k in zip(node.inputs, before, strict=True) if k is not None]
        ends = [(v, k) for v, k in zip(node.outputs, after, strict=True) if k is not None]
        return all(self.family.is_same_axis(a, i, b, j) for a, i in pairs for b, j in ends)

    def _uncovered_axes(self, node: Node, axes: list[SharedAxis]) -> list[tuple[Value, int]]:
        """The axes that grow with the number of rows and are not computed index by index."""
        return [
            (value, axis)
            for side, values in ((0, node.inputs), (1, node.outputs))
            for position, value in enumerate(values)
            for axis in self.family.grows(value)
            if all(shared[side][position] != axis for shared in axes)
        ]

    def _sum(self, node: Node, kind: Kind) -> Kind:
        x, axes = node.inputs[0], node.attrs["axes"]
        growing = [axis for axis in self.family.grows(x) if axis in axes]
        if any(not self.family.is_proportional(x, axis) for axis in growing):
            return Mixed(node.span, by_number=True)
        if isinstance(kind, Fixed):
            uniform = all(kind.is_uniform_along(whole_axis(axis, x.shape)) for axis in growing)
            kept = _of_fixed(node, [kind], separate_axes(node), kind.power + len(growing))[0]
            return kept if uniform else Mixed(node.span, by_number=True)
        assert isinstance(kind, ByRow)
        row = kind.row
        if any(axis != row.axis for axis in growing):
            return Mixed(node.span, by_number=True)
        if row.axis in axes:
            return Total(kind.power)
        return _of_rows(node, [kind], separate_axes(node), kind.power)[0]

    def _loop(self, loop: LoopNode) -> list[Kind]:
        node, outside = loop.node, [self.kinds[value.name] for value in loop.node.inputs]
        odd = any(value.name in self.family.odd for value in node.outputs)
        unknown = any(
            isinstance(kind, Mixed | Total) or kind.power or kind_grows
            for kind, kind_grows in zip(outside, self._slices_grow(loop), strict=True)
        )
        if odd or unknown:
            return [Mixed(node.span, by_number=odd)] * len(node.outputs)
        self.kinds[loop.index.name] = _fixed_kind(loop.index)
        for x, inner in loop.sliced:
            self.kinds[inner.name] = _of_round(self.kinds[x.name], node)
        for value, inner in loop.invariants:
            self.kinds[inner.name] = self.kinds[value.name]
        carries = self._carries(loop)
        stacks = [_of_all_rounds(self.kinds[v.name], node) for v in loop.body.outputs.values()]
        return [*carries, *stacks]

    def _slices_grow(self, loop: LoopNode) -> list[bool]:
        """For every input of a loop, whether there are as many slices of it as rows."""
        sliced = {x.name for x, _ in loop.sliced}
        return [v.name in sliced and 0 in self.family.grows(v) for v in loop.node.inputs]

    def _carries(self, loop: LoopNode) -> list[Kind]:
        carries = [self.kinds[value.name] for value in loop.inits]
        for _ in range(MOST_ROUNDS):
            for value, kind in zip(loop.carries, carries, strict=True):
                self.kinds[value.name] = kind
            for constant in loop.body.constants:
                self.kinds[constant.value.name] = self.source(constant.value)
            self.follow(loop.body.nodes)
            before = carries
            after = [self.kinds[value.name] for value in loop.next_carries]
            carries = [_either(*pair, loop.node) for pair in zip(before, after, strict=True)]
            if carries == before:
                return carries
        return [Mixed(loop.node.span)] * len(carries)


def _fixed_kind(value: Value) -> Fixed:
    """A value that does not depend on rows, of which no more is known."""
    return Fixed(frozenset(whole_axis(k, value.shape) for k, n in enumerate(value.shape) if n == 1))


def _of_fixed(node: Node, given: list[Fixed], axes: Sequence[SharedAxis], power: int) -> list[Kind]:
    uniform: list[set[Digit]] = [set() for _ in node.outputs]
    for before, after in axes:
        read = [(kind, axis) for kind, axis in zip(given, before, strict=True) if axis is not None]
        for output, axis, digits in zip(node.outputs, after, uniform, strict=True):
            if axis is not None:
                digits |= _common(read, axis, output)
    return [
        Fixed(frozenset(digits) | _fixed_kind(value).uniform, power)
        for value, digits in zip(node.outputs, uniform, strict=True)
    ]


def _of_rows(node: Node, given: list[Kind], axes: Sequence[SharedAxis], power: int) -> list[Kind]:
    for before, after in axes:
        row = _row_along(given, before)
        if row is not None:
            return [
                Mixed(node.span) if axis is None else ByRow(Digit(axis, row.inner, row.size), power)
                for axis in after
            ]
    return [Mixed(node.span)] * len(node.outputs)


def _kind_after_reshape(node: Node, kind: Kind) -> Kind:
    before, after = node.inputs[0].shape, node.output.shape
    if isinstance(kind, Fixed):
        digits = (d for digit in kind.uniform for d in reshape_digit(digit, before, after))
        return Fixed(frozenset(digits), kind.power)
    assert isinstance(kind, ByRow)
    rows = list(reshape_digit(kind.row, before, after))
    is_one = [digit.size for digit in rows] == [kind.row.size]
    return ByRow(rows[0], kind.power) if is_one else Mixed(node.span)


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
    if isinstance(kind, Fixed) and not kind.power:
        return Fixed(frozenset(Digit(d.axis + 1, d.inner, d.size) for d in kind.uniform))
    if isinstance(kind, ByRow) and not kind.power:
        return ByRow(Digit(kind.row.axis + 1, kind.row.inner, kind.row.size))
    return kind if isinstance(kind, Mixed) else Mixed(node.span)


def _either(one: Kind, other: Kind, node: Node) -> Kind:
    """The kind of a value that is one or the other."""
    if one == other or isinstance(one, Mixed):
        return one
    if isinstance(other, Mixed) or isinstance(one, Total) or isinstance(other, Total):
        return other if isinstance(other, Mixed) else Mixed(node.span)
    if one.power or other.power:
        return Mixed(node.span, by_number=True)
    if isinstance(one, Fixed) and isinstance(other, Fixed):
        return Fixed(one.uniform & other.uniform)
    if isinstance(one, Fixed) and isinstance(other, ByRow) and one.is_uniform_along(other.row):
        return other
    if isinstance(other, Fixed) and isinstance(one, ByRow) and other.is_uniform_along(one.row):
        return one
    return Mixed(node.span)
