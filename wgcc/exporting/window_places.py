"""Which pixels the windows of `patches` have, and where `unpatches` puts them, axis by axis."""

from __future__ import annotations

from collections.abc import Iterator

from wgcc.ir.graph import Node
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS


def window_places(node: Node) -> Iterator[tuple[int, int, Array]]:
    """An axis of pixels or windows, that of its kernel, and the numbers of elements to read.

    Elements [before, kernel] are numbered from 1; 0 is a zero. The op's own reference says which
    are read, and one axis does not depend on another.
    """
    shape = node.inputs[0].shape
    rank = (len(shape) - 2) // 2
    for place in range(rank):
        axis, kernel = 1 + place, 1 + rank + place
        size = shape[axis], shape[kernel]
        numbers = np.arange(1, size[0] * size[1] + 1).reshape(1, *size, 1)
        own = {key: (values[place],) for key, values in node.attrs.items()}
        found = np.asarray(OPS[node.op].reference(numbers, **own))
        yield axis, kernel, found.reshape(found.shape[1:3])
