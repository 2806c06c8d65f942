"""Recognises what exporters have taken apart: a bias, GELU, softmax, layer norm, RMS norm.

What a pattern replaces is not needed any more, and is left out of the model.
"""

from __future__ import annotations

import math
from dataclasses import replace

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.match import match, matches, number, statement_of
from wgcc.from_onnx.values import Constant, Member, Operand, Part, Value, plain_order
from wgcc.lazy_numpy import Array, np

GELU = (
    "0.5 * {0} * (1.0 + erf({0} / 1.4142135623730951))",
    "0.5 * {0} * (1.0 + erf({0} * 0.7071067811865476))",
)
TANH_GELU = tuple(
    f"0.5 * {{0}} * (1.0 + tanh(0.7978845608028654 * ({{0}} + 0.044715 * {cube})))"
    for cube in ("{0} ** 3.0", "{0} * square({0})", "{0} * {0} * {0}")
)
# For any m that is the same along the axis of the sum.
SOFTMAX = (
    "exp({0}) / sum(exp({0}), axis = {1}, keep = true)",
    "exp({0}) / reshape(sum(exp({0}), axis = {1}), {2})",
    "exp({0}) / reshape(sum(exp({0}), axis = {1}, keep = true), {2})",
)
CENTRED = "({0} - mean({0}, axis = {1}, keep = true))"
LAYER_NORM = tuple(
    f"{CENTRED} / sqrt(mean({square}, axis = {{1}}, keep = true) + {{2}}) * {{3}} + {{4}}"
    for square in (f"square({CENTRED})", f"{CENTRED} * {CENTRED}")
)
RMS_NORM = tuple(
    quotient.format(f"sqrt(mean({square}, axis = {{1}}, keep = true) + {{2}})") + " * {3}"
    for quotient in ("{{0}} / {0}", "{{0}} * (1.0 / {0})")
    for square in ("square({0})", "{0} * {0}")
)


def layer_call(op: Op, value: object, kind: str) -> Member | None:
    """The layer of a kind that made a value which only this node reads."""
    made = statement_of(op, value)
    layer = made.layer if made is not None and value in op.writer.used_once else None
    return layer if layer is not None and layer.kind.startswith(kind) else None


def with_options(layer: Member, arrays: dict[str, Array]) -> Member:
    """The layer with a bias, and other numbers."""
    assert layer.layer is not None
    options = [
        item for item in layer.layer.arguments or () if item.name and item.name.text != "bias"
    ]
    return replace(
        layer, arrays=arrays, layer=replace(layer.layer, arguments=tuple(options) or None)
    )


def _input_of(op: Op, value: Value) -> Part:
    made = statement_of(op, value)
    assert made is not None
    return next(part for part in made.parts if part is not made.layer)


def with_bias(op: Op, a: object, b: object) -> Value | None:
    """`x @ w + b` as one `Linear`."""
    for value, other in ((a, b), (b, a)):
        if not isinstance(value, Value) or not isinstance(other, Constant):
            continue
        layer = layer_call(op, value, "Linear")
        width = value.shape[-1] if value.shape else 0
        if layer is None or "b" in layer.arrays or other.source in op.writer.shared:
            continue
        is_row = other.array.size == width and other.shape[-1:] == (width,)
        if is_row and op.type.shape == value.shape:
            arrays = {**layer.arrays, "b": op.narrowed(other.array.reshape(-1))}
            return op.result("{1}({0})", _input_of(op, value), with_options(layer, arrays))
    return None


def scaled_conv(op: Op, x: object, factor: Array, shift: Array) -> Value | None:
    """Batch norm after a convolution: other weights of the convolution."""
    layer = layer_call(op, x, "Conv")
    if layer is None or not isinstance(x, Value):
        return None
    before = layer.arrays.get("b", np.zeros_like(factor))
    arrays = {
        "w": (layer.arrays["w"] * factor).astype(np.float32),
        "b": (before * factor + shift).astype(np.float32),
    }
    return op.result("{1}({0})", _input_of(op, x), with_options(layer, arrays), order=x.order)


