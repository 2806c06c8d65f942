"""argmax(x; axis), argmin(x; axis): the index of the first extreme (as in numpy), as i32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import np
from wgcc.ops.checks import check_axis, check_dtype, without_axes
from wgcc.ops.registry import Op, Reference, Sample, SharedAxis, Special


def no_grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    return [None]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, axis: int) -> TensorType:
        check_axis(name, x, axis)
        check_dtype(name, x, NUMBERS)
        return TensorType(without_axes(x.shape, (axis,)), "i32")

    return infer


def separate(node: Node) -> list[SharedAxis]:
    gone, rank = int(node.attrs["axis"]), node.inputs[0].type.rank
    return [((k,), (k - (k > gone),)) for k in range(rank) if k != gone]


def _op(name: str, reference: Reference) -> Op:
    shapes: list[tuple[tuple[int, ...], int]] = [
        ((1,), 0),
        ((65,), 0),
        ((257,), 0),
        ((3, 5), 1),
        ((63, 7), 0),
        ((2, 3, 4, 5), 2),
    ]
    samples = [Sample([shape], {"axis": axis}) for shape, axis in shapes]
    # Small integers have many ties.
    ties = Sample([TensorType((7, 19), "i32")], {"axis": 1}, differentiable=False)
    return Op(
        name,
        _infer(name),
        reference,
        Special("arg_reduce"),
        no_grad,
        [*samples, ties],
        separate=separate,
    )


OPS = (
    _op("argmax", lambda x, axis: np.asarray(np.argmax(x, axis), np.int32)),
    _op("argmin", lambda x, axis: np.asarray(np.argmin(x, axis), np.int32)),
)
