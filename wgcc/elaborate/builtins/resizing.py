"""`upsample`: images made larger, channels-last."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span


def upsample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Each pixel of `[N, H, W, C]` as a block of `factor` equal ones (nearest neighbour)."""
    x = expect.tensor(tracer, args, "x", rank=4)
    down, right = expect.per_axis(tracer, args, "factor", 2)
    batch, rows, columns, channels = x.dims
    one = Dim.literal(1)
    blocks = TensorExpr(tracer, x).reshape([batch, rows, one, columns, one, channels])
    spread = blocks.broadcast([batch, rows, down, columns, right, channels])
    dims = (batch, rows * down, columns * right, channels)
    result = spread.reshape(dims).tensor
    tracer.check_size(result.value.type, str(result), at)
    return result


FUNCTIONS = (BuiltinFunction("upsample", "x, factor=2", upsample),)
