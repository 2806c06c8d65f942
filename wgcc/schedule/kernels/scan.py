"""Recurrences along an axis: one thread carries the value through its row."""

from __future__ import annotations

from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.index import Variable, constant, coordinates_of, variable
from wgcc.schedule.codegen.loop_limits import MAX_UNROLLED, loop, unrolled
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.fuse.iteration_space import INNER, reduction_space
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 64


def scan_code(group: Group, context: Context) -> GroupCode:
    return context.code(_launch(group, context, MAX_UNROLLED), _launch(group, context, 1))


def _launch(group: Group, context: Context, most: int) -> Launch:
    node = group.roots[0]
    shape = node.output.shape
    space = reduction_space(shape, (node.attrs["axis"],))
    emitter = Emitter(context.inlined, context.bindings())
    inner = emitter.open_loop(frozenset({Variable(INNER, space.inner)}))
    position = space.position()
    if node.attrs["reverse"]:
        backwards = constant(space.inner - 1) - variable(INNER, space.inner)
        position = position.substitute({Variable(INNER, space.inner): backwards})
    at = coordinates_of(position, shape)
    factor, term = (emitter.at(value, at) for value in node.inputs)
    store = emitter.store(node.output, at, "h")
    step, times = (
        [*inner.lines, f"h = fma({factor}, h, {term});", store],
        min(unrolled(space.inner), most),
    )
    body = [
        *emitter.outer.lines,
        "var h = 0.0;",
        *loop(INNER, "0u", "INNER", "1u", step, times),
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
