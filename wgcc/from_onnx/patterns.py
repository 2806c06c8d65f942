"""Recognises what exporters have taken apart: a bias, GELU, softmax, layer norm, attention.

A pattern is a chain of templates of statements, from the last to the first. What it replaces is
not needed any more, and is left out of the model.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.values import Constant, Member, Part, Statement, Value
from wgcc.lazy_numpy import Array, np


def made_by(op: Op, part: object, *texts: str) -> Statement | None:
    """The statement of one of these forms that computes a value."""
    if not isinstance(part, Value):
        return None
    found = op.writer.made_by.get(part)
    while found is not None and found.text == "{0}" and isinstance(found.parts[0], Value):
        if found.outputs[0].order != found.parts[0].order:
            return None
        found = op.writer.made_by.get(found.parts[0])
    return found if found is not None and found.text in texts else None


def layer_call(op: Op, value: object, kind: str) -> Member | None:
    """The layer of this kind that made a value which only this node reads."""
    found = made_by(op, value, "{1}({0})")
    if found is None or value not in op.writer.used_once:
        return None
    layer = found.parts[1]
    if isinstance(layer, Member) and layer.kind.startswith(f"{{name}}: {kind}"):
        return layer
    return None


def with_bias(op: Op, a: object, b: object) -> Value | None:
    """`x @ w + b` as one `Linear`."""
    for value, other in ((a, b), (b, a)):
        if not isinstance(value, Value) or not isinstance(other, Constant):
            continue
        layer = layer_call(op, value, "Linear[")
        width = value.shape[-1] if value.shape else 0
        if layer is None or "b" in layer.arrays or other.source in op.writer.shared:
            continue
        if (
            other.array.size != width
            or other.shape[-1:] != (width,)
            or op.type.shape != value.shape
        ):
            continue
        x = op.writer.made_by[value].parts[0]
        kind = layer.kind.replace("(bias = false)", "")
        arrays = {**layer.arrays, "b": op.narrowed(other.array.reshape(-1))}
        return op.result("{1}({0})", x, Member(kind, arrays, layer.name))
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
    kind = layer.kind.replace("(bias = false)", "").replace(", bias = false", "")
    inner = op.writer.made_by[x].parts[0]
    return op.result("{1}({0})", inner, Member(kind, arrays, layer.name), order=x.order)


def number(part: Part | object) -> float | None:
    """A number that a template was filled with, or the only one of a parameter."""
    if isinstance(part, Member) and "" in part.arrays and part.arrays[""].size == 1:
        return float(part.arrays[""].reshape(()))
    if not isinstance(part, str):
        return None
    try:
        return float(part)
    except ValueError:
        return None


def is_near(part: Part | object, wanted: float) -> bool:
    found = number(part)
    return found is not None and math.isclose(found, wanted, rel_tol=1e-4)


def operands(statement: Statement) -> list[tuple[Part, Part]]:
    """The parts of a sum or product, in both orders."""
    a, b = statement.parts[:2]
    return [(a, b), (b, a)]


def silu(op: Op, a: object, b: object) -> Value | None:
    """x · sigmoid(x)."""
    for x, factor in ((a, b), (b, a)):
        found = made_by(op, factor, "sigmoid({0})")
        if found is not None and isinstance(x, Value) and found.parts[0] is x:
            return op.result("silu({0})", x, order=x.order)
    return None


def gelu(op: Op, a: object, b: object) -> Value | None:
    """0.5 · x · (1 + erf(x / √2)), in any order of the factors."""
    factors = _factors(op, a) + _factors(op, b)
    halves = [item for item in factors if is_near(item, 0.5)]
    others = [item for item in factors if not is_near(item, 0.5)]
    if len(halves) != 1 or len(others) != 2:
        return None
    for x, tail in (others, others[::-1]):
        if not isinstance(x, Value):
            continue
        if _is_erf_tail(op, tail, x):
            return op.result("gelu({0})", x, order=x.order)
        if _is_tanh_tail(op, tail, x):
            return op.result("gelu({0}, approximate = true)", x, order=x.order)
    return None


def _factors(op: Op, part: object, depth: int = 4) -> list[object]:
    """Of products of products; a number that is squared again and again has too many."""
    found = made_by(op, part, "{0} * {1}") if depth else None
    if found is None:
        return [part.array if isinstance(part, Constant) else part] if part is not None else []
    return [item for side in found.parts[:2] for item in _factors(op, side, depth - 1)]


def _is_erf_tail(op: Op, part: object, x: Value) -> bool:
    total = made_by(op, part, "{0} + {1}")
    if total is None:
        return False
    for one, inner in operands(total):
        if not is_near(one, 1.0):
            continue
        erf = made_by(op, inner, "erf({0})")
        if erf is not None and _is_scaled(op, erf.parts[0], x, math.sqrt(0.5)):
            return True
    return False


def _is_scaled(op: Op, part: object, x: Value, factor: float) -> bool:
    quotient = made_by(op, part, "{0} / {1}")
    if quotient is not None:
        return quotient.parts[0] is x and is_near(quotient.parts[1], 1 / factor)
    product = made_by(op, part, "{0} * {1}")
    if product is None:
        return False
    return any(a is x and is_near(b, factor) for a, b in operands(product))


def _is_tanh_tail(op: Op, part: object, x: Value) -> bool:
    """1 + tanh(√(2/π) · (x + 0.044715 · x³))."""
    total = made_by(op, part, "{0} + {1}")
    if total is None:
        return False
    for one, inner in operands(total):
        tanh = made_by(op, inner, "tanh({0})") if is_near(one, 1.0) else None
        product = made_by(op, tanh.parts[0], "{0} * {1}") if tanh is not None else None
        if product is None:
            continue
        for factor, rest in operands(product):
            if is_near(factor, math.sqrt(2 / math.pi)) and _is_cubic(op, rest, x):
                return True
    return False


def _is_cubic(op: Op, part: object, x: Value) -> bool:
    total = made_by(op, part, "{0} + {1}")
    if total is None:
        return False
    return any(a is x and _cube_factor(op, b, x) for a, b in operands(total))


def _cube_factor(op: Op, part: object, x: Value) -> bool:
    """Whether this is 0.044715 · x³."""
    factors = _factors(op, part)
    count, numbers = 0, 1.0
    for item in factors:
        power = made_by(op, item, "{0} ** {1}")
        square = made_by(op, item, "square({0})")
        found = number(item)
        if item is x:
            count += 1
        elif power is not None and power.parts[0] is x and is_near(power.parts[1], 3.0):
            count += 3
        elif square is not None and square.parts[0] is x:
            count += 2
        elif found is not None:
            numbers *= found
        else:
            return False
    return count == 3 and math.isclose(numbers, 0.044715, rel_tol=1e-4)


def softmax(op: Op, a: object, b: object) -> Value | None:
    """exp(x - m) / sum(exp(x - m)), for any m that is the same along the axis of the sum."""
    top = made_by(op, a, "exp({0})")
    if top is None or not isinstance(a, Value) or a.order != tuple(range(len(a.order))):
        return None
    axis = _summed_axis(op, b, a)
    x = top.parts[0]
    if axis is None or not isinstance(x, Value):
        return None
    shifted = made_by(op, x, "{0} - {1}")
    if shifted is not None and _is_same_along(shifted.parts[1], axis, len(a.shape)):
        inner = shifted.parts[0]
        if isinstance(inner, Value) and (inner.shape, inner.order) == (a.shape, a.order):
            x = inner
    extra = "" if axis == len(a.shape) - 1 else f", axis = {axis}"
    return op.result(f"softmax({{0}}{extra})", x)


def _summed_axis(op: Op, total: object, terms: Value) -> int | None:
    """The axis along which this is the sum of all terms, as a quotient needs it."""
    found = op.writer.made_by.get(total) if isinstance(total, Value) else None
    if found is not None and found.text.startswith("reshape("):
        inner = found.parts[0]
        found = op.writer.made_by.get(inner) if isinstance(inner, Value) else None
    if found is None or found.parts[0] is not terms or not isinstance(total, Value):
        return None
    match = re.fullmatch(r"sum\(\{0\}, axis = (\d+)(, keep = true)?\)", found.text)
    if match is None:
        return None
    axis = int(match[1])
    kept = (*terms.shape[:axis], 1, *terms.shape[axis + 1 :])
    return axis if total.shape == kept else None


def _is_same_along(part: Part, axis: int, rank: int) -> bool:
    if isinstance(part, Value):
        return len(part.shape) == rank and part.shape[axis] == 1
    return number(part) is not None


@dataclass(frozen=True, slots=True)
class Normalised:
    """`(x - mean) / sqrt(var + eps)` over the last axis."""

    x: Value
    eps: float


def normalised(op: Op, part: object) -> Normalised | None:
    quotient = made_by(op, part, "{0} / {1}")
    if quotient is None:
        return None
    top, root = quotient.parts[:2]
    x = centred(op, top)
    sqrt = made_by(op, root, "sqrt({0})")
    total = made_by(op, sqrt.parts[0], "{0} + {1}") if sqrt is not None else None
    if x is None or total is None:
        return None
    for variance, eps in operands(total):
        found = number(eps)
        if found is not None and _is_mean_square(op, variance, x):
            return Normalised(x, found)
    return None


def mean_text(value: Value) -> str:
    return f"mean({{0}}, axis = {len(value.shape) - 1}, keep = true)"


def centred(op: Op, part: object) -> Value | None:
    """x, if this is x - mean(x)."""
    found = made_by(op, part, "{0} - {1}")
    if found is None or not isinstance(found.parts[0], Value):
        return None
    x = found.parts[0]
    mean = made_by(op, found.parts[1], mean_text(x))
    return x if mean is not None and mean.parts[0] is x else None


def _is_mean_square(op: Op, part: object, x: Value) -> bool:
    mean = made_by(op, part, mean_text(x))
    if mean is None:
        return False
    square = made_by(op, mean.parts[0], "square({0})", "{0} * {1}")
    return square is not None and all(centred(op, item) is x for item in square.parts)


def layer_norm(op: Op, a: object, b: object) -> Value | None:
    """`normalised · g + b`, with stored vectors g and b of their own."""
    for product, shift in ((a, b), (b, a)):
        found = made_by(op, product, "{0} * {1}")
        if found is None or not is_own_vector(op, shift):
            continue
        for inner, gain in operands(found):
            normal = normalised(op, inner)
            if normal is None or not isinstance(gain, Member) or "param " not in gain.kind:
                continue
            if gain.source in op.writer.shared or gain.arrays[""].ndim != 1:
                continue
            return _norm_layer(op, normal, gain, shift)
    return None


def is_own_vector(op: Op, item: object) -> bool:
    return (
        isinstance(item, Constant) and item.array.ndim == 1 and item.source not in op.writer.shared
    )


def _norm_layer(op: Op, normal: Normalised, gain: Member, shift: object) -> Value | None:
    assert isinstance(shift, Constant)
    width = normal.x.shape[-1]
    if shift.array.size != width or gain.arrays[""].size != width:
        return None
    option = (
        "" if math.isclose(normal.eps, 1e-5, rel_tol=1e-3) else f"(eps = {float_text(normal.eps)})"
    )
    layer = Member(
        f"{{name}}: LayerNorm[{width}]{option}",
        {"g": gain.arrays[""], "b": op.narrowed(shift.array)},
        op.layer_name("norm"),
    )
    return op.result("{1}({0})", normal.x, layer)
