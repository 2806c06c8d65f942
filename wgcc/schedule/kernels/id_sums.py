"""Sums of elements by id, given the order of ids: each element is loaded once.

On a GPU a workgroup makes a few rows of the table, with lanes along its columns; in the twin one
thread makes each row. Rows that no id names are zero: a table is written once, as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node
from wgcc.ir.index import coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import counted_loop, expression, several, statements
from wgcc.kernel.tree import Binary, Declaration, Expr, Name, Statement
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.limits import grid_of, thread_index, unrolled
from wgcc.schedule.codegen.terms import wgsl_type, zero
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.id_order import half_of, id_reader, order_reader

THREADS = 256
TWIN_THREADS = 64
# Elements of the table that a workgroup makes, and workgroups that keep a GPU busy.
TILE_ELEMENTS, MOST_ROWS, BUSY = 2048, 64, 256


def id_sums_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    return context.code(_tiles(node, context), _thread_per_row(node, context))


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


class _Parts:
    """What both ways share; `emitter` has the bindings."""

    def __init__(self, node: Node, context: Context) -> None:
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
        self._place.compared()

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
        """What elements of a row are added to."""
        return expression("base(row, column)") if self.base else zero(self.output.dtype)

    def load(self) -> Expr:
        return self.emitter.bindings.load(self.output, self._place)

    def store(self, element: Expr) -> Statement:
        return self.emitter.bindings.store(self.output, self._place, element)


def _tiles(node: Node, context: Context) -> Launch:
    parts = _Parts(node, context)
    tile = _Tile.of(parts.rows, parts.width)
    times = unrolled(parts.count)
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


def _thread_per_row(node: Node, context: Context) -> Launch:
    parts = _Parts(node, context)
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
    grid = grid_of(ceil_div(parts.rows, TWIN_THREADS))
    return context.launch(
        "id_sums",
        parts.emitter,
        constants=parts.constants | {"THREADS": TWIN_THREADS},
        functions=parts.functions,
        holes={"INDEX": thread_index(grid, TWIN_THREADS), "BODY": body},
        values={"shared": False},
        workgroup=(TWIN_THREADS, 1, 1),
        grid=grid,
    )
