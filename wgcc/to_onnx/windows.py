"""Convolution and pooling: channels are last here, and second in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.to_onnx.emitter import Call, CannotExport


def first(rank: int) -> list[int]:
    """Channels from the end to the second place."""
    return [0, rank - 1, *range(1, rank - 1)]


def last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def pads(call: Call, kernel: Sequence[int]) -> list[int]:
    """What is added before and after each axis, so that the result has its size."""
    before, after = list(call.attr("pad")), []
    given = zip(
        call.shape[1:-1], kernel, call.attr("stride"), call.attr("dilation"), before,
        call.attr("out"), strict=True,
    )  # fmt: skip
    for size, k, stride, dilation, pad, out in given:
        after.append(max((out - 1) * stride + (k - 1) * dilation + 1 - size - pad, 0))
    return [*before, *after]


def conv(call: Call) -> str:
    rank, kernel = len(call.shape), call.node.inputs[1].shape[:-2]
    x = call.to.transpose(call.x, first(rank))
    w = call.to.transpose(call.inputs[1], [rank - 1, rank - 2, *range(rank - 2)])
    found = call.to.node(
        "Conv", x, w, strides=list(call.attr("stride")), pads=pads(call, kernel),
        dilations=list(call.attr("dilation")), group=call.attr("groups"),
    )  # fmt: skip
    return call.to.transpose(found, last(rank), call.name)


def conv_transpose(call: Call) -> str:
    rank = len(call.shape)
    attrs = call.node.attrs
    x = call.to.transpose(call.x, first(rank))
    w = call.to.transpose(call.inputs[1], [rank - 2, rank - 1, *range(rank - 2)])
    kernel = call.node.inputs[1].shape[:-2]
    before = list(attrs["pad"])
    after = []
    for place, k in enumerate(kernel):
        stride, dilation = attrs["stride"][place], attrs["dilation"][place]
        full = (call.shape[1 + place] - 1) * stride + (k - 1) * dilation + 1
        after.append(full - before[place] - call.out.shape[1 + place])
    if min(after) < 0:
        raise CannotExport("its output is longer than its windows reach")
    found = call.to.node(
        "ConvTranspose", x, w, strides=list(attrs["stride"]), dilations=list(attrs["dilation"]),
        pads=[*before, *after], group=attrs.get("groups", 1),
    )  # fmt: skip
    return call.to.transpose(found, last(rank), call.name)


def max_pool(call: Call) -> str:
    return _pool(call, "MaxPool")


def avg_pool(call: Call) -> str:
    counted = call.attr("counted")
    if counted not in ("kernel", "inside"):
        raise CannotExport("its windows count padding at one side alone")
    return _pool(call, "AveragePool", count_include_pad=int(counted == "kernel"))


def _pool(call: Call, kind: str, **more: Any) -> str:
    rank, kernel = len(call.shape), call.attr("kernel")
    x = call.to.transpose(call.x, first(rank))
    found = call.to.node(
        kind, x, kernel_shape=list(kernel), strides=list(call.attr("stride")),
        dilations=list(call.attr("dilation")), pads=pads(call, kernel), **more,
    )  # fmt: skip
    return call.to.transpose(found, last(rank), call.name)
