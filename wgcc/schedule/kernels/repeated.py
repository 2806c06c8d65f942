"""Equal kernels are written once: those of equal layers, and those that differ in access only.

Groups that differ in names and addresses have the same kernels. WebGPU wants one access for a
buffer in a dispatch, and dispatches that could share a kernel should want the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from wgcc.ir.graph import Node, Value
from wgcc.ir.places import SCALARS
from wgcc.schedule.codegen.bindings import shown_as
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import WORD, Dispatch, Kernel, Launch, Place
from wgcc.schedule.kernels.context import Context, GroupCode

Write = Callable[[Group, Context], GroupCode]
# An update binds whole runs of tensors: which of them are side by side is part of its kernels.
BY_ADDRESS = ("update",)


@dataclass(frozen=True, slots=True)
class _Written:
    """Code, and the names and places of the values in it."""

    code: GroupCode
    shown: list[str]
    regions: list[Place]


class Repeated:
    """Remembers the code of groups by their form."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Written] = {}

    def code(self, group: Group, context: Context, write: Write) -> GroupCode:
        """The code that `write` gives for this group, or gave for another one of the same form."""
        if group.kind in BY_ADDRESS:
            return write(group, context)
        form, values = _form(group, context)
        shown = [shown_as(value) for value in values]
        regions = [context.bindings().region(v) for v in values if context.is_stored(v)]
        if form not in self._known:
            self._known[form] = _Written(write(group, context), shown, regions)
        known = self._known[form]
        here = dict(zip(known.regions, regions, strict=True))
        called = dict(zip(known.shown, shown, strict=True))
        return GroupCode(
            known.code.launches,
            tuple(here[region] for region in known.code.regions),
            tuple(tuple(called.get(text, text) for text in texts) for texts in known.code.shows),
            known.code.work,
        )


def _form(group: Group, context: Context) -> tuple[Hashable, list[Value]]:
    """A group without names and addresses, and its values in the order in which it has them."""
    values: dict[str, Value] = {}
    numbers: dict[str, int] = {}
    regions: dict[Place, int] = {}

    def number(value: Value) -> int:
        values.setdefault(value.name, value)
        return numbers.setdefault(value.name, len(numbers))

    def place_form(value: Value) -> Hashable:
        if not context.is_stored(value):
            return None
        place = context.place(value)
        if place.buffer == SCALARS:
            return place.offset
        number = regions.setdefault(place.bound, -1 - len(regions))
        size = place.bound.bytes
        return number, size, place.first, place.count, place.half, place.in_bytes

    nodes = []
    for node in _nodes(group, context):
        operands, results = map(number, node.inputs), map(number, node.outputs)
        attrs = tuple(sorted((name, repr(value)) for name, value in node.attrs.items()))
        nodes.append((node.op, attrs, *operands, None, *results))
    places = [(value.type, place_form(value)) for value in values.values()]
    return (group.kind, group.space, len(group.roots), *nodes, None, *places), [*values.values()]


def _nodes(group: Group, context: Context) -> list[Node]:
    """The group's roots, all that is computed on the way to them, and what is part of what."""
    nodes = list(group.roots)
    seen = set(group.names)
    for value in (value for root in group.roots for value in root.outputs):
        nodes += _part(value, context)
    for node in nodes:
        for value in node.inputs:
            if value.name not in seen:
                seen.add(value.name)
                producer = context.inlined.get(value.name)
                nodes += [producer] if producer is not None else _part(value, context)
    return nodes


def _part(value: Value, context: Context) -> list[Node]:
    """A node that makes a part of the tensor of all rounds; none if the value is no part."""
    part = context.parts.get(value.name)
    return [Node("part", (part.whole, part.index), (value,))] if part else []


# The numbers of the bindings that are `read_write`.
Access = frozenset[int]


def share_access(dispatches: Sequence[Dispatch]) -> list[Dispatch]:
    """The dispatches, with one access for all that have the same launches."""
    alike: dict[tuple[tuple[str, Launch], ...], list[int]] = {}
    for i, dispatch in enumerate(dispatches):
        alike.setdefault(tuple(dispatch.launches.items()), []).append(i)
    sharing = list(dispatches)
    for members in alike.values():
        launches = dispatches[members[0]].launches
        regions = [dispatches[i].regions for i in members]
        common = _launches(launches, _access(launches, [r for r in regions if not _overlap(r)]))
        for i, own in zip(members, regions, strict=True):
            alone = _launches(launches, _access(launches, [own])) if _overlap(own) else common
            sharing[i] = replace(dispatches[i], launches=alone)
    return sharing


def _access(launches: Mapping[str, Launch], dispatches: Iterable[Sequence[Place]]) -> Access:
    """The bindings that are written, or share a buffer with one that is in some dispatch."""
    known = list(dispatches)
    kernels = (launch.kernel for launch in launches.values())
    access = {i for kernel in kernels for i, b in enumerate(kernel.bindings) if b.written}
    before = -1
    while len(access) > before:
        before = len(access)
        for regions in known:
            written = {regions[i].buffer for i in access}
            access |= {i for i, region in enumerate(regions) if region.buffer in written}
    return frozenset(access)


def _launches(launches: Mapping[str, Launch], access: Access) -> dict[str, Launch]:
    return {
        name: replace(launch, kernel=_with_access(launch.kernel, access))
        for name, launch in launches.items()
    }


def _with_access(kernel: Kernel, access: Access) -> Kernel:
    bindings = (replace(b, aliased=i in access) for i, b in enumerate(kernel.bindings))
    return replace(kernel, bindings=tuple(bindings))


def _overlap(regions: Sequence[Place]) -> bool:
    """Do two bindings share words? They may do so only as long as both are `read`."""
    return any(
        a.buffer == b.buffer and a.offset < _end(b) and b.offset < _end(a)
        for a, b in combinations(regions, 2)
    )


def _end(region: Place) -> int:
    return region.offset + region.bytes // WORD
