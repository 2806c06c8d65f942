"""Choose which values are materialised: stored in memory, with a kernel built around each.

`RULES` is the whole decision. A value that is not materialised is computed again at each use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from wgcc.ir.graph import Node, Value
from wgcc.ir.loops import loop_of
from wgcc.ops.registry import FromIndex, Indirect, Join, Pointwise, Repeat, Special, View
from wgcc.passes.dataflow import (
    MOST_VIEWS,
    Flow,
    computes_by_element,
    in_arenas,
    is_update,
    iterations,
    keeps_order,
    lowering,
    moves,
    rearranges_axes,
)
from wgcc.schedule.fuse.group import Bound, joined_operands
from wgcc.schedule.kernel import MAX_BINDINGS, WORD

# What may be computed again at every use: few cheap operations on few tensors.
CHEAP_OPS = 5
CHEAP_LEAVES = 2
# What moving a byte of memory costs, in operations of one lane: the least of the devices of
# `wgcc/access/devices.py` (Intel Xe makes 15 multiply-adds in the time of a byte, RTX 4070 29).
OPS_PER_BYTE = 15
# What a function that is not `cheap` takes: units for exp and the like are four to eight times
# slower than those for sums, and there is arithmetic around them.
DEAR_OP = 16
# A kernel has 8 bindings; one computed value may read at most this many tensors.
MAX_LEAVES = 6
# Scales and offsets of weights of one byte.
MOST_SCALES = 3
# A value that is put among so many others is computed for each of them, for nothing.
MOST_AROUND = 4
# Longer expressions are cut, so that shader compilers stay quick.
MAX_OPS = 96
# Where joined values are joined again, kernels choose between up to so many places.
MAX_PIECES = 16


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a value is materialised, or why it is not."""

    materialised: bool
    text: str


def choose_materialised(flow: Flow, bound: Bound, compared: set[str]) -> dict[str, Reason]:
    """For every value of a graph, by name, whether it is materialised and why.

    `compared` are the values that are compared with their own extremes.
    """
    return _Chooser(flow, bound, compared).run()


@dataclass(frozen=True, slots=True)
class Tree:
    """The cost of computing an element from values in memory.

    `lone` are leaves of one element that take a binding all the same, `shared` says whether there
    are others, which share one. `effort` is the arithmetic, in cheap operations, `views` are the
    views on the longest path, `pieces` the places that elements of joined values may come from.
    """

    leaves: frozenset[str]
    lone: frozenset[str]
    ops: int
    cheap: bool
    effort: int = 0
    views: int = 0
    pieces: int = 0
    shared: bool = False

    @property
    def bindings(self) -> int:
        return len(self.leaves) + len(self.lone)


