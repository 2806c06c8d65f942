"""Split-K: a product with few results and a long inner axis becomes shorter ones and a sum.

Gradients of weights are such products: one element for each pixel of a batch of images. Alone they
would leave most of a GPU idle. The order of the additions is fixed, so results repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops.formula import Term

# A product with at least so many tiles keeps a GPU busy.
TILE, ENOUGH_TILES = 32, 16
# Shorter inner axes are not worth a second dispatch; parts should stay as long as this.
LONG, LONG_PART = 4096, 512
# No longer ones for one thread: see codegen/loop_limits.py. Tiled kernels make more iterations.
LONGEST = 32_768
# With so many parts and tiles there is enough to do.
ENOUGH_PARTS = 64


def split_k(b: Builder, node: Node) -> Sequence[Value] | None:
    """a @ b with its inner axis in parts, or None where it is good as it is."""
    a, c = (Term(b, value) for value in node.inputs)
    *batch, rows, inner = a.shape
    parts = parts_of(node)
    if parts == 1:
        return None
    cols, length = c.shape[-1], -(-inner // parts)
    a, c = _padded(a, (*batch, rows, parts * length)), _padded(c, (*batch, parts * length, cols))
    if not batch:
        left = a.reshape((rows, parts, length)).apply("transpose", perm=(1, 0, 2))
        right = c.reshape((parts, length, cols))
        return [left.apply("matmul", right).sum((0,)).value]
    (many,) = batch
    left = a.reshape((many, rows, parts, length)).apply("transpose", perm=(2, 0, 1, 3))
    right = c.reshape((many, parts, length, cols)).apply("transpose", perm=(1, 0, 2, 3))
    left = left.reshape((parts * many, rows, length))
    product = left.apply("matmul", right.reshape((parts * many, length, cols)))
    return [product.reshape((parts, many, rows, cols)).sum((0,)).value]


def _padded(term: Term, shape: tuple[int, ...]) -> Term:
    if term.shape == shape:
        return term
    return term.apply("unslice", shape=shape, starts=(0,) * len(shape), steps=(1,) * len(shape))


def parts_of(node: Node) -> int:
    """Into how many parts the inner axis is cut; equal ones, if any will do."""
    a, c = (value.shape for value in node.inputs)
    inner, tiles = a[-1], -(-a[-2] // TILE) * -(-c[-1] // TILE)
    if len(a) == 2 and inner >= LONG and tiles < ENOUGH_TILES:
        most = min(-(-ENOUGH_PARTS // tiles), inner // LONG_PART)
        parts = next((n for n in range(most, 1, -1) if inner % n == 0), 1)
        if inner // parts <= LONGEST:
            return parts
    least = -(-inner // LONGEST)
    return next((n for n in range(least, 2 * least) if inner % n == 0), least)
