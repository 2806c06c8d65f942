"""Matrix products, with what is computed on operands while loading and on results while storing.

A workgroup shares tiles of both operands through workgroup memory; each of its threads keeps a
block of results in registers. Operands and results are bound as vectors where that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Node
from wgcc.ir.index import Index, Variable, coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, member, u32
from wgcc.kernel.rewrite.transform import Body, Filling
from wgcc.kernel.tree import Assign, Binary, Declaration, Expr, If, Name, Statement
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering
from wgcc.schedule.codegen.bindings import Touch
from wgcc.schedule.codegen.emitter import COMPONENTS, Emitter
from wgcc.schedule.fuse.fuse import product_position
from wgcc.schedule.fuse.group import ColumnPart, Group, column_part
from wgcc.schedule.kernel import (
    MAX_WORKGROUPS,
    VECTOR,
    WORD,
    DispatchWork,
    Grid,
    Launch,
    Place,
    ProductTask,
    WorkgroupVariable,
    grid_of,
)
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.kernels.operands import (
    INNER,
    Operand,
    orient,
    streamed_by,
    touched_by,
    vector_regions,
    write_loader,
    write_plain_loader,
)
from wgcc.schedule.kernels.shared_tile import SharedTile
from wgcc.schedule.kernels.tile_loads import TileLoad
from wgcc.schedule.kernels.tile_results import ResultBlock
from wgcc.schedule.kernels.tile_shape import Sizes, Tile, tile_shapes

# Products of so many operations have the steps of a tile written out, if these are at most so many
# multiply-adds for a thread.
UNROLLED_FLOPS, UNROLLED = 1 << 28, 1024


def matmul_code(group: Group, context: GroupContext) -> GroupCode:
    """The tiles that should be best on most GPUs."""
    tile = tile_shapes(_sizes(group), _width(group, context))[0]
    return context.code(_tiles(group, context, tile), _work(group, context))


def matmul_candidates(group: Group, context: GroupContext) -> list[Launch]:
    """Other tiles that may be faster on some adapter."""
    tiles = tile_shapes(_sizes(group), _width(group, context))[1:]
    return [_tiles(group, context, tile) for tile in tiles]


def _width(group: Group, context: GroupContext) -> int:
    """Bytes of an element of the operands; of the wider one, if they differ."""
    return WORD // 2 if all(_halves(group, context).values()) else WORD


def _work(group: Group, context: GroupContext) -> DispatchWork:
    """The product itself: functions that load one element and make use of one result."""
    sizes, sums = _sizes(group), _bias_gradient(group) is not None
    forms = Forms(*_operands(group), is_vector=False, vectors=frozenset())
    functions, used, _ = _functions(group, context, forms, hoisted=False)
    task = ProductTask(sizes.batch, sizes.rows, sizes.cols, sizes.inner, sums)
    return context.work(used, task, functions, {})


def _tiles(group: Group, context: GroupContext, tile: Tile) -> Launch:
    sizes, halves = _sizes(group), _halves(group, context)
    forms = _forms(group, context, tile)
    functions, used, hoisted = _functions(group, context, forms)
    across, down = ceil_div(sizes.cols, tile.cols), ceil_div(sizes.rows, tile.rows)
    grid, folded = _grid(across, down, sizes.batch)
    is_wide = len(forms.wide) == 2
    is_unrolled = is_wide and _is_worth_unrolling(tile, sizes)
    left, right = (
        SharedTile(operand, forms.width(operand), halves[operand.name], tile, is_unrolled)
        for operand in forms.operands
    )
    loads = [
        TileLoad(shared.operand, has, shared, tile, sizes)
        for shared, has in zip((left, right), hoisted, strict=True)
    ]
    has_sums = _bias_gradient(group) is not None
    block = ResultBlock(
        *(tile, sizes, left, right, forms.is_vector, has_sums),
        is_octet=is_wide and tile.down % 2 == 0 and tile.across % 4 == 0,
        is_unrolled=is_unrolled,
    )
    return context.launch(
        "matmul_tiles",
        used,
        constants={
            **{"ROWS": sizes.rows, "COLS": sizes.cols, "DEPTH": sizes.inner},
            **{"ACROSS": tile.across, "DOWN": tile.down, "THREADS": tile.threads},
            **{"TM": tile.tm, "TN": tile.tn, "TK": tile.tk, "SLICES": tile.slices},
            **{"ROW_STRIDE": tile.row_stride, "SLICE_STRIDE": tile.slice_stride},
            **{"ROWS_TILE": tile.rows, "COLS_TILE": tile.cols},
            **left.constants,
            **right.constants,
            **{"SUMS": int(has_sums), **folded},
        },
        functions=functions,
        values=_choices(tile, block, is_folded=folded["FOLDED"] > 0),
        holes=_steps_of(loads, block),
        workgroup=(tile.across, tile.down, tile.slices),
        grid=grid,
        shared=_workgroup_variables(block),
    )


def _choices(tile: Tile, block: ResultBlock, is_folded: bool) -> dict[str, object]:
    """The words of the page that depend on sizes."""
    sliced = tile.slices > 1
    return {
        "sliced": sliced,
        "workgroup": "ACROSS, DOWN, SLICES" if sliced else "ACROSS, DOWN",
        "group": "id" if is_folded else "group",
        "tile_sums": block.has_tile_sums,
        "octet": block.is_octet,
        "unrolled": block.is_unrolled,
        "padding": "; zeros pad the edges" if block.is_ragged else "",
        "first_k": "lane.z" if sliced else "0u",
        "next_k": "k += SLICES" if sliced else "k++",
    }


def _steps_of(loads: Sequence[TileLoad], block: ResultBlock) -> dict[str, Filling]:
    """The statements of the page that depend on sizes."""
    inside = "group.y == 0u && slot < COLS_TILE" + (
        " && n_tile + slot < COLS" if block.column_ends else ""
    )
    return {
        "HOISTED": tuple(s for load in loads for s in load.before()),
        "ZEROS": block.zeros(),
        "LOADS": (
            *(s for load in loads for s in load.loads()),
            *(s for load in loads for s in load.stores()),
        ),
        "PRODUCTS": block.products(),
        "ADD_COLUMNS": block.add_columns(),
        "PARTS": block.parts(),
        "SUM_INSIDE": expression(inside),
        "TOTAL": block.total(),
        "RESULTS": block.results(),
    }


def _workgroup_variables(block: ResultBlock) -> tuple[WorkgroupVariable, ...]:
    """Both tiles, and the partial results that slices have to add."""
    variables = [block.left.variable, block.right.variable]
    if block.tile.slices > 1:
        variables.append(WorkgroupVariable("added", "f32", ("SLICES", "SLICE_STRIDE")))
        if block.has_sums:
            variables.append(WorkgroupVariable("added_sums", "f32", ("SLICES", "COLS_TILE")))
    return tuple(variables)


def _is_worth_unrolling(tile: Tile, sizes: Sizes) -> bool:
    """A driver compiles a long kernel for longer than one run of a small product takes."""
    return sizes.flops >= UNROLLED_FLOPS and tile.tm * tile.tn * tile.tk <= UNROLLED


def _halves(group: Group, context: GroupContext) -> dict[str, bool]:
    """Which operands are shared as halves."""
    left, right = map(context.is_shared_as_half, group.roots[0].inputs)
    return {"left": left, "right": right}


@dataclass(frozen=True, slots=True)
class Forms:
    """How operands are loaded, and whether results are stored as vectors (`is_vector`).

    `wide`: the operands whose tiles hold vectors: of four rows or of four columns.
    """

    left: Operand
    right: Operand
    is_vector: bool
    vectors: frozenset[Place]
    wide: frozenset[str] = frozenset()

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return self.left, self.right

    def width(self, operand: Operand) -> int:
        return VECTOR if operand.name in self.wide else 1


def _forms(group: Group, context: GroupContext, tile: Tile) -> Forms:
    """As many vectors as the layouts allow, each region bound in one way only.

    What slices add is not in vectors.
    """
    left, right = (orient(operand, context) for operand in _operands(group))
    fits = tile.tn % VECTOR == 0 and _sizes(group).cols % VECTOR == 0
    is_vector = fits and right.vector and tile.slices == 1
    while True:
        if tile.tk % VECTOR:
            left, right = (_scalar(o) if o.fast == INNER else o for o in (left, right))
        is_wide = tile.tm % VECTOR == 0 and tile.slices == 1
        if not is_wide and left.fast != INNER:
            left = _scalar(left)
        is_vector = is_vector and right.vector
        if not is_vector and right.fast != INNER:
            right = _scalar(right)
        touched = _results_touched(group, context, is_vector)
        stored = {touch.region for touch in touched if touch.written}
        for operand in (left, right):
            touched += touched_by(operand, context)
        vectors = vector_regions(touched)
        if is_vector and not stored <= vectors:
            is_vector = False
            continue
        if not is_vector:
            vectors -= stored
        bound = [not o.vector or streamed_by(o, context) <= vectors for o in (left, right)]
        if all(bound):
            wide = {"left"} if left.vector and is_wide else set()
            wide |= {"right"} if right.vector and is_vector else set()
            return Forms(left, right, is_vector, frozenset(vectors), frozenset(wide))
        left, right = (
            operand if fits else _scalar(operand)
            for operand, fits in zip((left, right), bound, strict=True)
        )


def _scalar(operand: Operand) -> Operand:
    return replace(operand, vector=False)


def _results_touched(group: Group, context: GroupContext, is_vector: bool) -> list[Touch]:
    """The elements that making use of results touches."""
    bindings = context.bindings()
    own = {root.output.name: root for root in _steps(group)[1:]}
    trial = Emitter({**context.inlined, **own}, bindings)
    for component in range(VECTOR) if is_vector else (None,):
        for root, at, text in _result(group, context, trial, component):
            bindings.store(root.output, at, text)
    return bindings.touched


def _grid(across: int, down: int, batch: int) -> tuple[Grid, dict[str, int]]:
    """The workgroups of each axis, or all of them numbered, where an axis has too many."""
    if max(across, down, batch) <= MAX_WORKGROUPS:
        return (across, down, batch), {"FOLDED": 0}
    groups = across * down * batch
    grid = grid_of(groups)
    return grid, {"FOLDED": grid[0], "GROUPS": groups, "GROUPS_X": across, "GROUPS_Y": down}


def _sizes(group: Group) -> Sizes:
    return Sizes.of(*group.roots[0].inputs)


def _operands(group: Group) -> tuple[Operand, Operand]:
    a, b = group.roots[0].inputs
    sizes = Sizes.of(a, b)
    z, m, k, n = ("z", sizes.batch), ("m", sizes.rows), ("k", sizes.inner), ("n", sizes.cols)
    return Operand("left", "row", a, (z, m, k)), Operand("right", "col", b, (z, k, n))


def _functions(
    group: Group, context: GroupContext, forms: Forms, hoisted: bool = True
) -> tuple[list[Declaration], Emitter, tuple[bool, bool]]:
    """`left`, `right` and `finish`: load elements of either operand, make use of results.

    At last, whether the left and the right operand are found by hoisted parts.
    """
    bindings = context.bindings(forms.vectors)
    emitter = Emitter(context.inlined, bindings)
    write = write_loader if hoisted else write_plain_loader
    left = write(forms.left, context, emitter)
    right = write(forms.right, context, emitter)
    own = {root.output.name: root for root in _steps(group)[1:]}
    finisher = Emitter({**context.inlined, **own}, bindings)
    functions = [*left[0], *right[0], *_finisher(group, context, finisher, forms.is_vector)]
    bias_gradient = _bias_gradient(group)
    if bias_gradient is not None:
        at = coordinates_of(variable("n", _sizes(group).cols), bias_gradient.output.shape)
        store = finisher.store(bias_gradient.output, at, Name("total"))
        functions += finisher.function("finish_sum(n: u32, total: f32)", store)
    emitter.functions.update(finisher.functions)
    return functions, emitter, (left[1], right[1])


def _bias_gradient(group: Group) -> Node | None:
    """The sum of the right operand's columns, if a bias gradient is fused with this product."""
    return next((root for root in group.roots if isinstance(lowering(root), Reduce)), None)


