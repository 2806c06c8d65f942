"""Put materialised values together into kernels: groups that loop over the same elements.

They are taken in order. Each joins the latest group in which all it needs is at hand at the
same element, no cycle arises and WebGPU's limits hold; otherwise it starts a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import Indirect, Pointwise, Reduce, Special, Update
from wgcc.schedule.codegen.index import Coordinates, Index, coordinates_of, linear, variable
from wgcc.schedule.dataflow import Flow, compared_with_extreme, lowering, operand_places
from wgcc.schedule.fuse.bias_gradients import find_bias_gradients
from wgcc.schedule.fuse.candidates import Candidates, falling
from wgcc.schedule.fuse.iteration_space import Space, flat_space, reduction_space
from wgcc.schedule.fuse.materialise import choose_materialised
from wgcc.schedule.fuse.precedence import Precedence
from wgcc.schedule.kernel import MAX_BINDINGS
from wgcc.schedule.updates import bound_alone

# A kernel that reduces gives one thread or workgroup to each result. Elements may be stored on
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
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {value.name for root in self.roots for value in root.outputs}

    def add(self, root: Node) -> None:
        self.roots.append(root)
        self.names.update(value.name for value in root.outputs)


@dataclass(slots=True)
class Fused:
    """The groups of a graph, and what is computed on the spot wherever it is needed."""

    flow: Flow
    groups: list[Group]
    inlined: dict[str, Node]
    touched: Touched


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


def fuse(graph: Graph) -> Fused:
    fuser = _Fuser(graph)
    return Fused(fuser.flow, fuser.run(), fuser.inlined, fuser.touched)


class _Fuser:
    def __init__(self, graph: Graph) -> None:
        self.flow = Flow.of(graph)
        self.compared = compared_with_extreme(self.flow)
        self.materialised = choose_materialised(self.flow, self.compared)
        self.inlined = {n: p for n, p in self.flow.producers.items() if n not in self.materialised}
        self.groups: list[Group] = []
        self.owner: dict[str, Group] = {}
        self.touched = Touched(self.inlined)
        self.read_by = _materialised_readers(self.flow, self.materialised, self.touched)
        self.alone = bound_alone(graph)
        self.ops: dict[str, int] = {}
        self.bias_gradients = find_bias_gradients(self.flow, self.materialised)
        self.product_of = {
            bias_gradient.output.name: name for name, bias_gradient in self.bias_gradients.items()
        }
        self.related = Candidates()
        self.precedence = Precedence()

    def run(self) -> list[Group]:
        for node in self.flow.graph.nodes:
            outputs = [value.name for value in node.outputs]
            new = any(name in self.materialised and name not in self.owner for name in outputs)
            if new and not self._place_with_bias_gradient(node):
                self._place(node)
        for group in self.groups:
            group.reads = {n for root in group.roots for n in self.touched(root)} - group.names
        return self.groups

    def _place_with_bias_gradient(self, node: Node) -> bool:
        """Place a product and the bias gradient fused with it together, at the first of them."""
        name = node.outputs[0].name
        name = self.product_of.get(name, name)
        if name not in self.bias_gradients:
            return False
        product, bias_gradient = self.flow.producers[name], self.bias_gradients[name]
        touched = self.touched(product) | self.touched(bias_gradient)
        waiting = (touched & self.materialised) - self.owner.keys()
        if waiting or self._bindings([product, bias_gradient]) > MAX_BINDINGS:
            del self.bias_gradients[name]
            return False
        needs = {self.owner[name].number for name in touched if name in self.owner}
        group = self._new_group(product)
        self._join(product, group, needs)
        self._join(bias_gradient, group, needs)
        return True

    def _place(self, node: Node) -> None:
        needs = {self.owner[name].number for name in self.touched(node) if name in self.owner}
        for group in self._candidates(node, needs):
            space = self._merged(node, group)
            if space is not None:
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
        group.add(node)
        group.needs |= needs
        self.precedence.need(group.number, needs)
        if group.kind == "loop" and group.space is not None:
            is_full = self._bindings(group.roots) >= MAX_BINDINGS
            self.related.put(group.number, group.space, self.touched(node), is_full)
        for value in node.outputs:
            self.owner[value.name] = group

    def _candidates(self, node: Node, needs: set[int]) -> Iterator[Group]:
        """Groups it reads from, latest first; then others that walk over the same elements.

        None of them would come to need itself.
        """
        if isinstance(lowering(node), Special | Update):
            return
        for number in sorted(needs, reverse=True):
            if not self.precedence.of(needs - {number}) >> number & 1:
                yield self.groups[number]
        space = own_space(node)
        shared = self._large_reads(node, space) if space.size > SMALL else None
        found = self.related.groups(space, shared, with_full=node.output.name not in self.alone)
        yield from (self.groups[n] for n in falling(found & ~self.precedence.of(needs)))

    def _large_reads(self, node: Node, space: Space) -> list[str]:
        """What it reads that is as large as what it walks over.

        Groups that share none of it would only wait for each other, which costs memory.
        """
        return [name for name in self.touched(node) if self.flow.size(name) >= space.size]

    def _merged(self, node: Node, group: Group) -> Space | None:
        """The space of the group with this node in it, or None where it does not fit."""
        if group.kind not in ("loop", "matmul") or group.space is None:
            return None
        if self.compared and self.compared & group.names & self.touched(node):
            return None
        space, roots = _common_space(group, node), [*group.roots, node]
        if space is None or not _worth_storing(roots, space):
            return None
        if sum(map(self._ops, roots)) > MAX_OPS or self._bindings(roots) > MAX_BINDINGS:
            return None
        aligned = self._aligned if group.kind == "loop" else self._aligned_product
        return space if aligned(group, node, space) else None

    def _aligned(self, group: Group, node: Node, space: Space) -> bool:
        """Does every root read the others only at the element at hand?

        Those of the group do as long as the space stays what it is, and none of them reads `node`.
        """
        roots = [*group.roots, node]
        names = {v.name: space.coordinates(v.shape) for n in roots for v in n.outputs}
        return all(
            names[name] == coordinates
            for root in ([node] if space == group.space else roots)
            for name, coordinates in self._reads(*_entry_points(root, space))
            if name in names
        )

    def _aligned_product(self, group: Group, node: Node, space: Space) -> bool:
        position = product_position(group.roots[0].output)
        fused_sums = {
            root.output.name for root in group.roots if isinstance(lowering(root), Reduce)
        }
        steps = [root for root in (*group.roots, node) if root.output.name not in fused_sums]
        names = {n.output.name: coordinates_of(position, n.output.shape) for n in steps}
        return all(
            name not in fused_sums and names.get(name, coordinates) == coordinates
            for name, coordinates in self._reads((node.output, names[node.output.name]), node)
        )

    def _reads(
        self, start: tuple[Value, Coordinates], root: Node
    ) -> Iterable[tuple[str, Coordinates]]:
        """Every stored value that is read, and where, to compute a root's element."""
        pending = [start] if start[0].name != root.output.name else operand_places(root, start[1])
        seen = set()
        while pending:
            value, coordinates = pending.pop()
            if (value.name, coordinates) in seen:
                continue
            seen.add((value.name, coordinates))
            node = self.flow.producers.get(value.name)
            if node is None or value.name in self.materialised:
                yield value.name, coordinates
            else:
                pending.extend(operand_places(node, coordinates))

    def _ops(self, root: Node) -> int:
        """How many ops a root adds to its kernel: itself, and what is computed on the way to it."""
        name = root.outputs[0].name
        if name not in self.ops:
            pending, seen = list(root.inputs), {name}
            while pending:
                value = pending.pop()
                producer = self.flow.producers.get(value.name)
                if producer and value.name not in seen and value.name not in self.materialised:
                    seen.add(value.name)
                    pending.extend(producer.inputs)
            self.ops[name] = len(seen)
        return self.ops[name]

    def _bindings(self, roots: list[Node]) -> int:
        own = {value.name: value for root in roots for value in root.outputs}
        stored = {n for n in own if self._leaves_group(n, own.keys())}
        read = {name for root in roots for name in self.touched(root)} - own.keys()
        alone = (stored | read) & self.alone
        return len(alone) + (len(alone) < len(stored | read))

    def _leaves_group(self, name: str, own: Set[str]) -> bool:
        return name in self.flow.results or not self.read_by.get(name, set()) <= own


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


