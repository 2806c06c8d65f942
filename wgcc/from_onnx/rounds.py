"""How many rounds a `Loop` has: only what its condition depends on is computed, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.inner_graphs import Values, apart, count_uses, run_nodes
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Constant, Operand
from wgcc.lazy_numpy import np

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Tracer

MOST_COUNTED = 10_000
TRUE = Constant(np.array(True))
# The first two inputs of a body are its counter and its condition, which comes out first.
COUNTER, FIRST_STATE = 0, 2


def rounds_of(tracer: Tracer, op: Op, values: Values, carried: Sequence[Operand]) -> int:
    limit = int(op.constant(0, "number of rounds").reshape(-1)[0]) if op.has(0) else None
    if op.has(1) and not _is_true(op.operand(1)):
        return 0
    body = op.attributes["body"]
    nodes, states = _condition(body)
    with apart(tracer, set()):
        if not states and not _reads(nodes, body.input[COUNTER].name):
            return _endless(tracer, body, nodes, values, limit)
        return _counted(tracer, body, nodes, states, values, carried, limit)


def _is_true(condition: Operand) -> bool:
    if not isinstance(condition, Constant):
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
    alive, found = set(wanted), []
    for node in reversed(body.node):
        if alive.intersection(node.output):
            found.append(node)
            alive.update(count_uses([node], ()))
    return found[::-1]


def _endless(
    tracer: Tracer, body: Any, nodes: Sequence[Any], values: Values, limit: int | None
) -> int:
    """A condition that is the same in every round."""
    given = [Constant(np.array(0, np.int64)), TRUE]
    name = body.output[0].name
    found = run_nodes(tracer, body, nodes, [name], values, given)
    goes_on = _is_true(found[name])
    if goes_on and limit is None:
        raise CannotImport("it never ends")
    if limit is None:
        return 1
    return max(0, limit if goes_on else min(1, limit))


def _counted(
    tracer: Tracer,
    body: Any,
    nodes: Sequence[Any],
    states: Sequence[int],
    values: Values,
    carried: Sequence[Operand],
    limit: int | None,
) -> int:
    known: list[Operand] = [item if place in states else TRUE for place, item in enumerate(carried)]
    if not all(isinstance(item, Constant) for item in known):
        raise CannotImport("its condition is computed at run time")
    outputs = [body.output[0].name, *(body.output[1 + place].name for place in states)]
    done, goes_on = 0, True
    while goes_on and (limit is None or done < limit):
        if done == MOST_COUNTED:
            raise CannotImport(f"its condition is true for more than {MOST_COUNTED:,} rounds")
        given = [Constant(np.array(done, np.int64)), TRUE, *known]
        found = run_nodes(tracer, body, nodes, outputs, values, given)
        goes_on, done = _is_true(found[outputs[0]]), done + 1
        for place, name in zip(states, outputs[1:], strict=True):
            known[place] = found[name]
    return done
