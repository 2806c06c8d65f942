"""Convolutions, channels last: `conv1d … conv3d`, `conv_transpose1d` and `2d`, `causal_conv1d`."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.pooling import MOST_PLACES, check_places, new_size, windows_over
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


def _conv(axes: int) -> BuiltinFunction:
    """x `[N, size …, I]` with kernels w `[kernel …, I / groups, O]`; as in PyTorch not flipped."""
    name = f"conv{axes}d"

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS, rank=axes + 2)
        w = expect.tensor(tracer, args, "w", (x.dtype,), rank=axes + 2)
        stride = expect.per_axis(tracer, args, "stride", axes)
        dilation = expect.per_axis(tracer, args, "dilation", axes)
        pad = expect.per_axis(tracer, args, "pad", axes, least=0)
        groups = expect.whole(tracer, args, "groups")
        _check_channels(tracer, name, args, at, x, w, groups)
        windows = windows_over(tracer, at, x.dims, w.dims[:-2], stride, pad, dilation)
        dims = (x.dims[0], *windows.out, w.dims[-1])
        attrs = windows.attrs()
        return tracer.emit("conv", x, w, dims=dims, dtype=x.dtype, **attrs, groups=groups.size)

    return BuiltinFunction(name, "x, w, stride=1, pad=0, dilation=1, groups=1", call)


def _check_channels(
    tracer: Tracer, name: str, args: BoundArgs, at: Span, x: Tensor, w: Tensor, groups: Dim
) -> None:
    each, outputs = x.dims[-1].divided_by(groups), w.dims[-1].divided_by(groups)
    if each is None or outputs is None:
        channels = f"{x.dims[-1].full} and {w.dims[-1].full}"
        text = f"{name}: {groups.size} groups do not divide the channels, {channels}"
        raise Stop(tracer.report.error("WG0406", text, args.span("groups")))
    if not tracer.same_size(each, w.dims[-2], at, name):
        raise _other_channels(tracer, name, args, at, x, w, w.dims[-2] * groups)


def _other_channels(
    tracer: Tracer, name: str, args: BoundArgs, at: Span, x: Tensor, w: Tensor, expected: Dim
) -> Stop:
    text = f"{name}: the input has {x.dims[-1].full} channels, the kernel expects {expected.full}"
    problem = tracer.report.error("WG0406", text, at)
    problem.also(args.span("x"), str(x)).also(args.span("w"), str(w))
    if compare(x.dims[1], expected) is not DIFF:
        axes = ["t", "hw", "dhw"][x.rank - 3]
        before, after = " ".join(f"nc{axes}"), " ".join(f"n{axes}c")
        problem.help(
            f'channels are the last axis: `rearrange({args.text("x")}, "{before} -> {after}")`'
        )
    return Stop(problem)


def _conv_transpose(axes: int) -> BuiltinFunction:
    """x `[N, in …, I]` with w `[kernel …, I, O / groups]`: each pixel adds its kernel to a window.

    The result has `(in - 1) · stride - 2 · pad + dilation · (kernel - 1) + output_pad + 1` pixels.
    """
    name = f"conv_transpose{axes}d"

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS, rank=axes + 2)
        w = expect.tensor(tracer, args, "w", (x.dtype,), rank=axes + 2)
        stride, dilation = (
            expect.per_axis(tracer, args, key, axes) for key in ("stride", "dilation")
        )
        pad, more = (
            expect.per_axis(tracer, args, key, axes, least=0) for key in ("pad", "output_pad")
        )
        groups = expect.whole(tracer, args, "groups")
        _check_inputs(tracer, name, args, at, x, w, groups)
        check_places(tracer, at, w.dims[:-2])
        _check_output_pad(tracer, args, more, stride, dilation)
        each = zip(x.dims[1:-1], w.dims[:-2], stride, pad, dilation, more, strict=True)
        size = [_size(tracer, at, *axis) for axis in each]
        result = tracer.emit(
            "conv_transpose", x, w, dims=(x.dims[0], *size, w.dims[-1] * groups), dtype=x.dtype,
            stride=sizes_of(stride), pad=sizes_of(pad), dilation=sizes_of(dilation),
            groups=groups.size, size=sizes_of(size),
        )  # fmt: skip
        tracer.check_size(result.value.type, str(result), at)
        return result

    settings = "stride=1, pad=0, output_pad=0, dilation=1, groups=1"
    return BuiltinFunction(name, f"x, w, {settings}", call)


def _check_inputs(
    tracer: Tracer, name: str, args: BoundArgs, at: Span, x: Tensor, w: Tensor, groups: Dim
) -> None:
    if x.dims[-1].divided_by(groups) is None:
        text = f"{name}: {groups.size} groups do not divide the channels, {x.dims[-1].full}"
        raise Stop(tracer.report.error("WG0406", text, args.span("groups")))
    if not tracer.same_size(x.dims[-1], w.dims[-2], at, name):
        raise _other_channels(tracer, name, args, at, x, w, w.dims[-2])


def _check_output_pad(
    tracer: Tracer, args: BoundArgs, more: Sequence[Dim], stride: Sequence[Dim],
    dilation: Sequence[Dim],
) -> None:  # fmt: skip
    """A convolution maps several sizes to that of x: `output_pad` says which of them is meant."""
    for extra, step, by in zip(more, stride, dilation, strict=True):
        most = max(step.size, by.size) - 1
        if extra.size > most and not tracer.generic:
            text = f"`output_pad` must be below the stride or the dilation, but it is {extra.size}"
            raise Stop(tracer.report.error("WG0417", text, args.span("output_pad")))


def _size(
    tracer: Tracer, at: Span, size: Dim, kernel: Dim, stride: Dim, pad: Dim, dilation: Dim,
    more: Dim,
) -> Dim:  # fmt: skip
    """The size of the result along an axis, with its name where it is a multiple of x's."""
    window = dilation.size * (kernel.size - 1) + more.size + 1
    count = (size.size - 1) * stride.size - 2 * pad.size + window
    if count < 1 and not tracer.generic:
        text = f"nothing is left: a padding of {pad.size} on both sides is cut off"
        raise Stop(tracer.report.error("WG0417", text, at))
    whole = size * stride
    return whole if whole.size == count else new_size(tracer, max(count, 1))


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
    return _each_channel(TensorExpr(tracer, x), TensorExpr(tracer, w)).reshape(x.dims).tensor


def _each_channel(x: TensorExpr, w: TensorExpr) -> TensorExpr:
    """The last row of the window is at the present."""
    time, channels, one = x.dims[-2], x.dims[-1], Dim.literal(1)
    signal = x.reshape([product(x.dims[:-2]), time, channels])
    kernel = w.reshape([w.dims[0], one, channels])
    result = x.tracer.emit(
        "conv", signal.tensor, kernel.tensor, dims=signal.dims, dtype=x.dtype,
        stride=(1,), pad=(w.dims[0].size - 1,), dilation=(1,), groups=channels.size,
        out=(time.size,),
    )  # fmt: skip
    return TensorExpr(x.tracer, result)


FUNCTIONS = (
    *(_conv(axes) for axes in (1, 2, 3)),
    *(_conv_transpose(axes) for axes in (1, 2)),
    BuiltinFunction("causal_conv1d", "x, w", causal_conv1d),
)
