"""Groups: what one kernel computes, over which elements, and why.

A group knows what it reads from memory, seen through what is computed on the way, and which groups
must run before it, directly or through others; sets of groups are numbers with a bit for each.

Beside what it is built around, a kernel loads, sums or stores these values:

- Column sums: a kernel that takes rows one after the other sums columns over a few rows each.
- Column parts: gradients that are columns of one product are each stored in a place of their own.
- Bias gradients: the gradient of a bias is a column sum of the operand that the product of the
  weight's gradient loads anyway, so one kernel makes both.
- Joined operands: values joined of several are stored where a kernel family loads them many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import (
    Coordinates,
    Index,
    Space,
    coordinates_of,
    flat_space,
    indices,
    linear,
    reduction_space,
    variable,
)
from wgcc.ops.registry import Join, Pointwise, Reduce, Special, View
from wgcc.passes.dataflow import (
    Flow,
    behind_views,
    computes_by_element,
    keeps_order,
    lowering,
    moves,
)
from wgcc.passes.prepare.split_long import ENOUGH_GROUPS, LEAST_ROWS, MOST_COLUMNS, MOST_ROWS
from wgcc.schedule.kernel import VECTOR

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


# A kernel may have a few of them.
MOST_SUMS = 3


def rows_of(node: Node, space: Space) -> int:
    """How many rows of a space that reduces rows a node adds up at a time; 0 if it does not."""
    if node.op != "sum" or not isinstance(lowering(node), Reduce):
        return 0
    own = own_space(node).runs
    if [reduced for reduced, _ in own] != [False, True, False]:
        return 0
    (_, groups), (_, each), (_, columns) = own
    fits = LEAST_ROWS <= each <= MOST_ROWS and groups >= ENOUGH_GROUPS and columns <= MOST_COLUMNS
    return each if fits and space.runs == ((False, groups * each), (True, columns)) else 0


def space_by_rows(node: Node) -> Space | None:
    """The space of a kernel over the rows that a node adds up, some at a time."""
    runs = own_space(node).runs
    if len(runs) != 3:
        return None
    (_, groups), (_, each), (_, columns) = runs
    space = Space(((False, groups * each), (True, columns)))
    return space if rows_of(node, space) else None


def column_sums(roots: list[Node], space: Space) -> list[Node]:
    return [node for node in roots if rows_of(node, space)]


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """`width` columns of a product from `start` on; both are whole vectors."""

    start: int
    width: int

    @property
    def end(self) -> int:
        return self.start + self.width


def column_part(node: Node, product: Value, inlined: Mapping[str, Node]) -> ColumnPart | None:
    """The columns of a product that a node copies, if it does nothing else."""
    part = inlined.get(node.inputs[0].name) if node.op == "copy" else None
    lower = lowering(part) if part is not None and part.inputs else None
    if part is None or part.inputs[0].name != product.name or not isinstance(lower, View):
        return None
    if len(part.output.shape) != 2 or part.output.shape[0] != product.shape[0] or lower.inside:
        return None
    width = part.output.shape[1]
    row, column = variable("row", product.shape[0]), variable("column", width)
    at_row, at_column = indices(lower.index(part, (row, column)))
    start = at_column - column
    is_whole = start.is_constant and start.offset % VECTOR == 0 and width % VECTOR == 0
    return ColumnPart(start.offset, width) if at_row == row and is_whole else None


Leaf = tuple[str, Coordinates]


def find_bias_gradients(flow: Flow, materialised: set[str]) -> dict[str, Node]:
    """The sum fused with each product, by the name of the product's value."""
    sums: dict[tuple[Leaf, int, int], Node] = {}
    for node in flow.graph.nodes:
        if node.op == "sum" and node.output.dtype == "f32":
            key = _column_sum(flow, materialised, node)
            if key is not None:
                sums.setdefault(key, node)
    bias_gradients: dict[str, Node] = {}
    for node in flow.graph.nodes:
        if node.op == "matmul" and len(node.output.shape) == 2:
            depth, cols = node.inputs[1].shape
            at = (variable("k", depth), variable("n", cols))
            bias_gradient = sums.pop(
                (_leaf(flow, materialised, node.inputs[1], at), depth, cols), None
            )
            if bias_gradient is not None:
                bias_gradients[node.output.name] = bias_gradient
    return bias_gradients


def _column_sum(flow: Flow, materialised: set[str], node: Node) -> tuple[Leaf, int, int] | None:
    operand = node.inputs[0]
    runs = reduction_space(operand.shape, node.attrs["axes"]).runs
    if [reduced for reduced, _ in runs] != [True, False]:
        return None
    (_, depth), (_, cols) = runs
    position = linear((variable("k", depth), variable("n", cols)), (depth, cols))
    at = coordinates_of(position, operand.shape)
    return _leaf(flow, materialised, operand, at), depth, cols


def _leaf(flow: Flow, materialised: set[str], value: Value, at: Coordinates) -> Leaf:
    """The value behind plain views, and the coordinates there of an element at `at`."""
    while True:
        node = flow.producers.get(value.name)
        lower = lowering(node) if node is not None and value.name not in materialised else None
        if node is None or not isinstance(lower, View) or lower.inside is not None:
            return value.name, at
        value, at = node.inputs[0], indices(lower.index(node, at))


def loads_often(node: Node) -> bool:
    return isinstance(lowering(node), Special)


def joined_operands(flow: Flow) -> set[str]:
    """The joined operands none of whose parts is in memory anyway.

    Where one is, storing it once more would move its bytes for nothing: products then load each
    element from the part it is in.
    """

    follow_products = _follow_products(flow)

    def is_in_memory(value: Value, join: Node) -> bool:
        if any(loads_often(n) for n in flow.readers(value, lambda n: moves(n) and n is not join)):
            return True
        value = behind_views(value, flow.producers)
        node = flow.producers.get(value.name)
        computed = node is not None and (computes_by_element(node) or moves(node))
        return not computed or value.name in follow_products

    def is_stored(join: Node) -> bool:
        is_operand = any(map(loads_often, flow.readers(join.output)))
        return is_operand and not any(is_in_memory(value, join) for value in join.inputs)

    joins = (node for node in flow.graph.nodes if isinstance(lowering(node), Join))
    return {node.output.name for node in joins if is_stored(node)}


def _follow_products(flow: Flow) -> set[str]:
    """Names of products and of values that their kernels can compute from them and store."""
    names: set[str] = set()
    for node in flow.graph.nodes:
        if node.op == "matmul":
            names.add(node.output.name)
        elif keeps_order(node) or isinstance(lowering(node), Pointwise):
            size = node.output.type.size
            if any(v.name in names and v.type.size == size for v in node.inputs):
                names.add(node.output.name)
    return names
