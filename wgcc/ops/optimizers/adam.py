"""adam_update(p*n, g*n, m*n, v*n, [top*n], step_size, correction, scale, [decay], [apply]).

PyTorch's Adam (decay "l2") and AdamW (decay "decoupled", with the scalar decay = lr weight_decay).
step_size = lr / (1 - beta1^t) and correction = 1 / sqrt(1 - beta2^t) are computed outside, once per
step. Attributes: n, beta1, beta2, eps, amsgrad (false: the lists `top` are absent), decay,
clip_value (or None), gated. Results: the new p, m, v and top.

nadam_update(p*n, g*n, m*n, v*n, now, ahead, correction, scale, [decay], [apply]) -> new p, m, v.

PyTorch's NAdam: `now` and `ahead` are the step sizes of the gradient and of its average,
correction = sqrt(1 - beta2^t); all are computed outside, once per step. Attributes: n, beta1,
beta2, eps, decay, clip_value (or None), gated.

radam_update(p*n, g*n, m*n, v*n, step_size, adapt, scale, [decay], [apply]) -> p*n, m*n, v*n.

PyTorch's RAdam: step_size = lr / (1 - beta1^t); adapt = rectification · sqrt(1 - beta2^t), or 0
while the variance is not known well enough, when the step is not divided by it. Attributes: n,
beta1, beta2, eps, decay, clip_value (or None), gated.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from math import log

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.optimizers.kind import (
    OptimizerKind,
    StepInputs,
    UpdateCall,
    list_samples,
    optimizer_op,
)
from wgcc.ops.registry import UpdateForm, literal


def _moments_wgsl(attrs: Attrs) -> list[str]:
    # 1 - beta is computed here: as a difference in f32 it would lose four digits.
    beta2 = literal(attrs["beta2"], "f32")
    rest1, rest2 = literal(1 - attrs["beta1"], "f32"), literal(1 - attrs["beta2"], "f32")
    return [f"m = m + {rest1} * (g - m);", f"v = {beta2} * v + {rest2} * g * g;"]


def _moments(values: Mapping[str, Array], attrs: Attrs) -> tuple[Array, Array]:
    """m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g²."""
    g, beta1, beta2 = values["g"], attrs["beta1"], attrs["beta2"]
    m = beta1 * values["m"] + (1 - beta1) * g
    return m, beta2 * values["v"] + (1 - beta2) * np.square(g)


def adam_form(attrs: Attrs) -> UpdateForm:
    lines, eps = _moments_wgsl(attrs), literal(attrs["eps"], "f32")
    kept = ("m", "v", "top") if attrs["amsgrad"] else ("m", "v")
    if attrs["amsgrad"]:
        lines.append("top = max(top, v);")
    spread = kept[-1]
    lines.append(f"p = p - step_size * m / (sqrt({spread}) * correction + {eps});")
    scalars = ("step_size", "correction")
    return UpdateForm(("p", "g", *kept), scalars, ("p", *kept), "\n".join(lines))


def adam_step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= step_size m / (√v correction + eps); with amsgrad the largest v so far
    m, v = _moments(values, attrs)
    top = np.maximum(values["top"], v) if attrs["amsgrad"] else v
    denominator = np.sqrt(top) * values["correction"] + attrs["eps"]
    p = values["p"] - values["step_size"] * m / denominator
    return {"p": p, "m": m, "v": v, **({"top": top} if attrs["amsgrad"] else {})}


def nadam_form(attrs: Attrs) -> UpdateForm:
    eps = literal(attrs["eps"], "f32")
    update = f"p = p - (now * g + ahead * m) / (sqrt(v) / correction + {eps});"
    lines, scalars = [*_moments_wgsl(attrs), update], ("now", "ahead", "correction")
    return UpdateForm(("p", "g", "m", "v"), scalars, ("p", "m", "v"), "\n".join(lines))


def nadam_step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= (now g + ahead m) / (√v / correction + eps)
    m, v = _moments(values, attrs)
    change = values["now"] * values["g"] + values["ahead"] * m
    p = values["p"] - change / (np.sqrt(v) / values["correction"] + attrs["eps"])
    return {"p": p, "m": m, "v": v}


def radam_form(attrs: Attrs) -> UpdateForm:
    lines = [
        *_moments_wgsl(attrs),
        f"let by_spread = adapt / (sqrt(v) + {literal(attrs['eps'], 'f32')});",
        "p = p - step_size * m * select(Values(1.0f), by_spread, adapt > 0.0f);",
    ]
    scalars = ("step_size", "adapt")
    return UpdateForm(("p", "g", "m", "v"), scalars, ("p", "m", "v"), "\n".join(lines))


def radam_step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= step_size m (adapt / (√v + eps) where adapt > 0, else 1)
    m, v = _moments(values, attrs)
    by_spread = values["adapt"] / (np.sqrt(v) + attrs["eps"])
    factor = np.where(values["adapt"] > 0, by_spread, 1)
    return {"p": values["p"] - values["step_size"] * m * factor, "m": m, "v": v}


_PLAIN = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}
_DECOUPLED = {**_PLAIN, "decay": "decoupled", "gated": True}
_ADAM = [
    {**_PLAIN, "amsgrad": False},
    {**_PLAIN, "amsgrad": False, "decay": "l2", "clip_value": 0.3},
    {**_DECOUPLED, "amsgrad": False, "beta2": 0.95},
]
_AMSGRAD = {**_PLAIN, "amsgrad": True}

OPS = (
    optimizer_op(
        "adam_update",
        adam_form,
        adam_step,
        [*list_samples(4, 3, _ADAM), *list_samples(5, 3, [_AMSGRAD])],
    ),
    optimizer_op("nadam_update", nadam_form, nadam_step, list_samples(4, 4, [_PLAIN, _DECOUPLED])),
    optimizer_op("radam_update", radam_form, radam_step, list_samples(4, 3, [_PLAIN, _DECOUPLED])),
)
MOMENTS = ["exp_avg", "exp_avg_sq"]


def adam_rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    first, second = bias_correction(inputs.step, beta1), bias_correction(inputs.step, beta2)
    step_size = inputs.lr.apply("div", first, name=f"{inputs.optimizer}.step_size")
    correction = second.apply("rsqrt", name=f"{inputs.optimizer}.correction")
    amsgrad = inputs.fixed["amsgrad"]
    moments = [*MOMENTS, *(["max_exp_avg_sq"] if amsgrad else [])]
    attrs = {**_attrs(inputs), "amsgrad": amsgrad}
    return UpdateCall("adam_update", moments, [step_size, correction], attrs)


def nadam_rule(inputs: StepInputs) -> UpdateCall:
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
    return UpdateCall("nadam_update", MOMENTS, [now, ahead, correction], _attrs(inputs))


def radam_rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    step_size = inputs.lr / bias_correction(inputs.step, beta1)
    scalars = [step_size, _adapt(inputs.step, beta2)]
    return UpdateCall("radam_update", MOMENTS, scalars, _attrs(inputs))


def _attrs(inputs: StepInputs) -> dict[str, float]:
    beta1, beta2 = inputs.fixed["betas"]
    return {"beta1": beta1, "beta2": beta2, "eps": inputs.fixed["eps"]}


def bias_correction(step: Term, beta: float) -> Term:
    """1 - beta^step, as -expm1(step ln beta), because beta^step near 1 would lose digits."""
    return -(step * log(beta)).apply("expm1") if beta > 0 else step.like(1.0)


# The variance is used from this many degrees of freedom on.
ENOUGH = 5.0


def _adapt(step: Term, beta2: float) -> Term:
    most = 2 / (1 - beta2) - 1
    if most <= ENOUGH:
        return step.like(0.0)
    freedom = _freedom(step, beta2, most).apply("maximum", step.like(ENOUGH))
    # ((f - 4) (f - 2) most) / ((most - 4) (most - 2) f)
    ratio = (freedom - 4.0) * (freedom - 2.0) / freedom * (most / ((most - 4) * (most - 2)))
    adapt = (ratio * bias_correction(step, beta2)).apply("sqrt")
    return step.exceeds(_first_step(beta2, most) - 0.5).choose(adapt, 0.0)


def _freedom(step: Term, beta2: float, most: float) -> Term:
    """most - 2 t beta2^t / (1 - beta2^t), of which both parts are large while the result is small.

    With a = -t log beta2 the fraction is 2 / L · a / (e^a - 1), L = -log beta2; for small a its
    series 1 - a/2 + a²/12 - a⁴/720 + a⁶/30240 leaves t + (most - 2 / L) - 2 / L · (a²/12 - …).
    """
    slowness = -log(beta2)
    a = step * slowness
    square = a.square()
    series = (
        square * (1 / 12) - square.square() * (1 / 720) + square.square() * square * (1 / 30240)
    )
    near = step + (most - 2 / slowness) - series * (2 / slowness)
    far = most - step * 2.0 / a.apply("expm1")
    return a.exceeds(0.5).choose(far, near)


def _first_step(beta2: float, most: float) -> int:
    """The first step with more than `ENOUGH` degrees of freedom; computed in double precision."""
    return next(t for t in count(1) if most - 2 * t * beta2**t / (1 - beta2**t) > ENOUGH)


# PyTorch's defaults.
_COMMON = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
_DEFAULTS = {**_COMMON, "amsgrad": False}
_NADAM = {"lr": 2e-3, "momentum_decay": 4e-3, "decoupled_weight_decay": False}

OPTIMIZERS = (
    OptimizerKind("adam", _DEFAULTS, "l2", adam_rule),
    OptimizerKind("adamw", {**_DEFAULTS, "weight_decay": 1e-2}, "decoupled", adam_rule),
    OptimizerKind("nadam", {**_COMMON, **_NADAM}, "l2", nadam_rule),
    OptimizerKind("radam", {**_COMMON, "decoupled_weight_decay": False}, "l2", radam_rule),
)
