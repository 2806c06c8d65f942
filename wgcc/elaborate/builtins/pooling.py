"""`max_pool2d`, `avg_pool2d` and `upsample`: images made smaller or larger, channels-last."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.image_windows import windows_over
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def _pool(name: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS, rank=4)
        kernel = expect.pair(tracer, args, "k")
        stride = kernel if args["stride"] is None else expect.pair(tracer, args, "stride")
        pad = expect.pair(tracer, args, "pad", least=0)
        _check_pad(tracer, args, kernel, pad)
        one = (Dim.literal(1),) * 2
        windows = windows_over(tracer, at, x.dims, kernel, stride, pad, one)
        dims = (x.dims[0], *windows.out, x.dims[3])
        return tracer.emit(
            name, x, dims=dims, dtype=x.dtype, kernel=windows.kernel, **windows.attrs()
        )

    return BuiltinFunction(name, "x, k, stride=none, pad=0", call)


def _check_pad(
    tracer: Tracer, args: BoundArgs, kernel: tuple[Dim, Dim], pad: tuple[Dim, Dim]
) -> None:
    """With more than half of a kernel, some windows would contain padding only."""
    for size, zeros in zip(kernel, pad, strict=True):
        if 2 * zeros.size > size.size and not tracer.generic:
            text = f"`pad` may be half of the kernel, {size.size // 2}, but it is {zeros.size}"
            raise Stop(tracer.report.error("WG0417", text, args.span("pad")))


def upsample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Each pixel of `[N, H, W, C]` as a block of `factor` equal ones (nearest neighbour)."""
    x = expect.tensor(tracer, args, "x", rank=4)
    down, right = expect.pair(tracer, args, "factor")
    batch, rows, columns, channels = x.dims
    one = Dim.literal(1)
    blocks = TensorExpr(tracer, x).reshape([batch, rows, one, columns, one, channels])
    spread = blocks.broadcast([batch, rows, down, columns, right, channels])
    dims = (batch, rows * down, columns * right, channels)
    result = spread.reshape(dims).tensor
    tracer.check_size(result.value.type, str(result), at)
    return result


FUNCTIONS = (
    _pool("max_pool2d"),
    _pool("avg_pool2d"),
    BuiltinFunction("upsample", "x, factor=2", upsample),
)
