"""Put anchors together into kernels: groups that walk over the same elements in one dispatch.

Anchors are taken in order. Each joins the latest group in which all it needs is at hand at the
same element, no circle arises and WebGPU's limits hold; otherwise it starts a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import Indirect, Pointwise, Reduce, Special, Update
from wgcc.schedule.anchor import choose_anchors
from wgcc.schedule.arena import bound_alone
from wgcc.schedule.emit import Coordinates
from wgcc.schedule.flow import Flow, compared_with_extreme, lowering, operand_places
from wgcc.schedule.index import Index, coordinates_of, linear, variable
from wgcc.schedule.kernel import MAX_BINDINGS
from wgcc.schedule.riders import find_riders
from wgcc.schedule.space import Space, flat_space, folding_space

# A kernel that folds gives one thread or workgroup to each result. Elements may be stored along
# the way only where that leaves enough of them to share the work, or the work is small.
MIN_RESULTS = 32
SMALL = 4096
# Shader compilers take longer than a kernel's length suggests, and writing one nests as deep.
MAX_OPS = 192


@dataclass(slots=True, eq=False)
class Group:
    """One kernel to be: what it makes (`roots`), needs and reads. `kind` is `loop` or a family."""

    kind: str
    roots: list[Node]
    space: Space | None = None
    needs: set[int] = field(default_factory=set)
    number: int = 0
    reads: set[str] = field(default_factory=set)

    @property
    def names(self) -> set[str]:
        return {value.name for root in self.roots for value in root.outputs}


@dataclass(slots=True)
class Fused:
    """The groups of a graph, and what is computed on the spot wherever it is needed."""

    flow: Flow
    groups: list[Group]
    inlined: dict[str, Node]

    def owner(self, name: str) -> Group:
        return next(group for group in self.groups if name in group.names)

    def touched(self, node: Node) -> set[str]:
        """What a node reads from memory, through what is computed on the way."""
        return {name for name in _below(node, self.inlined) if name not in self.inlined}


def fuse(graph: Graph) -> Fused:
    fuser = _Fuser(graph)
    return Fused(fuser.flow, fuser.run(), fuser.inlined)


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.flow = Flow.of(graph)
        self.compared = compared_with_extreme(self.flow)
        self.anchors = choose_anchors(self.flow, self.compared)
        self.inlined = {n: p for n, p in self.flow.producers.items() if n not in self.anchors}
        self.groups: list[Group] = []
        self.owner: dict[str, Group] = {}
        self.read_by = _anchor_readers(self.flow, self.anchors)
        self.alone = bound_alone(graph)
        self.ops: dict[str, int] = {}
        self.riders = find_riders(self.flow, self.anchors)

    def run(self) -> list[Group]:
        for node in self.flow.graph.nodes:
            outputs = [value.name for value in node.outputs]
            new = any(name in self.anchors and name not in self.owner for name in outputs)
            if new and not self._place_with_rider(node):
                self._place(node)
        for group in self.groups:
            group.reads = {n for root in group.roots for n in self._touched(root)} - group.names
        return self.groups

    def _place_with_rider(self, node: Node) -> bool:
        """Place a product and the sum that rides on it together, at the first of them."""
        pair = next(
            (p for p in self.riders.items() if node.outputs[0].name in (p[0], p[1].output.name)),
            None,
        )
        if pair is None:
            return False
        product, rider = self.flow.producers[pair[0]], pair[1]
        touched = {*self._touched(product), *self._touched(rider)}
        waiting = (touched & self.anchors) - self.owner.keys()
        if waiting or self._bindings([product, rider]) > MAX_BINDINGS:
            del self.riders[pair[0]]
            return False
        needs = {self.owner[name].number for name in touched if name in self.owner}
        group = self._new_group(product)
        self._join(product, group, needs)
        self._join(rider, group, needs)
        return True

    def _place(self, node: Node) -> None:
        needs = {self.owner[name].number for name in self._touched(node) if name in self.owner}
        for group in self._candidates(node, needs):
            space = self._merged(node, group)
            if space is not None and not self._circle(group, needs):
                group.space = space
                self._join(node, group, needs - {group.number})
                return
        self._join(node, self._new_group(node), needs)

    def _new_group(self, node: Node) -> Group:
        lower = lowering(node)
        kind = "loop"
        if isinstance(lower, Special | Update):
            kind = lower.family if isinstance(lower, Special) else "update"
        group = Group(kind, [], own_space(node), number=len(self.groups))
        self.groups.append(group)
        return group

    def _join(self, node: Node, group: Group, needs: set[int]) -> None:
        group.roots.append(node)
        group.needs |= needs
        for value in node.outputs:
            self.owner[value.name] = group

    def _candidates(self, node: Node, needs: set[int]) -> Iterable[Group]:
        """Groups it reads from, latest first; then others that walk over the same elements."""
        if isinstance(lowering(node), Special | Update):
            return []
        direct = [g for g in reversed(self.groups) if g.number in needs]
        others = [
            g
            for g in reversed(self.groups)
            if g.number not in needs and g.kind == "loop" and self._akin(node, g)
        ]
        return [*direct, *others]

    def _akin(self, node: Node, group: Group) -> bool:
        """May two groups that do not feed each other share a dispatch with profit?"""
        assert group.space is not None
        space = own_space(node)
        if space.outer == 1 and group.space.outer == 1:
            return True
        alike = space.folds() and space == group.space
        return alike and (space.size <= SMALL or self._shares_reads(node, group))

    def _shares_reads(self, node: Node, group: Group) -> bool:
        """Do they read something large in common? If not, waiting for both only costs memory."""
        least = own_space(node).size
        large = {n for n in self._touched(node) if self.flow.size(n) >= least}
        return any(large & set(self._touched(root)) for root in group.roots)

    def _merged(self, node: Node, group: Group) -> Space | None:
        """The space of the group with this node in it, or None where it does not fit."""
        if group.kind not in ("loop", "matmul") or group.space is None:
            return None
        if self.compared and self.compared & group.names & set(self._touched(node)):
            return None
        space = _common_space(group, node)
        if space is None or not _worth_storing([*group.roots, node], space):
            return None
        roots = [*group.roots, node]
        if sum(map(self._ops, roots)) > MAX_OPS:
            return None
        if group.kind == "loop" and not self._aligned(roots, space):
            return None
        if group.kind == "matmul" and not self._aligned_product(roots):
            return None
        return space if self._bindings(roots) <= MAX_BINDINGS else None

    def _aligned(self, roots: list[Node], space: Space) -> bool:
        """Does every root read the others only at the element at hand?"""
        names = {v.name: space.coordinates(v.shape) for n in roots for v in n.outputs}
        return all(
            names[name] == coordinates
            for root in roots
            for name, coordinates in self._reads(*_entry_points(root, space))
            if name in names
        )

    def _aligned_product(self, roots: list[Node]) -> bool:
        position = product_position(roots[0].output)
        riding = {root.output.name for root in roots if isinstance(lowering(root), Reduce)}
        steps = [root for root in roots if root.output.name not in riding]
        names = {n.output.name: coordinates_of(position, n.output.shape) for n in steps}
        return all(
            name not in riding and names.get(name, coordinates) == coordinates
            for root in steps[1:]
            for name, coordinates in self._reads((root.output, names[root.output.name]), root)
        )

    def _reads(
        self, start: tuple[Value, Coordinates], root: Node
    ) -> Iterable[tuple[str, Coordinates]]:
        """Every anchor or source that is read, and where, to compute a root's element."""
        pending = [start] if start[0].name != root.output.name else operand_places(root, start[1])
        seen = set()
        while pending:
            value, coordinates = pending.pop()
            if (value.name, coordinates) in seen:
                continue
            seen.add((value.name, coordinates))
            node = self.flow.producers.get(value.name)
            if node is None or value.name in self.anchors:
                yield value.name, coordinates
            else:
                pending.extend(operand_places(node, coordinates))

    def _touched(self, node: Node) -> list[str]:
        """Anchors and sources below a node, through what is computed on the way."""
        return [name for name in _below(node, self.inlined) if name not in self.inlined]

    def _ops(self, root: Node) -> int:
        """How many ops a root adds to its kernel: itself, and what is computed on the way to it."""
        name = root.outputs[0].name
        if name not in self.ops:
            pending, seen = list(root.inputs), {name}
            while pending:
                value = pending.pop()
                producer = self.flow.producers.get(value.name)
                if producer and value.name not in seen and value.name not in self.anchors:
                    seen.add(value.name)
                    pending.extend(producer.inputs)
            self.ops[name] = len(seen)
        return self.ops[name]

    def _bindings(self, roots: list[Node]) -> int:
        own = {value.name: value for root in roots for value in root.outputs}
        stored = {n for n in own if self._leaves_group(n, own)}
        read = {name for root in roots for name in self._touched(root)} - own.keys()
        alone = (stored | read) & self.alone
        return len(alone) + (len(alone) < len(stored | read))

    def _leaves_group(self, name: str, own: Iterable[str]) -> bool:
        return name in self.flow.results or not self.read_by.get(name, set()) <= set(own)

    def _circle(self, group: Group, needs: set[int]) -> bool:
        """Would the group come to need itself?"""
        pending, seen = [n for n in needs if n != group.number], set()
        while pending:
            number = pending.pop()
            if number == group.number:
                return True
            if number not in seen:
                seen.add(number)
                pending.extend(self.groups[number].needs)
        return False


