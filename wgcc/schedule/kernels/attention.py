"""Flash attention, forward: the score matrix is never stored.

A workgroup shares tiles of rows, keys and values; one row alone is shared by all of its threads.
Where heads are too large for that, a thread takes a block of rows and a span of keys at a time,
from memory directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from wgcc.ir.places import ceil_div
from wgcc.ops.attention import optional
from wgcc.schedule.codegen.limits import grid_of, thread_index, unrolled
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, Place
from wgcc.schedule.kernels.attention_access import Access, Loop, Sizes, with_vectors
from wgcc.schedule.kernels.attention_tiles import (
    MAX_UNROLLED,
    ROW_TILE,
    Kept,
    launch_one_row,
    launch_tiles,
    tile_shape,
)
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.copies_of_body import each

# Blocks of rows (or keys), and spans of what they loop over: each load serves several of them.
# Larger blocks are hardly faster and take long to compile.
MOST_BLOCK, SPAN = 4, 8
BLOCK_LANES = 8
# Fewer threads than this leave cores idle.
MIN_THREADS = 16


def attention_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    (q, k, v, *extras), (y, rows) = node.inputs, node.outputs
    sizes = Sizes.of(q, k, v)
    offset, mask = optional(extras)
    kept = context.is_stored(rows)
    flags = {"moving": offset is not None, "masked": mask is not None, "kept": kept}

    def elements() -> Access:
        found = Access(context)
        found.stores("put_y", y)
        found.reads("y", y)
        return rest(found)

    def fours(vectors: Set[Place]) -> Access:
        found = Access(context, vectors)
        found.stores_vec4("put_y", y, sizes.width)
        return rest(found, vec4=True)

    def rest(found: Access, vec4: bool = False) -> Access:
        if kept:
            found.stores("put_rows", rows)
            found.emitter.functions["log"] = None
        for name, value in (("query", q), ("key", k), ("value", v)):
            (found.reads_vec4 if vec4 else found.reads)(name, value)
        found.sees(node, extras, sizes, "key")
        return found

    keys = sizes.keys_seen(node.attrs["window"])
    loop = Loop(sizes.tall, keys, (sizes.inner_4,), (sizes.width_4,), joins=True)
    twin = launch_panels("attention", elements(), sizes, flags)
    shape = tile_shape(sizes, Kept((sizes.width_4,), scores=1, beside=34))
    if shape is None:
        gpu = launch_blocks("attention_blocks", elements(), sizes, loop, flags)
    elif sizes.rows == 1:
        gpu = launch_one_row(with_vectors(fours), sizes, keys, flags)
    else:
        found = with_vectors(fours)
        gpu = launch_tiles("attention_tiles", found, sizes, loop, shape, flags, (ROW_TILE,))
    return context.code(gpu, twin)


def launch_blocks(
    template: str, access: Access, sizes: Sizes, loop: Loop, flags: Mapping[str, bool]
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
    times = min(unrolled(spans * (1 + loop.inner)), MAX_UNROLLED)
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
            "each_inner": each("d", "INNER", times),
            "each_width": each("d", "WIDTH", times),
        },
        workgroup=(BLOCK_LANES, 1, 1),
        grid=grid,
        iterations=spans * (4 + loop.inner // times),
    )


@dataclass(frozen=True, slots=True)
class Panels:
    """What a row of the twin's form is, and what it is multiplied with, by names of constants."""

    rows: str
    columns: str
    depths: tuple[str, ...]
    widths: tuple[str, ...]


PANELS = {
    "attention": Panels("TALL", "KEYS", ("INNER",), ("WIDTH",)),
    "attention_grad_q": Panels("TALL", "KEYS", ("INNER", "WIDTH"), ("INNER",)),
    "attention_grad_kv": Panels("KEYS", "TALL", ("INNER", "WIDTH"), ("INNER", "WIDTH")),
}


def launch_panels(family: str, access: Access, sizes: Sizes, flags: Mapping[str, bool]) -> Launch:
    """For the twin, which packs rows and keys into panels of its own."""
    return access.context.launch(
        f"twin_{family}",
        access.emitter,
        constants={**sizes.constants(), "SCRATCH": 2 * max(sizes.keys, sizes.tall)},
        functions=access.functions,
        values={
            **flags,
            "origin": "offset()" if flags["moving"] else "0i",
            "panels": PANELS[family],
        },
        workgroup=(1, 1, 1),
        grid=(1, 1, 1),
        family=family,
    )
