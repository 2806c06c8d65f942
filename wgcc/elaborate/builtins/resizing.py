"""`resize` and `upsample`: images made smaller or larger, channels-last."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

# PyTorch's names for two axes, and what is done along each.
MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def resize(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`[N, H, W, C]` (or 1 or 3 axes instead of H, W) resampled to a size, axis by axis."""
    x = expect.tensor(tracer, args, "x", FLOATS)
    if not 3 <= x.rank <= 5:
        text = f"`x` must be [N, size …, C] with 1 to 3 axes in between, but this is {x}"
        raise Stop(tracer.report.error("WG0415", text, args.span("x"), str(x)))
    size = expect.per_axis(tracer, args, "size", x.rank - 2)
    mode = MODES[expect.choice(tracer, args, "mode", tuple(MODES))]
    align = expect.flag(tracer, args, "align_corners")
    if align and mode == "nearest":
        text = "`align_corners` is for bilinear and bicubic; the nearest pixel has no corners"
        raise Stop(tracer.report.error("WG0503", text, args.span("align_corners")))
    for axis, wanted in enumerate(size, 1):
        if wanted.size != x.dims[axis].size:
            dims = (*x.dims[:axis], wanted, *x.dims[axis + 1 :])
            x = tracer.emit(
                "resize", x, dims=dims, dtype=x.dtype,
                axis=axis, size=wanted.size, mode=mode, align=align,
            )  # fmt: skip
            tracer.check_size(x.value.type, str(x), at)
    return Tensor(x.value, (x.dims[0], *size, x.dims[-1]))


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


FUNCTIONS = (
    BuiltinFunction("resize", 'x, size, mode="nearest", align_corners=false', resize),
    BuiltinFunction("upsample", "x, factor=2", upsample),
)
