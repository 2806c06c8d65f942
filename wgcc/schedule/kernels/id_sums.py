"""Sums of elements by id, given the order of ids: each element is loaded once.

On a GPU a workgroup makes a few rows of the table, with lanes along its columns; in the twin one
thread makes each row. Rows that no id names are zero: a table is written once, as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import coordinates_of, variable
from wgcc.schedule.codegen.emitter import Coordinates, Emitter, Scope
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.loop_limits import loop, unrolled
from wgcc.schedule.codegen.wgsl import wgsl_type, zero
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
        across = -(-width // THREADS)
        columns = -(-width // across)
        tile = min(max(TILE_ELEMENTS // columns, 1), MOST_ROWS)
        while tile > 1 and -(-rows // tile) * across < BUSY:
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
        readers = (id_reader(self.emitter, ids, self.rows), order_reader(self.emitter, order))
        functions = (*readers, self._element(node), *(self._old(v) for v in base))
        self.functions = "\n".join(functions)
        self.constants = {
            "ROWS": self.rows, "WIDTH": self.width, "COUNT": self.count,
            "HALF": half_of(self.count),
        }  # fmt: skip
        column, row = variable("column", self.width), variable("row", self.rows)
        self._place = row * self.width + column
        self._place.compared()

    def _element(self, node: Node) -> str:
        """The function `element(p, column)`."""
        g, ids, *_ = node.inputs
        columns = node.output.shape[1:]
        at = coordinates_of(variable("p", self.count), ids.shape)
        at = (*at, *coordinates_of(variable("column", self.width), columns))
        return self._function("element(p: u32, column: u32)", g, at)

    def _old(self, base: Value) -> str:
        """The function `base(row, column)`."""
        row, column = variable("row", self.rows), variable("column", self.width)
        at = (row, *coordinates_of(column, base.shape[1:]))
        return self._function("base(row: u32, column: u32)", base, at)

    def _function(self, signature: str, value: Value, at: Coordinates) -> str:
        emitter = self.emitter
        emitter.outer = Scope()
        text = emitter.at(value, at)
        lines = "".join(f"  {line}\n" for line in emitter.outer.lines)
        emitter.outer = Scope()
        return f"fn {signature} -> {wgsl_type(value.dtype)} {{\n{lines}  return {text};\n}}"

    @property
    def start(self) -> str:
        """What elements of a row are added to."""
        return "base(row, column)" if self.base else zero(self.output.dtype)

    def load(self) -> str:
        return self.emitter.bindings.load(self.output, self._place)

    def store(self, text: str) -> str:
        return self.emitter.bindings.store(self.output, self._place, text)


def _tiles(node: Node, context: Context) -> Launch:
    parts = _Parts(node, context)
    tile = _Tile.of(parts.rows, parts.width)
    times = unrolled(parts.count)
    body = [
        f"var total = {zero(node.output.dtype)};",
        *loop("i", "start", "end", "1u", ["total += element(place(i), column);"], times),
        parts.store(f"{parts.start} + total" if parts.base else "total"),
    ]
    grid = grid_of(-(-parts.rows // tile.rows) * tile.across)
    return context.launch(
        "id_sums.wgsl.jinja",
        parts.emitter,
        constants=parts.constants
        | {"TILE": tile.rows, "COLUMNS": tile.columns, "ACROSS": tile.across}
        | {"STARTS": tile.rows + 1, "THREADS": THREADS},
        holes={
            "functions": parts.functions,
            "body": "\n".join(f"      {line}" for line in body),
            "index": thread_index(grid, 1),
            "shared": True,
        },
        workgroup=(THREADS, 1, 1),
        grid=grid,
        iterations=-(-parts.count // times) + 2 * tile.rows * tile.columns // THREADS + 32,
        shared=(WorkgroupVariable("starts", "u32", ("STARTS",)),),
    )


def _thread_per_row(node: Node, context: Context) -> Launch:
    parts = _Parts(node, context)
    add = parts.store(f"{parts.load()} + element(p, column)")
    columns = "for (var column = 0u; column < WIDTH; column++)"
    body = [
        f"{columns} {{ {parts.store(parts.start)} }}",
        "for (var i = start; i < end; i++) {",
        "  let p = place(i);",
        f"  {columns} {{ {add} }}",
        "}",
    ]
    grid = grid_of(-(-parts.rows // TWIN_THREADS))
    return context.launch(
        "id_sums.wgsl.jinja",
        parts.emitter,
        constants=parts.constants | {"THREADS": TWIN_THREADS},
        holes={
            "functions": parts.functions,
            "body": "\n".join(f"  {line}" for line in body),
            "index": thread_index(grid, TWIN_THREADS),
            "shared": False,
        },
        workgroup=(TWIN_THREADS, 1, 1),
        grid=grid,
    )