def _steps(group: Group) -> list[Node]:
    """The product and what is done with its elements."""
    return [root for root in group.roots if not isinstance(lowering(root), Reduce)]


def _finisher(
    group: Group, context: GroupContext, emitter: Emitter, is_vector: bool
) -> tuple[Declaration, ...]:
    """The function that makes use of one result, or of four side by side."""
    emitter.shares = is_vector
    if not is_vector:
        results = _result(group, context, emitter, None)
        stores = [emitter.bindings.store(v.output, at, element) for v, at, element in results]
    else:
        components = [_result(group, context, emitter, c) for c in range(VECTOR)]
        stores = [
            emitter.bindings.store_vector(four[0][0].output, four[0][1], [x for _, _, x in four])
            for four in zip(*components, strict=True)
        ]
        results = components[0]
    emitter.shares = False
    roots = [root for root, _, _ in results]
    at, kind = ("n4", "vec4f") if is_vector else ("n", "f32")
    return emitter.function(
        f"finish(z: u32, m: u32, {at}: u32, product: {kind})",
        *_by_column(group, context, roots, stores, is_vector),
    )


def _by_column(
    group: Group, context: GroupContext, roots: list[Node], stores: list[Assign], is_vector: bool
) -> Body:
    """Stores of parts of the columns under conditions: one statement if all columns have a part."""
    pairs = [(_part_of(root, group, context), s) for root, s in zip(roots, stores, strict=True)]
    whole = [store for part, store in pairs if part is None]
    parts = [(part, store) for part, store in pairs if part is not None]
    parts.sort(key=lambda pair: pair[0].start)
    column = expression("n4" if is_vector else f"n / {VECTOR}u")
    starts, ends = ([getattr(part, side) for part, _ in parts] for side in ("start", "end"))
    if [0, *ends] != [*starts, _sizes(group).cols]:
        return (*whole, *(_if_inside(column, part, store) for part, store in parts))
    statement: Statement = parts.pop()[1]
    for part, store in reversed(parts):
        before = Binary("<", column, u32(part.end // VECTOR))
        statement = If(before, (store,), (statement,))
    return (*whole, statement)


def _if_inside(column: Expr, part: ColumnPart, store: Assign) -> If:
    start, end = (u32(at // VECTOR) for at in (part.start, part.end))
    inside = Binary("&&", Binary(">=", column, start), Binary("<", column, end))
    return If(inside, (store,), one_line=True)


def _part_of(root: Node, group: Group, context: GroupContext) -> ColumnPart | None:
    return column_part(root, group.roots[0].output, context.inlined)


def _result(
    group: Group, context: GroupContext, emitter: Emitter, component: int | None
) -> list[tuple[Node, Index, Expr]]:
    """The stores of the group: root, position, element. `component`: of a vector of results."""
    product = group.roots[0].output
    position, element = product_position(product), member("product")
    if component is not None:
        cols = product.shape[-1]
        column = variable("n4", cols // VECTOR) * VECTOR + component
        position = position.substitute({Variable("n", cols): column})
        element = member(f"product.{COMPONENTS[component]}")
    element = emitter.rounded_to_f16(element) if product.dtype == F16 else element
    emitter.define(product, coordinates_of(position, product.shape), element)
    stores = []
    for root in _steps(group):
        value, part = root.output, _part_of(root, group, context)
        at = coordinates_of(position, product.shape if part else value.shape)
        at = (*at[:-1], at[-1] - part.start) if part else at
        if context.is_stored(value):
            stores.append((root, linear(at, value.shape), emitter.at(value, at)))
    return stores
