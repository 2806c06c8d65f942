"""var(x; axes): the mean square difference from the mean (biased, as norm layers use it)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.builder import Builder
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.centring import centred, variance
from wgcc.ops.checks import check_axes, check_dtype, without_axes
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample


def infer(x: TensorType, axes: tuple[int, ...]) -> TensorType:
    check_axes("var", x, axes)
    check_dtype("var", x, FLOATS)
    return TensorType(without_axes(x.shape, axes), x.dtype)


def reference(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray(x.var(axes))


def expand(b: Builder, node: Node) -> Sequence[Value]:
    return [variance(Term(b, node.inputs[0]), node.attrs["axes"]).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = 2 g (x - mean) / n: the gradient through the mean is zero
    if gs[0] is None:
        return [None]
    x, axes = Term(b, node.inputs[0]), node.attrs["axes"]
    share = Term(b, gs[0]) * (2.0 / prod(x.shape[axis] for axis in axes))
    return [(share.spread(axes, x.shape) * centred(x, axes)).value]


_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((5,), (0,)),
    ((1, 3), (0,)),
    ((3, 65), (1,)),
    ((257, 7), (0,)),
    ((4, 5, 3), (0, 1)),
    ((2, 3, 4, 5), (1, 3)),
)

OPS = (
    Op(
        "var",
        infer,
        reference,
        Expand(expand),
        grad,
        [Sample([shape], {"axes": axes}) for shape, axes in _CASES],
    ),
)
