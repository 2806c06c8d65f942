"""The function at the heart of matrix products: blocks of 4 by 8 results, in registers.

The right operand is packed into panels of 8 columns, `[k][8]`, the left operand into panels of four
rows, `[k][4][4]` with each element four times: that costs engines no instruction for splats. Each
result is a sum in the order of `k`.

Several steps along `k` are written out, because engines check for interrupts in each iteration of a
loop, and so that addresses advance only once for all of them. Between steps there is a branch:
within one block, V8 loads first and then spills registers.
"""

from __future__ import annotations

from wgcc.backends.wasm.encoding.encoder import I32, V128
from wgcc.backends.wasm.encoding.function import Function
from wgcc.backends.wasm.kernels.body import Body
from wgcc.ir.index import Index, constant

ROWS, COLUMNS = 4, 8
# Words of a panel of the left operand for each `k`.
SPREAD = 16
# Steps along `k` that are written out.
UNROLLED = 16
_VECTOR, _WORD = 16, 4


def multiply(
    body: Body,
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


def write_micro_kernel() -> Function:
    """`left`, `right` and `out` are addresses, `stride` and `skip` bytes."""
    names = ("left", "right", "out", "stride", "panels", "depth", "skip")
    f = Function("multiply_panels", [(name, I32) for name in names])
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


def _multiply(f: Function, places: tuple[int, int, int], sums: list[int]) -> None:
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


def _multiply_step(f: Function, places: tuple[int, int], step: int, sums: list[int]) -> None:
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


def _store(f: Function, sums: list[int]) -> None:
    out, stride, row = 2, 3, f.local("row", I32)
    f.get(out).set(row)
    for i, total in enumerate(sums):
        if i and i % 2 == 0:
            f.get(row).get(stride).emit("i32.add").set(row)
        f.get(row).get(total).emit("v128.store", offset=i % 2 * _VECTOR)
