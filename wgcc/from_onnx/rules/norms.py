"""Softmax, normalisation, and sums, means and extremes along axes."""

from __future__ import annotations

from typing import Any

from wgcc.from_onnx import patterns
from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, at_axis, axes_of, axis_of, part_of
from wgcc.from_onnx.values import (
    Computed,
    ModelMember,
    Operand,
    Shape,
    Stored,
    channels_last_order,
    plain_order,
)
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, fill_form

ALONG = "{0}, axis = {1}, keep = {2}"


def reduction(text: str) -> Rule:
    """`text` has `{0}` for the operand, `{1}` for its axes and `{2}` for whether they are kept."""

    def rule(op: OnnxOp) -> Operand:
        x = op.operand(0)
        axes = _axes(op, len(x.shape))
        if axes is None:
            return x
        return reduce_axes(op, text, x, axes, bool(op.attribute("keepdims", 1)))

    return rule


def reduce_axes(
    op: OnnxOp, text: str, x: Operand, axes: Shape, keep: bool, *others: int
) -> Computed:
    order = x.order
    places = sorted(order.index(axis) for axis in axes)
    if not keep and order != plain_order(x.shape):
        x, places = op.with_order(x, None), sorted(axes)
    is_whole = len(axes) == len(x.shape) and not keep
    along = None if is_whole else axes_of(places)
    return op.result(text, x, along, keep or None, *others, order=order if keep else None)


def _axes(op: OnnxOp, rank: int) -> Shape | None:
    """None: nothing is reduced."""
    axes = op.numbers(1, "axes") if op.has(1) else list(op.attribute("axes", ()))
    if axes:
        return tuple(axis_of(axis, rank) for axis in axes)
    return None if op.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def _extreme(function: str) -> Rule:
    plain = reduction(f"{function}({ALONG})")
    bools = reduction(f"{'any' if function == 'max' else 'all'}({ALONG})")
    return lambda op: (bools if op.type.dtype == "bool" else plain)(op)


def arg(function: str) -> Rule:
    def rule(op: OnnxOp) -> Operand:
        x = op.operand(0)
        axis = axis_of(op.attribute("axis", 0), len(x.shape))
        keep = bool(op.attribute("keepdims", 1))
        if not op.attribute("select_last_index", 0):
            return reduce_axes(op, f"{function}({ALONG})", x, (axis,), keep)
        last = x.shape[axis] - 1
        plain = op.with_order(x, None)
        text = f"{{3}} - {function}(flip({{0}}, axis = {{4}}), axis = {{1}}, keep = {{2}})"
        return reduce_axes(op, text, plain, (axis,), keep, last, axis)

    return rule


# Along the axes {1}, with the epsilon {2}.
INVERSE = "rsqrt(var({0}, axis = {1}, keep = true, correction = 0) + {2})"
NORMALISED = f"({{0}} - mean({{0}}, axis = {{1}}, keep = true)) * {INVERSE}"


def along_axis(function: str) -> Rule:
    """Before opset 13 all axes from `axis` on were one."""

    def rule(op: OnnxOp) -> Operand:
        x = op.operand(0)
        rank = len(x.shape)
        axis = axis_of(op.attribute("axis", -1 if op.opset >= 13 else 1), rank)
        if op.opset < 13 and axis != rank - 1:
            rows = int(np.prod(x.shape[:axis]))
            flat = op.reshape(x, (rows, int(np.prod(x.shape[axis:]))))
            whole = op.emit(f"{function}({{0}})", flat)
            return op.reshape(whole, x.shape)
        order = x.order
        place = order.index(axis)
        along = None if place == rank - 1 else place
        return op.result(f"{function}({{0}}, axis = {{1}})", x, along, order=order)

    return rule


def hardmax(op: OnnxOp) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1 if op.opset >= 13 else 1), rank)
    if op.opset < 13 and axis != rank - 1:
        raise CannotImport("before opset 13, over several axes")
    text, size = "one_hot(argmax({0}, axis = {1}), {2})", x.shape[axis]
    if axis == rank - 1:
        return op.result(text, x, axis, size)
    moved = [a for a in range(rank) if a != axis] + [axis]
    last = op.transpose(x, moved)
    hot = op.emit(text, last, rank - 1, size)
    back = [moved.index(a) for a in range(rank)]
    return op.transpose(hot, back)


def layer_norm(op: OnnxOp) -> Operand | list[Operand | None]:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    eps = float(op.attribute("epsilon", 1e-5))
    if axis == rank - 1 and len(op.types) == 1 and _own_vectors(op, 1, 2):
        return op.result("{1}({0})", x, _norm_layer(op, "LayerNorm", eps))
    axes = axes_of(range(axis, rank))
    mean = op.emit("mean({0}, axis = {1}, keep = true)", x, axes)
    inverse = op.emit(INVERSE, x, axes, eps, name="inv_std")
    text = "({0} - {1}) * {2} * {3}" + (" + {4}" if op.has(2) else "")
    scale = [op.with_order(op.operand(place), None) for place in (1, 2) if op.has(place)]
    outputs: list[Operand | None] = [op.result(text, x, mean, inverse, *scale), mean, inverse]
    return outputs[: len(op.types)]


