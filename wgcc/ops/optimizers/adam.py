"""adam_update(p*n, g*n, m*n, v*n, step_size, correction, scale, [decay], [apply]) -> p*n, m*n, v*n.

PyTorch's Adam (decay "l2") and AdamW (decay "decoupled", with the scalar decay = lr weight_decay).
step_size = lr / (1 - beta1^t) and correction = sqrt(1 - beta2^t) are computed outside, once per
step. Attributes: n, beta1, beta2, eps, decay, clip_value (or None), gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import literal
from wgcc.ops.formula import Term
from wgcc.ops.multi_tensor import list_samples, optimizer_op
from wgcc.ops.optimizers.kind import OptimizerKind, StepInputs, UpdateCall
from wgcc.ops.registry import UpdateForm


def form(attrs: Attrs) -> UpdateForm:
    # 1 - beta is computed here: as a difference in f32 it would lose four digits.
    beta2, eps = literal(attrs["beta2"], "f32"), literal(attrs["eps"], "f32")
    rest1, rest2 = literal(1 - attrs["beta1"], "f32"), literal(1 - attrs["beta2"], "f32")
    lines = [
        f"m = m + {rest1} * (g - m);",
        f"v = {beta2} * v + {rest2} * g * g;",
        f"p = p - step_size * m / (sqrt(v) / correction + {eps});",
    ]
    scalars = ("step_size", "correction")
    return UpdateForm(("p", "g", "m", "v"), scalars, ("p", "m", "v"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g²,
    # p -= step_size m / (√v / correction + eps)
    g, beta1, beta2 = values["g"], attrs["beta1"], attrs["beta2"]
    m = beta1 * values["m"] + (1 - beta1) * g
    v = beta2 * values["v"] + (1 - beta2) * np.square(g)
    denominator = np.sqrt(v) / values["correction"] + attrs["eps"]
    return {"p": values["p"] - values["step_size"] * m / denominator, "m": m, "v": v}


_PLAIN = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}

OPS = (
    optimizer_op(
        "adam_update",
        form,
        step,
        list_samples(
            4,
            3,
            [
                _PLAIN,
                {**_PLAIN, "decay": "l2", "clip_value": 0.3},
                {**_PLAIN, "decay": "decoupled", "beta2": 0.95, "gated": True},
            ],
        ),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    first, second = bias_correction(inputs.step, beta1), bias_correction(inputs.step, beta2)
    step_size = inputs.lr.apply("div", first, name=f"{inputs.optimizer}.step_size")
    correction = second.apply("sqrt", name=f"{inputs.optimizer}.correction")
    attrs = {"beta1": beta1, "beta2": beta2, "eps": inputs.fixed["eps"]}
    return UpdateCall("adam_update", ["exp_avg", "exp_avg_sq"], [step_size, correction], attrs)


def bias_correction(step: Term, beta: float) -> Term:
    """1 - beta^step, as -expm1(step ln beta), because beta^step near 1 would lose digits."""
    return -(step * log(beta)).apply("expm1") if beta > 0 else step.like(1.0)


# PyTorch's defaults.
_DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}

OPTIMIZERS = (
    OptimizerKind("adam", _DEFAULTS, "l2", rule),
    OptimizerKind("adamw", {**_DEFAULTS, "weight_decay": 1e-2}, "decoupled", rule),
)
