"""Give every result of a graph, and every carry of a loop, a value of its own, so that the kernel
that makes it can write it in its place directly.

Results of one byte per element are written as words of four, each by one thread. A loop's carry is
in one place from before the first round until its final value was read.

Lets what is equal but for a number share kernels: such numbers become constants in memory, bound
by their addresses, where they would be numbers in a kernel each. These are what distinguishes the
random draws of equal layers, and the learning rates or weight decays of parameter groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from wgcc.evaluate import to_words
from wgcc.ir.graph import Builder, Constant, Graph, Node, TensorType, Value
from wgcc.ir.loops import loop_of, map_bodies
from wgcc.ir.places import MAX_BINDINGS
from wgcc.lazy_numpy import np
from wgcc.ops.registry import FromIndex, Join, Repeat
from wgcc.passes.dataflow import (
    form_of,
    is_update,
    lists_of,
    lowering,
    moves,
    overwrites_bytes,
    scalars_of,
)
from wgcc.passes.rewrite import builder_for

# Elements of a word.
FOUR = 4


def place_results(graph: Graph) -> Graph:
    """Copy what has no place of its own: sources, views, and values wanted in two places."""
    return map_bodies(_Placer(graph).run(), _place_results_of_body)


def _place_results_of_body(body: Graph) -> Graph:
    """A carry that stays what it is needs no place for its next value."""
    changed = {name: value for name, value in body.writes.items() if value.name != name}
    placed = place_results(replace(body, writes=changed))
    writes = {name: placed.writes.get(name, value) for name, value in body.writes.items()}
    return replace(placed, writes=writes)


class _Placer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = builder_for(graph)
        self.made = graph.producers
        self.taken: set[str] = set()
        self.first: dict[str, Value] = {}
        results = (*graph.writes.items(), *graph.outputs.items())
        self.wanted = {value.name: name for name, value in results}
        self.joined: dict[str, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.builder.nodes.append(self._with_gradients(self._with_joined(node)))
            if isinstance(lowering(node), Join) and node.output.name in self.wanted:
                copy = self._own(node.output, self.wanted[node.output.name])
                self.joined[node.output.name] = copy
        writes = {t: self._value_to_write(t, value) for t, value in self.graph.writes.items()}
        outputs = {name: self._own(value, name) for name, value in self.graph.outputs.items()}
        flag = self.graph.range_flag
        flag = self._own(flag, flag.name) if flag else None
        nodes = tuple(self.builder.nodes)
        return replace(self.graph, nodes=nodes, outputs=outputs, writes=writes, range_flag=flag)

    def _with_joined(self, node: Node) -> Node:
        """The node; joined values that are also results are read from the result's place."""
        if not any(value.name in self.joined for value in node.inputs):
            return node
        return replace(node, inputs=tuple(self.joined.get(v.name, v) for v in node.inputs))

    def _with_gradients(self, node: Node) -> Node:
        """Gradients go to their arena; what comes from another update is in one already."""
        if node.op == "flat":
            return replace(node, inputs=tuple(self._gradient(v) for v in node.inputs))
        if not is_update(node):
            return node
        lists = lists_of(node)
        gradients = {
            v.name: self.first.pop(v.name) if v.name in self.first else self._own(v, v.name)
            for v in lists.get("g", ())
            if not self._is_updated(v)
        }
        return replace(node, inputs=tuple(gradients.get(v.name, v) for v in node.inputs))

    def _gradient(self, value: Value) -> Value:
        """The gradient in its arena, for a node that reads the whole arena before the update."""
        if self._is_updated(value):
            return value
        if value.name not in self.first:
            self.first[value.name] = self._own(value, value.name)
        return self.first[value.name]

    def _value_to_write(self, target: str, value: Value) -> Value:
        return value if self._is_updated(value) else self._own(value, target)

    def _is_updated(self, value: Value) -> bool:
        return value.name in self.made and is_update(self.made[value.name])

    def _own(self, value: Value, name: str) -> Value:
        if value.name in self.joined and value.name not in self.taken:
            self.taken.add(value.name)
            return self.joined[value.name]
        node = self.made.get(value.name)
        fixed = node is None or moves(node) or is_update(node)
        if fixed or isinstance(lowering(node), FromIndex) or value.name in self.taken:  # type: ignore[arg-type]
            with self.builder.at(node.span if node else None, name):
                return self.builder.apply("copy", value, name=f"{name}.copy")
        self.taken.add(value.name)
        return value


def own_carries(graph: Graph) -> Graph:
    """Every loop gets initial carries that nothing else uses."""
    uses = Counter(value.name for node in graph.nodes for value in node.inputs)
    uses.update(value.name for value in graph.results)
    made = graph.producers
    builder = builder_for(graph)

    def is_own(value: Value) -> bool:
        return uses[value.name] == 1 and _can_be_put(made.get(value.name))

    for node in graph.nodes:
        if loop := loop_of(node):
            inits = list(loop.inits)
            for i, (value, final) in enumerate(zip(loop.inits, loop.finals, strict=True)):
                if not is_own(value):
                    with builder.at(node.span, final.name):
                        inits[i] = builder.apply("copy", value, name=f"{final.name}.start")
            node = replace(node, inputs=(*inits, *node.inputs[len(inits) :]))
        builder.nodes.append(node)
    return replace(graph, nodes=tuple(builder.nodes))


