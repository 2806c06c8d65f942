"""Optimizers as operators of a graph: formulas of each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.rules.rule import Rule
from wgcc.from_onnx.values import Operand, Part

# The new values of one tensor, from the rate, the number of the step, and what is kept of it.
Formula = Callable[[Op, Operand, Operand, Sequence[Operand]], Sequence[Operand]]


def for_each_tensor(formula: Formula, count: int) -> Rule:
    """Inputs are a rate, a step, and `count` groups of tensors; the second group are gradients."""

    def rule(op: Op) -> list[Operand | None]:
        given = [op.plain(place) for place in range(2, len(op.inputs))]
        each = len(given) // count
        found = [formula(op, op.plain(0), op.plain(1), given[n::each]) for n in range(each)]
        return [new[place] for place in range(count - 1) for new in found]

    return rule


def number(op: Op, name: str, default: float = 0.0) -> str:
    return float_text(float(op.attribute(name, default)))


def like(op: Op, x: Operand, text: str, *parts: Operand | Part, name: str) -> Operand:
    return op.emit(text, *parts, shape=x.shape, dtype="f32", name=name)


def gradient(op: Op, x: Operand, g: Operand) -> Operand:
    """With that of the norm."""
    return like(op, x, f"{number(op, 'norm_coefficient')} * {{0}} + {{1}}", x, g, name="g")


def adagrad(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, h = given
    g = gradient(op, x, g)
    h = like(op, x, "{0} + square({1})", h, g, name="h")
    slow = f"(1.0 + f32({{1}}) * {number(op, 'decay_factor')})"
    text = f"{{0}} - {{2}} / {slow} * {{3}} / (sqrt({{4}}) + {number(op, 'epsilon', 1e-6)})"
    return [like(op, x, text, x, step, rate, g, h, name="x"), h]


def adam(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v, h = given
    alpha, beta = float(op.attribute("alpha", 0.9)), float(op.attribute("beta", 0.999))
    a, b = float_text(alpha), float_text(beta)
    g = gradient(op, x, g)
    v = like(op, x, f"{a} * {{0}} + {float_text(1 - alpha)} * {{1}}", v, g, name="v")
    h = like(op, x, f"{b} * {{0}} + {float_text(1 - beta)} * square({{1}})", h, g, name="h")
    t = "maximum(f32({0}), 1.0)"
    corrected = f"{{1}} * sqrt(1.0 - {b} ** {t}) / (1.0 - {a} ** {t})"
    r = op.emit(f"where({{0}} > 0, {corrected}, {{1}})", step, rate, shape=(), dtype="f32")
    kept = float_text(1 - float(op.attribute("norm_coefficient_post", 0.0)))
    text = f"({{0}} - {{1}} * {{2}} / (sqrt({{3}}) + {number(op, 'epsilon', 1e-6)})) * {kept}"
    return [like(op, x, text, x, r, v, h, name="x"), v, h]


def momentum(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v = given
    g = gradient(op, x, g)
    alpha = number(op, "alpha")
    text = f"{alpha} * {{0}} + where({{1}} > 0, {number(op, 'beta')}, 1.0) * {{2}}"
    v = like(op, x, text, v, step, g, name="v")
    way = f"({{2}} + {alpha} * {{3}})" if op.attribute("mode") == "nesterov" else "{3}"
    return [like(op, x, f"{{0}} - {{1}} * {way}", x, rate, g, v, name="x"), v]


RULES: dict[str, Rule] = {
    "Adagrad": for_each_tensor(adagrad, 3),
    "Adam": for_each_tensor(adam, 4),
    "Momentum": for_each_tensor(momentum, 3),
}
