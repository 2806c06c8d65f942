"""Flash attention, forward: the score matrix is never stored.

A workgroup shares tiles of keys and values, one row per thread. Where heads are too large for
workgroup memory, a thread takes a block of rows and a span of keys at a time, from memory directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wgcc.ops.attention_rule import optional
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.loop_limits import unrolled
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.attention_access import Access, Sizes
from wgcc.schedule.kernels.context import Context, GroupCode

# Blocks of rows (or keys), and spans of what they loop over: each load serves several of them.
# Larger blocks are hardly faster and take long to compile.
MOST_BLOCK, SPAN = 4, 8
BLOCK_LANES = 8
# Fewer threads than this leave cores idle.
MIN_THREADS = 16
# Tiles take at most three quarters of the 16 KiB of workgroup memory that WebGPU grants.
TILE_VEC4 = 768
MOST_TILE = 32
# What a workgroup shares of each key (or row), by the name of the array: how many vec4.
KEY_TILES = {"key_tile": "INNER_VEC4", "value_tile": "WIDTH_VEC4"}
ROW_TILES = {"query_tile": "INNER_VEC4", "dy_tile": "WIDTH_VEC4", "stats_tile": ""}
FEW_WORKGROUPS = 64
# Elements, or keys of a tile, that one iteration takes at most: more would compile slowly.
MAX_UNROLLED = 8


def attention_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    (q, k, v, *extras), (y, rows) = node.inputs, node.outputs
    sizes = Sizes.of(q, k, v)
    offset, mask = optional(extras)
    kept = context.is_stored(rows)
    flags = {"moving": offset is not None, "masked": mask is not None, "kept": kept}

    def access(vec4: bool) -> Access:
        found = Access(context)
        found.stores("put_y", y)
        if not vec4:
            found.reads("y", y)
        if kept:
            found.stores("put_rows", rows)
            found.emitter.functions["log"] = None
        for name, value in (("query", q), ("key", k), ("value", v)):
            found.reads(name, value, vec4)
        found.sees(node, extras, sizes, "key")
        return found

    loop = Loop(sizes.tall, sizes.keys_seen(node.attrs["window"]), sizes.inner + sizes.width)
    twin = launch_panels("attention", access(False), sizes, flags)
    if tile := tile_size(sizes):
        gpu = launch_tiles("attention_tiles", access(True), sizes, loop, tile, flags, KEY_TILES)
    else:
        gpu = launch_blocks("attention_blocks", access(False), sizes, loop, flags)
    return context.code(gpu, twin)


@dataclass(frozen=True, slots=True)
class Loop:
    """Each of `length` rows (or keys) loops over up to `steps` keys (or rows).

    For each span of them it loops over `inner` elements.
    """

    length: int
    steps: int
    inner: int


def launch_blocks(
    template: str, access: Access, sizes: Sizes, loop: Loop, flags: Mapping[str, bool]
) -> Launch:
    """One thread per block of the rows (or keys) of each problem."""
    block, length = MOST_BLOCK, loop.length
    while block > 1 and (block >= 2 * length or sizes.pairs * -(-length // block) < MIN_THREADS):
        block //= 2
    blocks = -(-length // block)
    grid = grid_of(-(-sizes.pairs * blocks // BLOCK_LANES))
    spans = -(-loop.steps // SPAN)
    times = min(unrolled(spans * (1 + loop.inner)), MAX_UNROLLED)
    shape = {
        "BLOCK": block,
        "BLOCKS": blocks,
        "SPAN": SPAN,
        "LANES": BLOCK_LANES,
        "UNROLLED": times,
    }
    launch = _launch(template, access, sizes, shape, flags, grid, thread_index(grid, BLOCK_LANES))
    return replace(launch, iterations=spans * (4 + loop.inner // times))


def launch_panels(family: str, access: Access, sizes: Sizes, flags: Mapping[str, bool]) -> Launch:
    """For the twin, which packs rows and keys into panels of its own."""
    return access.context.launch(
        f"twin_{family}.wgsl.jinja",
        access.emitter,
        constants={**sizes.constants(), "SCRATCH": 2 * max(sizes.keys, sizes.tall)},
        holes={**_holes(flags), "functions": access.text()},
        workgroup=(1, 1, 1),
        grid=(1, 1, 1),
    )


def launch_tiles(
    template: str,
    access: Access,
    sizes: Sizes,
    loop: Loop,
    tile: int,
    flags: Mapping[str, bool],
    tiles_of: Mapping[str, str],
) -> Launch:
    """One thread per row (or key); the threads of a workgroup belong to one problem.

    `tiles_of` are the arrays they share: the vec4 of each key (or row), by name.
    """
    lanes = 64 if sizes.pairs * -(-loop.length // 64) >= FEW_WORKGROUPS else 32
    grid = grid_of(sizes.pairs * -(-loop.length // lanes))
    loads = 2 + sum(-(-tile * vec4 // lanes) for vec4 in (sizes.inner_4, sizes.width_4))
    tiles = -(-loop.steps // tile) + 1
    times = min(unrolled(tiles * (loads + tile)), MAX_UNROLLED)
    shape = {"TILE": tile, "LANES": lanes, "UNROLLED": times}
    launch = _launch(template, access, sizes, shape, flags, grid, thread_index(grid, 1))
    kernel = replace(launch.kernel, shared=_workgroup_memory(tiles_of, flags["moving"]))
    return replace(launch, kernel=kernel, iterations=tiles * (loads + tile // times))


def _workgroup_memory(tiles_of: Mapping[str, str], moving: bool) -> tuple[WorkgroupVariable, ...]:
    arrays = [
        WorkgroupVariable(name, "vec4f", ("TILE", length) if length else ("TILE",))
        for name, length in tiles_of.items()
    ]
    return (*arrays, *([WorkgroupVariable("shared_offset", "i32")] if moving else []))


def tile_size(sizes: Sizes) -> int:
    """How many keys (or rows) a workgroup shares at a time; 0 if heads are too large for that."""
    vec4, size = sizes.inner_4 + sizes.width_4, MOST_TILE
    while size * vec4 > TILE_VEC4 and size > 4:
        size //= 2
    return size if size * vec4 <= TILE_VEC4 else 0


def _launch(
    template: str,
    access: Access,
    sizes: Sizes,
    shape: Mapping[str, int],
    flags: Mapping[str, bool],
    grid: tuple[int, int, int],
    index: str,
) -> Launch:
    return access.context.launch(
        f"{template}.wgsl.jinja",
        access.emitter,
        constants={**sizes.constants(), **shape},
        holes={**_holes(flags), "index": index, "functions": access.text()},
        workgroup=(shape["LANES"], 1, 1),
        grid=grid,
    )


def _holes(flags: Mapping[str, bool]) -> dict[str, str]:
    return {name: "yes" if on else "" for name, on in flags.items()}
