"""Choose which values are materialised: stored in memory, with a kernel built around each.

Reductions, matrix products and other families of their own always are. A value computed element by
element is materialised only where storing it is cheaper than computing it again at each use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ops.registry import Indirect, Pointwise, Source, Special, View
from wgcc.schedule.dataflow import Flow, computes_by_element, iterations, lowering, moves
from wgcc.schedule.updates import bound_alone, is_update, lists_of

# What may be computed again at every use: few cheap operations on few tensors.
CHEAP_OPS = 5
CHEAP_LEAVES = 2
# A kernel has 8 bindings; one computed value may read at most this many tensors.
MAX_LEAVES = 6
# Views through which an element is still found by its row and column.
TRANSPOSING = ("reshape", "transpose")
# Longer expressions are cut, so that shader compilers stay quick.
MAX_OPS = 96


@dataclass(frozen=True, slots=True)
class Tree:
    """What it takes to compute an element from values in memory.

    `lone` are leaves of one element that take a binding all the same.
    """

    leaves: frozenset[str]
    lone: frozenset[str]
    ops: int
    cheap: bool

    @property
    def bindings(self) -> int:
        return len(self.leaves) + len(self.lone)


def choose_materialised(flow: Flow, compared: set[str]) -> set[str]:
    """The names of all materialised of a graph; `compared` are among them in any case."""
    return _Chooser(flow, compared).run()


class _Chooser:
    def __init__(self, flow: Flow, compared: set[str]) -> None:
        self.flow = flow
        self.alone = bound_alone(flow.graph)
        self.materialised: set[str] = set()
        self.trees: dict[str, Tree] = {}
        self.ends_of_products: set[str] = set()
        self.compared = compared
        outputs = (value for node in flow.graph.nodes for value in node.outputs)
        self.sizes = {v.name: v.type.size for v in (*flow.graph.sources, *outputs)}

    def run(self) -> set[str]:
        for node in self.flow.graph.nodes:
            if node.op == "flat" or is_update(node):
                tensors = node.inputs if node.op == "flat" else sum(lists_of(node).values(), ())
                made = (v.name for v in tensors if v.name in self.flow.producers)
                self.materialised.update(made)
        for node in self.flow.graph.nodes:
            if not (computes_by_element(node) or moves(node)):
                self.materialised.update(value.name for value in node.outputs)
                continue
            if isinstance(lowering(node), Pointwise) and self._ends_product(node):
                self.ends_of_products.add(node.output.name)
            tree = self._grown(node)
            self.trees[node.output.name] = tree
            if node.output.name in self.materialised or self._kept(node, tree):
                self.materialised.add(node.output.name)
        return self.materialised

    def _grown(self, node: Node) -> Tree:
        tree = self._combined(node)
        while tree.bindings > MAX_LEAVES or tree.ops > MAX_OPS:
            candidates = [v for operand in node.inputs for v in self._computed(operand)]
            if not candidates:
                break
            largest = max(candidates, key=lambda v: (self.trees[v.name].bindings, v.name))
            self.materialised.add(largest.name)
            tree = self._combined(node)
        return tree

    def _computed(self, value: Value) -> list[Value]:
        """What could be kept instead of computed here: not views, but what they look at."""
        node = self.flow.producers.get(value.name)
        if node is None or value.name in self.materialised:
            return []
        if moves(node):
            return [found for operand in node.inputs for found in self._computed(operand)]
        return [] if isinstance(lowering(node), Source) else [value]

    def _combined(self, node: Node) -> Tree:
        parts = [self._tree(value) for value in node.inputs]
        own = 0 if moves(node) else 1
        lower = lowering(node)
        cheap = lower.cheap if isinstance(lower, Pointwise) else True
        return Tree(
            frozenset().union(*(part.leaves for part in parts)),
            frozenset().union(*(part.lone for part in parts)),
            own + sum(part.ops for part in parts),
            cheap and all(part.cheap for part in parts),
        )

    def _tree(self, value: Value) -> Tree:
        node = self.flow.producers.get(value.name)
        if node is None or value.name in self.materialised:
            name, large = frozenset({value.name}), value.type.size > 1
            lone = name if not large and value.name in self.alone else frozenset()
            return Tree(name if large else frozenset(), lone, 0, True)
        if moves(node):  # an input may have been materialised since
            return self._combined(node)
        return self.trees[value.name]

    def _kept(self, node: Node, tree: Tree) -> bool:
        value = node.output
        if value.name in self.flow.results or node.op == "copy" or value.name in self.compared:
            return True
        if any(_takes_one_binding_each(n) for n in self._direct_readers(value)):
            return bool(node.inputs) and not _needs_one_binding(node, tree)
        if moves(node) or not isinstance(lowering(node), Pointwise | Indirect):
            return False
        readers = list(dict.fromkeys(id(n) for n in self.flow.readers(value)))
        nodes = {id(n): n for n in self.flow.readers(value)}
        if any(isinstance(lowering(n), Special) for n in nodes.values()):
            return not (tree.cheap and (len(tree.leaves) <= 1 or self._is_scaled(value, tree)))
        light = tree.cheap and tree.ops <= CHEAP_OPS and len(tree.leaves) <= CHEAP_LEAVES
        ends = value.name in self.ends_of_products
        if ends and not all(computes_by_element(n) for n in nodes.values()):
            return True
        repeated = any(iterations(nodes[i]) > value.type.size for i in readers)
        return (len(readers) > 1 or repeated) and not light

    def _is_scaled(self, value: Value, tree: Tree) -> bool:
        """Is it one tensor with a factor and summand for each column, as norms make it?

        If matrix products alone read it, they load those once per row or column.
        """
        sizes = sorted(self.sizes[name] for name in tree.leaves)
        columns = value.shape[-1] if value.shape else 1
        per_column = len(sizes) <= 3 and all(size == columns for size in sizes[:-1])
        return per_column and columns < sizes[-1] == value.type.size and self._in_products(value)

    def _in_products(self, value: Value) -> bool:
        """Do only matrix products read it, as it is or turned?"""
        return all(
            self._in_products(node.output) if node.op in TRANSPOSING else node.op == "matmul"
            for node in self.flow.consumers.get(value.name, ())
        )

    def _ends_product(self, node: Node) -> bool:
        """Is it what a matrix product is computed for? Then the product itself need not be kept."""
        for operand in node.inputs:
            producer = self.flow.producers.get(operand.name)
            while producer is not None and producer.op == "reshape":
                producer = self.flow.producers.get(producer.inputs[0].name)
            if producer is None or operand.type.size != node.output.type.size:
                continue
            name = producer.outputs[0].name
            ends = producer.op == "matmul" or name in self.ends_of_products
            if ends and list(self.flow.readers(producer.outputs[0])) == [node]:
                return True
        return False

    def _direct_readers(self, value: Value) -> Iterator[Node]:
        """What reads this value itself or a view of it."""
        for node in self.flow.consumers.get(value.name, ()):
            if isinstance(lowering(node), View):
                yield from self._direct_readers(node.output)
            else:
                yield node


def _takes_one_binding_each(node: Node) -> bool:
    lower = lowering(node)
    return isinstance(lower, Special) and not lower.inlines


def _needs_one_binding(node: Node, tree: Tree) -> bool:
    """Views, and one cheap operation on a single tensor (a conversion), cost nothing on the way."""
    lower = lowering(node)
    alone = isinstance(lower, Pointwise) and len(node.inputs) == 1
    return isinstance(lower, View) or (alone and tree.cheap and tree.ops == 1)
