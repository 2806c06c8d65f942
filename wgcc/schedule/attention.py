"""Attention forward: rows of q in registers meet keys one after another, nothing square is kept.

On software adapters a thread reads keys and values straight from memory for several rows at once;
on GPUs a workgroup shares them.
"""

from __future__ import annotations

from wgcc.ops.attention_rule import optional
from wgcc.schedule.attention_access import Access, Sizes
from wgcc.schedule.context import Context, GroupCode
from wgcc.schedule.fuse import Group
from wgcc.schedule.grid import grid_of, thread_index
from wgcc.schedule.kernel import Launch

# How many numbers a thread of a software adapter keeps, so that each load serves several rows.
MOST_KEPT = 512
MOST_BLOCK = 8
CPU_LANES = 8
# Fewer threads than this leave cores idle.
MIN_THREADS = 32
# A quarter of the 16 KiB that WebGPU grants stays free, so that two workgroups fit more GPUs.
TILE_FOURS = 768
MOST_TILE = 32
FEW_WORKGROUPS = 64


def attention_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes = Sizes.of(*node.inputs[:3])
    return context.code(
        {
            "gpu": _launch(group, context, sizes, tiles(sizes.inner_4 + sizes.width_4)),
            "cpu": _launch(group, context, sizes, 0),
        }
    )


def _launch(group: Group, context: Context, sizes: Sizes, tile: int) -> Launch:
    node = group.roots[0]
    (q, k, v, *extras), (y, lse) = node.inputs, node.outputs
    access = Access(context)
    access.reads_fours("query", q)
    access.reads_fours("key", k)
    access.reads_fours("value", v)
    access.sees(node, tuple(extras), sizes)
    access.stores("put_y", y)
    if context.is_stored(lse):
        access.stores("put_lse", lse)
        access.emitter.functions["log"] = None
    offset, mask = optional(extras)
    flags = {"moving": offset is not None, "masked": mask is not None}
    flags |= {"kept": context.is_stored(lse)}
    kept = sizes.inner + sizes.width
    return launch("attention.wgsl.jinja", access, sizes, sizes.tall, kept, tile, flags)


def launch(
    template: str,
    access: Access,
    sizes: Sizes,
    length: int,
    kept: int,
    tile: int,
    flags: dict[str, bool],
) -> Launch:
    """`length` rows (or keys) of each problem, cut into blocks of which a thread takes one.

    `kept` counts the numbers a thread keeps for each row of its block.
    """
    if tile:
        block, lanes = 1, gpu_lanes(sizes.pairs, length)
        count = sizes.pairs * -(-length // lanes)
        grid = grid_of(count)
        index = thread_index(grid, 1)
    else:
        block, lanes = cpu_block(sizes.pairs, length, kept), CPU_LANES
        grid = grid_of(-(-sizes.pairs * -(-length // block) // lanes))
        index = thread_index(grid, lanes)
    shape = {"BLOCK": block, "BLOCKS": -(-length // block), "LANES": lanes, "TILE": tile}
    holes = {name: "yes" if on else "" for name, on in flags.items()}
    return access.context.launch(
        template,
        access.emitter,
        constants={**sizes.constants(), **shape},
        holes={**holes, "tiled": "yes" if tile else "", "index": index, "functions": access.text()},
        workgroup=(lanes, 1, 1),
        grid=grid,
    )


def tiles(fours: int) -> int:
    """How many keys (of `fours` vectors each) a workgroup shares at a time; 0 if none fit."""
    size = MOST_TILE
    while size * fours > TILE_FOURS and size > 4:
        size //= 2
    return size if size * fours <= TILE_FOURS else 0


def gpu_lanes(pairs: int, length: int) -> int:
    return 64 if pairs * -(-length // 64) >= FEW_WORKGROUPS else 32


def cpu_block(pairs: int, length: int, kept: int) -> int:
    block = MOST_BLOCK
    while block > 1 and (
        block * kept > MOST_KEPT or block >= 2 * length or pairs * -(-length // block) < MIN_THREADS
    ):
        block //= 2
    return block
