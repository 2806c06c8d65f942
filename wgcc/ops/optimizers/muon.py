"""PyTorch's Muon: the momentum of a matrix, orthogonalised by a Newton-Schulz iteration.

Its update needs products, so it is a graph: see `TensorRule`. PyTorch iterates in bfloat16; here
it is f32.
"""

from __future__ import annotations

from math import sqrt

from wgcc.ops.formula import Term
from wgcc.ops.optimizers.kind import Direction, OptimizerKind, TensorStep


def rule(inputs: TensorStep) -> Direction:
    momentum, g = inputs.fixed["momentum"], inputs.g
    before = inputs.read("momentum_buffer", g.shape)
    buffer = before + (g - before) * (1 - momentum)
    mixed = g + (buffer - g) * momentum if inputs.fixed["nesterov"] else buffer
    step = inputs.lr * _ratio(inputs.fixed["adjust_lr_fn"], *g.shape)
    change = _orthogonal(mixed, inputs) * step.broadcast(g.shape)
    return Direction(change, {"momentum_buffer": buffer})


def _orthogonal(x: Term, inputs: TensorStep) -> Term:
    tall = x.shape[0] > x.shape[1]
    x = _transposed(x) if tall else x
    norm = x.square().sum((0, 1)).apply("sqrt")
    x = x / norm.apply("maximum", norm.like(inputs.fixed["eps"])).broadcast(x.shape)
    a, b, c = inputs.fixed["ns_coefficients"]
    for _ in range(inputs.fixed["ns_steps"]):
        gram = x.apply("matmul", _transposed(x))
        x = x * a + (gram * b + gram.apply("matmul", gram) * c).apply("matmul", x)
    return _transposed(x) if tall else x


def _transposed(x: Term) -> Term:
    return x.apply("transpose", perm=(1, 0))


def _ratio(adjusted: str, inputs: int, outputs: int) -> float:
    """PyTorch's, for a matrix that it stores the other way round: `x @ w` here, `x @ w.T` there."""
    if adjusted == "match_rms_adamw":
        return 0.2 * sqrt(max(inputs, outputs))
    return sqrt(max(1.0, outputs / inputs))


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-3,
    "weight_decay": 0.1,
    "momentum": 0.95,
    "nesterov": True,
    "ns_coefficients": (3.4445, -4.775, 2.0315),
    "eps": 1e-7,
    "ns_steps": 5,
    "adjust_lr_fn": "original",
}

OPTIMIZERS = (OptimizerKind("muon", _DEFAULTS, "decoupled", tensor_rule=rule, axes=2),)