class _Choice:
    """One value, and what the rules ask about it. It is made by `node`."""

    def __init__(self, chooser: _Chooser, node: Node, value: Value) -> None:
        self._chooser, self._flow = chooser, chooser.flow
        self._node, self._value = node, value

    def is_in_arena(self) -> bool:
        return self._value.name in self._chooser.in_arenas

    def has_own_kernel(self) -> bool:
        return not (computes_by_element(self._node) or moves(self._node))

    def is_result(self) -> bool:
        return self._value.name in self._flow.results

    def is_copy(self) -> bool:
        return self._node.op == "copy"

    def starts_loop(self) -> bool:
        """Does a loop carry it? Then the loop's own memory is where it is made."""
        loops = filter(None, map(loop_of, self._flow.consumers.get(self._value.name, ())))
        return any(self._value in loop.inits for loop in loops)

    def is_compared(self) -> bool:
        return self._value.name in self._chooser.compared

    def is_far(self) -> bool:
        """Behind so many views or joins that finding its elements costs more than storing them?"""
        if not moves(self._node):
            return False
        nested = any(self._chooser.tree(operand).pieces for operand in self._node.inputs)
        return self._tree.views > MOST_VIEWS or (nested and self._tree.pieces > MAX_PIECES)

    def is_bound_cheaply(self) -> bool:
        """Views, and one cheap operation on a single tensor (a conversion), cost nothing on the
        way to a kernel that takes one binding for each operand."""
        if not self.is_bound():
            return False
        lower = lowering(self._node)
        alone = isinstance(lower, Pointwise) and len(self._node.inputs) == 1
        one_cheap_op = alone and self._tree.cheap and self._tree.ops == 1
        return not self._node.inputs or isinstance(lower, View) or one_cheap_op

    def is_bound(self) -> bool:
        return any(_takes_one_binding_each(n) for n in self._direct_readers(self._value))

    def is_joined_operand(self) -> bool:
        return self._value.name in self._chooser.joined_operands

    def is_no_computation(self) -> bool:
        return not isinstance(lowering(self._node), Pointwise | Indirect)

    def is_cheap_operand(self) -> bool:
        return self.is_operand() and self._tree.cheap and self._loads_little()

    def is_operand(self) -> bool:
        return any(isinstance(lowering(n), Special) for n in self._readers)

    def ends_product(self) -> bool:
        ends = self._value.name in self._chooser.ends_of_products
        return ends and not all(computes_by_element(n) for n in self._readers)

    def sums_product(self) -> bool:
        """Is it what a product adds to another tensor, for several readers? Each of them would
        load both again."""
        ends = self._value.name in self._chooser.ends_of_products
        large = [n for n in self._tree.leaves if self._flow.size(n) >= self._value.type.size]
        return ends and len(large) > 1 and len(self._readers) > 1

    def is_read_once(self) -> bool:
        return not self.has_several_readers() and not self.is_repeated()

    def is_light(self) -> bool:
        tree = self._tree
        return tree.cheap and tree.ops <= CHEAP_OPS and len(tree.leaves) <= CHEAP_LEAVES

    def is_worth_repeating(self) -> bool:
        """Does computing it for each reader cost less than storing it? They load what it is made
        of instead of itself, which must not be more."""
        readers, tree = len(self._readers), self._tree
        loads_as_much = len(tree.leaves) == 1 and not self.is_repeated()
        return loads_as_much and tree.effort * readers <= OPS_PER_BYTE * WORD

    def has_several_readers(self) -> bool:
        """Has it several readers, or one that reads elements more than once?

        Parts of it do not count, unless a product can make the whole.
        """
        ends = self._value.name in self._chooser.ends_of_products
        if ends and len(self._readers) > 1:
            return True
        return sum(count for _, count in self._ways) > self._value.type.size

    def is_repeated(self) -> bool:
        size = self._value.type.size
        return any(n > size or iterations(node) > MOST_AROUND * size for node, n in self._ways)

    @cached_property
    def _ways(self) -> list[tuple[Node, int]]:
        return self._flow.reads(self._value, self._chooser.passes_on)

    @cached_property
    def _readers(self) -> list[Node]:
        readers = self._flow.readers(self._value, self._chooser.passes_on)
        return list({id(node): node for node in readers}.values())

    @property
    def _tree(self) -> Tree:
        return self._chooser.trees[self._value.name]

    def _loads_little(self) -> bool:
        return len(self._tree.leaves) <= 1 or self._is_scaled() or self._is_unpacked()

    def _is_scaled(self) -> bool:
        """Is it one tensor with a factor and summand for each column, as norms make it?

        If matrix products alone read it, they load those once per row or column.
        """
        value, sizes = self._value, sorted(map(self._flow.size, self._tree.leaves))
        columns = value.shape[-1] if value.shape else 1
        per_column = len(sizes) <= 3 and all(size == columns for size in sizes[:-1])
        return per_column and columns < sizes[-1] == value.type.size and self._in_products(value)

    def _is_unpacked(self) -> bool:
        """Is it one tensor of bytes, scaled by small ones, as weights of a quantised layer are?

        Matrix products unpack and scale it while they load it: stored, it would take four times
        the memory that packing saves.
        """
        *small, large = sorted(self._tree.leaves, key=self._flow.size)
        sizes = [self._flow.size(name) for name in small]
        few = len(small) <= MOST_SCALES and all(size * 4 <= self._value.type.size for size in sizes)
        return few and large in self._flow.in_bytes and self._in_products(self._value)

    def _in_products(self, value: Value) -> bool:
        """Do only matrix products read it, as it is or transposed?"""
        readers = self._flow.readers(value, rearranges_axes)
        return all(node.op == "matmul" for node in readers)

    def _direct_readers(self, value: Value) -> Iterator[Node]:
        """The nodes that read this value itself or a view of it."""
        return self._flow.readers(value, lambda node: isinstance(lowering(node), View))


