"""Softmax and normalisation."""

from __future__ import annotations

from wgcc.from_onnx import patterns
from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, axes_text, axis_of
from wgcc.from_onnx.values import Constant, Member, Operand, Value, channels_last_order, plain_order
from wgcc.lazy_numpy import Array, np


def along_axis(function: str) -> Rule:
    """Before opset 13 all axes from `axis` on were one."""

    def rule(op: Op) -> Operand:
        x = op.operand(0)
        rank = len(x.shape)
        axis = axis_of(op.attribute("axis", -1 if op.opset >= 13 else 1), rank)
        if op.opset < 13 and axis != rank - 1:
            rows = int(np.prod(x.shape[:axis]))
            flat = op.reshaped(x, (rows, int(np.prod(x.shape[axis:]))))
            whole = op.emit(f"{function}({{0}})", flat, shape=flat.shape, dtype="f32")
            return op.reshaped(whole, x.shape)
        order = x.order if isinstance(x, Value) else plain_order(x.shape)
        place = order.index(axis)
        extra = "" if place == rank - 1 else f", axis = {place}"
        return op.result(f"{function}({{0}}{extra})", x, order=order)

    return rule


def hardmax(op: Op) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1 if op.opset >= 13 else 1), rank)
    if op.opset < 13 and axis != rank - 1:
        raise CannotImport("before opset 13, over several axes")
    if axis == rank - 1:
        return op.result(f"one_hot(argmax({{0}}, axis = {axis}), {x.shape[axis]})", x)
    moved = [a for a in range(rank) if a != axis] + [axis]
    last = op.transposed(x, moved)
    text = f"one_hot(argmax({{0}}, axis = {rank - 1}), {x.shape[axis]})"
    hot = op.emit(text, last, shape=last.shape, dtype="f32")
    back = [moved.index(a) for a in range(rank)]
    return op.transposed(hot, back)


def layer_norm(op: Op) -> Operand | list[Operand | None]:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    eps = float(op.attribute("epsilon", 1e-5))
    if axis == rank - 1 and len(op.types) == 1 and _own_vectors(op, 1, 2):
        return op.result("{1}({0})", x, _norm_layer(op, "LayerNorm", eps))
    axes = axes_text(range(axis, rank))
    shape = (*x.shape[:axis], *(1,) * (rank - axis))
    mean = op.emit(f"mean({{0}}, axis = {axes}, keep = true)", x, shape=shape, dtype="f32")
    inverse = op.emit(
        f"rsqrt(var({{0}}, axis = {axes}, keep = true, correction = 0) + {float_text(eps)})",
        x, shape=shape, dtype="f32", name="inv_std",
    )  # fmt: skip
    text = "({0} - {1}) * {2} * {3}" + (" + {4}" if op.has(2) else "")
    scale = [op.ordered(op.operand(place), None) for place in (1, 2) if op.has(place)]
    found: list[Operand | None] = [op.result(text, x, mean, inverse, *scale), mean, inverse]
    return found[: len(op.types)]


def _own_vectors(op: Op, *places: int) -> bool:
    """Stored vectors that nothing else reads."""
    for place in places:
        found = op.inputs[place] if op.has(place) else None
        if not isinstance(found, Constant) or len(found.shape) != 1:
            return False
        if found.source in op.writer.shared:
            return False
    return True


def _norm_layer(op: Op, kind: str, eps: float) -> Member:
    gain = op.constant(1, "gain")
    is_default = kind == "LayerNorm" and abs(eps - 1e-5) < 1e-12
    options = "" if is_default else f"(eps = {float_text(eps)})"
    arrays = {"g": gain} | ({"b": op.constant(2, "shift")} if op.has(2) else {})
    return op.layer(f"{kind}[{gain.size}]{options}", op.layer_name("norm"), **arrays)


def rms_norm(op: Op) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    eps = float(op.attribute("epsilon", 1e-5))
    if axis == rank - 1 and _own_vectors(op, 1):
        return op.result("{1}({0})", x, _norm_layer(op, "RMSNorm", eps))
    axes = axes_text(range(axis, rank))
    size = f"mean(square({{0}}), axis = {axes}, keep = true)"
    text = f"{{0}} * rsqrt({size} + {float_text(eps)}) * {{1}}"
    return op.result(text, x, op.plain(1))


