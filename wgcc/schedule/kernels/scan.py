"""Recurrences along an axis: one thread carries the value through its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wgcc.ir.graph import Node
from wgcc.ir.index import INNER, Variable, constant, coordinates_of, reduction_space, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import counted_loop, several, statements, u32
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Expr, Name
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.limits import MAX_UNROLLED, unrolled
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.order_keys import key_of

WORKGROUP = 64


def scan_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(*(_launch(node, context, most, _sum) for most in (MAX_UNROLLED, 1)))


def running_best_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(*(_launch(node, context, most, _best) for most in (MAX_UNROLLED, 1)))


def _sum(node: Node, operands: Sequence[Expr]) -> _Step:
    factor, term = operands
    add = statements("h = fma(FACTOR, h, TERM);", FACTOR=factor, TERM=term)
    return _Step(statements("var h = 0.0;"), add)


def _best(node: Node, operands: Sequence[Expr]) -> _Step:
    """The position of the last of the greatest elements so far; NaN stays, once it is met."""
    compare = statements("if (key >= best) { best = key; h = i32(ROW); }", ROW=INNER)
    step = (*key_of(node.inputs[0].dtype, operands[0], "key"), *compare)
    return _Step(statements("var h = 0;\nvar best = 0u;"), step)


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements before the loop and in each iteration, which leaves its result in `h`."""

    start: Body
    body: Body


def _launch(
    node: Node, context: Context, most: int, rule: Callable[[Node, Sequence[Expr]], _Step]
) -> Launch:
    shape = node.output.shape
    space = reduction_space(shape, (node.attrs["axis"],))
    emitter = Emitter(context.inlined, context.bindings())
    inner = emitter.open_loop(frozenset({Variable(INNER, space.inner)}))
    position = space.position()
    if node.attrs.get("reverse"):
        backwards = constant(space.inner - 1) - variable(INNER, space.inner)
        position = position.substitute({Variable(INNER, space.inner): backwards})
    at = coordinates_of(position, shape)
    step = rule(node, [emitter.at(value, at) for value in node.inputs])
    store = emitter.store(node.output, at, Name("h"))
    times = min(unrolled(space.inner), most)
    loop = counted_loop(INNER, u32(0), Name("INNER"), (*inner.body, *step.body, store))
    body = (*emitter.outer.body, *step.start, several(loop, times))
    constants, iterations = {"INNER": space.inner}, ceil_div(space.inner, times)
    return context.launch_threads(emitter, body, space.outer, WORKGROUP, constants, iterations)
