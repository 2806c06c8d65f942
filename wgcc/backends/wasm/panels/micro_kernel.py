"""The function at the heart of matrix products: blocks of 4 by 8 results, in registers.

The right operand is packed into panels of 8 columns, `[k][8]`, the left operand into panels of four
rows, `[k][4][4]` with each element four times: that costs engines no instruction for splats. Each
result is a sum in the order of `k`. `tiling_of` says whether that pays, and in which blocks.

Several steps along `k` are written out, because engines check for interrupts in each iteration of a
loop, and so that addresses advance only once for all of them. Between steps there is a branch:
within one block, V8 loads first and then spills registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from wgcc.backends.wasm.encoding.instructions import I32, V128
from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.backends.wasm.kernels.body import KernelBody
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.scopes import LANES, Env, Unvectorisable
from wgcc.ir.index import Index, constant, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.tree import Call, Name
from wgcc.schedule.kernel import ProductTask

ROWS, COLUMNS = 4, 8
# Words of a panel of the left operand for each `k`.
SPREAD = 16
# Steps along `k` that are written out.
UNROLLED = 16
_VECTOR, _WORD = 16, 4


def multiply(
    body: KernelBody,
    operands: tuple[Index, Index],
    out: tuple[Index, int],
    panels: Index,
    depth: Index,
    skip: Index | None = None,
) -> None:
    """Multiplies a panel of the left operand by panels of the right one; all are in scratch memory.

    `operands` and `out` are words, with how many of these a row of results takes. After each panel
    of the right operand, `skip` words are left out.
    """
    for index in (*operands, out[0]):
        body.push_address(body.scratch, index)
    body.f.i32(out[1] * _WORD)
    body.positions.push(panels, 1)
    body.positions.push(depth, 1)
    body.positions.push(skip if skip is not None else constant(0), _WORD)
    body.call_shared("multiply_panels", write_micro_kernel)


def write_micro_kernel() -> WasmFunction:
    """`left`, `right` and `out` are addresses, `stride` and `skip` bytes."""
    names = ("left", "right", "out", "stride", "panels", "depth", "skip")
    f = WasmFunction("multiply_panels", [(name, I32) for name in names])
    left, right, out, _, panels, depth, skip = range(len(names))
    at, rest = f.local("at", I32), f.local("rest", I32)
    sums = [f.local(f"sum{i}", V128) for i in range(2 * ROWS)]
    f.get(panels)
    f.if_()
    again = f.loop()
    f.get(left).set(at)
    f.get(depth).set(rest)
    for total in sums:
        f.v128(bytes(16)).set(total)
    _multiply(f, (at, right, rest), sums)
    _store(f, sums)
    f.get(out).i32(COLUMNS * _WORD).emit("i32.add").set(out)
    f.get(right).get(skip).emit("i32.add").set(right)
    f.get(panels).i32(1).emit("i32.sub").tee(panels).br_if(again).end().end()
    return f


def _multiply(f: WasmFunction, places: tuple[int, int, int], sums: list[int]) -> None:
    """All steps along `k`: `rest` of them; `right` is at the end of its panel then."""
    at, right, rest = places
    done = f.block()
    f.get(rest).emit("i32.eqz").br_if(done)
    next_steps = f.loop()
    for step in range(UNROLLED):
        if step:
            f.get(rest).i32(step).emit("i32.eq").br_if(done)
        _multiply_step(f, (at, right), step, sums)
    f.get(right).i32(UNROLLED * COLUMNS * _WORD).emit("i32.add").set(right)
    f.get(at).i32(UNROLLED * SPREAD * _WORD).emit("i32.add").set(at)
    f.get(rest).i32(UNROLLED).emit("i32.sub").tee(rest).br_if(next_steps)
    f.end().end()
    f.get(right).get(rest).i32(COLUMNS * _WORD).emit("i32.mul").emit("i32.add").set(right)


def _multiply_step(f: WasmFunction, places: tuple[int, int], step: int, sums: list[int]) -> None:
    at, right = places
    halves, a = [f.local(f"b{i}", V128) for i in range(2)], f.local("a", V128)
    products = [f.local(f"product{i}", V128) for i in range(2)]
    for half, b in enumerate(halves):
        f.get(right).emit("v128.load", offset=step * COLUMNS * _WORD + half * _VECTOR).set(b)
    for row in range(ROWS):
        f.get(at).emit("v128.load", offset=step * SPREAD * _WORD + row * _VECTOR).set(a)
        # First both products, then both sums: newer versions of V8 keep to this order.
        for product, b in zip(products, halves, strict=True):
            f.get(a).get(b).emit("f32x4.mul").set(product)
        for product, total in zip(products, sums[2 * row : 2 * row + 2], strict=True):
            f.get(total).get(product).emit("f32x4.add").set(total)


def _store(f: WasmFunction, sums: list[int]) -> None:
    out, stride, row = 2, 3, f.local("row", I32)
    f.get(out).set(row)
    for i, total in enumerate(sums):
        if i and i % 2 == 0:
            f.get(row).get(stride).emit("i32.add").set(row)
        f.get(row).get(total).emit("v128.store", offset=i % 2 * _VECTOR)


# Words of two lines of a cache, and of a distance at which words take the same place in it.
LINE, ALIASED = 32, 1024
# Words of scratch memory that a block of the right operand may take: it should stay in the cache.
MOST_PACKED = 1 << 17
# With fewer rows, threads share out columns: blocks of at least MIN_BLOCK, about SHARES of them.
# Packing is then much of the work, and its results should stay in a smaller part of the cache.
FEW_ROWS, MIN_BLOCK, SHARES, FEW_PACKED = 64, 32, 8, 1 << 16
# Smaller products, or with fewer rows, columns or inner elements, are dot products one by one.
MIN_ROWS, MIN_COLUMNS, MIN_DEPTH, MIN_WORK = 2, 2, 4, 1 << 10


@dataclass(frozen=True, slots=True)
class Tiling:
    """`batch` products of `rows` × `depth` by `depth` × `columns`, `block` columns at a time.

    `sums`: the sums of the right operand's columns are wanted, too.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    sums: bool
    block: int

    @property
    def tiles(self) -> int:
        """How many blocks of rows there are."""
        return ceil_div(self.rows, ROWS)

    @property
    def blocks(self) -> int:
        return ceil_div(self.columns, self.block)

    @property
    def last(self) -> int:
        """The first column of the last block."""
        return (self.blocks - 1) * self.block

    @property
    def is_even(self) -> bool:
        """Whether all blocks are full."""
        return self.columns == self.blocks * self.block

    @property
    def panel(self) -> int:
        """Words of a panel of the right operand, with those that keep it apart from the next."""
        return self.depth * COLUMNS + self.apart

    @property
    def apart(self) -> int:
        """Words after a panel: at distances of whole pages, caches can hold only a few panels."""
        return LINE if self.depth * COLUMNS % ALIASED == 0 else 0

    @property
    def packed(self) -> int:
        """Words of the panels of a block."""
        return self.block // COLUMNS * self.panel

    @property
    def left(self) -> int:
        """The word from which on four rows of the left operand are packed."""
        return self.packed

    @property
    def out(self) -> int:
        """The word from which on results wait to be finished."""
        return self.left + self.depth * SPREAD

    @property
    def words(self) -> int:
        return self.out + self.block * ROWS


