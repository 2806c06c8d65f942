"""Kernels that loop over elements: one by one, or reducing rows, with any number of results.

The same group is written in two ways: one thread per result (short rows, and its work), or one
workgroup per result, its lanes sharing the row and combining by halves. Where results are side by
side in memory and elements of a row are not, one workgroup makes several results. One that adds up
columns takes several rows one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import (
    INNER,
    OUTER,
    Coordinates,
    Index,
    Space,
    Variable,
    coordinates_of,
    variable,
)
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import (
    ONE,
    all_of,
    at_once,
    counted_loop,
    expression,
    pattern,
    several,
    statements,
    u32,
    when,
)
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import (
    Assign,
    Element,
    Expr,
    Let,
    Loop,
    Module,
    Name,
    Statement,
    statements_of,
)
from wgcc.ops.registry import Reduce, wgsl_type
from wgcc.passes.dataflow import lowering
from wgcc.schedule.codegen.bindings import Touch, is_counter, thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group, column_sums, rows_of
from wgcc.schedule.fuse.merge import RowLoops
from wgcc.schedule.kernel import GOOD_ITERATIONS, Launch, WorkgroupVariable, grid_of, unroll_times
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.kernels.tile_shape import LaneShape, lane_shape

# Shorter rows are reduced by one thread.
MIN_SHARED_ROW = 32
# Threads of a workgroup, where there are results for all of them.
WORKGROUP, SMALL_WORKGROUP = 256, 64
# What tuning tries.
THREADS = (32, 64, 128, 256)
# With so many results side by side, one thread each keeps a GPU busy.
MANY_RESULTS = 65_536


def loop_code(group: Group, context: GroupContext) -> GroupCode:
    """The launch of a loop group; its work is said for one thread per result."""
    assert group.space is not None
    if column_sums(group.roots, group.space):
        gpu = _row_groups(group, context, LaneShape())
        return context.code(gpu, _row_groups(group, context, None).work)
    writer = _Writer(group, context)
    is_long = writer.iterations > GOOD_ITERATIONS
    writer.unrolled = 1
    by_thread = _threads(writer, writer.body(), _workgroup_size(group.space))
    if not is_long and not _is_shared(group.space):
        return context.code(by_thread)
    shape = lane_shape(group.space, _row_touches(writer))
    if shape.width > 1 and group.space.outer >= MANY_RESULTS and not is_long:
        return context.code(by_thread)
    return context.code(_workgroups(group, context, shape), by_thread.work)


def loop_candidates(group: Group, context: GroupContext) -> list[Launch]:
    """Other numbers of threads; and rows shared by a workgroup, or not."""
    assert group.space is not None
    if column_sums(group.roots, group.space):
        return []
    writer = _Writer(group, context)
    body = writer.body()
    launches = [_threads(writer, body, threads) for threads in THREADS]
    if _is_shared(group.space):
        shapes = dict.fromkeys((LaneShape(), lane_shape(group.space, _row_touches(writer))))
        launches += [_workgroups(group, context, shape) for shape in shapes]
    return launches


def _is_shared(space: Space) -> bool:
    return space.reduces() and space.inner >= MIN_SHARED_ROW


def _row_touches(writer: _Writer) -> list[Touch]:
    """The elements that loops over rows load and store, but for those that ids decide."""
    touched = writer.emitter.bindings.touched
    return [t for t in touched if _is_known({v.name for v in t.position.variables()})]


def _is_known(names: set[str]) -> bool:
    return INNER in names and all(name in (OUTER, INNER) or is_counter(name) for name in names)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction in progress: the accumulator's name and the pattern that combines."""

    node: Node
    name: str
    combine: str

    @property
    def array(self) -> WorkgroupVariable:
        """The array in workgroup memory that holds a value of each lane."""
        kind = wgsl_type(self.value.dtype)
        return WorkgroupVariable(f"shared_{self.name}", kind, ("LANES",))

    def element(self, at: str) -> Element:
        return Element(Name(self.array.name), expression(at))

    @property
    def value(self) -> Value:
        return self.node.output


