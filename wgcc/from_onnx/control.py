"""Nodes with graphs inside: `If` with a known condition, `Loop` and `Scan` with known rounds.

Loops become `scan`. Those whose rounds differ, and those that can be computed now, are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.loops import (
    FIRST_STATE,
    OnnxLoop,
    Values,
    as_scan,
    check_body,
    own_weights,
    rounds_of,
    run_inner,
    sees_values,
)
from wgcc.from_onnx.names import word
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import at_axis, axis_of
from wgcc.from_onnx.values import Computed, Operand, Stored, plain_order
from wgcc.lazy_numpy import np
from wgcc.schedule.limits import MAX_RUN
from wgcc.syntax.templates import fill_form

if TYPE_CHECKING:
    from wgcc.from_onnx.trace import Trace

# Of rounds that differ, so many are written out; of those that are computed now, more.
MOST_ROUNDS = 64
MOST_KNOWN_ROUNDS = 4096
INT64 = 7


def branch(tracer: Trace, op: OnnxOp, values: Values) -> list[Operand]:
    condition = op.operand(0)
    if not isinstance(condition, Stored):
        return _both(tracer, op, values, condition)
    chosen = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
    graph = op.attributes[chosen]
    tracer.writer.shared -= own_weights(tracer, graph)
    return run_inner(tracer, graph, values, ())


def _both(tracer: Trace, op: OnnxOp, values: Values, condition: Computed) -> list[Operand]:
    """Both branches are computed, and one is chosen, if their results are alike."""
    try:
        sides = [
            run_inner(tracer, op.attributes[name], values, ())
            for name in ("then_branch", "else_branch")
        ]
    except CannotImport as error:
        raise CannotImport(f"{error.reason}{_remedy(op, condition)}") from None
    outputs: list[Operand] = []
    chosen = op.reshape(condition, ())
    for a, b in zip(*sides, strict=True):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            text = f"is computed at run time (`{condition.name}`), and its branches give"
            raise CannotImport(
                f"its condition {text} {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
                f"{_remedy(op, condition)}"
            )
        parts = [op.tensor(op.with_order(item, None)) if item.shape else item for item in (a, b)]
        outputs.append(op.emit("where({0}, {1}, {2})", chosen, *parts))
    op.remark("both branches are computed, and one is chosen")
    return outputs


def _remedy(op: OnnxOp, condition: Computed) -> str:
    """A condition that depends on single numbers alone is known if these are."""
    inputs = {value: name for name, value in op.writer.traced.inputs.items()}
    names: dict[str, None] = {}
    waiting, seen = [condition], {condition}
    while waiting:
        value = waiting.pop()
        made = op.writer.made_by.get(value)
        if value in inputs:
            names[inputs[value]] = None
        elif made is None:
            return ""
        new = {part for part in (made.parts if made else ()) if isinstance(part, Computed)} - seen
        waiting += new
        seen |= new
    if not names or any(op.writer.traced.inputs[name].shape not in ((), (1,)) for name in names):
        return ""
    given = " ".join(f"--input {name}=NUMBER" for name in names)
    return f"; only the branch that is taken is imported if its condition is known: {given}"


def loop(tracer: Trace, op: OnnxOp, values: Values) -> list[Operand]:
    """A number of rounds that is known, or follows from what is known."""
    body = op.attributes["body"]
    carried = [op.operand(place) for place in range(2, len(op.inputs))]
    check_body(body, FIRST_STATE + len(carried), 1 + len(carried))
    count = rounds_of(tracer, op, values, carried)
    # Each round runs at least one kernel.
    if count > MAX_RUN:
        raise CannotImport(f"it has {count:,} rounds; at most {MAX_RUN:,} can be run")
    going_on = Stored(np.array(True))

    def unroll() -> list[Operand]:
        return _written_out(tracer, op, values, carried, count)

    if count < 2 or not sees_values(body, values, carried):
        return _write_out(count, MOST_KNOWN_ROUNDS, unroll)
    counter = Computed("i32", (), (), "i", INT64)
    over = fill_form("0..{0}", count)
    rounds = OnnxLoop(body, carried, [over], [counter], count, [going_on], ignored=1)
    return _scan_or(unroll, tracer, op, values, rounds)


def _write_out(
    count: int, most: int, unroll: Callable[[], list[Operand]], why: str = ""
) -> list[Operand]:
    if count > most:
        raise CannotImport(f"it has {count} rounds; at most {most} are written out{why}")
    return unroll()


def _scan_or(
    unroll: Callable[[], list[Operand]],
    tracer: Trace,
    op: OnnxOp,
    values: Values,
    rounds: OnnxLoop,
) -> list[Operand]:
    try:
        return as_scan(tracer, op, values, rounds)
    except CannotImport as error:
        outputs = _write_out(rounds.count, MOST_ROUNDS, unroll, f", and no `scan`: {error.reason}")
        name = op.node or op.name
        op.note(f"{name}: {rounds.count} rounds are written out: {error.reason}")
        return outputs


def _written_out(
    tracer: Trace, op: OnnxOp, values: Values, carried: list[Operand], count: int
) -> list[Operand]:
    body = op.attributes["body"]
    stacks: list[list[Operand]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    for number in range(count):
        given = [Stored(np.array(number, np.int64)), Stored(np.array(True)), *carried]
        _, *outputs = run_inner(tracer, body, values, given)
        carried = outputs[: len(carried)]
        for stack, item in zip(stacks, outputs[len(carried) :], strict=True):
            stack.append(item)
    return [*carried, *(stack_rounds(op, items, 0) for items in stacks)]


def stack_rounds(op: OnnxOp, items: Sequence[Operand], axis: int) -> Operand:
    """Stacks the results of all rounds along a new axis."""
    if not items:
        raise CannotImport("it has no round, and its stacked output is empty")
    if all(isinstance(item, Stored) for item in items):
        return Stored(np.stack([item.array for item in items if isinstance(item, Stored)], axis))
    plain = [op.tensor(op.with_order(item, None)) for item in items]
    return op.emit("stack({0}, axis = {1})", plain, axis)


def scan(tracer: Trace, op: OnnxOp, values: Values) -> list[Operand]:
    if op.opset < 9:
        return _scan8(tracer, op, values)
    operands = [op.operand(place) for place in range(len(op.inputs))]
    states, sequences = _states_and_sequences(op, operands)
    count, outputs = len(sequences), len(op.attributes["body"].output) - len(states)
    return _over_sequences(
        tracer, op, values, states, sequences,
        in_axes=_per_sequence(op, "scan_input_axes", count),
        backwards=_per_sequence(op, "scan_input_directions", count),
        out_axes=_per_sequence(op, "scan_output_axes", outputs),
        out_backwards=_per_sequence(op, "scan_output_directions", outputs),
    )  # fmt: skip


def _states_and_sequences(
    op: OnnxOp, operands: list[Operand]
) -> tuple[list[Operand], list[Operand]]:
    count = int(op.attribute("num_scan_inputs", 0))
    if not 1 <= count <= len(operands):
        raise CannotImport(f"num_scan_inputs is {count}, and it has {len(operands)} operands")
    first = len(operands) - count
    check_body(op.attributes["body"], len(operands), first)
    return operands[:first], operands[first:]


def _per_sequence(op: OnnxOp, name: str, count: int) -> list[int]:
    """Axes or directions: one for each."""
    numbers = [int(number) for number in op.attribute(name, [0] * count)]
    if len(numbers) != count:
        raise CannotImport(f"{name} has {len(numbers)} numbers for {count} sequences")
    if name.endswith("directions") and not {*numbers} <= {0, 1}:
        raise CannotImport(f"{name} is {numbers}; directions are 0 and 1")
    return numbers


def _scan8(tracer: Trace, op: OnnxOp, values: Values) -> list[Operand]:
    """The first version had a batch in front of everything; one sample is enough here."""
    operands = [op.operand(place) for place in range(1, len(op.inputs))]
    if any(item.shape[:1] != (1,) for item in operands) or op.has(0):
        raise CannotImport("Scan of opset 8 with more than one sample")
    flat = [op.reshape(item, item.shape[1:]) for item in operands]
    states, sequences = _states_and_sequences(op, flat)
    count, outputs = len(sequences), len(op.attributes["body"].output) - len(states)
    flat_outputs = _over_sequences(tracer, op, values, states, sequences, [0] * count, [0] * count,
                            [0] * outputs, [0] * outputs)  # fmt: skip
    return [op.reshape(item, (1, *item.shape)) for item in flat_outputs]


def _over_sequences(
    tracer: Trace,
    op: OnnxOp,
    values: Values,
    states: list[Operand],
    sequences: list[Operand],
    in_axes: list[int],
    backwards: list[int],
    out_axes: list[int],
    out_backwards: list[int],
) -> list[Operand]:
    """All of them along one axis, and in one direction: others are moved before and after."""
    body = op.attributes["body"]
    axes = [_axis(a, len(x.shape)) for a, x in zip(in_axes, sequences, strict=True)]
    lengths = [x.shape[axis] for axis, x in zip(axes, sequences, strict=True)]
    count = lengths[0]
    if len(set(lengths)) > 1:
        raise CannotImport(f"its sequences have different lengths: {lengths}")
    common = axes[0] if {*axes, *out_axes} == {axes[0]} else 0
    is_reversed = all(backwards)
    over = [
        _flip(op, _move_axis(op, x, axis, common), common) if back and not is_reversed
        else _move_axis(op, x, axis, common)
        for x, axis, back in zip(sequences, axes, backwards, strict=True)
    ]  # fmt: skip
    ports = body.input[len(states) :]
    items = [_item(x, common, port.name) for x, port in zip(over, ports, strict=True)]
    rounds = OnnxLoop(body, states, over, items, count, is_reversed=is_reversed, axis=common)
    known = not sees_values(body, values, [*states, *sequences])

    def unroll() -> list[Operand]:
        return _rows_written_out(tracer, op, values, rounds, is_reversed)

    if count < 2 or known:
        outputs = _write_out(count, MOST_KNOWN_ROUNDS, unroll)
    else:
        outputs = _scan_or(unroll, tracer, op, values, rounds)
    results = []
    for item, axis, back in zip(outputs[len(states) :], out_axes, out_backwards, strict=True):
        wanted = _flip(op, item, common) if bool(back) != is_reversed else item
        results.append(_move_axis(op, wanted, common, _axis(axis, len(item.shape))))
    return [*outputs[: len(states)], *results]


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise CannotImport(f"it runs along axis {axis} of a tensor with {rank} axes")
    return axis_of(axis, rank)


def _move_axis(op: OnnxOp, x: Operand, axis: int, place: int) -> Operand:
    """The tensor with one axis at another place."""
    if axis == place:
        return x
    axes = [other for other in range(len(x.shape)) if other != axis]
    axes.insert(place, axis)
    return op.transpose(x, axes)


def _flip(op: OnnxOp, x: Operand, axis: int) -> Operand:
    if isinstance(x, Stored):
        return Stored(np.flip(x.array, axis))
    plain = op.with_order(x, None)
    return op.emit("flip({0}, axis = {1})", plain, axis)


def _item(x: Operand, axis: int, name: str) -> Computed:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return Computed(x.dtype, shape, plain_order(shape), word(name), element_of(x))


def _rows_written_out(
    tracer: Trace, op: OnnxOp, values: Values, rounds: OnnxLoop, is_reversed: bool
) -> list[Operand]:
    states = list(rounds.states)
    stacks: list[list[Operand]] = [[] for _ in range(len(rounds.graph.output) - len(states))]
    for number in reversed(range(rounds.count)) if is_reversed else range(rounds.count):
        items = [row(op, x, rounds.axis, number) for x in rounds.over
                 if isinstance(x, Computed | Stored)]  # fmt: skip
        outputs = run_inner(tracer, rounds.graph, values, [*states, *items])
        states = outputs[: len(states)]
        for stack, item in zip(stacks, outputs[len(states) :], strict=True):
            stack.append(item)
    return [
        *states,
        *(stack_rounds(op, items[::-1] if is_reversed else items, rounds.axis) for items in stacks),
    ]


def row(op: OnnxOp, x: Operand, axis: int, number: int) -> Operand:
    if isinstance(x, Stored):
        return Stored(x.array.take(number, axis))
    plain = op.with_order(x, None)
    return op.index(plain, at_axis(axis, number))


CONTROL = {"If": branch, "Loop": loop, "Scan": scan}
