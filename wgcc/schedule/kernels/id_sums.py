"""Adding elements up by ids along an axis, in a fixed order and without atomics.

Small tables: on a GPU one thread per sum looks through all ids that may name it; with few threads
that is too many loads, so there one thread per column loops over the ids once.

Large tables: positions of ids are put in the order of ids before, sorted in runs that are merged
into longer ones; of equal ids the first position is first. Then each element is loaded once: on a
GPU a workgroup makes a few rows of the table, with lanes along its columns; elsewhere one thread
makes each row. Rows that no id names are zero: a table is written once, as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Index, Variable, coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import counted_loop, expression, let, select, several, statements, u32, when
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Binary, Call, Declaration, Expr, Name, Return, Statement
from wgcc.ops.gather import FAN, RUN
from wgcc.ops.registry import wgsl_type
from wgcc.schedule.codegen.bindings import clamp_index, expr_of, thread_index, zero
from wgcc.schedule.codegen.emitter import CodeScope, Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable, grid_of, unroll_times
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.kernels.ordering import launch_sort

THREADS = 256
SMALL_WORKGROUP = 64
# Elements of the table that a workgroup makes, and workgroups that keep a GPU busy.
TILE_ELEMENTS, MOST_ROWS, BUSY = 2048, 64, 256


def id_sums_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    return context.code(_tiles(node, context), _thread_per_row(node, context).work)


@dataclass(frozen=True, slots=True)
class _Tile:
    """`rows` of the table and `columns` of its columns; `across` tiles have all its columns."""

    rows: int
    columns: int
    across: int

    @classmethod
    def of(cls, rows: int, width: int) -> _Tile:
        """A thread makes no two columns of one row, which would add up all ids twice."""
        across = ceil_div(width, THREADS)
        columns = ceil_div(width, across)
        tile = min(max(TILE_ELEMENTS // columns, 1), MOST_ROWS)
        while tile > 1 and ceil_div(rows, tile) * across < BUSY:
            tile //= 2
        return cls(tile, columns, across)


class _SumParts:
    """The parts that both ways share; `emitter` has the bindings."""

    def __init__(self, node: Node, context: GroupContext) -> None:
        _, ids, order, *base = node.inputs
        self.base = base[0] if base else None
        self.output = node.output
        self.rows, self.count = int(node.attrs["rows"]), ids.type.size
        self.width = prod(node.output.shape[1:])
        self.emitter = Emitter(context.inlined, context.bindings())
        self.functions = (
            *id_reader(self.emitter, ids, self.rows),
            *order_reader(self.emitter, order),
            *self._element(node),
            *self._old(),
        )
        self.constants = {
            "ROWS": self.rows, "WIDTH": self.width, "COUNT": self.count,
            "HALF": half_of(self.count),
        }  # fmt: skip
        column, row = variable("column", self.width), variable("row", self.rows)
        self._place = row * self.width + column
        self._place.require_small()

    def _element(self, node: Node) -> tuple[Declaration, ...]:
        """The function `element(p, column)`."""
        g, ids, *_ = node.inputs
        columns = node.output.shape[1:]
        at = coordinates_of(variable("p", self.count), ids.shape)
        at = (*at, *coordinates_of(variable("column", self.width), columns))
        signature = f"element(p: u32, column: u32) -> {wgsl_type(g.dtype)}"
        return self.emitter.reader(signature, g, at)

    def _old(self) -> tuple[Declaration, ...]:
        """The function `base(row, column)`, if there is a base."""
        if self.base is None:
            return ()
        row, column = variable("row", self.rows), variable("column", self.width)
        at = (row, *coordinates_of(column, self.base.shape[1:]))
        signature = f"base(row: u32, column: u32) -> {wgsl_type(self.base.dtype)}"
        return self.emitter.reader(signature, self.base, at)

    @property
    def start(self) -> Expr:
        """The value that elements of a row are added to."""
        return expression("base(row, column)") if self.base else zero(self.output.dtype)

    def load(self) -> Expr:
        return self.emitter.bindings.load(self.output, self._place)

    def store(self, element: Expr) -> Statement:
        return self.emitter.bindings.store(self.output, self._place, element)


def _tiles(node: Node, context: GroupContext) -> Launch:
    parts = _SumParts(node, context)
    tile = _Tile.of(parts.rows, parts.width)
    times = unroll_times(parts.count)
    add = statements("total += element(place(i), column);")
    total: Expr = Name("total")
    body = (
        *statements("var total = ZERO;", ZERO=zero(node.output.dtype)),
        several(counted_loop("i", Name("start"), Name("end"), add), times),
        parts.store(Binary("+", parts.start, total) if parts.base else total),
    )
    grid = grid_of(ceil_div(parts.rows, tile.rows) * tile.across)
    return context.launch(
        "id_sums",
        parts.emitter,
        constants=parts.constants
        | {"TILE": tile.rows, "COLUMNS": tile.columns, "ACROSS": tile.across}
        | {"STARTS": tile.rows + 1, "THREADS": THREADS},
        functions=parts.functions,
        holes={"INDEX": thread_index(grid, 1), "BODY": body},
        values={"shared": True},
        workgroup=(THREADS, 1, 1),
        grid=grid,
        iterations=ceil_div(parts.count, times) + 2 * tile.rows * tile.columns // THREADS + 32,
        shared=(WorkgroupVariable("starts", "u32", ("STARTS",)),),
    )


def _thread_per_row(node: Node, context: GroupContext) -> Launch:
    parts = _SumParts(node, context)
    element = expression("element(p, column)")
    body = statements(
        """
        for (var column = 0u; column < WIDTH; column++) { START(); }
        for (var i = start; i < end; i++) {
          let p = place(i);
          for (var column = 0u; column < WIDTH; column++) { ADD(); }
        }
        """,
        START=(parts.store(parts.start),),
        ADD=(parts.store(Binary("+", parts.load(), element)),),
    )
    grid = grid_of(ceil_div(parts.rows, SMALL_WORKGROUP))
    return context.launch(
        "id_sums",
        parts.emitter,
        constants=parts.constants | {"THREADS": SMALL_WORKGROUP},
        functions=parts.functions,
        holes={"INDEX": thread_index(grid, SMALL_WORKGROUP), "BODY": body},
        values={"shared": False},
        workgroup=(SMALL_WORKGROUP, 1, 1),
        grid=grid,
    )


# What lanes of a workgroup share longer runs than this for.
MIN_SHARED_RUN = 32


def order_ids_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    shared = node.output.type.size > MIN_SHARED_RUN
    return context.code(_order(node, context, shared), _order(node, context, False).work)


def merge_ids_code(group: Group, context: GroupContext) -> GroupCode:
    launch = _merge(group.roots[0], context)
    return context.code(launch)


def id_reader(emitter: Emitter, ids: Value, rows: int) -> tuple[Declaration, ...]:
    """The function `id_at(p)`: the row of the table that the id at a position names."""
    emitter.outer = CodeScope()
    raw = emitter.at(ids, coordinates_of(variable("p", ids.type.size), ids.shape))
    return emitter.function("id_at(p: u32) -> u32", Return(clamp_index(raw, rows - 1, ids.dtype)))


def order_reader(emitter: Emitter, order: Value) -> tuple[Declaration, ...]:
    """The function `place(i)`: the i-th of COUNT positions."""
    emitter.outer = CodeScope()
    place = emitter.at(order, (variable("i", order.type.size),))
    inside = expression("min(u32(PLACE), COUNT - 1u)", PLACE=place)
    return emitter.function("place(i: u32) -> u32", Return(inside))


def half_of(length: int) -> int:
    """The first step of a search among so many: the greatest power of two in it."""
    return 1 << (length.bit_length() - 1)


def _order(node: Node, context: GroupContext, shared: bool) -> Launch:
    """One workgroup, or one thread, for each run."""
    emitter = Emitter(context.inlined, context.bindings())
    count = node.output.type.size
    length = min(count, RUN)
    own = _order_functions(node, emitter, length, shared)
    size, constants = (ceil_div(count, RUN), length), {"COUNT": count}
    return launch_sort(context, emitter, own, size, shared, shared, constants)


def _order_functions(
    node: Node, emitter: Emitter, length: int, shared: bool
) -> tuple[Declaration, ...]:
    """Behind the last id, the last run has keys that stay where they are."""
    output, rows = node.output, int(node.attrs["rows"])
    readers = id_reader(emitter, node.inputs[0], rows)
    is_ragged = output.type.size % length > 0
    inside = expression("o * LENGTH + i < COUNT") if is_ragged else None
    place = "let p = min(o * LENGTH + i, COUNT - 1u);" if inside else "let p = o * LENGTH + i;"
    at = statements(place)
    key = expression("id_at(p)")
    key = select(expression("0xffffffffu"), key, inside) if inside else key
    own = emitter.function("key(o: u32, i: u32) -> u32", *at, Return(key))
    position = linear((variable("p", output.type.size),), output.shape)
    if not shared:
        load = Call("u32", (emitter.bindings.load(output, position),))
        old = expression("LOAD - o * LENGTH", LOAD=load)
        old = select(Name("i"), old, inside) if inside else old
        own += emitter.function("place(o: u32, i: u32) -> u32", *at, Return(old))
    store = emitter.bindings.store(output, position, expression("i32(o * LENGTH + place)"))
    put = emitter.function("put(o: u32, i: u32, place: u32)", *at, *when(inside, (store,)))
    return (*readers, *own, *put)


def _merge(node: Node, context: GroupContext) -> Launch:
    """One thread per position: how many of the other runs come before it is where it goes."""
    emitter = Emitter(context.inlined, context.bindings())
    order, ids = node.inputs
    count, run, rows = order.type.size, int(node.attrs["run"]), int(node.attrs["rows"])
    own = (*id_reader(emitter, ids, rows), *order_reader(emitter, order))
    position = expression("i32(position)")
    store = emitter.bindings.store(node.output, variable("rank", count), position)
    grid = grid_of(ceil_div(count, SMALL_WORKGROUP))
    return context.launch(
        "merge_ids",
        emitter,
        constants={
            "COUNT": count, "RUN": run, "RUNS": ceil_div(count, run), "FAN": FAN,
            "HALF": half_of(run), "WORKGROUP": SMALL_WORKGROUP,
        },
        functions=own,
        holes={"INDEX": thread_index(grid, SMALL_WORKGROUP), "STORE": (store,)},
        workgroup=(SMALL_WORKGROUP, 1, 1),
        grid=grid,
        iterations=FAN * (run.bit_length() + 1),
    )  # fmt: skip


def scatter_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    return context.code(_thread_per_sum(node, context), _thread_per_column(node, context).work)


class _ScatterParts:
    """The parts that both ways share: the sum an id names and the element to add, for the r-th id.

    Sums are along `axis`; `others` are the coordinates along the other axes of the output. With
    the attribute `axis` there are ids for each of them, else the same ids for all.
    """

    def __init__(self, node: Node, context: GroupContext, others: Coordinates) -> None:
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
        self.row = clamp_index(self.emitter.at(ids, at), self.size - 1, ids.dtype)
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
        outer, self.emitter.outer = self.emitter.outer, CodeScope()
        self.emitter.close_loop()
        old = self.emitter.at(self.base, at)
        self.after, self.emitter.outer = self.emitter.outer.body, outer
        return Binary("+", old, total) if total else old

    def loop(self, body: Body, times: int) -> Statement:
        own = (*self.find_row, *body)
        return several(counted_loop("r", u32(0), Name("COUNT"), own), times)

    def launch(
        self, context: GroupContext, body: Body, threads: int, iterations: int = 0
    ) -> Launch:
        constants, body = {"COUNT": self.count}, (*self.emitter.outer.body, *body)
        return context.launch_threads(
            self.emitter, body, threads, SMALL_WORKGROUP, constants, iterations
        )


def axis_of(node: Node) -> int:
    return int(node.attrs.get("axis", 0))


def _thread_per_sum(node: Node, context: GroupContext) -> Launch:
    output, axis = node.output, axis_of(node)
    at = coordinates_of(variable("o", output.type.size), output.shape)
    parts = _ScatterParts(node, context, (*at[:axis], *at[axis + 1 :]))
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
    times = unroll_times(parts.count)
    start = statements("var total = ZERO;", ZERO=zero(output.dtype))
    body = (*start, parts.loop(add, times), *parts.after, store)
    return parts.launch(context, body, output.type.size, ceil_div(parts.count, times))


def _thread_per_column(node: Node, context: GroupContext) -> Launch:
    output, axis = node.output, axis_of(node)
    others = (*output.shape[:axis], *output.shape[axis + 1 :])
    columns = output.type.size // output.shape[axis]
    at = coordinates_of(variable("o", columns), others)
    parts = _ScatterParts(node, context, at)
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
