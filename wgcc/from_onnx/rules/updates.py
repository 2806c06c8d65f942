"""Optimizers as operators of a graph: formulas of each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.from_onnx.context import Given, Op
from wgcc.from_onnx.rules.rule import Rule
from wgcc.from_onnx.values import Operand

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


def number(op: Op, name: str, default: float = 0.0) -> float:
    return float(op.attribute(name, default))


def like(op: Op, x: Operand, text: str, *parts: Given, name: str) -> Operand:
    return op.emit(text, *parts, shape=x.shape, dtype="f32", name=name)


def gradient(op: Op, x: Operand, g: Operand) -> Operand:
    """With that of the norm."""
    return like(op, x, "{2} * {0} + {1}", x, g, number(op, "norm_coefficient"), name="g")


def adagrad(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, h = given
    g = gradient(op, x, g)
    h = like(op, x, "{0} + square({1})", h, g, name="h")
    text = "{0} - {2} / (1.0 + f32({1}) * {5}) * {3} / (sqrt({4}) + {6})"
    slow, eps = number(op, "decay_factor"), number(op, "epsilon", 1e-6)
    return [like(op, x, text, x, step, rate, g, h, slow, eps, name="x"), h]


def adam(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v, h = given
    a, b = number(op, "alpha", 0.9), number(op, "beta", 0.999)
    g = gradient(op, x, g)
    v = like(op, x, "{2} * {0} + {3} * {1}", v, g, a, 1 - a, name="v")
    h = like(op, x, "{2} * {0} + {3} * square({1})", h, g, b, 1 - b, name="h")
    t = "maximum(f32({0}), 1.0)"
    corrected = f"{{1}} * sqrt(1.0 - {{3}} ** {t}) / (1.0 - {{2}} ** {t})"
    r = op.emit(f"where({{0}} > 0, {corrected}, {{1}})", step, rate, a, b, shape=(), dtype="f32")
    kept, eps = 1 - number(op, "norm_coefficient_post"), number(op, "epsilon", 1e-6)
    text = "({0} - {1} * {2} / (sqrt({3}) + {4})) * {5}"
    return [like(op, x, text, x, r, v, h, eps, kept, name="x"), v, h]


def momentum(op: Op, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v = given
    g = gradient(op, x, g)
    alpha = number(op, "alpha")
    text = "{3} * {0} + where({1} > 0, {4}, 1.0) * {2}"
    v = like(op, x, text, v, step, g, alpha, number(op, "beta"), name="v")
    way = "({2} + {4} * {3})" if op.attribute("mode") == "nesterov" else "{3}"
    return [like(op, x, f"{{0}} - {{1}} * {way}", x, rate, g, v, alpha, name="x"), v]


RULES: dict[str, Rule] = {
    "Adagrad": for_each_tensor(adagrad, 3),
    "Adam": for_each_tensor(adam, 4),
    "Momentum": for_each_tensor(momentum, 3),
}
