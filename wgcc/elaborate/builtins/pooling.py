"""`max_pool1d` … `avg_pool3d`: windows of a signal, an image or a volume to one pixel each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.windows import Windows, windows_over
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import AnyValue, Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

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


def _windows(tracer: Tracer, args: BoundArgs, at: Span, axes: int) -> tuple[Tensor, Windows]:
    x = expect.tensor(tracer, args, "x", FLOATS, rank=axes + 2)
    kernel = expect.per_axis(tracer, args, "k", axes)
    given = args["stride"] is not None
    stride = expect.per_axis(tracer, args, "stride", axes) if given else kernel
    pad = expect.per_axis(tracer, args, "pad", axes, least=0)
    dilation = expect.per_axis(tracer, args, "dilation", axes)
    _check_pad(tracer, args, kernel, pad, dilation)
    ceil = expect.flag(tracer, args, "ceil_mode")
    return x, windows_over(tracer, at, x.dims, kernel, stride, pad, dilation, ceil)


def _check_pad(
    tracer: Tracer, args: BoundArgs, kernel: Sequence[Dim], pad: Sequence[Dim],
    dilation: Sequence[Dim],
) -> None:  # fmt: skip
    """With more than half of a kernel, some windows would contain padding only."""
    for size, zeros, by in zip(kernel, pad, dilation, strict=True):
        most = ((size.size - 1) * by.size + 1) // 2
        if zeros.size > most and not tracer.generic:
            text = f"`pad` may be half of the kernel, {most}, but it is {zeros.size}"
            raise Stop(tracer.report.error("WG0417", text, args.span("pad")))


def _emit(tracer: Tracer, op: str, x: Tensor, windows: Windows, dtype: str, **attrs: Any) -> Tensor:
    dims = (x.dims[0], *windows.out, x.dims[-1])
    attrs |= windows.attrs()
    return tracer.emit(op, x, dims=dims, dtype=dtype, kernel=windows.kernel, **attrs)


FUNCTIONS = (*(_max_pool(axes) for axes in (1, 2, 3)), *(_avg_pool(axes) for axes in (1, 2, 3)))
