"""Matrix products that belong together become one: sums of products, and products of one tensor
with several parameters. Kernels load joined operands from where their parts are.

a @ b + c @ d is one product over the joined inner axis, so that its results are moved once, unless
an operand is unpacked from bytes while it is loaded: joined, it would have to be stored. x @ b and
x @ c, where nothing follows that one kernel could do to the results of one, load x once.

A product of which only the transpose is used is computed transposed: bᵀ @ aᵀ. The gradient of a
table that is also the output layer is one: stored as the product's rows, it would be read by
columns where it is added to the gradient of the lookups.

Join lists that grew one by one are made in a single step, so that nothing is copied again for each
part: `concat(concat(a, b), c)` becomes `concat(a, b, c)` where nothing else reads the inner one.

Gradients of weights that multiply one tensor become one product with joined columns.

xᵀ @ a and xᵀ @ b, which only the optimizer reads, load x once: their kernel stores each part of its
columns in the place of its gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.places import MAX_BINDINGS
from wgcc.ops.registry import Pointwise, ReduceMany, Update
from wgcc.passes.dataflow import Flow, behind_views, computes_by_element, lowering, moves
from wgcc.passes.prepare.split_long import parts_of
from wgcc.passes.rewrite import Rewrite

# Each takes two bindings of the eight that a kernel has, and one is for the result.
MOST = 3
# Unpacking takes about ten operations, each of few operands.
MOST_STEPS = 40
# Parts that vectors of four do not fill would be loaded one element at a time.
VECTOR = 4


def join_products(graph: Graph) -> Graph:
    return _sums_of_products(join_groups(graph, _together(Flow.of(graph)), at=0))


def _sums_of_products(graph: Graph) -> Graph:
    rewrite, flow = Rewrite(graph), Flow.of(graph)
    for node in graph.nodes:
        terms = _terms(flow, node) if node.op == "add" and not _is_term(flow, node) else []
        products = {term.name: product for term in terms if (product := _product(flow, term))}
        unpacks = any(_is_unpacked(flow, product.inputs[1]) for product in products.values())
        if _may_be_summed(products.values()) and not unpacks:
            rewrite.replace(node, lambda: [_joined_sum(rewrite, node, terms, products)])  # noqa: B023
        else:
            rewrite.keep(node)
    return rewrite.finish()


def _is_term(flow: Flow, node: Node) -> bool:
    """Is it an addition that only another one uses?"""
    return node.op == "add" and [n.op for n in _uses(flow, node.output)] == ["add"]


def _terms(flow: Flow, node: Node) -> list[Value]:
    """The terms of a sum of sums, in order."""
    pending, terms = [node.output], list[Value]()
    while pending:
        value = pending.pop()
        inner = flow.producers.get(value.name)
        if inner is not None and (inner is node or _is_term(flow, inner)):
            pending += inner.inputs[::-1]
        else:
            terms.append(value)
    return terms


def _product(flow: Flow, term: Value) -> Node | None:
    """The product that a term is, perhaps in another shape, if nothing else uses it."""
    node = flow.producers.get(term.name)
    while node is not None and len(_uses(flow, node.outputs[0])) == 1:
        if node.op == "matmul":
            return node if node.output.type.rank == 2 else None
        if node.op != "reshape":
            return None
        node = flow.producers.get(node.inputs[0].name)
    return None


def _uses(flow: Flow, value: Value) -> list[Node]:
    """The readers of a value: a result of the entry is read once more."""
    consumers = list(flow.consumers.get(value.name, ()))
    return consumers * 2 if value.name in flow.results else consumers


def _may_be_summed(products: Iterable[Node]) -> bool:
    nodes = list(products)
    shapes = {node.output.shape for node in nodes}
    inner = [node.inputs[0].shape[-1] for node in nodes]
    return 2 <= len(nodes) <= MOST and len(shapes) == 1 and fill_vectors(inner)


def _is_unpacked(flow: Flow, operand: Value) -> bool:
    """Is it computed from a tensor of bytes, by steps that a kernel does while it loads it?"""
    pending, seen = [operand.name], set[str]()
    while pending and len(seen) < MOST_STEPS:
        name = pending.pop()
        if name in flow.in_bytes:
            return True
        node = flow.producers.get(name)
        if node is not None and name not in seen and (computes_by_element(node) or moves(node)):
            pending += [value.name for value in node.inputs]
        seen.add(name)
    return False


def fill_vectors(sizes: list[int]) -> bool:
    return all(size % VECTOR == 0 for size in sizes)


def _joined_sum(
    rewrite: Rewrite, node: Node, terms: list[Value], products: dict[str, Node]
) -> Value:
    b = rewrite.builder
    parts = [rewrite.current_node(product).inputs for product in products.values()]
    left = b.apply("concat", *(a for a, _ in parts), axis=1)
    right = b.apply("concat", *(c for _, c in parts), axis=0)
    total = b.apply("matmul", left, right)
    total = b.apply("reshape", total, shape=node.output.shape)
    for term in terms:
        if term.name not in products:
            total = b.apply("add", rewrite.current(term), total)
    return total


def join_groups(graph: Graph, together: Mapping[str, list[Node]], at: int) -> Graph:
    """Computes each group of products as one, where its first (`at` 0) or last (-1) product was."""
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        products = together.get(node.outputs[0].name)
        if products is None:
            rewrite.keep(node)
        elif products[at] is node:
            for product, value in zip(products, _joined_columns(rewrite, products), strict=True):
                rewrite.put(product.output, value)
    return rewrite.finish()


def _together(flow: Flow) -> dict[str, list[Node]]:
    """For each product that is computed together with others, all of them."""
    sources = {value.name for value in flow.graph.params}
    by_operand: dict[str, list[Node]] = {}
    for node in flow.graph.nodes:
        if is_plain_product(node) and node.inputs[1].name in sources:
            by_operand.setdefault(node.inputs[0].name, []).append(node)
    by_operand = {
        n: [p for p in group if not _has_epilogue(flow, p)] for n, group in by_operand.items()
    }
    groups = (group for group in by_operand.values() if 2 <= len(group) <= MOST)
    fitting = (g for g in groups if fill_vectors([node.output.shape[1] for node in g]))
    return {node.output.name: group for group in fitting for node in group}


def is_plain_product(node: Node) -> bool:
    return node.op == "matmul" and node.output.type.rank == 2 and node.output.shape[0] > 1


def _has_epilogue(flow: Flow, product: Node) -> bool:
    """Would its kernel go on computing with its results?"""
    value = product.output
    while [node.op for node in _uses(flow, value)] == ["reshape"]:
        value = _uses(flow, value)[0].output
    uses = (*_uses(flow, value), *_uses(flow, product.output))
    return value.name in flow.results or any(isinstance(lowering(n), Pointwise) for n in uses)


def _joined_columns(rewrite: Rewrite, products: list[Node]) -> list[Value]:
    """Products with the same left operand as parts of one."""
    b, first = rewrite.builder, products[0]
    with b.at(first.span, first.output.name):
        rights = [rewrite.current(node.inputs[1]) for node in products]
        joined = b.apply("concat", *rights, axis=1)
        whole = b.apply("matmul", rewrite.current(first.inputs[0]), joined)
        return list(_columns(b, whole, [right.shape[1] for right in rights]))


def _columns(b: Builder, whole: Value, widths: list[int]) -> Iterable[Value]:
    start, rows = 0, whole.shape[0]
    for width in widths:
        yield b.apply("slice", whole, starts=(0, start), sizes=(rows, width), steps=(1, 1))
        start += width


def turn_products(graph: Graph) -> Graph:
    flow, rewrite = Flow.of(graph), Rewrite(graph)
    for old in graph.nodes:
        node, product = rewrite.current_node(old), _product_of(flow, old)
        if product is None:
            rewrite.keep(node)
        else:
            rewrite.replace(
                node, partial(_swap_operands, rewrite.builder, rewrite.current_node(product))
            )
    return rewrite.finish()


def _product_of(flow: Flow, node: Node) -> Node | None:
    """The product that this node transposes, if nothing else uses it and no product uses this."""
    if node.op != "transpose" or not _swaps_last(node.attrs["perm"]):
        return None
    value = node.inputs[0]
    product = flow.producers.get(value.name)
    if product is None or product.op != "matmul" or value.name in flow.results:
        return None
    in_products = any(reader.op == "matmul" for reader in flow.readers(node.output))
    return product if flow.consumers[value.name] == (node,) and not in_products else None


def _swaps_last(perm: Sequence[int]) -> bool:
    rank = len(perm)
    return tuple(perm) == (*range(rank - 2), rank - 1, rank - 2)


def _swap_operands(b: Builder, product: Node) -> Sequence[Value]:
    rank = len(product.output.shape)
    perm = (*range(rank - 2), rank - 1, rank - 2)
    left, right = (b.apply("transpose", value, perm=perm) for value in product.inputs)
    return [b.apply("matmul", right, left)]


def flatten_joins(graph: Graph) -> Graph:
    reads = Counter(value.name for node in graph.nodes for value in node.inputs)
    reads.update(value.name for value in graph.results)
    joins: dict[str, Node] = {}
    nodes = []
    for node in graph.nodes:
        if node.op == "concat":
            node = replace(node, inputs=tuple(_flat_parts(node, joins, reads)))
            joins[node.output.name] = node
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _flat_parts(node: Node, joins: dict[str, Node], reads: Counter[str]) -> Iterator[Value]:
    """Earlier joins are flat already."""
    for value in node.inputs:
        inner = joins.get(value.name)
        if inner and reads[value.name] == 1 and inner.attrs["axis"] == node.attrs["axis"]:
            yield from inner.inputs
        else:
            yield value


def join_gradients(graph: Graph) -> Graph:
    return join_groups(graph, _products_of_one_tensor(Flow.of(graph)), at=-1)


def _products_of_one_tensor(flow: Flow) -> dict[str, list[Node]]:
    """For each gradient that is computed together with others, all of them."""
    by_operand: dict[str, list[Node]] = {}
    for node in flow.graph.nodes:
        if is_plain_product(node) and _is_gradient(flow, node) and parts_of(node) == 1:
            by_operand.setdefault(node.inputs[0].name, []).append(node)
    places = {id(node): place for place, node in enumerate(flow.graph.nodes)}
    groups = [
        g for products in by_operand.values() for g in _before_readers(flow, products, places)
    ]
    return {node.output.name: group for group in groups if _fit(flow, group) for node in group}


def _before_readers(
    flow: Flow, products: list[Node], places: Mapping[int, int]
) -> list[list[Node]]:
    """Products that are all computed before one of them is read: an update may come in between.

    `places` of nodes in the graph, by their ids.
    """
    groups: list[list[Node]] = []
    first_reader = 0
    for product in products:
        if not groups or places[id(product)] > first_reader:
            groups.append([])
            first_reader = len(places)
        groups[-1].append(product)
        readers = [places[id(reader)] for reader in flow.consumers[product.output.name]]
        first_reader = min(first_reader, *readers)
    return groups


def _is_gradient(flow: Flow, node: Node) -> bool:
    """Do only updates, and reductions over all gradients, read it?"""
    readers = flow.consumers.get(node.output.name, ())
    are_last = all(isinstance(lowering(reader), Update | ReduceMany) for reader in readers)
    return bool(readers) and are_last and node.output.name not in flow.results


def _fit(flow: Flow, products: list[Node]) -> bool:
    """May one kernel compute them? Each takes two of its bindings.

    A product with a bias gradient beside it adds up the columns of its own operand alone.
    """
    if not 2 <= len(products) <= MOST:
        return False
    leaves = _leaves(flow, products[0].inputs[0])
    widths = [node.output.shape[1] for node in products]
    is_small = 2 * len(products) + leaves <= MAX_BINDINGS
    return is_small and fill_vectors(widths) and not any(_is_summed(flow, p) for p in products)


def _leaves(flow: Flow, value: Value) -> int:
    """How many tensors are bound for an operand: itself and those that scale it, as norms do."""
    node = _maker(flow, value)
    if node is None or not isinstance(lowering(node), Pointwise):
        return 1
    scales = [operand for operand in node.inputs if _maker(flow, operand) is None]
    others = [operand for operand in node.inputs if operand not in scales]
    if not scales or len(others) > 1:
        return 1
    return len(scales) + sum(_leaves(flow, operand) for operand in others)


def _maker(flow: Flow, value: Value) -> Node | None:
    """The node that computes what a value is a view of; a parameter has none."""
    return flow.producers.get(behind_views(value, flow.producers).name)


def _is_summed(flow: Flow, product: Node) -> bool:
    value = behind_views(product.inputs[1], flow.producers)
    return any(reader.op == "sum" for reader in flow.readers(value))