def tiling_of(product: ProductTask) -> Tiling | None:
    """None where panels do not pay."""
    rows, columns, depth = product.rows, product.cols, product.inner
    if rows < MIN_ROWS or columns < MIN_COLUMNS or depth < MIN_DEPTH:
        return None
    if rows * columns * depth < MIN_WORK:
        return None
    block = _block(rows, columns, depth)
    return Tiling(product.batch, rows, columns, depth, product.sums, block)


def _block(rows: int, columns: int, depth: int) -> int:
    packed = FEW_PACKED if rows < FEW_ROWS else MOST_PACKED
    most = max(COLUMNS, packed // depth // COLUMNS * COLUMNS)
    if rows < FEW_ROWS:
        most = min(most, max(MIN_BLOCK, whole_panels(ceil_div(columns, SHARES))))
    blocks = ceil_div(whole_panels(columns), most)
    for count in range(blocks, 2 * blocks):
        if columns % (count * COLUMNS) == 0:
            return columns // count
    return whole_panels(ceil_div(columns, blocks))


def whole_panels(columns: int) -> int:
    """The number of columns, rounded up to whole panels."""
    return ceil_div(columns, COLUMNS) * COLUMNS


Axes = tuple[tuple[str, int], ...]


def cheapest_axis(
    name: str, axes: Axes, extra: dict[str, float], new_body: Callable[[], KernelBody]
) -> str:
    """The axis along which four elements of an operand take the fewest instructions.

    `axes`: the parameters of function `name` and their extents; `extra`: what else each costs.
    """

    def cost(axis: str) -> float:
        return extra[axis] + _cost(name, axes, axis, new_body())

    return min(extra, key=cost)


def _cost(name: str, axes: Axes, along: str, body: KernelBody) -> float:
    env: Env = {}
    for axis, extent in axes:
        whole = axis == along and extent % LANES == 0
        counter = body.positions.name(axis, Counter(body.f.local(axis, I32), 0))
        index = variable(counter, extent // LANES) * LANES if whole else variable(counter, extent)
        body.bind(env, axis, index)

    def element(inner: Env) -> None:
        body.bind(inner, along, body.index_of(inner, along) + body.index_of(inner, "lane"))
        body.value(Call(name, tuple(Name(axis) for axis, _ in axes)), inner)

    try:
        body.four("lane", element, env)
    except Unvectorisable:
        return inf
    return body.scopes.cost
