"""Attention backward: two loops, both of which compute the probabilities again.

One goes along the keys for the gradients of q, one along the rows for those of k and v.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ops.attention_rule import optional
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.index import Index, constant, coordinates_of, variable
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.attention import (
    KEY_TILES,
    ROW_TILES,
    Loop,
    launch_blocks,
    launch_panels,
    launch_tiles,
    tile_size,
)
from wgcc.schedule.kernels.attention_access import Access, Sizes
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 64


def attention_grad_q_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes = Sizes.of(*node.inputs[:3])
    inner = 2 * sizes.inner + sizes.width
    loop = Loop(sizes.tall, sizes.keys_seen(node.attrs["window"]), inner)
    return _code(group, context, "attention_grad_q", "dq", "key", loop)


def attention_grad_kv_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes = Sizes.of(*node.inputs[:3])
    inner = 2 * (sizes.inner + sizes.width)
    loop = Loop(sizes.keys, sizes.rows_seeing(node.attrs["window"]), inner)
    return _code(group, context, "attention_grad_kv", "both", "row", loop)


def _code(
    group: Group, context: Context, template: str, result: str, along: str, loop: Loop
) -> GroupCode:
    node = group.roots[0]
    q, k, v, dy, stats, *extras = node.inputs
    sizes = Sizes.of(q, k, v)
    offset, mask = optional(extras)
    flags = {"moving": offset is not None, "masked": mask is not None}

    def access(vec4: bool) -> Access:
        found = Access(context)
        found.stores(f"put_{result}", node.output)
        if not vec4:
            found.reads(result, node.output)
        for name, value in (("query", q), ("key", k), ("value", v), ("dy", dy)):
            found.reads(name, value, vec4)
        found.reads("stats", stats)
        found.sees(node, extras, sizes, along)
        return found

    twin = launch_panels(template, access(False), sizes, flags)
    if tile := tile_size(sizes):
        shared = KEY_TILES if along == "key" else ROW_TILES
        gpu = launch_tiles(f"{template}_tiles", access(True), sizes, loop, tile, flags, shared)
    else:
        gpu = launch_blocks(f"{template}_blocks", access(False), sizes, loop, flags)
    return context.code(gpu, twin)


def attention_stats_code(group: Group, context: Context) -> GroupCode:
    stats = _stats(group.roots[0], context)
    return context.code(stats, stats)


def _stats(node: Node, context: Context) -> Launch:
    """One thread per row."""
    y, kept, dy = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    rows = y.type.size // y.shape[3]
    at = coordinates_of(variable("o", rows), y.shape[:3])
    d = variable("d", y.shape[3])
    peak, log_sum = (emitter.at(kept, (*at, constant(column))) for column in (0, 1))
    inner = emitter.open_loop(frozenset(d.variables()))
    product = " * ".join(emitter.at(value, (*at, d)) for value in (y, dy))
    emitter.close_loop()
    body = [
        *emitter.outer.lines,
        "var mean = 0.0;",
        f"for (var d = 0u; d < {y.shape[3]}u; d++) {{",
        *(f"  {line}" for line in inner.lines),
        f"  mean += {product};",
        "}",
        _put(emitter, node.output, at, 0, peak),
        _put(emitter, node.output, at, 1, log_sum),
        _put(emitter, node.output, at, 2, "mean"),
    ]
    grid = grid_of(-(-rows // WORKGROUP))
    return context.launch(
        "loop.wgsl.jinja",
        emitter,
        constants={"OUTER": rows, "WORKGROUP": WORKGROUP},
        holes={
            "body": "\n".join(f"  {line}" for line in body),
            "index": thread_index(grid, WORKGROUP),
        },
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
    )


def _put(emitter: Emitter, value: Value, at: tuple[Index, ...], column: int, text: str) -> str:
    return emitter.store(value, (*at, constant(column)), text)
