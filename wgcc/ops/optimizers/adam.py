"""adam_update(p*n, g*n, m*n, v*n, [top*n], step_size, correction, scale, [decay], [apply]).

PyTorch's Adam (decay "l2") and AdamW (decay "decoupled", with the scalar decay = lr weight_decay).
step_size = lr / (1 - beta1^t) and correction = 1 / sqrt(1 - beta2^t) are computed outside, once per
step. Attributes: n, beta1, beta2, eps, amsgrad (false: the lists `top` are absent), decay,
clip_value (or None), gated. Results: the new p, m, v and top.
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
    lines = [f"m = m + {rest1} * (g - m);", f"v = {beta2} * v + {rest2} * g * g;"]
    kept = ("m", "v", "top") if attrs["amsgrad"] else ("m", "v")
    if attrs["amsgrad"]:
        lines.append("top = max(top, v);")
    spread = kept[-1]
    lines.append(f"p = p - step_size * m / (sqrt({spread}) * correction + {eps});")
    scalars = ("step_size", "correction")
    return UpdateForm(("p", "g", *kept), scalars, ("p", *kept), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g²,
    # p -= step_size m / (√v correction + eps); with amsgrad the largest v so far
    g, beta1, beta2 = values["g"], attrs["beta1"], attrs["beta2"]
    m = beta1 * values["m"] + (1 - beta1) * g
    v = beta2 * values["v"] + (1 - beta2) * np.square(g)
    top = np.maximum(values["top"], v) if attrs["amsgrad"] else v
    denominator = np.sqrt(top) * values["correction"] + attrs["eps"]
    p = values["p"] - values["step_size"] * m / denominator
    return {"p": p, "m": m, "v": v, **({"top": top} if attrs["amsgrad"] else {})}


_PLAIN = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "amsgrad": False,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}

OPS = (
    optimizer_op(
        "adam_update",
        form,
        step,
        [
            *list_samples(
                4,
                3,
                [
                    _PLAIN,
                    {**_PLAIN, "decay": "l2", "clip_value": 0.3},
                    {**_PLAIN, "decay": "decoupled", "beta2": 0.95, "gated": True},
                ],
            ),
            *list_samples(5, 3, [{**_PLAIN, "amsgrad": True}]),
        ],
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    first, second = bias_correction(inputs.step, beta1), bias_correction(inputs.step, beta2)
    step_size = inputs.lr.apply("div", first, name=f"{inputs.optimizer}.step_size")
    correction = second.apply("rsqrt", name=f"{inputs.optimizer}.correction")
    amsgrad = inputs.fixed["amsgrad"]
    attrs = {"beta1": beta1, "beta2": beta2, "eps": inputs.fixed["eps"], "amsgrad": amsgrad}
    moments = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else [])]
    return UpdateCall("adam_update", moments, [step_size, correction], attrs)


def bias_correction(step: Term, beta: float) -> Term:
    """1 - beta^step, as -expm1(step ln beta), because beta^step near 1 would lose digits."""
    return -(step * log(beta)).apply("expm1") if beta > 0 else step.like(1.0)


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 0.0,
    "amsgrad": False,
}

OPTIMIZERS = (
    OptimizerKind("adam", _DEFAULTS, "l2", rule),
    OptimizerKind("adamw", {**_DEFAULTS, "weight_decay": 1e-2}, "decoupled", rule),
)
