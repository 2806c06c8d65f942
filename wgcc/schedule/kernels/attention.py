"""Flash attention: the score matrix is never stored.

A workgroup shares tiles of rows, keys and values; one row alone is shared by all of its threads.
Where heads are too large for that, a thread takes a block of rows and a span of keys at a time,
from memory directly. Backward, two loops compute the probabilities again: one goes along the keys
for the gradients of q, one along the rows for those of k and v.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import constant, coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import statements, take_several, u32
from wgcc.kernel.tree import Binary, Name
from wgcc.ops.attention import optional
from wgcc.schedule.codegen.bindings import thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import (
    AttentionTask,
    DispatchWork,
    Launch,
    Place,
    WorkgroupVariable,
    grid_of,
    unroll_times,
)
from wgcc.schedule.kernels.attention_access import (
    AttentionAccess,
    AttentionSizes,
    TileLoop,
    with_vectors,
)
from wgcc.schedule.kernels.attention_tiles import (
    MAX_UNROLLED,
    ROW_TILE,
    STATS_TILE,
    Kept,
    launch_one_row,
    launch_tiles,
    tile_shape,
)
from wgcc.schedule.kernels.context import GroupCode, GroupContext

# Blocks of rows (or keys), and spans of what they loop over: each load serves several of them.
# Larger blocks are hardly faster and take long to compile.
MOST_BLOCK, SPAN = 4, 8
BLOCK_LANES = 8
# Fewer threads than this leave cores idle.
MIN_THREADS = 16


def attention_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    (q, k, v, *extras), (y, rows) = node.inputs, node.outputs
    sizes = AttentionSizes.of(q, k, v)
    offset, mask = optional(extras)
    kept = context.is_stored(rows)
    flags = {"moving": offset is not None, "masked": mask is not None, "kept": kept}

    def elements() -> AttentionAccess:
        access = AttentionAccess(context)
        access.stores("put_y", y)
        access.reads("y", y)
        return rest(access)

    def fours(vectors: Set[Place]) -> AttentionAccess:
        access = AttentionAccess(context, vectors)
        access.stores_vec4("put_y", y, sizes.width)
        return rest(access, vec4=True)

    def rest(access: AttentionAccess, vec4: bool = False) -> AttentionAccess:
        if kept:
            access.stores("put_rows", rows)
            access.emitter.functions["log"] = None
        for name, value in (("query", q), ("key", k), ("value", v)):
            (access.reads_vec4 if vec4 else access.reads)(name, value)
        access.sees(node, extras, sizes, "key")
        return access

    keys = sizes.keys_seen(node.attrs["window"])
    loop = TileLoop(sizes.tall, keys, (sizes.inner_4,), (sizes.width_4,), joins=True)
    work = attention_work("attention", elements(), sizes, flags)
    shape = tile_shape(sizes, Kept((sizes.width_4,), scores=1, beside=34))
    if shape is None:
        gpu = launch_blocks("attention_blocks", elements(), sizes, loop, flags)
    elif sizes.rows == 1:
        gpu = launch_one_row(with_vectors(fours), sizes, keys, flags)
    else:
        access = with_vectors(fours)
        memory = (ROW_TILE,) if context.halves else ()
        gpu = launch_tiles("attention_tiles", access, sizes, loop, shape, flags, memory)
    return context.code(gpu, work)


def launch_blocks(
    template: str,
    access: AttentionAccess,
    sizes: AttentionSizes,
    loop: TileLoop,
    flags: Mapping[str, bool],
) -> Launch:
    """One thread per block of the rows (or keys) of each problem."""
    block, length = MOST_BLOCK, loop.length
    while block > 1 and (
        block >= 2 * length or sizes.pairs * ceil_div(length, block) < MIN_THREADS
    ):
        block //= 2
    blocks = ceil_div(length, block)
    grid = grid_of(ceil_div(sizes.pairs * blocks, BLOCK_LANES))
    spans = ceil_div(loop.steps, SPAN)
    times = min(unroll_times(spans * (1 + loop.inner)), MAX_UNROLLED)
    shape = {
        "BLOCK": block,
        "BLOCKS": blocks,
        "SPAN": SPAN,
        "LANES": BLOCK_LANES,
        "UNROLLED": times,
    }
    return access.context.launch(
        template,
        access.emitter,
        constants={**sizes.constants(), **shape},
        functions=access.functions,
        holes={"INDEX": thread_index(grid, BLOCK_LANES)},
        values={
            **flags,
            **{"origin": "offset()" if flags["moving"] else "0", "last": block - 1},
        },
        variant=lambda body: take_several(body, "d", times),
        workgroup=(BLOCK_LANES, 1, 1),
        grid=grid,
        iterations=spans * (4 + loop.inner // times),
    )


def attention_work(
    op: str, access: AttentionAccess, sizes: AttentionSizes, flags: Mapping[str, bool]
) -> DispatchWork:
    task = AttentionTask(op, frozenset(name for name, is_set in flags.items() if is_set))
    return access.context.work(access.emitter, task, access.functions, sizes.constants())


# Threads of a workgroup that makes row statistics, and those that share a row.
WORKGROUP, STATS_LANES = 64, 8


def attention_grad_q_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    sizes = AttentionSizes.of(*node.inputs[:3])
    products = (sizes.inner_4, sizes.width_4)
    loop = TileLoop(sizes.tall, sizes.keys_seen(node.attrs["window"]), products, (sizes.inner_4,))
    return _code(group, context, "attention_grad_q", "dq", "key", loop)


def attention_grad_kv_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    sizes = AttentionSizes.of(*node.inputs[:3])
    products = (sizes.inner_4, sizes.width_4)
    loop = TileLoop(sizes.keys, sizes.rows_seeing(node.attrs["window"]), products, products)
    return _code(group, context, "attention_grad_kv", "both", "row", loop)


def _code(
    group: Group, context: GroupContext, template: str, result: str, along: str, loop: TileLoop
) -> GroupCode:
    node = group.roots[0]
    (q, k, v, dy, *others), (*made, gradient) = node.inputs, node.outputs
    extras = [] if made else others[1:]
    sizes = AttentionSizes.of(q, k, v)
    offset, mask = optional(extras)
    flags = {"moving": offset is not None, "masked": mask is not None, "makes_stats": bool(made)}

    def elements() -> AttentionAccess:
        access = AttentionAccess(context)
        access.stores(f"put_{result}", gradient)
        access.reads(result, gradient)
        return rest(access)

    def fours(vectors: Set[Place]) -> AttentionAccess:
        access = AttentionAccess(context, vectors)
        if along == "key":
            access.stores_vec4("put_dq", gradient, sizes.inner)
        else:
            access.stores_vec4("put_dk", gradient, sizes.inner)
            access.stores_vec4("put_dv", gradient, sizes.width, start=sizes.inner)
        return rest(access, vec4=True)

    def rest(access: AttentionAccess, vec4: bool = False) -> AttentionAccess:
        for name, value in (("query", q), ("key", k), ("value", v), ("dy", dy)):
            (access.reads_vec4 if vec4 else access.reads)(name, value)
        if made:
            _make_stats(access, (others[0], others[1], made[0]), vec4)
        else:
            access.reads("stats", others[0])
        access.sees(node, extras, sizes, along)
        return access

    work = attention_work(template, elements(), sizes, flags)
    kept = {
        "key": Kept(loop.sums, scores=2, beside=38),
        "row": Kept(loop.sums, scores=2, beside=26),
    }
    shape = tile_shape(sizes, kept[along])
    if shape is None:
        gpu = launch_blocks(f"{template}_blocks", elements(), sizes, loop, flags)
    else:
        memory = () if along == "key" else (STATS_TILE,)
        if made and context.halves:
            memory = (ROW_TILE,)
        access = with_vectors(fours)
        gpu = launch_tiles(f"{template}_tiles", access, sizes, loop, shape, flags, memory)
    return context.code(gpu, work)


def _make_stats(access: AttentionAccess, values: tuple[Value, Value, Value], vec4: bool) -> None:
    y, rows, stats = values
    (access.reads_vec4 if vec4 else access.reads)("y", y)
    access.reads("kept", rows)
    access.stores("put_stats", stats)


def attention_stats_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    by_thread = _stats_by_thread(node, context)
    return context.code(_stats(node, context), by_thread.work)


def _stats(node: Node, context: GroupContext) -> Launch:
    """A few threads per row."""
    y, kept, dy = node.inputs
    batch, heads, rows, width = y.shape

    def fours(vectors: Set[Place]) -> AttentionAccess:
        access = AttentionAccess(context, vectors)
        access.reads_vec4("y", y)
        access.reads_vec4("dy", dy)
        access.reads("kept", kept)
        access.stores("put_stats", node.output)
        return access

    access = with_vectors(fours)
    each = WORKGROUP // STATS_LANES
    grid = grid_of(ceil_div(batch * heads * rows, each))
    return context.launch(
        "attention_stats",
        access.emitter,
        constants={
            **{"OUTER": batch * heads * rows, "HEADS": heads, "ROWS": rows},
            **{"WIDTH_VEC4": ceil_div(width, 4), "THREADS": WORKGROUP, "LANES": STATS_LANES},
            **{"EACH": each, "STRIDE": STATS_LANES + 1},
        },
        functions=access.functions,
        holes={"INDEX": thread_index(grid, 1)},
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
        shared=(WorkgroupVariable("part_tile", "f32", ("EACH", "STRIDE")),),
    )


def _stats_by_thread(node: Node, context: GroupContext) -> Launch:
    """One thread per row."""
    y, kept, dy = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    rows = y.type.size // y.shape[3]
    at = coordinates_of(variable("o", rows), y.shape[:3])
    d = variable("d", y.shape[3])
    peak, log_sum = (emitter.at(kept, (*at, constant(column))) for column in (0, 1))
    inner = emitter.open_loop(frozenset(d.variables()))
    product = Binary("*", emitter.at(y, (*at, d)), emitter.at(dy, (*at, d)))
    emitter.close_loop()
    body = statements(
        """
        BEFORE();
        var mean = 0.0;
        for (var d = 0u; d < WIDTH; d++) {
          LOADS();
          mean += PRODUCT;
        }
        STORES();
        """,
        BEFORE=tuple(emitter.outer.body),
        WIDTH=u32(y.shape[3]),
        LOADS=tuple(inner.body),
        PRODUCT=product,
        STORES=tuple(
            emitter.store(node.output, (*at, constant(column)), element)
            for column, element in enumerate((peak, log_sum, Name("mean")))
        ),
    )
    return context.launch_threads(emitter, body, rows, WORKGROUP)
