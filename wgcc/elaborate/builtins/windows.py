"""Windows that slide over signals, images and volumes, channels last: their sizes and steps,
pooling, `unfold` and `fold`, and convolutions: `conv1d … conv3d`, `conv_transpose1d` and `2d`,
`causal_conv1d`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators.broadcasting import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import AnyValue, Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS
from wgcc.ir.places import ceil_div

# Far more than networks use, and few enough for a loop over all of them.
MOST_PLACES = 65_536

Sizes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class WindowArguments:
    """A kernel of `kernel` pixels is placed over an image once for each pixel of `out`."""

    kernel: Sizes
    stride: Sizes
    pad: Sizes
    dilation: Sizes
    out: tuple[Dim, ...]

    def attrs(self) -> dict[str, Any]:
        """The attributes of ops, without the kernel's size."""
        out = sizes_of(self.out)
        return {"stride": self.stride, "pad": self.pad, "dilation": self.dilation, "out": out}


def windows_over(
    tracer: Tracer, at: Span, image: Sequence[Dim], kernel: Sequence[Dim], stride: Sequence[Dim],
    pad: Sequence[Dim], dilation: Sequence[Dim], ceil: bool = False,
) -> WindowArguments:  # fmt: skip
    """The windows over an image `[N, size …, C]`; reports kernels that do not fit."""
    axes = zip(image[1:-1], kernel, stride, pad, dilation, strict=True)
    out = tuple(_count(tracer, at, *axis, ceil) for axis in axes)
    check_places(tracer, at, kernel)
    return WindowArguments(
        sizes_of(kernel), sizes_of(stride), sizes_of(pad), sizes_of(dilation), out
    )


def check_places(tracer: Tracer, at: Span, kernel: Sequence[Dim]) -> None:
    sizes = sizes_of(kernel)
    if prod(sizes) > MOST_PLACES and not tracer.generic:
        pixels = " x ".join(map(str, sizes))
        text = f"a kernel of {pixels} pixels is too large, at most {MOST_PLACES:,} are possible"
        raise Stop(tracer.report.error("WG0417", text, at))


def _count(
    tracer: Tracer, at: Span, size: Dim, kernel: Dim, stride: Dim, pad: Dim, dilation: Dim,
    ceil: bool,
) -> Dim:  # fmt: skip
    """How often a kernel fits along an axis; the axis's own dim if that is its size."""
    room = size.size + 2 * pad.size - dilation.size * (kernel.size - 1) - 1
    count = max(room, 0) // stride.size + 1
    if ceil and ceil_div(room, stride.size) + 1 > count:
        # One more window if it begins in the image or in the padding before it.
        count += count * stride.size < size.size + pad.size
    if room < 0 and not tracer.generic:
        text = f"the kernel of {kernel.size} pixels does not fit in {size.full}"
        problem = tracer.report.error("WG0417", text, at)
        raise Stop(problem.help("use a smaller kernel, or `pad`"))
    if count == size.size:
        return size
    exact = size.divided_by(stride)
    if exact is not None and exact.size == count:
        return exact
    return new_size(tracer, count)


def new_size(tracer: Tracer, count: int) -> Dim:
    return Dim(count, generic=True) if tracer.generic else Dim.literal(count)


WINDOWS = "x, k, stride=none, pad=0, dilation=1, ceil_mode=false"


def _max_pool(axes: int) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
        x, windows = _windows(tracer, args, at, axes)
        largest = _emit(tracer, "max_pool", x, windows, x.dtype)
        if not expect.flag(tracer, args, "return_indices"):
            return largest
        return TupleValue((largest, _emit(tracer, "max_pool_index", x, windows, "i32")))

    return BuiltinFunction(f"max_pool{axes}d", f"{WINDOWS}, return_indices=false", call)


