"""Graphs inside nodes, how many rounds a loop has, and loops as `scan`.

Only what its condition depends on is computed to count the rounds of a `Loop`. Of a `scan` one
round is traced, with values that stand for any round's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from wgcc.from_onnx.context import Given, OnnxOp, leaf
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.literals import literal
from wgcc.from_onnx.model_file import initialisers
from wgcc.from_onnx.names import word
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import (
    Computed,
    Operand,
    Round,
    Statement,
    Stored,
    Traced,
    Writer,
    flat,
    plain_order,
)
from wgcc.lazy_numpy import np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, call, type_expr

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Trace

Values: TypeAlias = dict[str, Operand]


def check_body(graph: Any, inputs: int, least_outputs: int) -> None:
    """A round must take what it is given, and give the states of the next one."""
    if len(graph.input) != inputs:
        raise CannotImport(f"its body has {len(graph.input)} inputs, and is given {inputs}")
    if len(graph.output) < least_outputs:
        raise CannotImport(
            f"its body has {len(graph.output)} outputs, and needs at least {least_outputs}"
        )


def run_inner(tracer: Trace, graph: Any, values: Values, given: Sequence[Operand]) -> list[Operand]:
    """The outputs of an inner graph, which sees the values around it."""
    outputs = [port.name for port in graph.output]
    by_name = run_nodes(tracer, graph, graph.node, outputs, values, given)
    return [by_name[name] for name in outputs]


def run_nodes(
    tracer: Trace,
    graph: Any,
    nodes: Sequence[Any],
    outputs: Sequence[str],
    values: Values,
    given: Sequence[Operand],
) -> Mapping[str, Operand]:
    """The values that some nodes of an inner graph compute, by name."""
    inner = dict(values)
    inner |= {name: Stored(array) for name, array in initialisers(graph).items()}
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
def apart(tracer: Trace, own: set[str]) -> Iterator[Writer]:
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
        problem = tracer.problems[0] if tracer.problems else None
        reason = (
            f"{problem.node}: {problem.operator}: {problem.reason}" if problem else error.reason
        )
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


def own_weights(tracer: Trace, graph: Any) -> set[str]:
    """Names that one place of an inner graph reads, and no other; none for nested graphs."""
    if tracer.depth:
        return set()
    once = {name for name, count in reads(graph).items() if count == 1}
    return {name for name in once if tracer.uses[name] == 2}


def sees_values(graph: Any, values: Values, given: Sequence[Operand]) -> bool:
    """Whether anything that an inner graph reads is computed at run time."""
    outside = [values.get(name) for name in reads(graph)]
    return any(not isinstance(item, Stored) for item in (*outside, *given) if item is not None)


MOST_COUNTED = 10_000
TRUE = Stored(np.array(True))
# The first two inputs of a body are its counter and its condition, which comes out first.
COUNTER, FIRST_STATE = 0, 2


def rounds_of(tracer: Trace, op: OnnxOp, values: Values, carried: Sequence[Operand]) -> int:
    limit = int(op.constant(0, "number of rounds").reshape(-1)[0]) if op.has(0) else None
    if op.has(1) and not _is_true(op.operand(1)):
        return 0
    body = op.attributes["body"]
    nodes, states = _condition(body)
    with apart(tracer, set()):
        if not states and not _reads(nodes, body.input[COUNTER].name):
            return _endless(tracer, body, nodes, values, limit)
        return _count_rounds(tracer, body, nodes, states, values, carried, limit)


def _is_true(condition: Operand) -> bool:
    if not isinstance(condition, Stored):
        raise CannotImport(f"its condition is computed at run time (`{condition.name}`)")
    return bool(condition.array.reshape(-1)[0])


def _reads(nodes: Sequence[Any], name: str) -> bool:
    return bool(count_uses(nodes, ())[name])


def _condition(body: Any) -> tuple[list[Any], list[int]]:
    """The nodes that the condition of the next round depends on, and the states they read."""
    ports = [port.name for port in body.input][FIRST_STATE:]
    wanted = {body.output[0].name}
    states: list[int] = []
    while True:
        nodes = _nodes_for(body, wanted)
        read = {place for place, name in enumerate(ports) if _reads(nodes, name) or name in wanted}
        new = sorted(read.difference(states))
        if not new:
            return nodes, states
        states += new
        wanted |= {body.output[1 + place].name for place in new}


def _nodes_for(body: Any, wanted: set[str]) -> list[Any]:
    alive, nodes = set(wanted), []
    for node in reversed(body.node):
        if alive.intersection(node.output):
            nodes.append(node)
            alive.update(count_uses([node], ()))
    return nodes[::-1]


def _endless(
    tracer: Trace, body: Any, nodes: Sequence[Any], values: Values, limit: int | None
) -> int:
    """A condition that is the same in every round."""
    given = [Stored(np.array(0, np.int64)), TRUE]
    name = body.output[0].name
    by_name = run_nodes(tracer, body, nodes, [name], values, given)
    goes_on = _is_true(by_name[name])
    if goes_on and limit is None:
        raise CannotImport("it never ends")
    if limit is None:
        return 1
    return max(0, limit if goes_on else min(1, limit))


def _count_rounds(
    tracer: Trace,
    body: Any,
    nodes: Sequence[Any],
    states: Sequence[int],
    values: Values,
    carried: Sequence[Operand],
    limit: int | None,
) -> int:
    known: list[Operand] = [item if place in states else TRUE for place, item in enumerate(carried)]
    if not all(isinstance(item, Stored) for item in known):
        raise CannotImport("its condition is computed at run time")
    outputs = [body.output[0].name, *(body.output[1 + place].name for place in states)]
    done, goes_on = 0, True
    while goes_on and (limit is None or done < limit):
        if done == MOST_COUNTED:
            raise CannotImport(f"its condition is true for more than {MOST_COUNTED:,} rounds")
        given = [Stored(np.array(done, np.int64)), TRUE, *known]
        by_name = run_nodes(tracer, body, nodes, outputs, values, given)
        goes_on, done = _is_true(by_name[outputs[0]]), done + 1
        for place, name in zip(states, outputs[1:], strict=True):
            known[place] = by_name[name]
    return done


@dataclass(frozen=True, slots=True)
class OnnxLoop:
    """A loop. `over` is what it runs along, `items` one of it; `leading` are operands in front.

    Of what a round gives, the first `ignored` are neither states nor results.
    """

    graph: Any
    states: Sequence[Operand]
    over: Sequence[Operand | ast.Expr]
    items: Sequence[Computed]
    count: int
    leading: Sequence[Operand] = ()
    ignored: int = 0
    # `axis` and `reverse` of `scan`, and the axis of the rounds in what is stacked.
    is_reversed: bool = False
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """A traced round: `states` has what each one was assumed to be."""

    writer: Writer
    states: Sequence[Operand]
    after: Sequence[Operand]
    results: Sequence[Operand]

    def is_same(self, place: int) -> bool:
        """Whether a round leaves this state as it is."""
        before, after = self.states[place], self.after[place]
        if isinstance(before, Stored) and isinstance(after, Stored):
            return before.array.dtype == after.array.dtype and np.array_equal(
                before.array, after.array
            )
        return before is after


def as_scan(tracer: Trace, op: OnnxOp, values: Values, rounds: OnnxLoop) -> list[Operand]:
    """The last states, and the results of all rounds; `CannotImport` if rounds differ."""
    rounds = replace(rounds, states=[op.with_order(item, None) for item in rounds.states])
    known = {place for place, item in enumerate(rounds.states) if isinstance(item, Stored)}
    while True:
        trial = _trial(tracer, op, values, rounds, known)
        changed = {place for place in known if not trial.is_same(place)}
        if not changed:
            break
        known -= changed
    _check_types(rounds, trial)
    return _write_scan(op, rounds, trial)


def _trial(tracer: Trace, op: OnnxOp, values: Values, rounds: OnnxLoop, known: set[int]) -> Trial:
    states: list[Operand] = []
    for place, (item, port) in enumerate(zip(rounds.states, _state_ports(rounds), strict=True)):
        states.append(item if place in known else _stand_in(item, port.name))
    lead, items = rounds.leading, list(rounds.items)
    given = [*items, *lead, *states] if rounds.ignored else [*lead, *states, *items]
    with apart(tracer, own_weights(tracer, rounds.graph)) as writer:
        outputs = run_inner(tracer, rounds.graph, values, given)[rounds.ignored :]
        inner = replace(op, writer=writer, scope=(), node="")
        own = {value for item in flat(writer.traced.statements) for value in item.outputs}
        own |= {value for value in given if isinstance(value, Computed)}
        after = [
            item if item is state or isinstance(state, Stored) else _own(inner, item, own)
            for item, state in zip(outputs, states, strict=False)
        ]
        results = [_own(inner, item, own) for item in outputs[len(states) :]]
    return Trial(writer, states, after, results)


def _state_ports(rounds: OnnxLoop) -> Sequence[Any]:
    ports = list(rounds.graph.input)
    if rounds.ignored:
        return ports[len(rounds.items) + len(rounds.leading) :]
    return ports[: len(rounds.states)]


def _stand_in(item: Operand, name: str) -> Computed:
    return Computed(item.dtype, item.shape, plain_order(item.shape), word(name), element_of(item))


def _own(op: OnnxOp, item: Operand, own: set[Computed]) -> Computed:
    """A value of the round itself, in plain order."""
    plain = op.with_order(item, None)
    if isinstance(plain, Computed) and (plain in own or plain is not item):
        return plain
    part: Given = op.part(plain) if plain.shape or isinstance(plain, Computed) else _number(plain)
    value = Computed(plain.dtype, plain.shape, plain_order(plain.shape), op.name)
    op.emit_many("{0}", part, values=(value,))
    return value


def _number(item: Operand) -> ast.Expr:
    """A single number as a tensor of its type."""
    assert isinstance(item, Stored)
    tree = literal(item.array)
    return tree if item.dtype == "bool" else call(ast.Dtype(NOWHERE, item.dtype), tree)


def _check_types(rounds: OnnxLoop, trial: Trial) -> None:
    for before, after, port in zip(trial.states, trial.after, _state_ports(rounds), strict=True):
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise CannotImport(
                f"`{port.name}` is {before.dtype}{list(before.shape)} before a round and "
                f"{after.dtype}{list(after.shape)} after it"
            )


def _write_scan(op: OnnxOp, rounds: OnnxLoop, trial: Trial) -> list[Operand]:
    """The statement of the loop. What no round changes is no state of it."""
    outer, inner = op.writer, trial.writer
    outer.members.update(inner.members)
    outer.shared |= inner.shared
    outer.traced.notes[:] = inner.traced.notes
    outer.traced.remarks.update(inner.traced.remarks)
    outer.traced.layers.update(inner.traced.layers)
    kept = [place for place in range(len(trial.states)) if not trial.is_same(place)]
    statements = [*_bind_unchanged(rounds, trial), *inner.traced.statements]
    after, states = ([item for item in (held[n] for n in kept) if isinstance(item, Computed)]
                     for held in (trial.after, trial.states))  # fmt: skip
    results = [item for item in trial.results if isinstance(item, Computed)]
    body = Round(
        tuple(statements), tuple(states), tuple(rounds.items), tuple(after), tuple(results)
    )
    finals = {place: _final(op, trial.states[place], place) for place in kept}
    first = len(trial.states)
    stacks = [_stack(op, item, rounds, first + place) for place, item in enumerate(results)]
    parts = [_start(op, rounds.states[place]) for place in kept]
    over = [op.tensor(op.with_order(item, None)) if isinstance(item, Computed | Stored) else item
            for item in rounds.over]  # fmt: skip
    tree = op.call("scan", *parts, *over, axis=rounds.axis or None,
                   reverse=rounds.is_reversed or None)  # fmt: skip
    op.add(Statement((*finals.values(), *stacks), tree, op.scope, op.node, body=body))
    last = [finals.get(place, item) for place, item in enumerate(rounds.states)]
    return [*last, *stacks]


def _bind_unchanged(rounds: OnnxLoop, trial: Trial) -> Iterator[Statement]:
    """Binds states that stay as they are to their value outside the loop."""
    for place, (start, state) in enumerate(zip(rounds.states, trial.states, strict=True)):
        if isinstance(state, Computed) and isinstance(start, Computed) and trial.is_same(place):
            yield Statement((state,), leaf(start), (), "")


def _final(op: OnnxOp, state: Operand, place: int) -> Computed:
    order = plain_order(state.shape)
    return Computed(state.dtype, state.shape, order, _name(op, place, "last"), element_of(state))


def _stack(op: OnnxOp, item: Computed, rounds: OnnxLoop, place: int) -> Computed:
    axis = min(rounds.axis, len(item.shape))
    shape = (*item.shape[:axis], rounds.count, *item.shape[axis:])
    name = _name(op, place, f"{item.name}s")
    return Computed(item.dtype, shape, plain_order(shape), name, item.element)


def _name(op: OnnxOp, place: int, default: str) -> str:
    return op.names[place] if place < len(op.names) and op.names[place] else default


def _start(op: OnnxOp, item: Operand) -> Given:
    """The value of a state before the first round."""
    plain = op.with_order(item, None)
    if isinstance(plain, Computed):
        return plain
    if not plain.shape:
        return _number(plain)
    if not plain.source and not plain.array.any():
        return call("zeros", type_expr(plain.dtype, plain.shape))
    return op.part(plain)