def batch_norm(op: Op) -> Operand | list[Operand | None]:
    """With its stored statistics: a factor and a shift for each channel."""
    if op.attribute("training_mode", 0):
        return _by_batch(op)
    if len(op.types) > 1:
        raise CannotImport("it normalises by the batch; export the model in eval mode")
    x = op.operand(0)
    eps = float(op.attribute("epsilon", 1e-5))
    if not all(isinstance(item, Constant) for item in op.inputs[1:5]):
        return _computed_statistics(op, x, eps)
    scale, shift, mean, var = (op.constant(place, "statistics") for place in (1, 2, 3, 4))
    if op.writer.keeps_batch_norm:
        return _batch_norm_layer(op, x, eps)
    factor = (scale / np.sqrt(var + np.float32(eps))).astype(np.float32)
    offset = (shift - mean * factor).astype(np.float32)
    return patterns.scaled_conv(op, x, factor, offset) or per_channel(op, x, factor, offset)


def _by_batch(op: Op) -> list[Operand | None]:
    """With the batch's own statistics, as while training; others are new averages of them."""
    x = op.operand(0)
    order = channels_last_order(len(x.shape)) if len(x.shape) > 2 else None
    x = op.ordered(x, order)
    axes = axes_text(range(len(x.shape) - 1))
    channels = (op.operand(1).shape[0],)
    mean = op.emit(f"mean({{0}}, axis = {axes})", x, shape=channels, dtype="f32", name="mean")
    variance = f"var({{0}}, axis = {axes}, correction = 0)"
    var = op.emit(variance, x, shape=channels, dtype="f32", name="var")
    scale, shift, old_mean, old_var = (op.tensor(op.plain(place)) for place in (1, 2, 3, 4))
    eps = float_text(float(op.attribute("epsilon", 1e-5)))
    text = f"({{0}} - {{1}}) * rsqrt({{2}} + {eps}) * {{3}} + {{4}}"
    found: list[Operand | None] = [op.result(text, x, mean, var, scale, shift, order=order)]
    kept = float(op.attribute("momentum", 0.9))
    average = f"{float_text(kept)} * {{0}} + {float_text(1 - kept)} * {{1}}"
    for old, new in ((old_mean, mean), (old_var, var)):
        found.append(op.emit(average, old, new, shape=channels, dtype="f32"))
    op.remark("it normalises by the batch, as while training")
    return found[: max(len(op.types), 1)]


def _computed_statistics(op: Op, x: Operand, eps: float) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    given = [op.tensor(op.plain(place)) for place in (1, 2, 3, 4)]
    text = f"({{0}} - {{3}}) * rsqrt({{4}} + {float_text(eps)}) * {{1}} + {{2}}"
    return op.result(text, op.ordered(x, order), *given, order=order)


def _batch_norm_layer(op: Op, x: Operand, eps: float) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    names = ("g", "b", "run_mean", "run_var")
    arrays = {name: op.constant(place + 1, "statistics") for place, name in enumerate(names)}
    given = [] if abs(eps - 1e-5) < 1e-12 else [f"eps = {float_text(eps)}"]
    # ONNX's momentum is the part that is kept.
    momentum = 1 - float(op.attribute("momentum", 0.9))
    given += [] if abs(momentum - 0.1) < 1e-6 else [f"momentum = {float_text(momentum)}"]
    options = f"({', '.join(given)})" if given else ""
    layer = op.layer(f"BatchNorm[{x.shape[1]}]{options}", op.layer_name("norm"), **arrays)
    return op.result("{1}({0})", op.ordered(x, order), layer, order=order)


def per_channel(op: Op, x: Operand, factor: Array, shift: Array) -> Operand:
    rank = len(x.shape)
    order = channels_last_order(rank) if rank > 2 else None
    x = op.ordered(x, order)
    name = op.layer_name("norm")
    parts = [
        op.new_parameter(Constant(held, f"{name}.{word}"), f"{name}_{word}")
        for held, word in ((factor, "scale"), (shift, "shift"))
    ]
    return op.result("{0} * {1} + {2}", x, *parts, order=order)


