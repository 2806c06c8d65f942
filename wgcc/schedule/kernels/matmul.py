"""Matrix products, with what is computed on operands while loading and on results while storing.

A workgroup shares blocks of both operands through workgroup memory; each of its threads keeps a
block of results in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ops.registry import Reduce
from wgcc.schedule.codegen.bindings import Bindings
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import Grid, grid_of
from wgcc.schedule.codegen.index import coordinates_of, variable
from wgcc.schedule.dataflow import lowering
from wgcc.schedule.fuse.fuse import Group, product_position
from wgcc.schedule.kernel import MAX_WORKGROUPS, Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.operands import Operand, write_loader, write_plain_loader

# How far tiles reach along the inner axis, and how many rows or columns are read at once.
TK, VECTOR = 16, 4
# What tuning tries: threads per side, and results per thread and side.
TILES = ((8, 4), (16, 4), (8, 2), (8, 8))


@dataclass(frozen=True, slots=True)
class Sizes:
    """`batch` products of `rows × inner` by `inner × cols`."""

    batch: int
    rows: int
    cols: int
    inner: int

    @classmethod
    def of(cls, a: Value, b: Value) -> Sizes:
        batch = a.shape[0] if len(a.shape) == 3 else 1
        return cls(batch, a.shape[-2], b.shape[-1], a.shape[-1])


def matmul_code(group: Group, context: Context) -> GroupCode:
    """64 or 256 threads, 4 × 4 results each; fewer where the product is too small to fill a GPU."""
    return context.code(
        _tiles(group, context, *_tile_shape(_sizes(group))), _panels(group, context)
    )


def matmul_candidates(group: Group, context: Context) -> list[Launch]:
    """Other tiles that may be faster on some adapter."""
    return [_tiles(group, context, side, block) for side, block in TILES]


def _panels(group: Group, context: Context) -> Launch:
    """For the twin, which packs both operands into panels of its own."""
    sizes = _sizes(group)
    functions, used, _ = _functions(group, context, context.bindings(), hoisted=False)
    return context.launch(
        "twin_product.wgsl.jinja",
        used,
        constants={
            **{"BATCH": sizes.batch, "ROWS": sizes.rows, "COLS": sizes.cols},
            **{"DEPTH": sizes.inner, "SUMS": int(_bias_gradient(group) is not None)},
        },
        holes={"functions": functions},
        workgroup=(1, 1, 1),
        grid=(1, 1, 1),
    )


def _tiles(group: Group, context: Context, side: int, block: int) -> Launch:
    """`side` × `side` threads, each with `block` × `block` results."""
    sizes, halves, tile = _sizes(group), _halves(group, context), side * block
    functions, used, hoist = _functions(group, context, context.bindings())
    grid, folded = _grid(-(-sizes.cols // tile), -(-sizes.rows // tile), sizes.batch)
    width = min(block, VECTOR)
    return context.launch(
        "matmul_tiles.wgsl.jinja",
        used,
        constants={
            **{"ROWS": sizes.rows, "COLS": sizes.cols, "DEPTH": sizes.inner},
            **{"SIDE": side, "TM": block, "TN": block, "TILE": tile, "TK": TK},
            **{"WIDTH": width, "VECTORS": tile // width, "LOADS": tile * TK // side**2},
            **{**halves, "SUMS": int(_bias_gradient(group) is not None), **hoist, **folded},
        },
        holes={"functions": functions},
        workgroup=(side, side, 1),
        grid=grid,
        shared=(
            _shared_tile("left_tile", width, halves["LEFT_HALF"]),
            _shared_tile("right_tile", width, halves["RIGHT_HALF"]),
        ),
    )


def _shared_tile(name: str, width: int, is_half: int) -> WorkgroupVariable:
    return WorkgroupVariable(name, f"vec{width}{'h' if is_half else 'f'}", ("VECTORS", "TK"))


def _halves(group: Group, context: Context) -> dict[str, int]:
    """Operands that are stored as halves are shared as such."""
    left, right = group.roots[0].inputs
    return {"LEFT_HALF": int(context.is_half(left)), "RIGHT_HALF": int(context.is_half(right))}


def _tile_shape(sizes: Sizes) -> tuple[int, int]:
    """(threads per side, results per thread and side)."""

    def workgroups(tile: int) -> int:
        return sizes.batch * -(-sizes.rows // tile) * -(-sizes.cols // tile)

    if workgroups(64) >= 64:
        return 16, 4
    return (8, 4) if workgroups(32) >= 16 else (8, 2)


def _grid(across: int, down: int, batch: int) -> tuple[Grid, dict[str, int]]:
    """The workgroups of each axis, or all of them numbered, where an axis has too many."""
    if max(across, down, batch) <= MAX_WORKGROUPS:
        return (across, down, batch), {"FOLDED": 0}
    groups = across * down * batch
    grid = grid_of(groups)
    return grid, {"FOLDED": grid[0], "GROUPS": groups, "GROUPS_X": across, "GROUPS_Y": down}


def _sizes(group: Group) -> Sizes:
    return Sizes.of(*group.roots[0].inputs)


def _functions(
    group: Group, context: Context, bindings: Bindings, hoisted: bool = True
) -> tuple[str, Emitter, dict[str, int]]:
    """`left`, `right` and `finish`: load an element of either operand, make use of a result.

    `LEFT_HOISTED`, `RIGHT_HOISTED` say which of the operands are found by hoisted parts.
    """
    product = group.roots[0]
    a, b = product.inputs
    sizes = Sizes.of(a, b)
    emitter = Emitter(context.inlined, bindings)
    z, m, k, n = ("z", sizes.batch), ("m", sizes.rows), ("k", sizes.inner), ("n", sizes.cols)
    write = write_loader if hoisted else write_plain_loader
    left = write(Operand("left", "row", a, (z, m, k)), context, emitter)
    right = write(Operand("right", "col", b, (z, k, n)), context, emitter)
    own = {root.output.name: root for root in _steps(group)[1:]}
    finisher = Emitter({**context.inlined, **own}, bindings)
    parts = [left[0], right[0], _finisher(group, context, finisher)]
    bias_gradient = _bias_gradient(group)
    if bias_gradient is not None:
        at = coordinates_of(variable("n", sizes.cols), bias_gradient.output.shape)
        store = finisher.store(bias_gradient.output, at, "total")
        parts.append(f"fn finish_sum(n: u32, total: f32) {{\n  {store}\n}}")
    emitter.functions.update(finisher.functions)
    hoist = {"LEFT_HOISTED": int(left[1]), "RIGHT_HOISTED": int(right[1])}
    return "\n\n".join(parts), emitter, hoist


def _bias_gradient(group: Group) -> Node | None:
    """The sum of the right operand's columns, if a bias gradient is fused with this product."""
    return next((root for root in group.roots if isinstance(lowering(root), Reduce)), None)


def _steps(group: Group) -> list[Node]:
    """The product and what is done with its elements."""
    return [root for root in group.roots if not isinstance(lowering(root), Reduce)]


def _finisher(group: Group, context: Context, emitter: Emitter) -> str:
    product = group.roots[0].output
    position = product_position(product)
    text = emitter.rounded_to_f16("product") if product.dtype == "f16" else "product"
    names = [n for n, extent in zip("zmn"[-len(product.shape) :], product.shape, strict=True)]
    extents = product.shape
    coordinates = tuple(variable(n, e) for n, e in zip(names, extents, strict=True))
    emitter.define(product, coordinates, text)
    stores = []
    for root in _steps(group):
        value = root.output
        at = coordinates_of(position, value.shape)
        if context.is_stored(value):
            stores.append(emitter.store(value, at, emitter.at(value, at)))
    lines = "".join(f"  {line}\n" for line in (*emitter.outer.lines, *stores))
    return f"fn finish(z: u32, m: u32, n: u32, product: f32) {{\n{lines}}}"


__all__ = ["Sizes", "matmul_candidates", "matmul_code"]
