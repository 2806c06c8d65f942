"""Attention backward: two walks with the probabilities computed again, one along the keys for the
gradients of q, one along the rows for those of k and v."""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ops.attention_rule import optional
from wgcc.schedule.attention import launch, tiles
from wgcc.schedule.attention_access import Access, Sizes
from wgcc.schedule.context import Context, GroupCode
from wgcc.schedule.emit import Emitter
from wgcc.schedule.fuse import Group
from wgcc.schedule.grid import grid_of, thread_index
from wgcc.schedule.index import Index, constant, coordinates_of, variable
from wgcc.schedule.kernel import Launch

WORKGROUP = 64


def attention_grad_q_code(group: Group, context: Context) -> GroupCode:
    sizes = Sizes.of(*group.roots[0].inputs[:3])
    return _walk(group, context, "q", sizes, sizes.tall, 2 * sizes.inner + sizes.width)


def attention_grad_kv_code(group: Group, context: Context) -> GroupCode:
    sizes = Sizes.of(*group.roots[0].inputs[:3])
    return _walk(group, context, "kv", sizes, sizes.keys, 2 * (sizes.inner + sizes.width))


def _walk(
    group: Group, context: Context, which: str, sizes: Sizes, length: int, kept: int
) -> GroupCode:
    node = group.roots[0]
    _, mask = optional(node.inputs[5:])
    offset, _ = optional(node.inputs[5:])
    flags = {"moving": offset is not None, "masked": mask is not None}
    launches = {}
    for profile, tile in (("gpu", tiles(sizes.inner_4 + sizes.width_4)), ("cpu", 0)):
        access = _access(node, context, sizes, "put_dq" if which == "q" else "put_both")
        template = f"attention_grad_{which}.wgsl.jinja"
        launches[profile] = launch(template, access, sizes, length, kept, tile, flags)
    return context.code(launches)


def _access(node: Node, context: Context, sizes: Sizes, put: str) -> Access:
    q, k, v, dy, stats, *extras = node.inputs
    access = Access(context)
    for name, value in (("query", q), ("key", k), ("value", v), ("dy", dy)):
        access.reads_fours(name, value)
    access.reads("stats", stats)
    access.sees(node, tuple(extras), sizes)
    access.stores(put, node.output)
    return access


def attention_stats_code(group: Group, context: Context) -> GroupCode:
    stats = _stats(group.roots[0], context)
    return context.code({"gpu": stats, "cpu": stats})


def _stats(node: Node, context: Context) -> Launch:
    """One thread per row."""
    y, lse, dy, *dlse = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    rows = lse.type.size
    at = coordinates_of(variable("o", rows), lse.shape)
    d = variable("d", y.shape[3])
    kept = emitter.at(lse, at)
    inner = emitter.open_loop(frozenset(d.variables()))
    product = " * ".join(emitter.at(value, (*at, d)) for value in (y, dy))
    emitter.close_loop()
    start = f"-{emitter.at(dlse[0], at)}" if dlse else "0.0"
    body = [
        *emitter.outer.lines,
        f"var mean = {start};",
        f"for (var d = 0u; d < {y.shape[3]}u; d++) {{",
        *(f"  {line}" for line in inner.lines),
        f"  mean += {product};",
        "}",
        _put(emitter, node.output, at, 0, kept),
        _put(emitter, node.output, at, 1, "mean"),
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
