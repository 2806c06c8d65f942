"""`max_pool2d` and `avg_pool2d`, channels-last."""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.builtins import parameters
from wgcc.elaborate.builtins.windows import windows_over
from wgcc.elaborate.dims import Dim
from wgcc.elaborate.terms import Term
from wgcc.elaborate.tracer import Tracer
from wgcc.elaborate.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

Rule = Callable[[Term, list[int]], Term]


def _pool(name: str, rule: Rule) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = parameters.tensor(tracer, args, "x", FLOATS, rank=4)
        kernel = parameters.pair(tracer, args, "k")
        stride = kernel if args["stride"] is None else parameters.pair(tracer, args, "stride")
        none, one = (Dim.literal(0),) * 2, (Dim.literal(1),) * 2
        windows = windows_over(tracer, at, x.dims[1:3], kernel, stride, none, one)
        dims = (x.dims[0], *windows.out, x.dims[3])
        if tracer.generic:
            return tracer.emit(name, x, dims=dims, dtype=x.dtype)
        image = Term(tracer, x)
        if windows.are_tiles:
            return rule(windows.tiles(image), [2, 4]).reshape(dims).tensor
        return rule(windows.stacked(image, windows.places), [3]).reshape(dims).tensor

    return BuiltinFunction(name, "x, k, stride=none", call)


FUNCTIONS = (
    _pool("max_pool2d", lambda x, axes: x.reduce("max", axes)),
    _pool("avg_pool2d", lambda x, axes: x.mean(axes)),
)