class _Writer:
    """Writes the body of one kernel. `shape` says how lanes of a workgroup share rows, if so."""

    def __init__(self, group: Group, context: GroupContext, shape: LaneShape | None = None) -> None:
        assert group.space is not None
        self.space: Space = group.space
        self.shape = shape
        self.roots = group.roots
        self.context = context
        self.arrays: list[WorkgroupVariable] = []
        own = {n.output.name: n for n in group.roots if not isinstance(lowering(n), Reduce)}
        self.emitter = Emitter({**context.inlined, **own}, context.bindings())
        self.loops = RowLoops(group, context.inlined)
        self.columns = column_sums(group.roots, self.space)
        self.each = max((rows_of(node, self.space) for node in self.columns), default=1)
        self.stores_rows = False
        self._late_stores: list[Statement] = []
        row = ceil_div(self.space.inner, shape.rows) if shape else self.space.inner
        self.iterations = self.each * self.loops.count * row if self.space.reduces() else 0
        self.unrolled = unroll_times(self.iterations)

    def body(self) -> Body:
        for number in range(self.loops.count):
            self._write_loop(number)
        for root in self.roots:
            if self.loops.is_result(root.output) and self.context.is_stored(root.output):
                self._late_stores.append(self._store(root.output))
        return (*self.emitter.outer.body, *self._only_once(tuple(self._late_stores)))

    def _write_loop(self, number: int) -> None:
        reductions = [self._open_reduction(n) for n in self.roots if self._reduces_in(n, number)]
        stored = [n for n in self.roots if self._stores_in(n, number)]
        added = [n for n in self.columns if self.loops.before(n.inputs[0]) == number]
        if not reductions and not stored and not added:
            return
        inner = self.emitter.open_loop(frozenset({Variable(INNER, self.space.inner)}))
        updates = [self._update(reduction) for reduction in reductions]
        stores = [self._store(node.output) for node in stored]
        stores += [self._add_to_column(node) for node in added]
        body = (*inner.body, *updates, *stores)
        self.emitter.close_loop()
        start, step = self._lane_rows()
        loop = counted_loop(INNER, start, Name("INNER"), body, step)
        self.stores_rows |= bool(stores)
        self.emitter.outer.body += self._rows(loop, has_stores=bool(stores))
        if self.shape and reductions:
            self._combine_lanes(reductions, self.shape)
        for reduction in reductions:
            self.emitter.define(reduction.value, self._at(reduction.value), Name(reduction.name))

    def _rows(self, loop: Loop, has_stores: bool) -> Body:
        """The loop over rows, several at a time where that hides the latency of their loads."""
        if self.shape is None or has_stores or self.unrolled > 1 or _has_loop(loop):
            return (several(loop, self.unrolled),)
        times, even = self.shape.at_once(self.space.inner, len(loop.body))
        if times == 1:
            return (loop,)
        return at_once(loop, times, u32(even) if even < self.space.inner else None)

    def _add_to_column(self, node: Node) -> Statement:
        """Adds to a column in workgroup memory; without it, in the place of the sum."""
        operand, value = node.inputs[0], node.output
        element = self.emitter.at(operand, coordinates_of(self.space.position(), operand.shape))
        if self.shape:
            (add,) = statements("COLUMN += ELEMENT;", COLUMN=self._column(node), ELEMENT=element)
            return add
        before = self.emitter.bindings.load(value, self._column_at())
        total = expression("select(OLD, 0.0, i == 0u) + NEW", OLD=before, NEW=element)
        return self.emitter.bindings.store(value, self._column_at(), total)

    def column_starts(self) -> Body:
        """A lane does this before its workgroup adds up rows."""
        starts = [Assign(self._column(node), expression("0.0")) for node in self.columns]
        return self._along_columns(starts)

    def column_stores(self) -> Body:
        """A lane does this when all rows of its workgroup are added up."""
        store, at = self.emitter.bindings.store, self._column_at()
        return self._along_columns([store(n.output, at, self._column(n)) for n in self.columns])

    def _along_columns(self, body: Sequence[Statement]) -> Body:
        return (counted_loop(INNER, Name("lane"), Name("INNER"), body, Name("LANES")),)

    def _column(self, node: Node) -> Expr:
        return Element(Name(self.column_array(node).name), Name(INNER))

    def _column_at(self) -> Index:
        groups = variable("g", self.space.outer // self.each)
        return groups * self.space.inner + variable(INNER, self.space.inner)

    def column_array(self, node: Node) -> WorkgroupVariable:
        return WorkgroupVariable(f"column_{self.columns.index(node)}", "f32", ("INNER",))

    def _lane_rows(self) -> tuple[Expr, Expr]:
        """The first row of a lane, and how far it is to the next."""
        if self.shape is None:
            return u32(0), ONE
        first, step = ("row", "ROWS") if self.shape.width > 1 else ("lane", "LANES")
        return Name(first), Name(step)

    def _open_reduction(self, node: Node) -> _Reduction:
        lower = lowering(node)
        assert isinstance(lower, Reduce)
        name = self.emitter.fresh(node.op)
        dtype = node.output.dtype
        self.emitter.functions.update(dict.fromkeys(lower.functions(dtype)))
        start = Let(name, wgsl_type(dtype), expression(lower.start(dtype)), mutable=True)
        self.emitter.outer.body.append(start)
        return _Reduction(node, name, lower.combine(dtype))

    def _update(self, reduction: _Reduction) -> Statement:
        operand = reduction.node.inputs[0]
        element = self.emitter.at(operand, coordinates_of(self.space.position(), operand.shape))
        total = Name(reduction.name)
        return Assign(total, pattern(reduction.combine, total, element))

    def _combine_lanes(self, reductions: Sequence[_Reduction], shape: LaneShape) -> None:
        """A tree reduction: half as many lanes have a value after each step."""
        self.arrays += [reduction.array for reduction in reductions]
        pairs, results = [], []
        for r in reductions:
            mine, other = r.element("lane"), r.element("lane + half")
            pairs.append(Assign(mine, pattern(r.combine, mine, other)))
            results.append(Assign(Name(r.name), r.element("column" if shape.width > 1 else "0")))
        self.emitter.outer.body += statements(
            """
            STORES();
            for (var half = LANES / 2u; HAS_PAIRS; half /= 2u) {
              workgroupBarrier();
              if (lane < half) {
                PAIRS();
              }
            }
            workgroupBarrier();
            RESULTS();
            """,
            STORES=tuple(Assign(r.element("lane"), Name(r.name)) for r in reductions),
            HAS_PAIRS=expression("half >= WIDTH" if shape.width > 1 else "half > 0u"),
            PAIRS=tuple(pairs),
            RESULTS=tuple(results),
        )

    def _only_once(self, stores: Body) -> Body:
        """The first lane of a result stores whatever is stored once per result."""
        if not self.shape or not stores:
            return stores
        condition: Expr | None = expression("lane == 0u")
        if self.shape.width > 1:
            is_ragged = self.space.outer % self.shape.width
            inside = expression("first + lane < OUTER") if is_ragged else None
            condition = all_of((expression("lane < WIDTH"), inside))
        return when(condition, stores, one_line=False)

    def _store(self, value: Value) -> Statement:
        at = self._at(value)
        return self.emitter.store(value, at, self.emitter.at(value, at))

    def _at(self, value: Value) -> Coordinates:
        return self.space.coordinates(value.shape)

    def _reduces_in(self, node: Node, number: int) -> bool:
        reduces = isinstance(lowering(node), Reduce) and node not in self.columns
        return reduces and self.loops.before(node.inputs[0]) == number

    def _stores_in(self, node: Node, number: int) -> bool:
        value = node.output
        stored = not self.loops.is_result(value) and self.context.is_stored(value)
        return stored and node not in self.columns and self.loops.before(value) == number


def _row_groups(group: Group, context: GroupContext, shape: LaneShape | None) -> Launch:
    """Workgroups that take several rows one after the other; without a shape, threads that do."""
    writer = _Writer(group, context, shape)
    body = writer.body()
    groups, lanes = writer.space.outer // writer.each, shape.lanes if shape else 1
    grid = grid_of(groups)
    constants = {"GROUPS": groups, "EACH": writer.each, "INNER": writer.space.inner}
    arrays = [writer.column_array(node) for node in writer.columns] if shape else []
    return context.launch(
        "row_groups",
        writer.emitter,
        constants={**constants, "LANES": lanes},
        values={"shared": shape is not None},
        holes={
            "INDEX": thread_index(grid, lanes if shape is None else 1),
            "BODY": body,
            "STARTS": writer.column_starts() if shape else (),
            "STORES": writer.column_stores() if shape else (),
        },
        workgroup=(lanes, 1, 1),
        grid=grid,
        iterations=ceil_div(writer.iterations, writer.unrolled),
        shared=(*writer.arrays, *arrays),
    )


def _threads(writer: _Writer, body: Body, threads: int) -> Launch:
    return writer.context.launch_threads(
        writer.emitter,
        body,
        writer.space.outer,
        threads,
        {"INNER": writer.space.inner},
        ceil_div(writer.iterations, writer.unrolled),
    )


def _workgroup_size(space: Space) -> int:
    return WORKGROUP if space.outer >= WORKGROUP else SMALL_WORKGROUP


def _has_loop(loop: Loop) -> bool:
    return any(isinstance(part, Loop) for part in statements_of(loop.body))


def _workgroups(group: Group, context: GroupContext, shape: LaneShape) -> Launch:
    """Workgroups that share rows."""
    writer = _Writer(group, context, shape)
    body = writer.body()
    space = writer.space
    grid = grid_of(ceil_div(space.outer, shape.width))
    constants = {"OUTER": space.outer, "INNER": space.inner, "LANES": shape.lanes}
    more = {"WIDTH": shape.width, "ROWS": shape.rows} if shape.width > 1 else {}
    return context.launch(
        "columns" if shape.width > 1 else "rows",
        writer.emitter,
        constants=constants | more,
        body=Module(shape.function(space.outer, thread_index(grid, 1), body, writer.stores_rows)),
        workgroup=(shape.lanes, 1, 1),
        grid=grid,
        iterations=ceil_div(writer.iterations, writer.unrolled),
        shared=tuple(writer.arrays),
    )
