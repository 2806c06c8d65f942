"""Convolution and pooling: channels are last here, and second in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.exporting.compositions import window_places
from wgcc.lazy_numpy import np
from wgcc.ops.pool import KERNEL, PADDED, reference_avg
from wgcc.to_onnx.emitter import CannotExport, OnnxNode


def first(rank: int) -> list[int]:
    """Channels from the end to the second place."""
    return [0, rank - 1, *range(1, rank - 1)]


def last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def pads(call: OnnxNode, kernel: Sequence[int]) -> list[int]:
    """The padding before and after each axis that gives the output its size."""
    before, after = list(call.attr("pad")), []
    given = zip(
        call.shape[1:-1], kernel, call.attr("stride"), call.attr("dilation"), before,
        call.attr("out"), strict=True,
    )  # fmt: skip
    for size, k, stride, dilation, pad, out in given:
        after.append(max((out - 1) * stride + (k - 1) * dilation + 1 - size - pad, 0))
    return [*before, *after]


def conv(call: OnnxNode) -> str:
    rank, kernel = len(call.shape), call.node.inputs[1].shape[:-2]
    x = call.to.transpose(call.x, first(rank))
    w = call.to.transpose(call.inputs[1], [rank - 1, rank - 2, *range(rank - 2)])
    y = call.to.node(
        "Conv", x, w, strides=list(call.attr("stride")), pads=pads(call, kernel),
        dilations=list(call.attr("dilation")), group=call.attr("groups"),
    )  # fmt: skip
    return call.to.transpose(y, last(rank), call.name)


def conv_transpose(call: OnnxNode) -> str:
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
    y = call.to.node(
        "ConvTranspose", x, w, strides=list(attrs["stride"]), dilations=list(attrs["dilation"]),
        pads=[*before, *after], group=attrs.get("groups", 1),
    )  # fmt: skip
    return call.to.transpose(y, last(rank), call.name)


def max_pool(call: OnnxNode) -> str:
    return _pool(call, "MaxPool")


def avg_pool(call: OnnxNode) -> str:
    """ONNX divides by the pixels of the image or by those of the kernel."""
    counted = call.attr("counted")
    if counted != PADDED:
        return _pool(call, "AveragePool", count_include_pad=int(counted == KERNEL))
    ones, sizes = np.ones((1, *call.shape[1:-1], 1)), dict(call.node.attrs)
    wanted, kernel_average = (
        reference_avg(ones, **{**sizes, "counted": c}) for c in (PADDED, KERNEL)
    )
    factors = np.divide(wanted, kernel_average, out=np.ones_like(wanted), where=kernel_average > 0)
    by_kernel = _pool(call, "AveragePool", "", count_include_pad=1)
    held = call.to.store(factors.astype(np.float32), "factors")
    return call.to.node("Mul", by_kernel, held, name=call.name)


def _pool(call: OnnxNode, kind: str, name: str | None = None, **more: Any) -> str:
    rank, kernel = len(call.shape), call.attr("kernel")
    x = call.to.transpose(call.x, first(rank))
    y = call.to.node(
        kind, x, kernel_shape=list(kernel), strides=list(call.attr("stride")),
        dilations=list(call.attr("dilation")), pads=pads(call, kernel), **more,
    )  # fmt: skip
    return call.to.transpose(y, last(rank), call.name if name is None else name)


def move_pixels(call: OnnxNode) -> str:
    """Pixels of windows, or zeros beside the image, one axis after the other."""
    pixels, shape = call.x, list(call.shape)
    for axis, kernel, places in window_places(call.node):
        rest = [place for place in range(len(shape)) if place not in (axis, kernel)]
        order = [axis, kernel, *rest]
        sizes = [shape[place] for place in rest]
        flat = call.to.reshape(call.to.transpose(pixels, order), [-1, *sizes])
        ends = call.to.whole([1, *[0] * len(sizes), 0, *[0] * len(sizes)])
        held = call.to.store(places.astype(np.int64), "places")
        read = call.to.node("Gather", call.to.node("Pad", flat, ends), held, axis=0)
        shape[axis] = len(places)
        back = [order.index(place) for place in range(len(shape))]
        pixels = call.to.transpose(read, back, call.name if kernel == len(shape) - 2 else "")
    return pixels
