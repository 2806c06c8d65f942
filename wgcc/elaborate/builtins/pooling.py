"""`max_pool2d` and `avg_pool2d`, channels-last."""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate import views
from wgcc.elaborate.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.builtins import parameters
from wgcc.elaborate.builtins.convolution import Windows, result_dim
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
        zero, one = Dim.literal(0), Dim.literal(1)
        out = [
            result_dim(tracer, at, x.dims[1 + n], zero, kernel[n], stride[n], one) for n in (0, 1)
        ]
        dims = (x.dims[0], out[0], out[1], x.dims[3])
        if tracer.generic:
            return tracer.emit(name, x, dims=dims, dtype=x.dtype)
        sizes = [dim.size for dim in (*kernel, *stride)]
        windows = Windows((sizes[0], sizes[1]), (sizes[2], sizes[3]), (1, 1), (out[0], out[1]))
        blocks = _tiled(tracer, x, windows) if sizes[:2] == sizes[2:] else None
        if blocks is not None:
            return rule(blocks, [2, 4]).reshape(dims).tensor
        return rule(_stacked(tracer, x, windows), [3]).reshape(dims).tensor

    return BuiltinFunction(name, "x, k, stride=none", call)


def _tiled(tracer: Tracer, x: Tensor, windows: Windows) -> Term:
    """Windows that do not overlap are axes of their own: `[N, H', k, W', k, C]`."""
    rows, columns = (Dim.literal(size) for size in windows.kernel)
    down, right = windows.out
    whole = (x.dims[0], down * rows, right * columns, x.dims[3])
    covered = views.cut(tracer, x, (0, 0, 0, 0), whole, (1, 1, 1, 1))
    return Term(tracer, covered).reshape([x.dims[0], down, rows, right, columns, x.dims[3]])


def _stacked(tracer: Tracer, x: Tensor, windows: Windows) -> Term:
    """Windows that overlap: what each place of the kernel sees, side by side on axis 3."""
    seen = [
        views.new_axis(tracer, windows.seen_from(tracer, x, place), 3) for place in windows.places
    ]
    if len(seen) == 1:
        return Term(tracer, seen[0])
    dims = list(seen[0].dims)
    dims[3] = Dim.literal(len(seen))
    return Term(tracer, tracer.emit("concat", *seen, dims=dims, dtype=x.dtype, axis=3))


FUNCTIONS = (
    _pool("max_pool2d", lambda x, axes: x.reduce("max", axes)),
    _pool("avg_pool2d", lambda x, axes: x.mean(axes)),
)
