"""Is it worth computing a value in the kernel of a group, and may that kernel compute it?

`profit` and `legality` are the two answers, each with its reason.

In which of its loops over a row a reducing kernel makes each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Space, coordinates_of, variable
from wgcc.ops.registry import Indirect, Pointwise, Reduce, View
from wgcc.passes.dataflow import Flow, behind_views, lowering, operand_places
from wgcc.schedule.fuse.group import (
    MOST_SUMS,
    Bound,
    Group,
    Touched,
    column_part,
    column_sums,
    own_space,
    product_position,
    rows_of,
)
from wgcc.schedule.kernel import MAX_BINDINGS


class RowLoops:
    """A value that needs the result of a reduction can be made only in a loop after it."""

    def __init__(self, group: Group, inlined: Mapping[str, Node]) -> None:
        assert group.space is not None
        self._space, self._roots, self._inlined = group.space, group.roots, inlined
        self._own = {root.output.name: root for root in group.roots}
        self._before: dict[str, int] = {}

    @property
    def count(self) -> int:
        counts = [0]
        for node in self._roots:
            if isinstance(lowering(node), Reduce):
                counts.append(self.before(node.output))
            elif not self.is_result(node.output):
                counts.append(self.before(node.output) + 1)
        return max(counts)

    def before(self, value: Value) -> int:
        """How many loops over the row must have ended before a value can be computed."""
        if value.name not in self._before:
            node = self._inlined.get(value.name) or self._own.get(value.name)
            count = max((self.before(v) for v in node.inputs), default=0) if node else 0
            reductions = node is not None and isinstance(lowering(node), Reduce)
            self._before[value.name] = count + reductions
        return self._before[value.name]

    def is_result(self, value: Value) -> bool:
        """One per row, not one per element of it."""
        return value.type.size == self._space.outer


# A kernel that reduces gives one thread or workgroup to each result. Elements may be stored on
# the way only where that leaves enough of them to share the work, or the work is small.
MIN_RESULTS = 32
SMALL = 4096
# Last steps of sums that were made in two steps are small, compared with the first ones.
SMALL_LAST_STEP = 1 << 18
# Shader compilers take longer than a kernel's length suggests, and writing one nests as deep.
MAX_OPS = 192


@dataclass(frozen=True, slots=True)
class Answer:
    yes: bool
    reason: str


OTHER_FAMILY = Answer(False, "that kernel family computes nothing else")
OTHER_ELEMENTS = Answer(False, "they loop over different elements")

USES_RESULTS = Answer(True, "uses results of this kernel at the same element")
SAVES_DISPATCH = Answer(True, "is small: saves a dispatch")
SHARES_READS = Answer(True, "loops over the same large tensors")
IS_ALIKE = Answer(True, "does the same to other values: saves a dispatch")
IS_JOINED = Answer(True, "is joined with results of this kernel")
FEW_THREADS = Answer(False, "too few threads would do all the work")
TOO_LONG = Answer(False, f"one kernel would have more than {MAX_OPS} ops")

LEGAL = Answer(True, "every thread reads only elements of its own")
ROUNDED_ONCE = Answer(False, "elements that are compared must be read as they were stored")
TOO_MANY_BINDINGS = Answer(False, f"together they need more than {MAX_BINDINGS} bindings")
OTHER_THREADS = Answer(False, "it reads elements that other threads compute")


class Merge:
    """Answers for one graph; `inlined` is computed at each use, all else is materialised."""

    def __init__(
        self, flow: Flow, bound: Bound, inlined: Mapping[str, Node], compared: Set[str]
    ) -> None:
        self._flow, self._bound = flow, bound
        self._inlined = inlined
        self._compared = compared
        self.touched = Touched(inlined)
        self._read_by = self._materialised_readers()
        self._known_ops: dict[str, int] = {}

    def profit(self, node: Node, group: Group, space: Space, is_read: bool) -> Answer:
        """Is it worth it, if both loop over `space`? `is_read`: the node reads the group's results.

        Other groups are asked only where they share large reads with the node or both are small.
        """
        roots = [*group.roots, node]
        if not _keeps_threads_busy(roots, space):
            return FEW_THREADS
        if sum(map(self._ops, roots)) > MAX_OPS:
            return TOO_LONG
        if is_read:
            return USES_RESULTS
        if space.outer == 1 or space.size <= SMALL or self.is_last_step(node):
            return SAVES_DISPATCH
        large = self.large_reads(node, space)
        shares = any(large & self.touched(root) for root in group.roots)
        return SHARES_READS if shares else IS_JOINED

    def large_reads(self, node: Node, space: Space) -> set[str]:
        """The values it reads that are as large as the space it loops over.

        Groups that share none of them would only wait for each other, which costs memory. What
        reductions make is small: plain ones may share as much as a row.
        """
        large = space.inner if self._is_plain_reduction(node) else space.size
        return {name for name in self.touched(node) if self._flow.size(name) >= large}

    def _is_plain_reduction(self, node: Node) -> bool:
        """Does it reduce what one op makes of stored values, such as their products?"""
        if not isinstance(lowering(node), Reduce):
            return False
        computed, pending = 0, [node.inputs[0]]
        while pending:
            producer = self._inlined.get(pending.pop().name)
            if producer is not None:
                computed += not isinstance(lowering(producer), View)
                pending.extend(producer.inputs)
        return computed == 1

    def is_last_step(self, node: Node) -> bool:
        """Does it only add up what another reduction left?"""
        if not isinstance(lowering(node), Reduce) or node.inputs[0].type.size > SMALL_LAST_STEP:
            return False
        summed = behind_views(node.inputs[0], self._inlined)
        first = self._flow.producers.get(summed.name)
        return first is not None and isinstance(lowering(first), Reduce)

    def legality(self, node: Node, group: Group, space: Space) -> Answer:
        """May one kernel that loops over `space` compute the group and the node?"""
        if self._compared and self._compared & group.names & self.touched(node):
            return ROUNDED_ONCE
        if self.bindings([*group.roots, node]) > MAX_BINDINGS:
            return TOO_MANY_BINDINGS
        aligned = self._is_aligned if group.kind == "loop" else self._is_product_aligned
        return LEGAL if aligned(group, node, space) else OTHER_THREADS

    def bindings(self, roots: list[Node]) -> int:
        """How many a kernel of these roots takes; all values of one element share one."""
        own = {value.name: value for root in roots for value in root.outputs}
        stored = {n for n in own if self._leaves_group(n, own.keys())}
        read = {name for root in roots for name in self.touched(root)} - own.keys()
        read -= self._bound.uniforms
        alone = (stored | read) & self._bound.alone
        return len(self._bound.of(alone)) + (len(alone) < len(stored | read))

    def _leaves_group(self, name: str, own: Set[str]) -> bool:
        return name in self._flow.results or not self._read_by.get(name, set()) <= own

    def _materialised_readers(self) -> dict[str, set[str]]:
        """For each stored value, what is computed from it: first outputs of nodes."""
        readers: dict[str, set[str]] = {}
        for node in self._flow.graph.nodes:
            if any(value.name not in self._inlined for value in node.outputs):
                for name in self.touched(node):
                    readers.setdefault(name, set()).add(node.outputs[0].name)
        return readers

    def _is_aligned(self, group: Group, node: Node, space: Space) -> bool:
        """Does every root read the others only at the element at hand?

        Those of the group do as long as the space stays what it is, and none of them reads `node`.
        """
        roots = [*group.roots, node]
        apart = {n.output.name for n in column_sums(roots, space)}
        by_row = [value for n in roots for value in n.outputs if value.name not in apart]
        names = {value.name: space.coordinates(value.shape) for value in by_row}
        reduces = {n.output.name for n in roots if isinstance(lowering(n), Reduce)}
        again = names.keys() - reduces if space.reduces() else frozenset[str]()
        return all(
            name not in apart and names[name] == coordinates
            for root in ([node] if space == group.space else roots)
            for name, coordinates in self._reads(*_entry_points(root, space), again)
            if name in names or name in apart
        )

    def _is_product_aligned(self, group: Group, node: Node, space: Space) -> bool:
        product = group.roots[0].output
        if column_part(node, product, self._inlined) is not None:
            return True
        position = product_position(product)
        others = {root.output.name for root in group.roots if self._is_beside(root, product)}
        steps = [root for root in (*group.roots, node) if root.output.name not in others]
        names = {n.output.name: coordinates_of(position, n.output.shape) for n in steps}
        return all(
            name not in others and names.get(name, coordinates) == coordinates
            for name, coordinates in self._reads((node.output, names[node.output.name]), node)
        )

    def _is_beside(self, root: Node, product: Value) -> bool:
        """Is it no element of a product's kernel, but a fused sum or a part of the columns?"""
        part = column_part(root, product, self._inlined)
        return isinstance(lowering(root), Reduce) or part is not None

    def _reads(
        self, start: tuple[Value, Coordinates], root: Node, again: Set[str] = frozenset()
    ) -> Iterable[tuple[str, Coordinates]]:
        """Every stored value that is read, and where, to compute a root's element.

        `again` are those that a kernel may compute a second time, like what is not stored.
        """
        pending = [start]
        if start[0].name == root.output.name:
            pending = [self._safe(*place, again) for place in operand_places(root, start[1])]
        seen = set()
        while pending:
            value, coordinates = pending.pop()
            if (value.name, coordinates) in seen:
                continue
            seen.add((value.name, coordinates))
            node = self._inlined.get(value.name)
            if node is None:
                yield value.name, coordinates
            else:
                pending.extend(
                    self._safe(*place, again) for place in operand_places(node, coordinates)
                )

    def _safe(
        self, value: Value, coordinates: Coordinates, again: Set[str]
    ) -> tuple[Value, Coordinates]:
        """Replaces coordinates of an element that may not exist by those the kernel reads.

        For such an element it computes the first one instead (`Emitter._piece`): the place is
        known at run time only and is no longer that of the element at hand.
        """
        if all(c.low >= 0 and c.high < n for c, n in zip(coordinates, value.shape, strict=True)):
            return value, coordinates
        node = self._inlined.get(value.name)
        while node is not None and _is_whole_view(node):
            value, coordinates = operand_places(node, coordinates)[0]
            node = self._inlined.get(value.name)
        if node is None and value.name not in again:
            return value, coordinates
        places = (variable(f"guarded in {value.name}", max(n, 2)) for n in value.shape)
        return value, tuple(places)

    def _ops(self, root: Node) -> int:
        """How many ops a root adds to its kernel: itself, and what is computed on the way to it."""
        name = root.outputs[0].name
        if name not in self._known_ops:
            pending, seen = list(root.inputs), {name}
            while pending:
                value = pending.pop()
                producer = self._inlined.get(value.name)
                if producer is not None and value.name not in seen:
                    seen.add(value.name)
                    pending.extend(producer.inputs)
            self._known_ops[name] = len(seen)
        return self._known_ops[name]


