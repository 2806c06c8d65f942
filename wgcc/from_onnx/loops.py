"""`Loop` and `Scan` as `scan`: one round is traced, with values that stand for any round's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wgcc.from_onnx.context import Given, Op, leaf
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.inner_graphs import Values, apart, own_weights, run_inner
from wgcc.from_onnx.literals import literal
from wgcc.from_onnx.names import word
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import (
    Body,
    Constant,
    Operand,
    Statement,
    Value,
    Writer,
    flat,
    plain_order,
)
from wgcc.lazy_numpy import np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, call, typed

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Tracer


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop. `over` is what it runs along, `items` one of it; `leading` are operands in front.

    Of what a round gives, the first `ignored` are neither states nor results.
    """

    graph: Any
    states: Sequence[Operand]
    over: Sequence[Operand | ast.Expr]
    items: Sequence[Value]
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
        if isinstance(before, Constant) and isinstance(after, Constant):
            return before.array.dtype == after.array.dtype and np.array_equal(
                before.array, after.array
            )
        return before is after


def as_scan(tracer: Tracer, op: Op, values: Values, rounds: Rounds) -> list[Operand]:
    """The last states, and the results of all rounds; `CannotImport` if rounds differ."""
    rounds = replace(rounds, states=[op.ordered(item, None) for item in rounds.states])
    known = {place for place, item in enumerate(rounds.states) if isinstance(item, Constant)}
    while True:
        trial = _trial(tracer, op, values, rounds, known)
        changed = {place for place in known if not trial.is_same(place)}
        if not changed:
            break
        known -= changed
    _check_types(rounds, trial)
    return _written(op, rounds, trial)


def _trial(tracer: Tracer, op: Op, values: Values, rounds: Rounds, known: set[int]) -> Trial:
    states: list[Operand] = []
    for place, (item, port) in enumerate(zip(rounds.states, _state_ports(rounds), strict=True)):
        states.append(item if place in known else _stand_in(item, port.name))
    lead, items = rounds.leading, list(rounds.items)
    given = [*items, *lead, *states] if rounds.ignored else [*lead, *states, *items]
    with apart(tracer, own_weights(tracer, rounds.graph)) as writer:
        found = run_inner(tracer, rounds.graph, values, given)[rounds.ignored :]
        inner = replace(op, writer=writer, scope=(), node="")
        own = {value for item in flat(writer.traced.statements) for value in item.outputs}
        own |= {value for value in given if isinstance(value, Value)}
        after = [
            item if item is state or isinstance(state, Constant) else _own(inner, item, own)
            for item, state in zip(found, states, strict=False)
        ]
        results = [_own(inner, item, own) for item in found[len(states) :]]
    return Trial(writer, states, after, results)


def _state_ports(rounds: Rounds) -> Sequence[Any]:
    ports = list(rounds.graph.input)
    if rounds.ignored:
        return ports[len(rounds.items) + len(rounds.leading) :]
    return ports[: len(rounds.states)]


def _stand_in(item: Operand, name: str) -> Value:
    return Value(item.dtype, item.shape, plain_order(item.shape), word(name), element_of(item))


def _own(op: Op, item: Operand, own: set[Value]) -> Value:
    """A value of the round itself, in plain order."""
    plain = op.ordered(item, None)
    if isinstance(plain, Value) and (plain in own or plain is not item):
        return plain
    part: Given = op.part(plain) if plain.shape or isinstance(plain, Value) else _number(plain)
    return op.emit("{0}", part, shape=plain.shape, dtype=plain.dtype)


def _number(item: Operand) -> ast.Expr:
    """A single number as a tensor of its type."""
    assert isinstance(item, Constant)
    tree = literal(item.array)
    return tree if item.dtype == "bool" else call(ast.Dtype(NOWHERE, item.dtype), tree)


def _check_types(rounds: Rounds, trial: Trial) -> None:
    for before, after, port in zip(trial.states, trial.after, _state_ports(rounds), strict=True):
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise CannotImport(
                f"`{port.name}` is {before.dtype}{list(before.shape)} before a round and "
                f"{after.dtype}{list(after.shape)} after it"
            )


def _written(op: Op, rounds: Rounds, trial: Trial) -> list[Operand]:
    """The statement of the loop. What no round changes is no state of it."""
    outer, inner = op.writer, trial.writer
    outer.members.update(inner.members)
    outer.shared |= inner.shared
    outer.traced.notes[:] = inner.traced.notes
    outer.traced.remarks.update(inner.traced.remarks)
    outer.traced.layers.update(inner.traced.layers)
    kept = [place for place in range(len(trial.states)) if not trial.is_same(place)]
    statements = [*_unchanged(rounds, trial), *inner.traced.statements]
    after, states = ([item for item in (held[n] for n in kept) if isinstance(item, Value)]
                     for held in (trial.after, trial.states))  # fmt: skip
    results = [item for item in trial.results if isinstance(item, Value)]
    body = Body(tuple(statements), tuple(states), tuple(rounds.items), tuple(after), tuple(results))
    finals = {place: _final(op, trial.states[place], place) for place in kept}
    first = len(trial.states)
    stacks = [_stack(op, item, rounds, first + place) for place, item in enumerate(results)]
    parts = [_start(op, rounds.states[place]) for place in kept]
    over = [op.tensor(op.ordered(item, None)) if isinstance(item, Value | Constant) else item
            for item in rounds.over]  # fmt: skip
    tree = op.call("scan", *parts, *over, axis=rounds.axis or None,
                   reverse=rounds.is_reversed or None)  # fmt: skip
    op.add(Statement((*finals.values(), *stacks), tree, op.scope, op.node, body=body))
    last = [finals.get(place, item) for place, item in enumerate(rounds.states)]
    return [*last, *stacks]


def _unchanged(rounds: Rounds, trial: Trial) -> Iterator[Statement]:
    """States that stay as they are have the value from outside."""
    for place, (start, state) in enumerate(zip(rounds.states, trial.states, strict=True)):
        if isinstance(state, Value) and isinstance(start, Value) and trial.is_same(place):
            yield Statement((state,), leaf(start), (), "")


def _final(op: Op, state: Operand, place: int) -> Value:
    order = plain_order(state.shape)
    return Value(state.dtype, state.shape, order, _name(op, place, "last"), element_of(state))


def _stack(op: Op, item: Value, rounds: Rounds, place: int) -> Value:
    axis = min(rounds.axis, len(item.shape))
    shape = (*item.shape[:axis], rounds.count, *item.shape[axis:])
    name = _name(op, place, f"{item.name}s")
    return Value(item.dtype, shape, plain_order(shape), name, item.element)


def _name(op: Op, place: int, default: str) -> str:
    return op.names[place] if place < len(op.names) and op.names[place] else default


def _start(op: Op, item: Operand) -> Given:
    """What a state is before the first round."""
    plain = op.ordered(item, None)
    if isinstance(plain, Value):
        return plain
    if not plain.shape:
        return _number(plain)
    if not plain.source and not plain.array.any():
        return call("zeros", typed(plain.dtype, plain.shape))
    return op.part(plain)
