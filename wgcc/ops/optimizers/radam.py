"""radam_update(p*n, g*n, m*n, v*n, step_size, adapt, scale, [decay], [apply]) -> p*n, m*n, v*n.

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
from wgcc.ops.dtypes import literal
from wgcc.ops.formula import Term
from wgcc.ops.multi_tensor import list_samples, optimizer_op
from wgcc.ops.optimizers.adam import bias_correction
from wgcc.ops.optimizers.kind import OptimizerKind, StepInputs, UpdateCall
from wgcc.ops.registry import UpdateForm

# The variance is used from this many degrees of freedom on.
ENOUGH = 5.0


def form(attrs: Attrs) -> UpdateForm:
    beta2, eps = literal(attrs["beta2"], "f32"), literal(attrs["eps"], "f32")
    rest1, rest2 = literal(1 - attrs["beta1"], "f32"), literal(1 - attrs["beta2"], "f32")
    lines = [
        f"m = m + {rest1} * (g - m);",
        f"v = {beta2} * v + {rest2} * g * g;",
        f"let by_spread = adapt / (sqrt(v) + {eps});",
        "p = p - step_size * m * select(Values(1.0f), by_spread, adapt > 0.0f);",
    ]
    scalars = ("step_size", "adapt")
    return UpdateForm(("p", "g", "m", "v"), scalars, ("p", "m", "v"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= step_size m (adapt / (√v + eps) where adapt > 0, else 1), with m and v as in Adam
    g, beta1, beta2 = values["g"], attrs["beta1"], attrs["beta2"]
    m = beta1 * values["m"] + (1 - beta1) * g
    v = beta2 * values["v"] + (1 - beta2) * np.square(g)
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

OPS = (
    optimizer_op(
        "radam_update",
        form,
        step,
        list_samples(4, 3, [_PLAIN, {**_PLAIN, "decay": "decoupled", "gated": True}]),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    step_size = inputs.lr / bias_correction(inputs.step, beta1)
    attrs = {"beta1": beta1, "beta2": beta2, "eps": inputs.fixed["eps"]}
    moments = ["exp_avg", "exp_avg_sq"]
    return UpdateCall("radam_update", moments, [step_size, _adapt(inputs.step, beta2)], attrs)


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
_DEFAULTS = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 0.0,
    "decoupled_weight_decay": False,
}

OPTIMIZERS = (OptimizerKind("radam", _DEFAULTS, "l2", rule),)
