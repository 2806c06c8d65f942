"""Adding elements up by ids along an axis, in a fixed order and without atomics.

On a GPU one thread per sum looks through all ids that may name it; in the twin, where that is too
many loads, one thread per column loops over the ids once. For large tables ids are sorted before:
`id_sums.py`.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import Index, Variable, coordinates_of, linear, variable
from wgcc.schedule.codegen.emitter import Coordinates, Emitter, Scope
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.loop_limits import loop, unrolled
from wgcc.schedule.codegen.wgsl import wgsl_type, zero
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 64


def scatter_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(_thread_per_sum(node, context), _thread_per_column(node, context))


class _Parts:
    """What both ways share: the sum an id names and the element to add, for the r-th id.

    Sums are along `axis`; `others` are the coordinates along the other axes of the output. With
    the attribute `axis` there are ids for each of them, else the same ids for all.
    """

    def __init__(self, node: Node, context: Context, others: Coordinates) -> None:
        self.node = node
        g, ids, *base = node.inputs
        self.base = base[0] if base else None
        self.axis = axis_of(node)
        self.size = node.output.shape[self.axis]
        self.emitter = Emitter(context.inlined, context.bindings())
        by_column = "axis" in node.attrs
        self.count = ids.shape[self.axis] if by_column else ids.type.size
        inner = self.emitter.open_loop(frozenset({Variable("r", max(self.count, 2))}))
        r = variable("r", self.count)
        at = self.place(others, r) if by_column else coordinates_of(r, ids.shape)
        raw = self.emitter.at(ids, at)
        last = self.size - 1
        unsigned = wgsl_type(ids.dtype) == "u32"
        self.row = f"min({raw}, {last}u)" if unsigned else f"u32(clamp({raw}, 0, {last}))"
        self.find_row, inner.lines = inner.lines, []
        self.element = self.emitter.at(g, at if by_column else (*at, *others))
        self.load_element = inner.lines
        self.after: list[str] = []

    def place(self, others: Coordinates, along: Index) -> Coordinates:
        return (*others[: self.axis], along, *others[self.axis :])

    def with_base(self, total: str, at: Coordinates) -> str:
        """A total, or zero, added to what `base` has there; `after` are the lines it needs."""
        if self.base is None:
            return total or zero(self.node.output.dtype)
        outer, self.emitter.outer = self.emitter.outer, Scope()
        self.emitter.close_loop()
        text = self.emitter.at(self.base, at)
        self.after, self.emitter.outer = self.emitter.outer.lines, outer
        return f"{text} + {total}" if total else text

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


def axis_of(node: Node) -> int:
    return int(node.attrs.get("axis", 0))


def _thread_per_sum(node: Node, context: Context) -> Launch:
    output, axis = node.output, axis_of(node)
    at = coordinates_of(variable("o", output.type.size), output.shape)
    parts = _Parts(node, context, (*at[:axis], *at[axis + 1 :]))
    add = [f"if ({parts.row} == {at[axis].wgsl()}) {{"]
    add += [f"  {line}" for line in (*parts.load_element, f"total += {parts.element};")] + ["}"]
    store = parts.emitter.store(output, at, parts.with_base("total", at))
    times = unrolled(parts.count)
    lines = [f"var total = {zero(output.dtype)};", *parts.loop(add, times), *parts.after, store]
    return parts.launch(context, lines, output.type.size, -(-parts.count // times))


def _thread_per_column(node: Node, context: Context) -> Launch:
    output, axis = node.output, axis_of(node)
    others = (*output.shape[:axis], *output.shape[axis + 1 :])
    columns = output.type.size // output.shape[axis]
    at = coordinates_of(variable("o", columns), others)
    parts = _Parts(node, context, at)
    bindings = parts.emitter.bindings
    place = linear(parts.place(at, variable("row", parts.size)), output.shape)
    cell = bindings.load(output, place)
    start = parts.with_base("", parts.place(at, variable("row", parts.size)))
    clear = " ".join((*parts.after, bindings.store(output, place, start)))
    add = bindings.store(output, place, f"{cell} + {parts.element}")
    lines = [
        f"for (var row = 0u; row < {parts.size}u; row++) {{ {clear} }}",
        *parts.loop([f"let row = {parts.row};", *parts.load_element, add], 1),
    ]
    return parts.launch(context, lines, columns)