def _is_whole_view(node: Node) -> bool:
    """Does every element of this view exist?"""
    lower = lowering(node)
    return isinstance(lower, View) and lower.inside is None


def common_space(group: Group, node: Node, inlined: Mapping[str, Node]) -> Space | Answer:
    """The space that one kernel of both would loop over, or why there is none."""
    own, held = own_space(node), group.space
    if group.kind not in ("loop", "matmul") or held is None:
        return OTHER_FAMILY
    if group.kind == "matmul":
        fits = isinstance(lowering(node), Pointwise | Indirect) and own.size == held.size
        is_part = column_part(node, group.roots[0].output, inlined) is not None
        return held if fits or is_part else OTHER_ELEMENTS
    if own == held:
        return held
    if own.reduces() and held.reduces():
        return held if _adds_columns(group, node, held) else OTHER_ELEMENTS
    wide, narrow = (own, held) if own.reduces() else (held, own)
    fits = wide.reduces() and narrow.size in (wide.size, wide.outer)
    return wide if fits else OTHER_ELEMENTS


def _adds_columns(group: Group, node: Node, space: Space) -> bool:
    """Can the kernel of a group, which reduces rows, add up columns of some rows each, too?"""
    each, known = rows_of(node, space), column_sums(group.roots, space)
    return each > 0 and len(known) < MOST_SUMS and all(rows_of(n, space) == each for n in known)


def _keeps_threads_busy(roots: list[Node], space: Space) -> bool:
    if not space.reduces() or space.outer >= MIN_RESULTS or space.size <= SMALL:
        return True
    return all(root.outputs[0].type.size == space.outer for root in roots)


def _entry_points(root: Node, space: Space) -> tuple[tuple[Value, Coordinates], Node]:
    if isinstance(lowering(root), Reduce):
        operand = root.inputs[0]
        return (operand, coordinates_of(space.position(), operand.shape)), root
    return (root.output, space.coordinates(root.output.shape)), root
