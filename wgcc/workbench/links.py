"""Which lines of a program the lines of its kernels come from.

Kernels call their variables after ops (`square_0`) and number their bindings (`x0`): walked in the
order in which it is computed, what a dispatch makes says which op each variable belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wgcc.compiler import Compiled
from wgcc.ir.graph import Graph, Node
from wgcc.ir.loops import bodies
from wgcc.schedule.kernel import Dispatch

# Places by name: of a binding the one, of an op those of its uses, in order.
Links = dict[str, list[str]]


def kernel_links(compiled: Compiled) -> dict[str, Links]:
    """The places of each kernel's variables, named without their numbers, and of its bindings."""
    names = {kernel: file.name for file in compiled.planned.kernels for kernel in file.kernels}
    links: dict[str, Links] = {}
    for entry, scheduled in compiled.schedule.entries.items():
        producers = _producers(compiled.program.entries[entry])
        for dispatch in scheduled.dispatches:
            for launch in dispatch.launches.values():
                name = names.get(launch.kernel)
                if name is not None and name not in links:
                    bindings = [binding.name for binding in launch.kernel.bindings]
                    links[name] = _links_of(dispatch, bindings, producers)
    return links


def _producers(graph: Graph) -> dict[str, Node]:
    nodes = (node for each in (graph, *bodies(graph)) for node in each.nodes)
    return {value.name: node for node in nodes for value in node.outputs}


def _links_of(dispatch: Dispatch, bindings: list[str], producers: Mapping[str, Node]) -> Links:
    bound = {
        shown.split(" ", 1)[0]: name for name, shown in zip(bindings, dispatch.shows, strict=False)
    }
    links: Links = {}
    for value, name in bound.items():
        node = producers.get(value)
        if node is not None and node.span is not None:
            links[name] = [node.span.place]
    made = [name for each in dispatch.made for name in each.names]
    for node in _nodes_of(made, set(bound) - set(made), producers):
        links.setdefault(node.op, []).append(node.span.place if node.span else "")
    return links


def _nodes_of(made: list[str], loaded: set[str], producers: Mapping[str, Node]) -> Iterator[Node]:
    """The nodes that a dispatch computes, operands first."""
    known = set[int]()
    stack = [(name, False) for name in reversed(made)]
    while stack:
        name, is_ready = stack.pop()
        node = producers.get(name)
        if node is None or id(node) in known:
            continue
        if is_ready:
            known.add(id(node))
            yield node
        else:
            stack.append((name, True))
            operands = (value.name for value in reversed(node.inputs))
            stack += [(operand, False) for operand in operands if operand not in loaded]
