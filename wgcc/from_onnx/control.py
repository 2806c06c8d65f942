"""Graphs inside nodes: `If` with a known condition, `Loop` and `Scan` with known rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.model_file import initialisers
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import axis_of
from wgcc.from_onnx.values import Constant, Operand
from wgcc.lazy_numpy import np

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Tracer

# Every round is written out.
MOST_ROUNDS = 64
Values = dict[str, Operand]


def run_inner(
    tracer: Tracer, graph: Any, values: Values, given: Sequence[Operand]
) -> list[Operand]:
    """The outputs of an inner graph, which sees the values around it."""
    inner = dict(values)
    inner |= {name: Constant(array) for name, array in initialisers(graph).items()}
    inner |= {port.name: item for port, item in zip(graph.input, given, strict=False)}
    before = len(tracer.problems)
    with tracer.names_of(graph.node, [port.name for port in graph.output], inner):
        tracer.walk(graph.node, inner)
    if len(tracer.problems) > before:
        raise CannotImport("nodes of its inner graph cannot be imported")
    missing = [port.name for port in graph.output if port.name not in inner]
    if missing:
        raise CannotImport(f"`{missing[0]}` of its inner graph is not computed")
    return [inner[port.name] for port in graph.output]


def branch(tracer: Tracer, op: Op, values: Values) -> list[Operand]:
    condition = op.operand(0)
    if not isinstance(condition, Constant):
        raise CannotImport("its condition is computed at run time")
    chosen = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
    return run_inner(tracer, op.attributes[chosen], values, ())


def loop(tracer: Tracer, op: Op, values: Values) -> list[Operand]:
    """A number of rounds that is known, or a condition that is known in each round."""
    body = op.attributes["body"]
    limit = int(op.constant(0, "number of rounds").reshape(-1)[0]) if op.has(0) else None
    goes_on: Operand = op.operand(1) if op.has(1) else Constant(np.array(True))
    carried = [op.operand(place) for place in range(2, len(op.inputs))]
    stacks: list[list[Operand]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    done = 0
    while (limit is None or done < limit) and _is_true(goes_on):
        if done == MOST_ROUNDS:
            raise CannotImport(f"it has more than {MOST_ROUNDS} rounds")
        given = [Constant(np.array(done, np.int64)), goes_on, *carried]
        goes_on, *found = run_inner(tracer, body, values, given)
        carried = found[: len(carried)]
        for stack, item in zip(stacks, found[len(carried) :], strict=True):
            stack.append(item)
        done += 1
    return [*carried, *(stacked(op, items, 0) for items in stacks)]


def _is_true(condition: Operand) -> bool:
    if not isinstance(condition, Constant):
        raise CannotImport("whether it goes on is computed at run time")
    return bool(condition.array.reshape(-1)[0])


def stacked(op: Op, items: Sequence[Operand], axis: int) -> Operand:
    """Results of all rounds along a new axis."""
    if not items:
        raise CannotImport("it has no round, and its stacked output is empty")
    if all(isinstance(item, Constant) for item in items):
        return Constant(
            np.stack([item.array for item in items if isinstance(item, Constant)], axis)
        )
    plain = [op.tensor(op.ordered(item, None)) for item in items]
    names = ", ".join(f"{{{place}}}" for place in range(len(plain)))
    first = items[0]
    shape = (*first.shape[:axis], len(items), *first.shape[axis:])
    return op.emit(f"stack([{names}], axis = {axis})", *plain, shape=shape, dtype=first.dtype)


def scan(tracer: Tracer, op: Op, values: Values) -> list[Operand]:
    if op.opset < 9:
        return _scan8(tracer, op, values)
    body, count = op.attributes["body"], int(op.attributes["num_scan_inputs"])
    operands = [op.operand(place) for place in range(len(op.inputs))]
    states, sequences = operands[: len(operands) - count], operands[len(operands) - count :]
    outputs = len(body.output) - len(states)
    return _rounds(
        tracer, op, values, states, sequences,
        in_axes=list(op.attribute("scan_input_axes", [0] * count)),
        backwards=list(op.attribute("scan_input_directions", [0] * count)),
        out_axes=list(op.attribute("scan_output_axes", [0] * outputs)),
        out_backwards=list(op.attribute("scan_output_directions", [0] * outputs)),
    )  # fmt: skip


def _scan8(tracer: Tracer, op: Op, values: Values) -> list[Operand]:
    """The first version had a batch in front of everything; one sample is enough here."""
    count = int(op.attributes["num_scan_inputs"])
    operands = [op.operand(place) for place in range(1, len(op.inputs))]
    if any(item.shape[0] != 1 for item in operands) or op.has(0):
        raise CannotImport("Scan of opset 8 with more than one sample")
    flat = [op.reshaped(item, item.shape[1:]) for item in operands]
    states, sequences = flat[: len(flat) - count], flat[len(flat) - count :]
    outputs = len(op.attributes["body"].output) - len(states)
    found = _rounds(tracer, op, values, states, sequences, [0] * count, [0] * count,
                    [0] * outputs, [0] * outputs)  # fmt: skip
    return [op.reshaped(item, (1, *item.shape)) for item in found]


def _rounds(
    tracer: Tracer,
    op: Op,
    values: Values,
    states: list[Operand],
    sequences: list[Operand],
    in_axes: list[int],
    backwards: list[int],
    out_axes: list[int],
    out_backwards: list[int],
) -> list[Operand]:
    body = op.attributes["body"]
    axes = [axis_of(a, len(x.shape)) for a, x in zip(in_axes, sequences, strict=True)]
    rounds = sequences[0].shape[axes[0]]
    if rounds > MOST_ROUNDS:
        raise CannotImport(f"it has {rounds} rounds; at most {MOST_ROUNDS} are written out")
    stacks: list[list[Operand]] = [[] for _ in out_axes]
    for number in range(rounds):
        items = [
            row(op, x, axis, rounds - 1 - number if turned else number)
            for x, axis, turned in zip(sequences, axes, backwards, strict=True)
        ]
        found = run_inner(tracer, body, values, [*states, *items])
        states = found[: len(states)]
        for stack, item in zip(stacks, found[len(states) :], strict=True):
            stack.append(item)
    results = []
    for items, axis, turned in zip(stacks, out_axes, out_backwards, strict=True):
        rank = len(items[0].shape) + 1
        results.append(stacked(op, items[::-1] if turned else items, axis_of(axis, rank)))
    return [*states, *results]


def row(op: Op, x: Operand, axis: int, number: int) -> Operand:
    if isinstance(x, Constant):
        return Constant(x.array.take(number, axis))
    plain = op.ordered(x, None)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return op.emit(f"{{0}}[{':, ' * axis}{number}]", plain, shape=shape, dtype=x.dtype)


CONTROL = {"If": branch, "Loop": loop, "Scan": scan}
