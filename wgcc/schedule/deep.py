"""Matrix products with few results and a long inner axis, as a batch of shorter ones and a sum.

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
# With so many parts and tiles there is enough to do.
ENOUGH_PARTS = 64


def deep_product(b: Builder, node: Node) -> Sequence[Value] | None:
    """a @ b with its inner axis in parts, or None where it is good as it is."""
    a, c = (Term(b, value) for value in node.inputs)
    if len(a.shape) != 2:
        return None
    (rows, inner), cols = a.shape, c.shape[1]
    tiles = -(-rows // TILE) * -(-cols // TILE)
    parts = _parts(inner, -(-ENOUGH_PARTS // tiles))
    if tiles >= ENOUGH_TILES or inner < LONG or parts == 1:
        return None
    length = inner // parts
    left = a.reshape((rows, parts, length)).apply("transpose", perm=(1, 0, 2))
    right = c.reshape((parts, length, cols))
    return [left.apply("matmul", right).sum((0,)).value]


def _parts(inner: int, wanted: int) -> int:
    """The largest number of equal parts that is not above what is wanted."""
    most = min(wanted, inner // LONG_PART)
    return next((n for n in range(most, 1, -1) if inner % n == 0), 1)
