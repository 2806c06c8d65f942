"""Groups: what one kernel computes, over which elements, and why.

Which groups must run before which, directly or through others.

What nodes read from memory, seen through what is computed on the way.

Finds groups that do not feed a node but may share a dispatch with it, without trying them all.

Sets of groups are numbers with a bit for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, Space, flat_space, linear, reduction_space, variable
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering

# The kind of a group that is a whole loop, with groups of its own.
REPEAT = "repeat"
# The kind of groups that are no dispatch: they read several tensors as one.
FLAT = "flat"


@dataclass(frozen=True, slots=True)
class Bound:
    """Says how kernels bind values: `alone` take a binding each, `uniforms` no storage buffer.

    `packs` maps values to the pack that is bound for several of them.
    """

    alone: Set[str] = frozenset()
    uniforms: Set[str] = frozenset()
    packs: Mapping[str, str] = field(default_factory=dict)

    def of(self, names: Iterable[str]) -> set[str]:
        return {self.packs.get(name, name) for name in names}


@dataclass(slots=True, eq=False)
class Group:
    """One kernel to be: what it makes (`roots`), needs and reads. `kind` is `loop` or a family.

    `why` says for the first value of each root why it is in this group.
    """

    kind: str
    roots: list[Node]
    space: Space | None = None
    needs: set[int] = field(default_factory=set)
    number: int = 0
    reads: set[str] = field(default_factory=set)
    why: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {value.name for root in self.roots for value in root.outputs}

    def add(self, root: Node, why: str) -> None:
        self.roots.append(root)
        self.names.update(value.name for value in root.outputs)
        self.why[root.outputs[0].name] = why


def own_space(node: Node) -> Space:
    if isinstance(lowering(node), Reduce):
        return reduction_space(node.inputs[0].shape, node.attrs["axes"])
    return flat_space(node.outputs[0].type.size)


def product_position(value: Value) -> Index:
    """Row-major position of a matrix product's element in terms of its loop variables z, m, n."""
    names = ("z", "m", "n")[-len(value.shape) :]
    coordinates = [variable(n, extent) for n, extent in zip(names, value.shape, strict=True)]
    return linear(coordinates, value.shape)


class Precedence:
    """Groups are numbers. What a group needs is kept as one number with a bit for each of them."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._direct: dict[int, set[int]] = {}

    def need(self, group: int, others: Iterable[int]) -> None:
        """Say that a group must run after some others, none of which needs it."""
        for other in others:
            self._direct.setdefault(other, set()).add(group)
            self._add(group, self.of((other,)))

    def of(self, groups: Iterable[int]) -> int:
        """These groups and all they need, as bits."""
        bits = 0
        for group in groups:
            bits |= self._before.get(group, 0) | 1 << group
        return bits

    def needs(self, group: int, other: int) -> bool:
        """Must `other` run before `group`? A group counts as needing itself."""
        return bool(self.of((group,)) >> other & 1)

    def _add(self, group: int, bits: int) -> None:
        pending = [group]
        while pending:
            later = pending.pop()
            known = self._before.get(later, 0)
            if bits & ~known:
                self._before[later] = known | bits
                pending.extend(self._direct.get(later, ()))


class Touched:
    """Called with a node, gives the names of what it reads from memory.

    That is seen through what is computed on the way, which is `inlined`.
    """

    def __init__(self, inlined: Mapping[str, Node]) -> None:
        self._inlined = inlined
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, node: Node) -> frozenset[str]:
        name = node.outputs[0].name
        if name not in self._known:
            below = _below(node, self._inlined)
            self._known[name] = frozenset(n for n in below if n not in self._inlined)
        return self._known[name]


def _below(node: Node, inlined: Mapping[str, Node]) -> Iterator[str]:
    """The names of all values that a node is computed from, down to what is stored."""
    pending, seen = list(node.inputs), set()
    while pending:
        value = pending.pop()
        if value.name not in seen:
            seen.add(value.name)
            yield value.name
            producer = inlined.get(value.name)
            pending.extend(producer.inputs if producer else ())


_ONE_RESULT = flat_space(1)


class Candidates:
    """Candidates are groups of one result each, and groups that loop over the same elements."""

    def __init__(self) -> None:
        self._looping: dict[Space, int] = {}
        self._space: dict[int, Space] = {}
        self._reading: dict[str, int] = {}
        self._full = 0

    def put(self, group: int, space: Space, reads: Iterable[str], is_full: bool) -> None:
        """Add a group, or say how it has grown; `reads` are names that it did not read before."""
        bit, kind = 1 << group, _kind(space)
        if group in self._space:
            self._looping[self._space[group]] &= ~bit
        self._space[group] = kind
        self._looping[kind] = self._looping.get(kind, 0) | bit
        for name in reads:
            self._reading[name] = self._reading.get(name, 0) | bit
        self._full = self._full | bit if is_full else self._full & ~bit

    def groups(self, space: Space, sharing: Iterable[str] | None, with_full: bool) -> int:
        """The groups, as bits, that loop over a space and read one of `sharing`.

        If `sharing` is None, it does not matter what they read.
        """
        kind = _kind(space)
        matches = self._looping.get(kind, 0)
        if sharing is not None and kind != _ONE_RESULT:
            matches &= reduce(or_, (self._reading.get(name, 0) for name in sharing), 0)
        return matches if with_full else matches & ~self._full


def falling(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, the highest first."""
    while bits:
        number = bits.bit_length() - 1
        yield number
        bits ^= 1 << number


def _kind(space: Space) -> Space:
    return _ONE_RESULT if space.outer == 1 else space
