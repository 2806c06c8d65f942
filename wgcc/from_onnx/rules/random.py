"""Operators that draw random numbers: new ones in every call, whatever the file's seed."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.rules.rule import Rule, zeros
from wgcc.from_onnx.values import Operand


def normal(op: Op) -> Operand:
    return _drawn(op, "randn", float(op.attribute("scale", 1.0)), float(op.attribute("mean", 0.0)))


def uniform(op: Op) -> Operand:
    low, high = float(op.attribute("low", 0.0)), float(op.attribute("high", 1.0))
    return _drawn(op, "rand", high - low, low)


def _drawn(op: Op, function: str, factor: float, offset: float) -> Operand:
    drawn = zeros("f32", op.type.shape, function)
    text = "{0}" if factor == 1 else "{1} * {0}"
    op.remark("random numbers are drawn anew in every call, by wgcc's own generator")
    if offset:
        text += " + {2}" if offset > 0 else " - {2}"
    return op.result(text, drawn, factor, abs(offset))


RULES: dict[str, Rule] = {
    "RandomNormal": normal,
    "RandomNormalLike": normal,
    "RandomUniform": uniform,
    "RandomUniformLike": uniform,
}
