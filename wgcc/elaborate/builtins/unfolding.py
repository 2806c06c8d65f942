"""`unfold` and `fold`: the windows of an image as rows, and the image as the sum of such rows."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.builtins.windows import Windows, windows_over
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

# PyTorch has dilation, padding and stride in this order, so they are given by name.
BY_NAME = "k, *, stride=1, pad=0, dilation=1"


def unfold(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """From `[N, H, W, C]` to `[N, windows, KH · KW · C]`, in the order of a kernel of conv2d."""
    image = expect.tensor(tracer, args, "x", FLOATS, rank=4)
    x, (batch, rows, columns, channels), one = TensorExpr(tracer, image), image.dims, Dim.literal(1)
    windows, kernel = _windows(tracer, args, at, image.dims)
    spread = x.reshape([batch, rows, columns, one, one, channels])
    copies = spread.broadcast([batch, rows, columns, *kernel, channels])
    dims = (batch, *windows.out, *kernel, channels)
    attrs = windows.attrs()
    pixels = tracer.emit("patches", copies.tensor, dims=dims, dtype=x.dtype, **attrs)
    count, width = product(windows.out), product(kernel) * channels
    result = TensorExpr(tracer, pixels).reshape([batch, count, width]).tensor
    tracer.check_size(result.value.type, str(result), at)
    return result


def fold(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The opposite: from `[N, windows, KH · KW · C]` to `[N, H, W, C]`; overlaps are added up."""
    rows = expect.tensor(tracer, args, "x", FLOATS, rank=3)
    x, (batch, count, width) = TensorExpr(tracer, rows), rows.dims
    size = expect.per_axis(tracer, args, "size", 2)
    windows, kernel = _windows(tracer, args, at, (batch, *size, width))
    channels = width.divided_by(product(kernel))
    if channels is None:
        text = f"fold: rows of {width.full} are not windows of {_times(kernel)} pixels"
        raise Stop(tracer.report.error("WG0406", text, args.span("x"), str(rows)))
    if compare(count, product(windows.out)) is DIFF:
        text = f"fold: {_times(size)} pixels have {_times(windows.out)} windows, not {count.full}"
        raise Stop(tracer.report.error("WG0406", text, args.span("x"), str(rows)))
    pixels = x.reshape([batch, *windows.out, *kernel, channels])
    dims = (batch, *size, *kernel, channels)
    attrs = {**windows.attrs(), "size": (size[0].size, size[1].size)}
    del attrs["out"]
    spread = tracer.emit("unpatches", pixels.tensor, dims=dims, dtype=x.dtype, **attrs)
    return TensorExpr(tracer, spread).sum((3, 4)).tensor


def _windows(
    tracer: Tracer, args: BoundArgs, at: Span, image: tuple[Dim, ...]
) -> tuple[Windows, tuple[Dim, ...]]:
    kernel, stride, dilation = (
        expect.per_axis(tracer, args, name, 2) for name in ("k", "stride", "dilation")
    )
    pad = expect.per_axis(tracer, args, "pad", 2, least=0)
    return windows_over(tracer, at, image, kernel, stride, pad, dilation), kernel


def _times(dims: tuple[Dim, ...]) -> str:
    return " x ".join(str(dim.size) for dim in dims)


FUNCTIONS = (
    BuiltinFunction("unfold", f"x, {BY_NAME}", unfold),
    BuiltinFunction("fold", f"x, size, {BY_NAME}", fold),
)