def _takes_one_binding_each(node: Node) -> bool:
    lower = lowering(node)
    return isinstance(lower, Repeat) or (isinstance(lower, Special) and not lower.inlines)


# The first rule that applies to a value decides.
RULES: tuple[tuple[Reason, Callable[[_Choice], bool]], ...] = (
    (Reason(True, "the optimizer reads it from an arena"), _Choice.is_in_arena),
    (Reason(True, "a reduction, product or update is never repeated"), _Choice.has_own_kernel),
    (Reason(True, "it is a result of the entry"), _Choice.is_result),
    (Reason(True, "it is an explicit copy"), _Choice.is_copy),
    (Reason(True, "a loop starts with it"), _Choice.starts_loop),
    (Reason(True, "it is compared with its own extreme, so rounded once"), _Choice.is_compared),
    (Reason(True, "it is behind many views or joins"), _Choice.is_far),
    (Reason(False, "its reader computes it from one binding"), _Choice.is_bound_cheaply),
    (Reason(True, "its reader binds stored operands only"), _Choice.is_bound),
    (Reason(True, "a product loads it, of parts that are nowhere else"), _Choice.is_joined_operand),
    (Reason(False, "it is a view, or depends on indices alone"), _Choice.is_no_computation),
    (Reason(False, "its reader computes it from as few loads"), _Choice.is_cheap_operand),
    (Reason(True, "its reader loads each element many times"), _Choice.is_operand),
    (Reason(True, "it is the last step of a product's epilogue"), _Choice.ends_product),
    (Reason(True, "several ops read it, and a product's kernel makes it"), _Choice.sums_product),
    (Reason(False, "it is computed where its only reader needs it"), _Choice.is_read_once),
    (Reason(False, "few cheap operations are repeated at each use"), _Choice.is_light),
    (Reason(False, "computing it again costs less than storing it"), _Choice.is_worth_repeating),
    (Reason(True, "one op reads each element many times"), _Choice.is_repeated),
    (Reason(True, "several ops read it"), _Choice.has_several_readers),
)
# Decided later than by a rule: when a reader turns out to be too large without it.
CUT = Reason(True, "an expression of its reader would be too large")