def own_space(node: Node) -> Space:
    if isinstance(lowering(node), Reduce):
        return reduction_space(node.inputs[0].shape, node.attrs["axes"])
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
    if own.reduces() and held.reduces():
        return None
    wide, narrow = (own, held) if own.reduces() else (held, own)
    return wide if wide.reduces() and narrow.size in (wide.size, wide.outer) else None


def _worth_storing(roots: list[Node], space: Space) -> bool:
    if not space.reduces() or space.outer >= MIN_RESULTS or space.size <= SMALL:
        return True
    return all(root.outputs[0].type.size == space.outer for root in roots)


def _entry_points(root: Node, space: Space) -> tuple[tuple[Value, Coordinates], Node]:
    if isinstance(lowering(root), Reduce):
        operand = root.inputs[0]
        return (operand, coordinates_of(space.position(), operand.shape)), root
    return (root.output, space.coordinates(root.output.shape)), root


def _materialised_readers(
    flow: Flow, materialised: set[str], touched: Touched
) -> dict[str, set[str]]:
    """For each stored value, the materialised values computed from it: first outputs of nodes."""
    readers: dict[str, set[str]] = {}
    for node in flow.graph.nodes:
        if any(value.name in materialised for value in node.outputs):
            for name in touched(node):
                readers.setdefault(name, set()).add(node.outputs[0].name)
    return readers