def instance_norm(op: Op) -> Operand:
    x = op.channels_last(0)
    rank = len(x.shape)
    axes = axes_text(range(1, rank - 1))
    eps = float_text(float(op.attribute("epsilon", 1e-5)))
    text = (
        f"({{0}} - mean({{0}}, axis = {axes}, keep = true)) * "
        f"rsqrt(var({{0}}, axis = {axes}, keep = true, correction = 0) + {eps}) * {{1}} + {{2}}"
    )
    return op.result(text, x, op.plain(1), op.plain(2), order=channels_last_order(rank))


def group_norm(op: Op) -> Operand:
    x = op.plain(0)
    groups = int(op.attribute("num_groups"))
    rank, channels = len(x.shape), x.shape[1]
    eps = float_text(float(op.attribute("epsilon", 1e-5)))
    grouped = op.reshaped(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    axes = axes_text(range(2, rank + 1))
    text = (
        f"({{0}} - mean({{0}}, axis = {axes}, keep = true)) * "
        f"rsqrt(var({{0}}, axis = {axes}, keep = true, correction = 0) + {eps})"
    )
    whole = op.emit(text, grouped, shape=grouped.shape, dtype="f32")
    flat = op.reshaped(whole, x.shape)
    per = [_group_vector(op, place, groups, channels, rank) for place in (1, 2)]
    return op.result("{0} * {1} + {2}", flat, *per)


def _group_vector(op: Op, place: int, groups: int, channels: int, rank: int) -> Operand:
    """One number for each channel; before opset 21 there was one for each group."""
    found = op.plain(place)
    if found.shape[0] != channels and isinstance(found, Constant):
        found = Constant(np.repeat(found.array, channels // groups))
    elif found.shape[0] != channels:
        column = op.reshaped(found, (groups, 1))
        text = f"expand({{0}}, [{groups}, {channels // groups}])"
        found = op.emit(text, column, shape=(groups, channels // groups), dtype="f32")
    return op.reshaped(found, (channels, *(1,) * (rank - 2)))


def lp_norm(op: Op) -> Operand:
    x = op.plain(0)
    axis = axis_of(op.attribute("axis", -1), len(x.shape))
    p = int(op.attribute("p", 2))
    size = f"norm({{0}}, {p}, axis = {axis}, keep = true)"
    return op.result(f"{{0}} / where({size} == 0.0, 1.0, {size})", x)


def mean_variance(op: Op) -> Operand:
    x = op.plain(0)
    axes = axes_text(tuple(op.attribute("axes", (0, 2, 3))))
    text = (
        f"({{0}} - mean({{0}}, axis = {axes}, keep = true)) / "
        f"(std({{0}}, axis = {axes}, keep = true, correction = 0) + 1e-9)"
    )
    return op.result(text, x)


def lrn(op: Op) -> Operand:
    """Local response: a sum of squares over neighbouring channels."""
    x = op.channels_last(0)
    rank, size = len(x.shape), int(op.attribute("size"))
    alpha, beta = float(op.attribute("alpha", 1e-4)), float(op.attribute("beta", 0.75))
    bias = float_text(float(op.attribute("bias", 1.0)))
    before, channels = (size - 1) // 2, x.shape[1]
    lead = ":, " * (rank - 1)
    shape = (*x.shape[:1], channels + size - 1, *x.shape[2:])
    order = channels_last_order(rank)
    squares = op.emit(
        f"pad(square({{0}}), ({before}, {size - 1 - before}), axis = {rank - 1})",
        x, shape=shape, dtype="f32", order=order,
    )  # fmt: skip
    total = " + ".join(f"{{1}}[{lead}{at} : {at + channels}]" for at in range(size))
    text = f"{{0}} / ({bias} + {float_text(alpha / size)} * ({total})) ** {float_text(beta)}"
    return op.result(text, x, squares, order=order)


RULES: dict[str, Rule] = {
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