def _below(node: Node, inlined: Mapping[str, Node]) -> Iterator[str]:
    """The names of all values that a node is computed from, down to what lies in memory."""
    pending, seen = list(node.inputs), set()
    while pending:
        value = pending.pop()
        if value.name not in seen:
            seen.add(value.name)
            yield value.name
            producer = inlined.get(value.name)
            pending.extend(producer.inputs if producer else ())


def own_space(node: Node) -> Space:
    if isinstance(lowering(node), Reduce):
        return folding_space(node.inputs[0].shape, node.attrs["axes"])
    return flat_space(node.outputs[0].type.size)


def product_position(value: Value) -> Index:
    """Row-major position of a matrix product's element in terms of its loop variables z, m, n."""
    names = ("z", "m", "n")[-len(value.shape) :]
    coordinates = [variable(n, extent) for n, extent in zip(names, value.shape, strict=True)]
    return linear(coordinates, value.shape)


def _common_space(group: Group, node: Node) -> Space | None:
    own, held = own_space(node), group.space
    assert held is not None
    if group.kind == "matmul":
        fits = isinstance(lowering(node), Pointwise | Indirect) and own.size == held.size
        return held if fits else None
    if own == held:
        return held
    if own.folds() and held.folds():
        return None
    wide, narrow = (own, held) if own.folds() else (held, own)
    return wide if wide.folds() and narrow.size in (wide.size, wide.outer) else None


def _worth_storing(roots: list[Node], space: Space) -> bool:
    if not space.folds() or space.outer >= MIN_RESULTS or space.size <= SMALL:
        return True
    return all(root.outputs[0].type.size == space.outer for root in roots)


def _entry_points(root: Node, space: Space) -> tuple[tuple[Value, Coordinates], Node]:
    if isinstance(lowering(root), Reduce):
        operand = root.inputs[0]
        return (operand, coordinates_of(space.position(), operand.shape)), root
    return (root.output, space.coordinates(root.output.shape)), root


def _anchor_readers(flow: Flow, anchors: set[str]) -> dict[str, set[str]]:
    """For each value, the anchors whose computation reads it."""
    readers: dict[str, set[str]] = {}
    for node in reversed(flow.graph.nodes):
        for value in node.outputs:
            kept = value.name in anchors
            reached = {value.name} if kept else readers.get(value.name, set())
            for operand in node.inputs:
                readers.setdefault(operand.name, set()).update(reached)
    return readers