def _avg_pool(axes: int) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
        x, windows = _windows(tracer, args, at, axes)
        # As in PyTorch, a last window that exceeds even the padding has fewer pixels.
        padding = "padded" if expect.flag(tracer, args, "ceil_mode") else "kernel"
        counted = padding if expect.flag(tracer, args, "count_include_pad") else "image"
        return _emit(tracer, "avg_pool", x, windows, x.dtype, counted=counted)

    return BuiltinFunction(f"avg_pool{axes}d", f"{WINDOWS}, count_include_pad=true", call)


def _windows(
    tracer: Tracer, args: BoundArgs, at: Span, axes: int
) -> tuple[Tensor, WindowArguments]:
    x = expect.tensor(tracer, args, "x", FLOATS, rank=axes + 2)
    kernel = expect.per_axis(tracer, args, "k", axes)
    has_stride = args["stride"] is not None
    stride = expect.per_axis(tracer, args, "stride", axes) if has_stride else kernel
    pad = expect.per_axis(tracer, args, "pad", axes, least=0)
    dilation = expect.per_axis(tracer, args, "dilation", axes)
    _check_pad(tracer, args, kernel, pad, dilation)
    ceil = expect.flag(tracer, args, "ceil_mode")
    return x, windows_over(tracer, at, x.dims, kernel, stride, pad, dilation, ceil)


def _check_pad(
    tracer: Tracer, args: BoundArgs, kernel: Sequence[Dim], pad: Sequence[Dim],
    dilation: Sequence[Dim],
) -> None:  # fmt: skip
    """Padding is at most half of a kernel; with more, some windows would contain nothing else."""
    for size, zeros, by in zip(kernel, pad, dilation, strict=True):
        most = ((size.size - 1) * by.size + 1) // 2
        if zeros.size > most and not tracer.generic:
            text = f"`pad` may be half of the kernel, {most}, but it is {zeros.size}"
            raise Stop(tracer.report.error("WG0417", text, args.span("pad")))


def _emit(
    tracer: Tracer, op: str, x: Tensor, windows: WindowArguments, dtype: str, **attrs: Any
) -> Tensor:
    dims = (x.dims[0], *windows.out, x.dims[-1])
    attrs |= windows.attrs()
    return tracer.emit(op, x, dims=dims, dtype=dtype, kernel=windows.kernel, **attrs)


# PyTorch has dilation, padding and stride in this order, so they are given by name.
BY_NAME = "k, *, stride=1, pad=0, dilation=1"


def unfold(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Turns `[N, H, W, C]` into `[N, windows, KH · KW · C]`, in the order of a kernel of conv2d."""
    image = expect.tensor(tracer, args, "x", FLOATS, rank=4)
    x, (batch, rows, columns, channels), one = TensorExpr(tracer, image), image.dims, Dim.literal(1)
    windows, kernel = _unfold_windows(tracer, args, at, image.dims)
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
    windows, kernel = _unfold_windows(tracer, args, at, (batch, *size, width))
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


def _unfold_windows(
    tracer: Tracer, args: BoundArgs, at: Span, image: tuple[Dim, ...]
) -> tuple[WindowArguments, tuple[Dim, ...]]:
    kernel, stride, dilation = (
        expect.per_axis(tracer, args, name, 2) for name in ("k", "stride", "dilation")
    )
    pad = expect.per_axis(tracer, args, "pad", 2, least=0)
    return windows_over(tracer, at, image, kernel, stride, pad, dilation), kernel


def _times(dims: tuple[Dim, ...]) -> str:
    return " x ".join(str(dim.size) for dim in dims)


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
    *(_max_pool(axes) for axes in (1, 2, 3)),
    *(_avg_pool(axes) for axes in (1, 2, 3)),
    BuiltinFunction("unfold", f"x, {BY_NAME}", unfold),
    BuiltinFunction("fold", f"x, size, {BY_NAME}", fold),
    *(_conv(axes) for axes in (1, 2, 3)),
    *(_conv_transpose(axes) for axes in (1, 2)),
    BuiltinFunction("causal_conv1d", "x, w", causal_conv1d),
)