def _own_vectors(op: OnnxOp, *places: int) -> bool:
    """Stored vectors that nothing else reads."""
    for place in places:
        vector = op.inputs[place] if op.has(place) else None
        if not isinstance(vector, Stored) or len(vector.shape) != 1:
            return False
        if vector.source in op.writer.shared:
            return False
    return True


def _norm_layer(op: OnnxOp, kind: str, eps: float) -> ModelMember:
    gain = op.constant(1, "gain")
    is_default = kind == "LayerNorm" and abs(eps - 1e-5) < 1e-12
    arrays = {"g": gain} | ({"b": op.constant(2, "shift")} if op.has(2) else {})
    own = None if is_default else eps
    return op.layer(kind, (gain.size,), op.layer_name("norm"), arrays, eps=own)


def rms_norm(op: OnnxOp) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    eps = float(op.attribute("epsilon", 1e-5))
    if axis == rank - 1 and _own_vectors(op, 1):
        return op.result("{1}({0})", x, _norm_layer(op, "RMSNorm", eps))
    text = "{0} * rsqrt(mean(square({0}), axis = {1}, keep = true) + {2}) * {3}"
    return op.result(text, x, axes_of(range(axis, rank)), eps, op.plain(1))


def batch_norm(op: OnnxOp) -> Operand | list[Operand | None]:
    """Stored statistics make it a factor and a shift for each channel."""
    if op.attribute("training_mode", 0):
        return _by_batch(op)
    if len(op.types) > 1:
        raise CannotImport("it normalises by the batch; export the model in eval mode")
    x = op.operand(0)
    eps = float(op.attribute("epsilon", 1e-5))
    if not all(isinstance(item, Stored) for item in op.inputs[1:5]):
        return _computed_statistics(op, x, eps)
    scale, shift, mean, var = (op.constant(place, "statistics") for place in (1, 2, 3, 4))
    if op.writer.keeps_batch_norm:
        return _batch_norm_layer(op, x, eps)
    factor = (scale / np.sqrt(var + np.float32(eps))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    return patterns.scaled_conv(op, x, factor, offset) or per_channel(op, x, factor, offset)


def _by_batch(op: OnnxOp) -> list[Operand | None]:
    """The batch's own statistics are used, as while training; others are new averages of them."""
    x = op.operand(0)
    order = channels_last_order(len(x.shape)) if len(x.shape) > 2 else None
    x = op.with_order(x, order)
    axes = axes_of(range(len(x.shape) - 1))
    mean = op.emit("mean({0}, axis = {1})", x, axes, name="mean")
    variance = "var({0}, axis = {1}, correction = 0)"
    var = op.emit(variance, x, axes, name="var")
    scale, shift, old_mean, old_var = (op.tensor(op.plain(place)) for place in (1, 2, 3, 4))
    eps = float(op.attribute("epsilon", 1e-5))
    text = "({0} - {1}) * rsqrt({2} + {5}) * {3} + {4}"
    outputs: list[Operand | None] = [op.result(text, x, mean, var, scale, shift, eps, order=order)]
    kept = float(op.attribute("momentum", 0.9))
    average = "{2} * {0} + {3} * {1}"
    for old, new in ((old_mean, mean), (old_var, var)):
        outputs.append(op.emit(average, old, new, kept, 1 - kept))
    op.remark("it normalises by the batch, as while training")
    return outputs[: max(len(op.types), 1)]


def _computed_statistics(op: OnnxOp, x: Operand, eps: float) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    given = [op.tensor(op.plain(place)) for place in (1, 2, 3, 4)]
    text = "({0} - {3}) * rsqrt({4} + {5}) * {1} + {2}"
    return op.result(text, op.with_order(x, order), *given, eps, order=order)


def _batch_norm_layer(op: OnnxOp, x: Operand, eps: float) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    names = ("g", "b", "run_mean", "run_var")
    arrays = {name: op.constant(place + 1, "statistics") for place, name in enumerate(names)}
    # ONNX's momentum is the part that is kept.
    momentum = 1 - float(op.attribute("momentum", 0.9))
    layer = op.layer(
        "BatchNorm", (x.shape[1],), op.layer_name("norm"), arrays,
        eps=None if abs(eps - 1e-5) < 1e-12 else eps,
        momentum=None if abs(momentum - 0.1) < 1e-6 else momentum,
    )  # fmt: skip
    return op.result("{1}({0})", op.with_order(x, order), layer, order=order)


def per_channel(op: OnnxOp, x: Operand, factor: Array, shift: Array) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    x = op.with_order(x, order)
    name = op.layer_name("norm")
    parts = [
        op.new_parameter(Stored(held, f"{name}.{word}"), f"{name}_{word}")
        for held, word in ((factor, "scale"), (shift, "shift"))
    ]
    return op.result("{0} * {1} + {2}", x, *parts, order=order)


def instance_norm(op: OnnxOp) -> Operand:
    x = op.channels_last(0)
    rank = len(x.shape)
    axes, eps = axes_of(range(1, rank - 1)), float(op.attribute("epsilon", 1e-5))
    order = channels_last_order(rank)
    text = f"{NORMALISED} * {{3}} + {{4}}"
    return op.result(text, x, axes, eps, op.plain(1), op.plain(2), order=order)


def group_norm(op: OnnxOp) -> Operand:
    x = op.plain(0)
    groups = int(op.attribute("num_groups"))
    rank, channels = len(x.shape), x.shape[1]
    eps = float(op.attribute("epsilon", 1e-5))
    grouped = op.reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    axes = axes_of(range(2, rank + 1))
    whole = op.emit(NORMALISED, grouped, axes, eps)
    flat = op.reshape(whole, x.shape)
    per = [_group_vector(op, place, groups, channels, rank) for place in (1, 2)]
    return op.result("{0} * {1} + {2}", flat, *per)


def _group_vector(op: OnnxOp, place: int, groups: int, channels: int, rank: int) -> Operand:
    """One number for each channel; before opset 21 there was one for each group."""
    vector = op.plain(place)
    if vector.shape[0] != channels and isinstance(vector, Stored):
        vector = Stored(np.repeat(vector.array, channels // groups))
    elif vector.shape[0] != channels:
        column = op.reshape(vector, (groups, 1))
        each = [groups, channels // groups]
        vector = op.emit("expand({0}, {1})", column, each)
    return op.reshape(vector, (channels, *(1,) * (rank - 2)))


def lp_norm(op: OnnxOp) -> Operand:
    x = op.plain(0)
    axis = axis_of(op.attribute("axis", -1), len(x.shape))
    p = int(op.attribute("p", 2))
    size = "norm({0}, {1}, axis = {2}, keep = true)"
    return op.result(f"{{0}} / where({size} == 0.0, 1.0, {size})", x, p, axis)


def mean_variance(op: OnnxOp) -> Operand:
    x = op.plain(0)
    text = (
        "({0} - mean({0}, axis = {1}, keep = true)) / "
        "(std({0}, axis = {1}, keep = true, correction = 0) + 1e-9)"
    )
    return op.result(text, x, axes_of(tuple(op.attribute("axes", (0, 2, 3)))))


def lrn(op: OnnxOp) -> Operand:
    """Local response: a sum of squares over neighbouring channels."""
    x = op.channels_last(0)
    rank, size = len(x.shape), int(op.attribute("size"))
    alpha, beta = float(op.attribute("alpha", 1e-4)), float(op.attribute("beta", 0.75))
    bias = float(op.attribute("bias", 1.0))
    before, channels = (size - 1) // 2, x.shape[1]
    order = channels_last_order(rank)
    text, widths = "pad(square({0}), {1}, axis = {2})", (before, size - 1 - before)
    whole: Any = op.tree(op.emit(text, x, widths, rank - 1, order=order))
    parts = [ast.Index(NOWHERE, whole, tuple(at_axis(rank - 1, part_of(at, at + channels))))
             for at in range(size)]  # fmt: skip
    total: Any = parts[0]
    for part in parts[1:]:
        total = fill_form("{0} + {1}", total, part)
    text = "{0} / ({2} + {3} * ({1})) ** {4}"
    return op.result(text, x, total, bias, alpha / size, beta, order=order)


RULES: dict[str, Rule] = {
    "ReduceSum": reduction(f"sum({ALONG})"),
    "ReduceMean": reduction(f"mean({ALONG})"),
    "ReduceProd": reduction(f"prod({ALONG})"),
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": reduction("sum(abs({0}), axis = {1}, keep = {2})"),
    "ReduceL2": reduction(f"norm({ALONG})"),
    "ReduceLogSum": reduction(f"log(sum({ALONG}))"),
    "ReduceLogSumExp": reduction(f"logsumexp({ALONG})"),
    "ReduceSumSquare": reduction("sum(square({0}), axis = {1}, keep = {2})"),
    "ArgMax": arg("argmax"),
    "ArgMin": arg("argmin"),
    "Softmax": along_axis("softmax"),
    "LogSoftmax": along_axis("log_softmax"),
    "Hardmax": hardmax,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance,
    "LRN": lrn,
}
