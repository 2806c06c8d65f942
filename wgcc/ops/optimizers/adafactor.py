"""PyTorch's Adafactor: mean squares of the gradients of a matrix are stored as a row and a column.

Its update needs reductions, so it is a graph: see `TensorRule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ops.formula import Term
from wgcc.ops.optimizers.kind import Direction, OptimizerKind, TensorStep


def rule(steps: Sequence[TensorStep]) -> list[Direction]:
    return [_direction(step) for step in steps]


def _direction(inputs: TensorStep) -> Direction:
    eps1, eps2 = inputs.fixed["eps"]
    # 1 - beta2 = step^beta2_decay
    weight = inputs.step.apply("pow", inputs.step.like(inputs.fixed["beta2_decay"]))
    estimate, memory = _spread(inputs, weight, eps1)
    change = inputs.g * estimate.apply("maximum", estimate.like(eps1 * eps1)).apply("rsqrt")
    # alpha = max(eps2, rms(p)) min(lr, 1 / √step)
    slowed = inputs.lr.apply("minimum", inputs.step.apply("rsqrt"))
    size = _rms(inputs.p)
    alpha = size.apply("maximum", size.like(eps2)) * slowed
    clipped = _rms(change) * (1 / inputs.fixed["d"])
    factor = alpha / clipped.apply("maximum", clipped.like(1.0))
    return Direction(change * factor.broadcast(change.shape), memory)


def _spread(inputs: TensorStep, weight: Term, eps1: float) -> tuple[Term, dict[str, Term]]:
    """The estimate of the mean squares, and what is stored of it."""
    squares, shape = inputs.g.square(), inputs.g.shape
    if len(shape) < 2:
        variance = _interpolate(inputs.read("variance", shape), squares, weight)
        return variance, {"variance": variance}
    row, column = len(shape) - 1, len(shape) - 2
    rows = _interpolate(inputs.read("row_var", (*shape[:-1], 1)), _mean(squares, row), weight)
    columns = (*shape[:-2], 1, shape[-1])
    cols = _interpolate(inputs.read("col_var", columns), _mean(squares, column), weight)
    whole = _mean(rows, column)
    safe = whole.apply("maximum", whole.like(eps1))
    estimate = (rows / safe.broadcast(rows.shape)).broadcast(shape) * cols.broadcast(shape)
    return estimate, {"row_var": rows, "col_var": cols}


def _mean(x: Term, axis: int) -> Term:
    kept = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    return x.mean([axis]).reshape(kept)


def _interpolate(before: Term, towards: Term, weight: Term) -> Term:
    return before + (towards - before) * weight.broadcast(before.shape)


def _rms(x: Term) -> Term:
    """√(Σ x² / n)."""
    return (x.square().sum(range(len(x.shape))) / prod(x.shape)).apply("sqrt")


# PyTorch's defaults; the first `eps` is the precision of f32.
_DEFAULTS = {
    "lr": 1e-2,
    "beta2_decay": -0.8,
    "eps": (2.0**-23, 1e-3),
    "d": 1.0,
    "weight_decay": 0.0,
}

OPTIMIZERS = (OptimizerKind("adafactor", _DEFAULTS, "decoupled", tensor_rule=rule),)
