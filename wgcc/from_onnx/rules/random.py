"""Operators that draw random numbers: new ones in every call, whatever the file's seed."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.rules.rule import Rule, sizes_text
from wgcc.from_onnx.values import Operand


def normal(op: Op) -> Operand:
    return _drawn(op, "randn", float(op.attribute("scale", 1.0)), float(op.attribute("mean", 0.0)))


def uniform(op: Op) -> Operand:
    low, high = float(op.attribute("low", 0.0)), float(op.attribute("high", 1.0))
    return _drawn(op, "rand", high - low, low)


def _drawn(op: Op, function: str, factor: float, offset: float) -> Operand:
    shape = sizes_text(op.type.shape) if op.type.shape else ""
    text = f"{function}(f32{shape})"
    text = text if factor == 1 else f"{float_text(factor)} * {text}"
    op.remark("random numbers are drawn anew in every call, by wgcc's own generator")
    sign = "+" if offset > 0 else "-"
    return op.result(f"{text} {sign} {float_text(abs(offset))}" if offset else text)


RULES: dict[str, Rule] = {
    "RandomNormal": normal,
    "RandomNormalLike": normal,
    "RandomUniform": uniform,
    "RandomUniformLike": uniform,
}
