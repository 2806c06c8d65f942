"""Recognises RMS norm, which exporters take apart: x / sqrt(mean(x²) + eps) · gain."""

from __future__ import annotations

from collections.abc import Iterator

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.patterns import (
    centred,
    is_near,
    is_own_vector,
    made_by,
    mean_text,
    number,
    operands,
)
from wgcc.from_onnx.values import Constant, Member, Part, Value, plain_order


def rms_norm(op: Op, a: object, b: object) -> Value | None:
    for product, gain in ((a, b), (b, a)):
        if not isinstance(gain, Constant) or not is_own_vector(op, gain):
            continue
        for x, root in _quotients(op, product):
            # What has the mean 0 is the start of a layer norm, of which the shift is missing yet.
            eps = _eps(op, x, root) if centred(op, x) is None else None
            if eps is not None and x.shape[-1:] == gain.shape and op.writer.is_weight(gain):
                return _layer(op, x, gain, eps)
    return None


def _quotients(op: Op, part: object) -> Iterator[tuple[Value, Part]]:
    """x and y, if this is x / y or x · (1 / y)."""
    quotient = made_by(op, part, "{0} / {1}")
    if quotient is not None and isinstance(quotient.parts[0], Value):
        yield quotient.parts[0], quotient.parts[1]
    product = made_by(op, part, "{0} * {1}")
    for x, inverse in operands(product) if product is not None else []:
        reciprocal = made_by(op, inverse, "1.0 / {0}")
        fraction = made_by(op, inverse, "{0} / {1}")
        if isinstance(x, Value) and reciprocal is not None:
            yield x, reciprocal.parts[0]
        elif isinstance(x, Value) and fraction is not None and is_near(fraction.parts[0], 1.0):
            yield x, fraction.parts[1]


def _eps(op: Op, x: Value, root: Part) -> float | None:
    """The number in sqrt(mean(x²) + eps), if this is one over the last axis."""
    sqrt = made_by(op, root, "sqrt({0})")
    total = made_by(op, sqrt.parts[0], "{0} + {1}") if sqrt is not None else None
    for squares, eps in operands(total) if total is not None else []:
        mean = made_by(op, squares, mean_text(x))
        square = made_by(op, mean.parts[0], "square({0})", "{0} * {1}") if mean else None
        if square is not None and all(item is x for item in square.parts):
            return number(eps) if x.order == plain_order(x.shape) else None
    return None


def _layer(op: Op, x: Value, gain: Constant, eps: float) -> Value:
    kind = f"{{name}}: RMSNorm[{gain.array.size}](eps = {float_text(eps)})"
    layer = Member(kind, {"g": op.narrowed(gain.array)}, op.layer_name("norm"))
    return op.result("{1}({0})", x, layer)
