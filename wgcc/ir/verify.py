"""Checks the invariants that `graph.py` states; run after every pass in tests.

It knows no op: the shape rules are arguments, as for the builder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from wgcc.ir.graph import Graph, InferTypes, Node, TensorType, Value
from wgcc.ir.loops import all_names, loop_of, values_of
from wgcc.ir.program import ModelTensor, Program


class GraphError(Exception):
    """A pass broke an invariant: a bug of wgcc, never a mistake of the user."""


def verify(graph: Graph, infer: InferTypes, forbidden: Collection[str] = ()) -> None:
    """Raise `GraphError` with all problems; `forbidden` ops must have been replaced."""
    problems = [*_problems(graph, infer, forbidden)]
    if problems:
        raise GraphError(f"graph {graph.name}:\n" + "\n".join(problems))


def verify_program(program: Program, infer: InferTypes, forbidden: Collection[str] = ()) -> None:
    """`verify` each entry, and that all entries agree with the program about shared tensors."""
    for graph in program.entries.values():
        verify(graph, infer, forbidden)
        problems = [
            *_misfits("parameter", graph.params, program.params),
            *_misfits("state", graph.state, program.state),
        ]
        if problems:
            raise GraphError(f"graph {graph.name}:\n" + "\n".join(problems))


def _problems(
    graph: Graph, infer: InferTypes, forbidden: Collection[str], taken: Collection[str] = ()
) -> Iterator[str]:
    """`taken` are the names of other graphs of the same entry, if `graph` is the body of a loop."""
    known: dict[str, TensorType] = {}
    if taken:
        yield from (
            f"{value} has the name of another value"
            for value in values_of(graph)
            if value.name in taken
        )
    yield from _define(graph.sources, known)
    for node in graph.nodes:
        yield from _misuses(node, node.inputs, known)
        yield from _type_problems(node, infer)
        if node.op in forbidden:
            yield f"{_describe(node)} should have been replaced by now"
        yield from _define(node.outputs, known)
    for name, value in graph.outputs.items():
        yield from _misuses(f"output {name}", (value,), known)
    for name, value in graph.writes.items():
        yield from _misuses(f"the write of {name}", (value,), known)
    if graph.range_flag:
        yield from _misuses("the range guard", (graph.range_flag,), known)
    yield from _miswritten(graph)
    yield from _in_bodies(graph, infer, forbidden, taken)


def _in_bodies(
    graph: Graph, infer: InferTypes, forbidden: Collection[str], taken: Collection[str]
) -> Iterator[str]:
    loops = [loop for node in graph.nodes if (loop := loop_of(node))]
    if not loops:
        return
    names = {*taken, *(value.name for value in values_of(graph))}
    for loop in loops:
        where = f"in the loop that makes {_names(loop.node)}: "
        yield from (where + text for text in _problems(loop.body, infer, forbidden, names))
        names.update(all_names(loop.body))


def _define(values: Iterable[Value], known: dict[str, TensorType]) -> Iterator[str]:
    for value in values:
        if value.name in known:
            yield f"{value} is defined twice"
        known[value.name] = value.type


def _misuses(
    user: str | Node, values: Iterable[Value], known: Mapping[str, TensorType]
) -> Iterator[str]:
    """A node is described only where it is wrong: thousands of others are not."""
    for value in values:
        type_ = known.get(value.name)
        if type_ is value.type:
            continue
        if type_ is None:
            yield f"{_describe(user)} uses {value} before it is defined"
        elif type_ != value.type:
            yield f"{_describe(user)} takes {value} for {value.type}, but it is {type_}"


def _type_problems(node: Node, infer: InferTypes) -> Iterator[str]:
    types = infer(node.op, tuple(value.type for value in node.inputs), node.attrs)
    if types != tuple(value.type for value in node.outputs):
        yield f"{node.op} gives {', '.join(map(str, types))}, but {_names(node)} says otherwise"


def _miswritten(graph: Graph) -> Iterator[str]:
    kept = {value.name: value.type for value in (*graph.params, *graph.state)}
    for name, value in graph.writes.items():
        if name not in kept:
            yield f"{name} is written, but it is neither a parameter nor state of this entry"
        elif value.type not in (kept[name], _as_words(kept[name])):
            yield f"{name} is {kept[name]}, but {value.type} is written to it"


def _as_words(type_: TensorType) -> TensorType:
    """The type that scheduling writes to a tensor of bytes: whole words."""
    return TensorType((type_.words,), "u32") if type_.is_packed else type_


def _misfits(
    kind: str, values: Iterable[Value], tensors: Mapping[str, ModelTensor]
) -> Iterator[str]:
    for value in values:
        if value.name not in tensors:
            yield f"{value} is no {kind} of the program"
        elif tensors[value.name].type != value.type:
            yield f"{kind} {value} is {tensors[value.name].type}, not {value.type}"


def _describe(user: str | Node) -> str:
    return user if isinstance(user, str) else f"{user.op}, which makes {_names(user)},"


def _names(node: Node) -> str:
    return ", ".join(f"{value}: {value.type}" for value in node.outputs)
