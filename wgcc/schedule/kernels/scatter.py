"""Adding elements up by ids along an axis, in a fixed order and without atomics.

On a GPU one thread per sum looks through all ids that may name it; in the twin, where that is too
many loads, one thread per column loops over the ids once. For large tables ids are sorted before:
`id_sums.py`.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import Index, Variable, coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import counted_loop, let, several, statements, u32
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Binary, Expr, Name, Statement
from wgcc.schedule.codegen.emitter import Coordinates, Emitter, Scope
from wgcc.schedule.codegen.limits import unrolled
from wgcc.schedule.codegen.terms import clamped, expr_of, zero
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
        self.row = clamped(self.emitter.at(ids, at), self.size - 1, ids.dtype)
        self.find_row, inner.body = inner.body, []
        self.element = self.emitter.at(g, at if by_column else (*at, *others))
        self.load_element = inner.body
        self.after: list[Statement] = []

    def place(self, others: Coordinates, along: Index) -> Coordinates:
        return (*others[: self.axis], along, *others[self.axis :])

    def with_base(self, total: Expr | None, at: Coordinates) -> Expr:
        """A total, or zero, added to what `base` has there, `after` some statements."""
        if self.base is None:
            return total or zero(self.node.output.dtype)
        outer, self.emitter.outer = self.emitter.outer, Scope()
        self.emitter.close_loop()
        old = self.emitter.at(self.base, at)
        self.after, self.emitter.outer = self.emitter.outer.body, outer
        return Binary("+", old, total) if total else old

    def loop(self, body: Body, times: int) -> Statement:
        own = (*self.find_row, *body)
        return several(counted_loop("r", u32(0), Name("COUNT"), own), times)

    def launch(self, context: Context, body: Body, threads: int, iterations: int = 0) -> Launch:
        constants, body = {"COUNT": self.count}, (*self.emitter.outer.body, *body)
        return context.launch_threads(self.emitter, body, threads, WORKGROUP, constants, iterations)


def axis_of(node: Node) -> int:
    return int(node.attrs.get("axis", 0))


def _thread_per_sum(node: Node, context: Context) -> Launch:
    output, axis = node.output, axis_of(node)
    at = coordinates_of(variable("o", output.type.size), output.shape)
    parts = _Parts(node, context, (*at[:axis], *at[axis + 1 :]))
    add = statements(
        """
        if (ROW == OWN) {
          LOAD();
          total += ELEMENT;
        }
        """,
        ROW=parts.row,
        OWN=expr_of(at[axis]),
        LOAD=tuple(parts.load_element),
        ELEMENT=parts.element,
    )
    store = parts.emitter.store(output, at, parts.with_base(Name("total"), at))
    times = unrolled(parts.count)
    start = statements("var total = ZERO;", ZERO=zero(output.dtype))
    body = (*start, parts.loop(add, times), *parts.after, store)
    return parts.launch(context, body, output.type.size, ceil_div(parts.count, times))


def _thread_per_column(node: Node, context: Context) -> Launch:
    output, axis = node.output, axis_of(node)
    others = (*output.shape[:axis], *output.shape[axis + 1 :])
    columns = output.type.size // output.shape[axis]
    at = coordinates_of(variable("o", columns), others)
    parts = _Parts(node, context, at)
    bindings = parts.emitter.bindings
    place = linear(parts.place(at, variable("row", parts.size)), output.shape)
    cell = bindings.load(output, place)
    start = parts.with_base(None, parts.place(at, variable("row", parts.size)))
    clear = statements(
        f"for (var row = 0u; row < {parts.size}u; row++) {{ CLEAR(); }}",
        CLEAR=(*parts.after, bindings.store(output, place, start)),
    )
    add = bindings.store(output, place, Binary("+", cell, parts.element))
    loop = parts.loop((let("row", parts.row), *parts.load_element, add), 1)
    return parts.launch(context, (*clear, loop), columns)
