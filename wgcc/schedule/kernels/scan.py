"""Recurrences along an axis: one thread carries the value through its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wgcc.ir.graph import Node
from wgcc.ir.index import INNER, Variable, constant, coordinates_of, reduction_space, variable
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.loop_limits import MAX_UNROLLED, loop, unrolled
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.order_keys import key_lines

WORKGROUP = 64


def scan_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(*(_launch(node, context, most, _sum) for most in (MAX_UNROLLED, 1)))


def running_best_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(*(_launch(node, context, most, _best) for most in (MAX_UNROLLED, 1)))


def _sum(node: Node, operands: Sequence[str]) -> _Step:
    factor, term = operands
    return _Step(["var h = 0.0;"], [f"h = fma({factor}, h, {term});"], "h")


def _best(node: Node, operands: Sequence[str]) -> _Step:
    """The position of the last of the greatest elements so far; NaN stays, once it is met."""
    (x,) = operands
    lines = key_lines(node.inputs[0].dtype, x, "key")
    lines.append(f"if (key >= best) {{ best = key; h = i32({INNER}); }}")
    return _Step(["var h = 0;", "var best = 0u;"], lines, "h")


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements before the loop and in each iteration, and what that stores."""

    start: list[str]
    lines: list[str]
    result: str


def _launch(
    node: Node, context: Context, most: int, rule: Callable[[Node, Sequence[str]], _Step]
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
    store = emitter.store(node.output, at, step.result)
    times = min(unrolled(space.inner), most)
    body = [
        *emitter.outer.lines,
        *step.start,
        *loop(INNER, "0u", "INNER", "1u", [*inner.lines, *step.lines, store], times),
    ]
    grid = grid_of(-(-space.outer // WORKGROUP))
    return context.launch(
        "loop.wgsl.jinja",
        emitter,
        constants={"OUTER": space.outer, "INNER": space.inner, "WORKGROUP": WORKGROUP},
        holes={
            "body": "\n".join(f"  {line}" for line in body),
            "index": thread_index(grid, WORKGROUP),
        },
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
        iterations=-(-space.inner // times),
    )
