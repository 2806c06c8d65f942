"""repeat(*inits, *xs, *captured; body, rounds, reverse) -> (*carries, *stacks): a loop.

`body` is the graph of one round: see `wgcc/ir/loops.py`. The gradient is another loop, which
`wgcc/passes/loop_gradient.py` builds. `recompute` asks it for less memory:

- 1: it computes values of a round again from the carries;
- 2: also products of inputs, and it adds up gradients of weights round by round.
"""

from __future__ import annotations

from typing import Any

from wgcc.ir.graph import Graph, TensorType
from wgcc.ir.loops import stack_type
from wgcc.ops.registry import Op, Repeat, ShapeError


def infer(
    *inputs: TensorType, body: Graph, rounds: int, reverse: bool, recompute: int = 0
) -> tuple[TensorType, ...]:
    if rounds < 1:
        raise ShapeError(f"repeat needs at least one round, not {rounds}")
    _check_form(body)
    if len(inputs) != len(body.state) + len(body.inputs) - 1:
        raise ShapeError("repeat needs an input for each carry, slice and captured value")
    _check_inputs(inputs, body, rounds)
    carries = tuple(value.type for value in body.state)
    return (*carries, *(stack_type(value.type, rounds) for value in body.outputs.values()))


def _check_form(body: Graph) -> None:
    if body.params or body.range_flag or body.entry.trains:
        raise ShapeError("the body of repeat has parameters, a range guard or an optimizer")
    if not body.inputs or body.inputs[0].type != TensorType((), "u32"):
        raise ShapeError("the first input of a body is the index, a u32")
    if list(body.writes) != [value.name for value in body.state]:
        raise ShapeError("a body writes each of its carries, in order")
    if not body.state and not body.outputs:
        raise ShapeError("repeat has no results")


def _check_inputs(inputs: tuple[TensorType, ...], body: Graph, rounds: int) -> None:
    for type_, carry in zip(inputs, body.state, strict=False):
        if type_ != carry.type:
            raise ShapeError(f"the carry {carry} is {carry.type}, but starts as {type_}")
    only_captured = False
    for type_, inner in zip(inputs[len(body.state) :], body.inputs[1:], strict=True):
        if type_ == inner.type:
            only_captured = True
        elif only_captured or type_ != stack_type(inner.type, rounds):
            raise ShapeError(f"{type_} cannot be read as {inner}: {inner.type}")


def reference(*arrays: Any, **attrs: Any) -> Any:
    raise NotImplementedError("wgcc/evaluate.py runs the bodies of loops")


OPS = (Op("repeat", infer, reference, Repeat()),)