def activation(op: Op, a: Operand, b: Operand) -> Value | None:
    """A product that is SiLU or GELU."""
    forms = {"silu({0})": ("{0} * sigmoid({0})",), "gelu({0})": GELU,
             "gelu({0}, approximate = true)": TANH_GELU}  # fmt: skip
    for text, templates in forms.items():
        parts = match(op, ("*", a, b), *templates)
        if parts is not None and isinstance(parts[0], Value):
            return op.result(text, parts[0], order=parts[0].order)
    return None


def softmax(op: Op, a: Operand, b: Operand) -> Value | None:
    """exp(x - m) / sum(exp(x - m)), for any m that is the same along the axis of the sum."""
    if not isinstance(a, Value) or not isinstance(b, Value) or a.order != plain_order(a.shape):
        return None
    parts = match(op, ("/", a, b), *SOFTMAX)
    axis = number(parts[1]) if parts is not None else None
    if parts is None or axis is None or not isinstance(parts[0], Value):
        return None
    x, along, rank = parts[0], int(axis), len(a.shape)
    if b.shape != (*a.shape[:along], 1, *a.shape[along + 1 :]):
        return None
    shifted = match(op, x, "{0} - {1}")
    if shifted is not None and _is_same_along(shifted[1], along, rank):
        inner = shifted[0]
        if isinstance(inner, Value) and (inner.shape, inner.order) == (a.shape, a.order):
            x = inner
    return op.result("softmax({0}, axis = {1})", x, along if along != rank - 1 else None)


def _is_same_along(part: Part, axis: int, rank: int) -> bool:
    if isinstance(part, Value):
        return len(part.shape) == rank and part.shape[axis] == 1
    return number(part) is not None


def layer_norm(op: Op, a: Operand, b: Operand) -> Value | None:
    """`normalised · g + b` over the last axis, with stored vectors g and b of their own."""
    for x, axis, eps, gain, shift in matches(op, ("+", a, b), *LAYER_NORM):
        if not isinstance(x, Value) or number(axis) != len(x.shape) - 1 or number(eps) is None:
            continue
        if not isinstance(gain, Member) or gain.layer or gain.source in op.writer.shared:
            continue
        if gain.arrays[""].shape != x.shape[-1:] or not _is_own_vector(op, shift, x):
            continue
        arrays = {"g": gain.arrays[""], "b": shift.array}
        return _norm(op, "LayerNorm", x, _eps(number(eps)), arrays)
    return None


def rms_norm(op: Op, a: Operand, b: Operand) -> Value | None:
    """x / sqrt(mean(x²) + eps) · gain over the last axis, with a stored gain of its own."""
    for x, axis, eps, gain in matches(op, ("*", a, b), *RMS_NORM):
        if not isinstance(x, Value) or x.order != plain_order(x.shape) or number(eps) is None:
            continue
        if number(axis) != len(x.shape) - 1 or not _is_own_vector(op, gain, x):
            continue
        # What has the mean 0 is the start of a layer norm, of which the shift is missing yet.
        if match(op, x, CENTRED) is None and op.writer.is_weight(gain):
            return _norm(op, "RMSNorm", x, number(eps), {"g": gain.array})
    return None


def _is_own_vector(op: Op, item: object, x: Value) -> bool:
    """A stored vector of the length of rows that nothing else reads."""
    is_vector = isinstance(item, Constant) and item.array.shape == x.shape[-1:]
    return is_vector and isinstance(item, Constant) and item.source not in op.writer.shared


def _eps(eps: float | None) -> float | None:
    """None if it is what layer norms have without one."""
    return None if eps is None or math.isclose(eps, 1e-5, rel_tol=1e-3) else eps


def _norm(op: Op, kind: str, x: Value, eps: float | None, arrays: dict[str, Array]) -> Value:
    layer = op.layer(kind, x.shape[-1:], op.layer_name("norm"), arrays, eps=eps)
    return op.result("{1}({0})", x, layer)
