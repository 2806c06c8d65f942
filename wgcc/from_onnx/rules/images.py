"""Convolution, pooling and resizing: of signals, images and volumes, with channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wgcc.from_onnx.context import Given, OnnxOp
from wgcc.from_onnx.literals import LARGEST, real
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, axes_of, dtype, per_axis
from wgcc.from_onnx.rules.shapes import ZERO, pad_axes
from wgcc.from_onnx.values import ModelMember, Operand, Shape, Stored, channels_last_order
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import np
from wgcc.syntax import ast
from wgcc.syntax.templates import fill_form

# The least 32-bit float: padding that is never the largest of a window.
LOWEST = real(-LARGEST)
# Options of windows that need not be written.
PLAIN = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1}


def windows(op: OnnxOp, sizes: Sequence[int], spatial: Sequence[int]) -> dict[str, list[int]]:
    """Strides, dilations and the padding before and after each axis."""
    count = len(spatial)
    strides = list(op.attribute("strides", [1] * count))
    dilations = list(op.attribute("dilations", [1] * count))
    pads = list(op.attribute("pads", [0] * 2 * count))
    kind = op.attribute("auto_pad", "NOTSET")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(kind, spatial, sizes, strides, dilations)
    elif kind == "VALID":
        pads = [0] * 2 * count
    return {
        "strides": strides,
        "dilations": dilations,
        "before": pads[:count],
        "after": pads[count:],
    }


def _same_pads(
    kind: str,
    spatial: Sequence[int],
    sizes: Sequence[int],
    strides: list[int],
    dilations: list[int],
) -> list[int]:
    before, after = [], []
    for size, kernel, stride, dilation in zip(spatial, sizes, strides, dilations, strict=True):
        reach = (kernel - 1) * dilation + 1
        missing = max((ceil_div(size, stride) - 1) * stride + reach - size, 0)
        small, large = missing // 2, missing - missing // 2
        before.append(small if kind == "SAME_UPPER" else large)
        after.append(large if kind == "SAME_UPPER" else small)
    return before + after


def evenly_padded(op: OnnxOp, x: Operand, window: dict[str, list[int]]) -> tuple[Operand, Given]:
    """Padding that is the same on both sides is an option; other padding comes before."""
    if window["before"] == window["after"]:
        return x, per_axis(window["before"])
    pairs = {
        axis + 2: pair
        for axis, pair in enumerate(zip(window["before"], window["after"], strict=True))
    }
    return pad_axes(op, x, pairs), 0


def conv(op: OnnxOp) -> Operand:
    x, w = op.channels_last(0), op.operand(1)
    rank = len(x.shape)
    if not 3 <= rank <= 5:
        raise CannotImport(f"it convolves {rank - 2} axes; the language has 1 to 3")
    groups = int(op.attribute("group", 1))
    window = windows(op, w.shape[2:], x.shape[2:])
    x, pad = evenly_padded(op, x, window)
    options = _options(stride=per_axis(window["strides"]), pad=pad,
                       dilation=per_axis(window["dilations"]), groups=groups)  # fmt: skip
    order = channels_last_order(rank)
    kernel = op.transpose(w, (*range(2, rank), 1, 0))
    layer = _conv_layer(op, kernel, f"Conv{rank - 2}d", x.shape[1], w.shape[0], options)
    if layer is not None:
        return op.result("{1}({0})", x, layer, order=order)
    whole = op.call(f"conv{rank - 2}d", x, kernel, **options)
    if not op.has(2):
        return op.result("{0}", whole, order=order)
    return op.result("{0} + {1}", whole, op.plain(2), order=order)


def _options(**given: Given) -> dict[str, Given]:
    return {name: option for name, option in given.items() if option != PLAIN[name]}


def _conv_layer(
    op: OnnxOp, kernel: Operand, kind: str, inputs: int, outputs: int, options: dict[str, Given]
) -> ModelMember | None:
    """A standard layer, if its numbers are stored and its own; it has one size of windows."""
    bias = op.inputs[2] if op.has(2) else None
    own = [item for item in (kernel, bias) if item is not None]
    if not all(isinstance(item, Stored) and item.source not in op.writer.shared for item in own):
        return None
    assert isinstance(kernel, Stored)
    sizes = kernel.shape[: len(kernel.shape) - 2]
    if len(set(sizes)) > 1 or any(isinstance(option, tuple) for option in options.values()):
        return None
    arrays = {"w": kernel.array} | ({"b": bias.array} if isinstance(bias, Stored) else {})
    given = {"k": sizes[0] if sizes[0] != 3 else None, **options,
             "bias": None if bias is not None else False}  # fmt: skip
    return op.layer(kind, (inputs, outputs), op.layer_name("conv"), arrays, **given)


def conv_transpose(op: OnnxOp) -> Operand:
    x, w = op.channels_last(0), op.operand(1)
    rank = len(x.shape)
    if rank > 4:
        raise CannotImport("the language has transposed convolutions of 1 and 2 axes")
    count = rank - 2
    groups = int(op.attribute("group", 1))
    strides = list(op.attribute("strides", [1] * count))
    dilations = list(op.attribute("dilations", [1] * count))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    full = [(n - 1) * s + r for n, s, r in zip(x.shape[2:], strides, reach, strict=True)]
    before, sizes = _transposed_padding(op, full, op.type.shape[2:])
    order = channels_last_order(rank)
    # PyTorch's kernel is turned round; wgcc's is, too: [k, I, O / groups].
    kernel = op.transpose(w, (*range(2, rank), 0, 1))
    options = _options(stride=per_axis(strides), dilation=per_axis(dilations), groups=groups)
    spread = op.call(f"conv_transpose{count}d", x, kernel, **options)
    whole = op.emit("{0}", spread, order=order)
    pairs = {
        axis + 2: (-before[axis], sizes[axis] - full[axis] + before[axis]) for axis in range(count)
    }
    cut = pad_axes(op, whole, pairs)
    if not op.has(2):
        return op.result("{0}", cut, order=order)
    return op.result("{0} + {1}", cut, op.plain(2), order=order)


def _transposed_padding(op: OnnxOp, full: list[int], sizes: Shape) -> tuple[list[int], Shape]:
    """How many elements the result begins after."""
    count = len(full)
    kind = op.attribute("auto_pad", "NOTSET")
    extra = list(op.attribute("output_padding", [0] * count))
    if "output_shape" in op.attributes or kind.startswith("SAME"):
        totals = [f + e - n for f, e, n in zip(full, extra, sizes, strict=True)]
        if kind == "SAME_UPPER":
            return [total // 2 for total in totals], sizes
        return [total - total // 2 for total in totals], sizes
    pads = list(op.attribute("pads", [0] * 2 * count))
    return pads[:count], sizes


def max_pool(op: OnnxOp) -> Operand | list[Operand | None]:
    x = op.channels_last(0)
    rank = len(x.shape)
    _check_rank(rank)
    kernel = list(op.attribute("kernel_shape"))
    window = pool_windows(op, kernel, x.shape[2:])
    order = channels_last_order(rank)
    if x.dtype != "f32":
        x = op.emit("f32({0})", x, order=order)
    wide, (x, options) = x.shape, _pool_options(op, x, window, kernel, LOWEST)
    has_indices = len(op.types) > 1
    pooled = op.call(f"max_pool{rank - 2}d", x, per_axis(kernel), **options,
                     return_indices=has_indices or None)  # fmt: skip
    if op.type.dtype != "f32":
        if has_indices:
            raise CannotImport(f"it pools {op.type.dtype}, and its indices are used")
        return op.result("{1}({0})", pooled, dtype(op.type.dtype), order=order)
    if not has_indices:
        return op.result("{0}", pooled, order=order)
    if x.shape != wide:
        raise CannotImport("its indices are used, with uneven padding")
    return _with_indices(op, pooled, x, order)


def _with_indices(op: OnnxOp, pooled: Given, x: Operand, order: Shape) -> list[Operand | None]:
    """The language counts places in each image, ONNX in the whole tensor."""
    values = (op.output(0, order), op.output(1, order))
    op.emit_many("{0}", pooled, values=values)
    samples, channels = x.shape[:2]
    size = int(np.prod(x.shape[2:]))
    base = np.arange(samples)[:, None] * channels + np.arange(channels)
    shape = (samples, *(1,) * (len(x.shape) - 2), channels)
    offsets = op.parameter_of((base * size).reshape(shape), "offsets")
    indices = values[1]
    height, width = (x.shape[2], x.shape[3]) if len(x.shape) == 4 else (1, size)
    is_turned = op.attribute("storage_order", 0)
    text = "{0} % {2} * {3} + {0} / {2} + {1}" if is_turned else "{0} + {1}"
    parts = (indices, offsets, width, height)
    return [values[0], op.emit(text, *parts, order=order, element=indices.element)]


def _check_rank(rank: int) -> None:
    if not 3 <= rank <= 5:
        raise CannotImport(f"it pools {rank - 2} axes; the language has 1 to 3")


def pool_windows(
    op: OnnxOp, kernel: list[int], spatial: Shape, may_ceil: bool = True
) -> dict[str, list[int]]:
    """`ceil`: `ceil_mode` of the language is meant; `beyond`: how far windows reach behind an axis.

    ONNX's rules for shapes count windows of `ceil_mode` that begin in the padding, and onnxruntime
    leaves them out, as PyTorch does.
    """
    window = windows(op, kernel, spatial)
    window |= {"beyond": window["after"], "ceil": []}
    if not op.attribute("ceil_mode", 0):
        return window
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, window["dilations"], strict=True)]
    counts = _ceil_counts(window, reach, spatial)
    op.types = [replace(held, shape=(*held.shape[:2], *counts)) for held in op.types]
    if may_ceil and _is_even(window, kernel):
        return {**window, "ceil": [1]}
    sides = zip(counts, window["strides"], reach, spatial, window["before"], strict=True)
    ends = [(n - 1) * stride + last - size - before for n, stride, last, size, before in sides]
    beyond = [max(end, after) for end, after in zip(ends, window["after"], strict=True)]
    return {**window, "beyond": beyond}


def _ceil_counts(window: dict[str, list[int]], reach: list[int], spatial: Shape) -> list[int]:
    counts = []
    for axis, size in enumerate(spatial):
        stride, before = window["strides"][axis], window["before"][axis]
        whole = size + before + window["after"][axis]
        count = ceil_div(whole - reach[axis], stride) + 1
        counts.append(count - ((count - 1) * stride >= size + before))
    return counts


def _is_even(window: dict[str, list[int]], kernel: list[int]) -> bool:
    """Padding that the language's pooling has as an option."""
    halves = [size // 2 for size in kernel]
    fits = all(pad <= half for pad, half in zip(window["before"], halves, strict=True))
    return fits and window["before"] == window["after"] == window.get("beyond", window["after"])


def _pool_options(
    op: OnnxOp, x: Operand, window: dict[str, list[int]], kernel: list[int], value: ast.Expr = ZERO
) -> tuple[Operand, dict[str, Given]]:
    """Uneven padding, and padding of more than half a window, is done before."""
    if not _is_even(window, kernel):
        pairs = {
            axis + 2: pair
            for axis, pair in enumerate(zip(window["before"], window["beyond"], strict=True))
        }
        x, window = pad_axes(op, x, pairs, "constant", value), {**window, "before": [0]}
    extra = _options(pad=per_axis(window["before"]), dilation=per_axis(window["dilations"]))
    ceil = {"ceil_mode": True} if window["ceil"] else {}
    return x, {"stride": per_axis(window["strides"]), **extra, **ceil}


def average_pool(op: OnnxOp) -> Operand:
    x = op.channels_last(0)
    rank = len(x.shape)
    _check_rank(rank)
    kernel = list(op.attribute("kernel_shape"))
    window = pool_windows(op, kernel, x.shape[2:])
    counted = bool(op.attribute("count_include_pad", 0))
    order = channels_last_order(rank)
    is_even = _is_even(window, kernel)
    if not is_even and (not counted or window["beyond"] != window["after"]):
        return _uneven_average(op, x, window, kernel, counted)
    x, options = _pool_options(op, x, window, kernel)
    if is_even and not counted and any(window["before"]):
        options |= {"count_include_pad": False}
    return op.result("{0}", _average(op, x, kernel, options), order=order)


def _average(op: OnnxOp, x: Given, kernel: list[int], options: dict[str, Given]) -> Given:
    return op.call(f"avg_pool{len(kernel)}d", x, per_axis(kernel), **options)


def _uneven_average(
    op: OnnxOp, x: Operand, window: dict[str, list[int]], kernel: list[int], counted: bool
) -> Operand:
    """The mean over the elements that are there: a sum divided by their number.

    Padding counts as such elements if asked, but never what `ceil_mode` adds to it.
    """
    order = channels_last_order(len(x.shape))
    x, options = _pool_options(op, x, window, kernel)
    counts = np.ones((1,), np.float32)
    for axis, size in enumerate(op.operand(0).shape[2:]):
        before = window["before"][axis]
        there = np.zeros(size + before + window["beyond"][axis])
        there[before : before + size] = 1
        there[: before + size + window["after"][axis]] += counted * (
            there[: before + size + window["after"][axis]] == 0
        )
        reach = np.arange(kernel[axis]) * window["dilations"][axis]
        starts = np.arange(op.type.shape[axis + 2]) * window["strides"][axis]
        along = there[starts[:, None] + reach].sum(1)
        counts = counts[..., None] * along if axis else along
    share = (counts / np.prod(kernel)).astype(np.float32)[None, ..., None]
    mean = _average(op, x, kernel, options)
    return op.result("{0} / {1}", mean, op.parameter_of(share), order=order)


def lp_pool(op: OnnxOp) -> Operand:
    x = op.channels_last(0)
    rank = len(x.shape)
    _check_rank(rank)
    kernel, p = list(op.attribute("kernel_shape")), int(op.attribute("p", 2))
    # A mean over a window that `ceil_mode` cuts off is one over fewer elements.
    window = pool_windows(op, kernel, x.shape[2:], may_ceil=False)
    x, options = _pool_options(op, x, window, kernel)
    mean = _average(op, fill_form("abs({0}) ** {1}", op.tree(x), float(p)), kernel, options)
    size, root = float(np.prod(kernel)), 1 / p
    return op.result("({0} * {1}) ** {2}", mean, size, root, order=channels_last_order(rank))


def global_pool(function: str) -> Rule:
    def rule(op: OnnxOp) -> Operand:
        x = op.channels_last(0)
        rank = len(x.shape)
        text = f"{function}({{0}}, axis = {{1}}, keep = true)"
        return op.result(text, x, axes_of(range(1, rank - 1)), order=channels_last_order(rank))

    return rule


RULES: dict[str, Rule] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_pool("mean"),
    "GlobalMaxPool": global_pool("max"),
}
