"""nadam_update(p*n, g*n, m*n, v*n, now, ahead, correction, scale, [decay], [apply]) -> new p, m, v.

PyTorch's NAdam: `now` and `ahead` are the step sizes of the gradient and of its average,
correction = sqrt(1 - beta2^t); all are computed outside, once per step. Attributes: n, beta1,
beta2, eps, decay, clip_value (or None), gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import literal
from wgcc.ops.formula import Term
from wgcc.ops.multi_tensor import list_samples, optimizer_op
from wgcc.ops.optimizers.adam import bias_correction
from wgcc.ops.optimizers.kind import OptimizerKind, StepInputs, UpdateCall
from wgcc.ops.registry import UpdateForm


def form(attrs: Attrs) -> UpdateForm:
    beta2, eps = literal(attrs["beta2"], "f32"), literal(attrs["eps"], "f32")
    rest1, rest2 = literal(1 - attrs["beta1"], "f32"), literal(1 - attrs["beta2"], "f32")
    lines = [
        f"m = m + {rest1} * (g - m);",
        f"v = {beta2} * v + {rest2} * g * g;",
        f"p = p - (now * g + ahead * m) / (sqrt(v) / correction + {eps});",
    ]
    scalars = ("now", "ahead", "correction")
    return UpdateForm(("p", "g", "m", "v"), scalars, ("p", "m", "v"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= (now g + ahead m) / (√v / correction + eps), with m and v as in Adam
    g, beta1, beta2 = values["g"], attrs["beta1"], attrs["beta2"]
    m = beta1 * values["m"] + (1 - beta1) * g
    v = beta2 * values["v"] + (1 - beta2) * np.square(g)
    change = values["now"] * g + values["ahead"] * m
    p = values["p"] - change / (np.sqrt(v) / values["correction"] + attrs["eps"])
    return {"p": p, "m": m, "v": v}


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
        "nadam_update",
        form,
        step,
        list_samples(4, 4, [_PLAIN, {**_PLAIN, "decay": "decoupled", "gated": True}]),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    beta1: float
    beta1, beta2 = inputs.fixed["betas"]
    speed: float = inputs.fixed["momentum_decay"] * log(0.96)

    def momentum(step: Term) -> Term:
        # mu = beta1 (1 - 0.5 · 0.96^(step momentum_decay))
        return (1.0 - (step * speed).exp() * 0.5) * beta1

    mu, mu_next = momentum(inputs.step), momentum(inputs.step + 1.0)
    product = inputs.remember("mu_product", 1.0, lambda before: before * mu)
    now = inputs.lr * (1.0 - mu) / (1.0 - product)
    ahead = inputs.lr * mu_next / (1.0 - product * mu_next)
    correction = bias_correction(inputs.step, beta2).apply("sqrt")
    attrs = {"beta1": beta1, "beta2": beta2, "eps": inputs.fixed["eps"]}
    moments = ["exp_avg", "exp_avg_sq"]
    return UpdateCall("nadam_update", moments, [now, ahead, correction], attrs)


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 2e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 0.0,
    "momentum_decay": 4e-3,
    "decoupled_weight_decay": False,
}

OPTIMIZERS = (OptimizerKind("nadam", _DEFAULTS, "l2", rule),)
