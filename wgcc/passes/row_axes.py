"""The axes along which a node computes each index alone, from the same index of its inputs."""

from __future__ import annotations

from typing import Any

from wgcc.ir.graph import Node
from wgcc.ops import OPS
from wgcc.ops.registry import Join, Pointwise, Reduce, SharedAxis, View


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
    found: list[SharedAxis] = []
    for k, size in enumerate(shape):
        readers = [axis for axis, place in enumerate(places) if k in place.axes]
        if k in bounded:
            continue
        if not readers:
            found.append(((None, *others), (k,)))
        elif len(readers) == 1 and places[readers[0]].is_axis == k and source[readers[0]] == size:
            found.append(((readers[0], *others), (k,)))
    return found


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
