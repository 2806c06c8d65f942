"""Runs a workgroup of a kernel, with all lanes in step. Long loops are sampled."""

from __future__ import annotations

from wgcc.access.expressions import Frame, Machine
from wgcc.access.values import FLOAT, MAYBE, Ids, Value, choose, integers_of, words, zero_of
from wgcc.kernel.tree import (
    Assign,
    Element,
    Expr,
    FunctionDef,
    If,
    Let,
    Loop,
    Member,
    Name,
    Return,
    Run,
    Statement,
    counting_head,
    root_of,
)
from wgcc.lazy_numpy import Array, np

# Of a longer loop, so many iterations stand for all: the first two, one in the middle, the last.
SAMPLES = 4
# Loops whose length is unknown end after so many iterations.
MOST_ITERATIONS = 40


def run_workgroup(machine: Machine, size: tuple[int, ...], group: tuple[int, int, int]) -> None:
    """Runs `main` of one workgroup; `machine` counts what it does."""
    x, y, _ = size
    index = np.arange(machine.lanes, dtype=np.uint32)
    lane = (index % x, index // x % y, index // (x * y))
    at = tuple(np.uint32(n) for n in group)
    builtins = {
        "@local_invocation_index": index,
        "@local_invocation_id": lane,
        "@workgroup_id": at,
        "@global_invocation_id": tuple(
            np.uint32(g * s) + own for g, s, own in zip(group, size, lane, strict=True)
        ),
        "@subgroup_size": np.uint32(32),
        "@subgroup_invocation_id": index % np.uint32(32),
    }
    machine.mask = np.ones(machine.lanes, bool)
    machine.call = lambda function, values: _call(machine, function, values)
    machine.start()
    main = machine.module.functions["main"]
    with np.errstate(all="ignore"):
        _call(machine, main, [builtins[kind] for _, kind in main.params])


def _call(machine: Machine, function: FunctionDef, values: list[Value]) -> Value:
    outer, mask = getattr(machine, "frame", None), machine.mask
    names = (name for name, _ in function.params)
    scope = dict(zip(names, values, strict=True))
    machine.frame = frame = Frame([scope], np.zeros(machine.lanes, bool))
    _block(machine, function.body)
    machine.mask = mask
    if outer is not None:
        machine.frame = outer
    return frame.result


def _block(machine: Machine, statements: tuple[Statement, ...]) -> None:
    machine.frame.scopes.append({})
    for statement in statements:
        if not machine.mask.any():
            break
        _statement(machine, statement)
    machine.frame.scopes.pop()


def _statement(machine: Machine, statement: Statement) -> None:
    match statement:
        case Let():
            _let(machine, statement)
        case Assign(target, value):
            _assign(machine, target, machine.value(value))
        case If(condition, then, other):
            _if(machine, machine.value(condition), then, other)
        case Loop():
            _loop(machine, statement)
        case Return(value):
            frame = machine.frame
            returned = None if value is None else machine.value(value)
            frame.result = choose(_where(machine), returned, frame.result)
            frame.gone = frame.gone | machine.mask
            machine.mask = machine.mask & ~frame.gone
        case Run(call):
            machine.value(call)


def _let(machine: Machine, statement: Let) -> None:
    if statement.value is None:
        assert statement.kind is not None
        value = zero_of(statement.kind, machine.length_of(statement.kind))
    else:
        value = machine.value(statement.value)
    if isinstance(value, int):
        kind = statement.kind or "i32"
        value = np.int64(value).astype(np.uint32 if kind == "u32" else np.int32)
    machine.frame.scopes[-1][statement.name] = value
    taken = max(machine.registers.get(id(statement), 0), words(value))
    machine.registers[id(statement)] = taken


def _where(machine: Machine) -> Array | bool:
    return True if machine.mask.all() else machine.mask


def _assign(machine: Machine, target: Expr, value: Value) -> None:
    if isinstance(target, Name) and target.name == "_":
        return
    root = root_of(target)
    assert isinstance(root, Name)
    scope = next((s for s in reversed(machine.frame.scopes) if root.name in s), None)
    if scope is None:
        machine.store(target, value)
        return
    old = scope[root.name]
    if isinstance(target, Name):
        if isinstance(value, int):
            value = np.int64(value).astype(old.dtype)
        scope[root.name] = choose(_where(machine), value, old)
    elif isinstance(target, Member | Element) and target.whole is root:
        # Deeper parts hold floats, which never matter.
        scope[root.name] = _with_part(machine, old, target, value)


def _with_part(machine: Machine, old: Value, target: Member | Element, value: Value) -> Value:
    if isinstance(old, dict):
        return old
    if isinstance(target, Member):
        index: Value = "xyzw".index(target.field[0])
    else:
        index = machine.value(target.index)
    if getattr(index, "ndim", 0) or isinstance(index, Ids) or index is FLOAT:
        return old
    parts, at = list(old), int(index) % len(old)
    parts[at] = choose(_where(machine), value, parts[at])
    return parts if isinstance(old, list) else tuple(parts)


def _if(
    machine: Machine, condition: Value, then: tuple[Statement, ...], other: tuple[Statement, ...]
) -> None:
    before = machine.mask
    # What depends on unknown numbers may go both ways: both are executed.
    yes = no = before
    if condition is not MAYBE:
        truth = np.broadcast_to(condition, (machine.lanes,))
        yes, no = before & truth, before & ~truth
    for mask, block in ((yes, then), (no, other)):
        machine.mask = mask & ~machine.frame.gone if condition is not MAYBE else mask
        if block and machine.mask.any():
            gone = machine.frame.gone
            _block(machine, block)
            if condition is MAYBE:
                machine.frame.gone = gone
    machine.mask = before & ~machine.frame.gone


def _loop(machine: Machine, loop: Loop) -> None:
    machine.frame.scopes.append({})
    for statement in loop.before:
        _statement(machine, statement)
    head = _head_of(machine, loop)
    before = machine.mask
    if head is None:
        _open_loop(machine, loop)
    else:
        _counted_loop(machine, loop, *head)
    machine.frame.scopes.pop()
    machine.mask = before & ~machine.frame.gone


def _head_of(machine: Machine, loop: Loop) -> tuple[str, Value, Value, Value] | None:
    """(variable, first, end, step) of `for (var i = first; i < end; i += step)`."""
    head = counting_head(loop)
    if head is None:
        return None
    name, _, end, step = head
    first, limit, stride = machine.frame.get(name), machine.value(end), machine.value(step)
    if isinstance(first, Ids) or isinstance(limit, Ids):
        return None
    return name, first, limit, stride


def _counted_loop(
    machine: Machine, loop: Loop, name: str, first: Value, end: Value, step: Value
) -> None:
    start, stride = np.asarray(first).astype(np.int64), np.int64(integers_of(step))
    trips = np.maximum(-(-(np.asarray(end).astype(np.int64) - start) // stride), 0)
    trips = np.broadcast_to(trips, (machine.lanes,))
    before, weight = machine.mask, machine.weight
    most = int(trips[before].max(initial=0))
    iterations = range(most) if most <= SAMPLES else (0, 1, most // 2, most - 1)
    machine.weight = weight * (1.0 if most <= SAMPLES else most / SAMPLES)
    for t in iterations:
        machine.mask = before & (t < trips) & ~machine.frame.gone
        if machine.mask.any():
            machine.frame.scopes[-1][name] = (start + t * stride).astype(np.asarray(first).dtype)[
                ()
            ]
            _block(machine, loop.body)
    machine.weight = weight


def _open_loop(machine: Machine, loop: Loop) -> None:
    for _ in range(MOST_ITERATIONS):
        condition = machine.value(loop.condition)
        if condition is MAYBE:
            _block(machine, loop.body)
            return
        machine.mask = machine.mask & np.broadcast_to(condition, (machine.lanes,))
        machine.mask = machine.mask & ~machine.frame.gone
        if not machine.mask.any():
            return
        _block(machine, loop.body)
        for statement in loop.after:
            _statement(machine, statement)