class _Chooser:
    def __init__(self, flow: Flow, bound: Bound, compared: set[str]) -> None:
        self.flow, self._bound = flow, bound
        self.compared = compared
        self.in_arenas = in_arenas(flow.graph)
        self.trees: dict[str, Tree] = {}
        self.ends_of_products: set[str] = set()
        self.joined_operands: set[str] = set()
        self._reasons: dict[str, Reason] = {}
        self._cuts = 0

    def run(self) -> dict[str, Reason]:
        for node in self.flow.graph.nodes:
            if isinstance(lowering(node), Pointwise) and self._ends_product(node):
                self.ends_of_products.add(node.output.name)
        self.joined_operands = joined_operands(self.flow)
        for node in self.flow.graph.nodes:
            if computes_by_element(node) or moves(node):
                self.trees[node.output.name] = self._cut(node, _is_large)
            for value in node.outputs:
                choice = _Choice(self, node, value)
                self._reasons[value.name] = next(r for r, applies in RULES if applies(choice))
        self._fit_bindings()
        return self._reasons

    def passes_on(self, node: Node) -> bool:
        """Does it only say where elements come from, and is not stored for its readers?"""
        return moves(node) and node.output.name not in self.joined_operands

    def _fit_bindings(self) -> None:
        """Cut what any single kernel cannot bind: operands of products are not cut before.

        A value that is cut takes a binding more where what it is made of is read, too.
        """
        before = -1
        while self._cuts > before:
            before = self._cuts
            for node in self.flow.graph.nodes:
                if computes_by_element(node) or moves(node):
                    self.trees[node.output.name] = self._combine(node)
                if not is_update(node) and any(map(self._is_stored, node.outputs)):
                    self._cut(node, partial(self._exceeds_bindings, node))

    def _exceeds_bindings(self, node: Node, tree: Tree) -> bool:
        own = [value.type.size > 1 or value.name in self._bound.alone for value in node.outputs]
        shares = tree.shared or not all(own)
        return tree.bindings + sum(own) + shares > MAX_BINDINGS

    def _is_stored(self, value: Value) -> bool:
        """Sources of the graph are; so is what was found to be materialised so far."""
        reason = self._reasons.get(value.name)
        return reason is None or reason.materialised

    def _cut(self, node: Node, is_large: Callable[[Tree], bool]) -> Tree:
        """Store the largest of what a node is computed from, until the rest is not large."""
        tree = self._combine(node)
        while is_large(tree):
            candidates = [
                candidate
                for operand in node.inputs
                for candidate in (*self._storable(operand), *self._storable_joins(operand))
            ]
            if not candidates:
                break
            largest = max(candidates, key=lambda v: (self.trees[v.name].bindings, v.name))
            self._reasons[largest.name] = CUT
            self._cuts += 1
            tree = self._combine(node)
        return tree

    def _storable(self, value: Value) -> list[Value]:
        """Values that could be stored instead of computed here; of views, those behind them."""
        if self._is_stored(value):
            return []
        node = self.flow.producers[value.name]
        if moves(node):
            return [candidate for operand in node.inputs for candidate in self._storable(operand)]
        return [] if isinstance(lowering(node), FromIndex) else [value]

    def _storable_joins(self, value: Value) -> list[Value]:
        """The join behind `value`, if there is one and storing it saves bindings."""
        if self._is_stored(value):
            return []
        node = self.flow.producers[value.name]
        if isinstance(lowering(node), Join):
            return [value] if self.tree(value).bindings > 1 else []
        return self._storable_joins(node.inputs[0]) if moves(node) else []

    def _combine(self, node: Node) -> Tree:
        parts = [self.tree(value) for value in node.inputs]
        own = 0 if moves(node) else 1
        lower = lowering(node)
        least = 1 if isinstance(lower, Join) else 0
        cheap = lower.cheap if isinstance(lower, Pointwise) else True
        effort = own if cheap else DEAR_OP
        return Tree(
            frozenset().union(*(part.leaves for part in parts)),
            frozenset().union(*(part.lone for part in parts)),
            own + sum(part.ops for part in parts),
            cheap and all(part.cheap for part in parts),
            effort + sum(part.effort for part in parts),
            1 - own + max((part.views for part in parts), default=0),
            sum(max(least, part.pieces) for part in parts),
            any(part.shared for part in parts),
        )

    def tree(self, value: Value) -> Tree:
        if self._is_stored(value):
            name, large = frozenset(self._bound.of((value.name,))), value.type.size > 1
            lone = name if not large and value.name in self._bound.alone else frozenset()
            return Tree(name if large else frozenset(), lone, 0, True, shared=not (large or lone))
        node = self.flow.producers[value.name]
        if moves(node):  # an input may have been materialised since
            return self._combine(node)
        return self.trees[value.name]

    def _ends_product(self, node: Node) -> bool:
        """Is it what a matrix product is computed for? Then the product need not be stored."""
        for operand in node.inputs:
            producer = self.flow.producers.get(operand.name)
            while producer is not None and keeps_order(producer):
                producer = self.flow.producers.get(producer.inputs[0].name)
            if producer is None or operand.type.size != node.output.type.size:
                continue
            name = producer.outputs[0].name
            ends = producer.op == "matmul" or name in self.ends_of_products
            if ends and list(self.flow.readers(producer.outputs[0])) == [node]:
                return True
        return False


def _is_large(tree: Tree) -> bool:
    return tree.bindings > MAX_LEAVES or tree.ops > MAX_OPS
