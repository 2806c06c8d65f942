"""Graphs inside nodes: what they read, and their outputs for given inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from wgcc.from_onnx.model_file import initialisers
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Constant, Operand, Traced, Writer

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Tracer

Values: TypeAlias = dict[str, Operand]


def check_body(graph: Any, inputs: int, least_outputs: int) -> None:
    """A round must take what it is given, and give the states of the next one."""
    if len(graph.input) != inputs:
        raise CannotImport(f"its body has {len(graph.input)} inputs, and is given {inputs}")
    if len(graph.output) < least_outputs:
        raise CannotImport(
            f"its body has {len(graph.output)} outputs, and needs at least {least_outputs}"
        )


def run_inner(
    tracer: Tracer, graph: Any, values: Values, given: Sequence[Operand]
) -> list[Operand]:
    """The outputs of an inner graph, which sees the values around it."""
    outputs = [port.name for port in graph.output]
    found = run_nodes(tracer, graph, graph.node, outputs, values, given)
    return [found[name] for name in outputs]


def run_nodes(
    tracer: Tracer,
    graph: Any,
    nodes: Sequence[Any],
    outputs: Sequence[str],
    values: Values,
    given: Sequence[Operand],
) -> Mapping[str, Operand]:
    """What some nodes of an inner graph compute."""
    inner = dict(values)
    inner |= {name: Constant(array) for name, array in initialisers(graph).items()}
    inner |= {port.name: item for port, item in zip(graph.input, given, strict=False)}
    before = len(tracer.problems)
    with tracer.names_of(nodes, outputs, inner):
        tracer.walk(nodes, inner)
    if len(tracer.problems) > before:
        raise CannotImport("nodes of its inner graph cannot be imported")
    missing = [name for name in outputs if name not in inner]
    if missing:
        raise CannotImport(f"`{missing[0]}` of its inner graph is not computed")
    return inner


@contextmanager
def apart(tracer: Tracer, own: set[str]) -> Iterator[Writer]:
    """Statements go to a list of their own; nothing is left of nodes that cannot be imported.

    `own` are initialisers that only this part of the graph reads, once.
    """
    outer, problems = tracer.writer, tracer.problems
    said = {text: dict(names) for text, names in outer.traced.remarks.items()}
    traced = Traced(notes=[*outer.traced.notes], layers=dict(outer.traced.layers), remarks=said)
    tracer.problems = []
    tracer.writer = Writer(
        traced, outer.shared - own, dict(outer.members), dict(outer.orders), dict(outer.made_by),
        set(outer.used_once), outer.keeps_batch_norm, outer.stored,
    )  # fmt: skip
    try:
        yield tracer.writer
    except CannotImport as error:
        found = tracer.problems[0] if tracer.problems else None
        reason = f"{found.node}: {found.operator}: {found.reason}" if found else error.reason
        raise CannotImport(reason) from None
    finally:
        tracer.writer, tracer.problems = outer, problems


def count_uses(nodes: Any, outputs: Iterable[str]) -> Counter[str]:
    """How many nodes read each name; outputs, and what inner graphs read, count as several."""
    uses = Counter(name for node in nodes for name in node.input)
    for name in outputs:
        uses[name] += 2
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                uses.update(dict.fromkeys(reads(attribute.g), 2))
    return uses


def reads(graph: Any) -> Counter[str]:
    return count_uses(graph.node, [port.name for port in graph.output])


def own_weights(tracer: Tracer, graph: Any) -> set[str]:
    """What is read at one place of an inner graph, and nowhere else; by none inside that."""
    if tracer.depth:
        return set()
    once = {name for name, count in reads(graph).items() if count == 1}
    return {name for name in once if tracer.uses[name] == 2}


def sees_values(graph: Any, values: Values, given: Sequence[Operand]) -> bool:
    """Whether anything that an inner graph reads is computed at run time."""
    outside = [values.get(name) for name in reads(graph)]
    return any(not isinstance(item, Constant) for item in (*outside, *given) if item is not None)
