"""`conv2d` and `causal_conv1d` (channels-last)."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.image_windows import MOST_PLACES, windows_over
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def conv2d(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x `[N, H, W, I]` with kernels w `[KH, KW, I / groups, O]`; as in PyTorch not flipped."""
    x = expect.tensor(tracer, args, "x", FLOATS, rank=4)
    w = expect.tensor(tracer, args, "w", (x.dtype,), rank=4)
    stride = expect.pair(tracer, args, "stride")
    dilation = expect.pair(tracer, args, "dilation")
    pad = expect.pair(tracer, args, "pad", least=0)
    groups = expect.whole(tracer, args, "groups")
    _check_channels(tracer, args, at, x, w, groups)
    windows = windows_over(tracer, at, x.dims, w.dims[:2], stride, pad, dilation)
    dims = (x.dims[0], *windows.out, w.dims[3])
    return tracer.emit(
        "conv2d", x, w, dims=dims, dtype=x.dtype,
        **windows.attrs(), dilation=windows.dilation, groups=groups.size,
    )  # fmt: skip


def _check_channels(
    tracer: Tracer, args: BoundArgs, at: Span, x: Tensor, w: Tensor, groups: Dim
) -> None:
    each, outputs = x.dims[3].divided_by(groups), w.dims[3].divided_by(groups)
    if each is None or outputs is None:
        channels = f"{x.dims[3].full} and {w.dims[3].full}"
        text = f"conv2d: {groups.size} groups do not divide the channels, {channels}"
        raise Stop(tracer.report.error("WG0406", text, args.span("groups")))
    if not tracer.same_size(each, w.dims[2], at, "conv2d"):
        text = (
            f"conv2d: the input has {x.dims[3].full} channels, "
            f"the kernel expects {(w.dims[2] * groups).full}"
        )
        found = tracer.report.error("WG0406", text, at)
        raise Stop(found.also(args.span("x"), str(x)).also(args.span("w"), str(w)))


def causal_conv1d(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """y_t = Σ_i w_i x_{t - K + 1 + i}, for each channel; x is zero before the beginning."""
    x = expect.tensor(tracer, args, "x", FLOATS)
    w = expect.tensor(tracer, args, "w", (x.dtype,), rank=2)
    if x.rank < 2 or compare(x.dims[-1], w.dims[1]) is DIFF:
        channels = x.dims[-1].full if x.dims else "no"
        text = f"causal_conv1d: {x} has {channels} channels, the window has {w.dims[1].full}"
        raise Stop(tracer.report.error("WG0406", text, at))
    tracer.same_size(x.dims[-1], w.dims[1], at, "causal_conv1d")
    if w.dims[0].size > MOST_PLACES and not tracer.generic:
        text = f"a window of {w.dims[0].full} is too long, at most {MOST_PLACES:,} are possible"
        raise Stop(tracer.report.error("WG0417", text, args.span("w")))
    return _columns(TensorExpr(tracer, x), TensorExpr(tracer, w)).reshape(x.dims).tensor


def _columns(x: TensorExpr, w: TensorExpr) -> TensorExpr:
    """Time as the rows of an image one pixel wide; the last kernel row is at the present."""
    time, channels, one = x.dims[-2], x.dims[-1], Dim.literal(1)
    image = x.reshape([product(x.dims[:-2]), time, one, channels])
    kernel = w.reshape([w.dims[0], one, one, channels])
    result = x.tracer.emit(
        "conv2d", image.tensor, kernel.tensor, dims=image.dims, dtype=x.dtype,
        stride=(1, 1), pad=(w.dims[0].size - 1, 0), dilation=(1, 1), groups=channels.size,
        out=(time.size, 1),
    )  # fmt: skip
    return TensorExpr(x.tracer, result)


FUNCTIONS = (
    BuiltinFunction("conv2d", "x, w, stride=1, pad=0, dilation=1, groups=1", conv2d),
    BuiltinFunction("causal_conv1d", "x, w", causal_conv1d),
)
