"""Adding rows into a table where ids say, in a fixed order and without atomics.

On a GPU one thread per element of the table looks through all ids; in the twin, where that is too
many loads, one thread per column loops over the rows once.
"""

from __future__ import annotations

from math import prod

from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.index import Index, Variable, coordinates_of, variable
from wgcc.schedule.codegen.loop_limits import loop, unrolled
from wgcc.schedule.codegen.wgsl import wgsl_type
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 64


def scatter_code(group: Group, context: Context) -> GroupCode:
    return context.code(_thread_per_element(group, context), _thread_per_column(group, context))


class _Parts:
    """What both ways share: the row an id names and the element to add, for the r-th id."""

    def __init__(self, group: Group, context: Context, column: Index) -> None:
        self.node = group.roots[0]
        g, ids = self.node.inputs
        self.rows = self.node.output.shape[0]
        self.count = ids.type.size
        self.columns = prod(self.node.output.shape[1:])
        self.emitter = Emitter(context.inlined, context.bindings())
        inner = self.emitter.open_loop(frozenset({Variable("r", max(self.count, 2))}))
        at = coordinates_of(variable("r", self.count), ids.shape)
        raw = self.emitter.at(ids, at)
        last = self.rows - 1
        unsigned = wgsl_type(ids.dtype) == "u32"
        self.row = f"min({raw}, {last}u)" if unsigned else f"u32(clamp({raw}, 0, {last}))"
        self.find_row, inner.lines = inner.lines, []
        rest = coordinates_of(column, g.shape[len(ids.shape) :])
        self.element = self.emitter.at(g, (*at, *rest))
        self.load_element = inner.lines

    def loop(self, lines: list[str], times: int) -> list[str]:
        return loop("r", "0u", "COUNT", "1u", [*self.find_row, *lines], times)

    def launch(
        self, context: Context, lines: list[str], threads: int, iterations: int = 0
    ) -> Launch:
        grid = grid_of(-(-threads // WORKGROUP))
        return context.launch(
            "loop.wgsl.jinja",
            self.emitter,
            constants={"OUTER": threads, "COUNT": self.count, "WORKGROUP": WORKGROUP},
            holes={
                "body": "\n".join(f"  {line}" for line in (*self.emitter.outer.lines, *lines)),
                "index": thread_index(grid, WORKGROUP),
            },
            workgroup=(WORKGROUP, 1, 1),
            grid=grid,
            iterations=iterations,
        )


def _thread_per_element(group: Group, context: Context) -> Launch:
    size = group.roots[0].output.type.size
    columns = prod(group.roots[0].output.shape[1:])
    o = variable("o", size)
    parts = _Parts(group, context, o % columns)
    add = [f"if ({parts.row} == {(o // columns).wgsl()}) {{"]
    add += [f"  {line}" for line in (*parts.load_element, f"total += {parts.element};")] + ["}"]
    output = parts.node.output
    store = parts.emitter.store(output, coordinates_of(o, output.shape), "total")
    times = unrolled(parts.count)
    lines = ["var total = 0.0;", *parts.loop(add, times), store]
    return parts.launch(context, lines, size, -(-parts.count // times))


def _thread_per_column(group: Group, context: Context) -> Launch:
    columns = prod(group.roots[0].output.shape[1:])
    o = variable("o", columns)
    parts = _Parts(group, context, o)
    output, bindings = parts.node.output, parts.emitter.bindings
    row = variable("row", parts.rows)
    cell = bindings.load(output, row * columns + o)
    clear = bindings.store(output, row * columns + o, "0.0")
    add = bindings.store(output, row * columns + o, f"{cell} + {parts.element}")
    lines = [
        f"for (var row = 0u; row < {parts.rows}u; row++) {{ {clear} }}",
        *parts.loop([f"let row = {parts.row};", *parts.load_element, add], 1),
    ]
    return parts.launch(context, lines, columns)