def _can_be_put(maker: Node | None) -> bool:
    """Is it computed by one kernel, which can store it anywhere?"""
    if maker is None or moves(maker) or is_update(maker):
        return False
    return not isinstance(lowering(maker), FromIndex | Repeat)


def pack_results(graph: Graph) -> Graph:
    """Results of bytes become words.

    A window that is written into a state of bytes stays as it is: its kernel merges words.
    """
    builder = builder_for(graph)
    made = graph.producers
    packed: dict[str, Value] = {}

    def words(value: Value, name: str) -> Value:
        if not value.type.is_packed or value.type.size == 1:
            return value
        if value.name not in packed:
            node = made.get(value.name)
            with builder.at(node.span if node else None, name):
                packed[value.name] = _pack(builder, value)
        return packed[value.name]

    writes = {
        name: value if overwrites_bytes(made.get(value.name), name) else words(value, name)
        for name, value in graph.writes.items()
    }
    outputs = {name: words(value, name) for name, value in graph.outputs.items()}
    nodes = (*graph.nodes, *builder.nodes)
    return replace(graph, nodes=nodes, outputs=outputs, writes=writes)


def _pack(b: Builder, value: Value) -> Value:
    size, words = value.type.size, value.type.words
    flat = b.apply("reshape", value, shape=(size,))
    if size % FOUR:
        flat = b.apply("unslice", flat, shape=(words * FOUR,), starts=(0,), steps=(1,))
    parts = [
        b.apply("slice", flat, starts=(i,), sizes=(words,), steps=(FOUR,)) for i in range(FOUR)
    ]
    return b.apply("pack", *parts)


# With so few draws, a kernel each is cheaper than the binding that a site in memory takes.
FEW_SITES = 3
# With so few updates, a kernel each is cheaper than the bindings that numbers in memory take.
FEW_UPDATES = 8
# Scalars of the step, and f16 copies of parameters, which an update may bind as well.
OTHER_BINDINGS = 2


def numbers_in_memory(graph: Graph) -> Graph:
    return _update_numbers_in_memory(_sites_in_memory(graph))


def _sites_in_memory(graph: Graph) -> Graph:
    sites = {node.attrs["site"] for node in graph.nodes if _has_fixed_site(node)}
    if len(sites) <= FEW_SITES:
        return graph
    constants = {site: _site_constant(site) for site in sorted(sites)}
    nodes = tuple(
        _with_site(node, constants[node.attrs["site"]].value) if _has_fixed_site(node) else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants.values()))


def _has_fixed_site(node: Node) -> bool:
    """In loops the site is computed from the round."""
    return node.op == "random" and len(node.inputs) == 2


def _site_constant(site: int) -> Constant:
    """Its name has a slash, so it is that of no value of the model."""
    return to_words(np.asarray(site), Value(f"rng/site/{site}", TensorType((), "u32")))


def _with_site(node: Node, site: Value) -> Node:
    return replace(node, inputs=(*node.inputs, site), attrs={**node.attrs, "site": 0})


def _update_numbers_in_memory(graph: Graph) -> Graph:
    updates = [node for node in graph.nodes if is_update(node)]
    if len(updates) <= FEW_UPDATES:
        return graph
    producers = graph.producers
    numbers = [_numbers(node, producers) for node in updates]
    shared = set.intersection(*map(set, numbers))
    moved: dict[str, Constant] = {}
    for node, reached in zip(updates, numbers, strict=True):
        own = {name: number for name, number in reached.items() if name not in shared}
        if len(form_of(node).lists) + OTHER_BINDINGS + len(own) <= MAX_BINDINGS:
            moved |= {name: _constant(number) for name, number in own.items()}
    nodes = tuple(_reading(node, moved) for node in graph.nodes if not _is_moved(node, moved))
    constants = {constant.value.name: constant for constant in moved.values()}
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants.values()))


def _numbers(update: Node, producers: Mapping[str, Node]) -> dict[str, float]:
    """The constants that the update's scalars are computed from, by name."""
    numbers: dict[str, float] = {}
    pending, seen = list(scalars_of(update).values()), set()
    while pending:
        value = pending.pop()
        node = producers.get(value.name)
        if node is None or value.shape or value.name in seen:
            continue
        seen.add(value.name)
        if node.op == "const" and value.dtype == "f32":
            numbers[value.name] = node.attrs["value"]
        pending += node.inputs
    return numbers


def _constant(number: float) -> Constant:
    """Its name has a slash, so it is that of no value of the model."""
    return to_words(np.asarray(number), Value(f"number/{number!r}", TensorType((), "f32")))


def _is_moved(node: Node, moved: Mapping[str, Constant]) -> bool:
    return len(node.outputs) == 1 and node.output.name in moved


def _reading(node: Node, moved: Mapping[str, Constant]) -> Node:
    if not any(value.name in moved for value in node.inputs):
        return node
    inputs = (moved[v.name].value if v.name in moved else v for v in node.inputs)
    return replace(node, inputs=tuple(inputs))
