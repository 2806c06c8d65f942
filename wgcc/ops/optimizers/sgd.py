"""sgd_update(p*n, g*n, [buf*n], lr, [share], scale, [decay], [apply]) -> (p*n, [buf*n]): SGD.

PyTorch's. Attributes: n, momentum (0: the lists `buf` are absent), dampening (0: the scalar `share`
is absent), nesterov, decay ("none", "l2" or "decoupled"), clip_value (or None), gated. `buf` starts
at zero, so the first step makes it g; in later ones `share` = 1 - dampening of g is added.

lion_update(p*n, g*n, m*n, lr, scale, [decay], [apply]) -> (p*n, m*n): the Lion optimizer.

Attributes: n, beta1, beta2, decay ("decoupled", with the scalar decay = lr weight_decay, as Lion is
defined), clip_value (or None), gated.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.optimizers.kind import (
    OptimizerKind,
    StepInputs,
    UpdateCall,
    list_samples,
    optimizer_op,
)
from wgcc.ops.registry import UpdateForm, literal


def form(attrs: Attrs) -> UpdateForm:
    if not attrs["momentum"]:
        return UpdateForm(("p", "g"), ("lr",), ("p",), "p = p - lr * g;")
    momentum = literal(attrs["momentum"], "f32")
    direction = f"(g + {momentum} * buf)" if attrs["nesterov"] else "buf"
    added = "share * g" if attrs["dampening"] else "g"
    lines = [f"buf = {momentum} * buf + {added};", f"p = p - lr * {direction};"]
    scalars = ("lr", "share") if attrs["dampening"] else ("lr",)
    return UpdateForm(("p", "g", "buf"), scalars, ("p", "buf"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # buf = momentum buf + g; p = p - lr buf (nesterov: lr (g + momentum buf))
    p, g, lr, momentum = values["p"], values["g"], values["lr"], attrs["momentum"]
    if not momentum:
        return {"p": p - lr * g}
    buf = momentum * values["buf"] + (values["share"] * g if attrs["dampening"] else g)
    return {"p": p - lr * (g + momentum * buf if attrs["nesterov"] else buf), "buf": buf}


_PLAIN = {
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}
_MOMENTUM = {**_PLAIN, "momentum": 0.9}

SGD_OPS = (
    optimizer_op(
        "sgd_update",
        form,
        step,
        [
            *list_samples(2, 2, [_PLAIN, {**_PLAIN, "decay": "l2", "gated": True}]),
            *list_samples(
                3,
                2,
                [
                    _MOMENTUM,
                    {**_MOMENTUM, "nesterov": True, "clip_value": 0.3},
                    {**_MOMENTUM, "decay": "decoupled"},
                ],
            ),
            *list_samples(3, 3, [{**_MOMENTUM, "dampening": 0.5}]),
        ],
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    momentum = inputs.fixed["momentum"]
    dampening = inputs.fixed["dampening"] if momentum else 0.0
    attrs = {
        "momentum": momentum,
        "dampening": dampening,
        "nesterov": bool(inputs.fixed["nesterov"]),
    }
    scalars = [inputs.lr]
    if dampening:
        scalars.append(inputs.step.exceeds(1.5).choose(inputs.step.like(1 - dampening), 1.0))
    return UpdateCall("sgd_update", ["momentum"] if momentum else [], scalars, attrs)


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-3,
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "weight_decay": 0.0,
}

SGD_OPTIMIZERS = (OptimizerKind("sgd", _DEFAULTS, "l2", rule),)


def form_lion(attrs: Attrs) -> UpdateForm:
    lines = [
        f"p = p - lr * sign({_mix(attrs['beta1'])});",
        f"m = {_mix(attrs['beta2'])};",
    ]
    return UpdateForm(("p", "g", "m"), ("lr",), ("p", "m"), "\n".join(lines))


def _mix(beta: float) -> str:
    return f"{literal(beta, 'f32')} * m + {literal(1 - beta, 'f32')} * g"


def step_lion(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g
    g, m, beta1, beta2 = values["g"], values["m"], attrs["beta1"], attrs["beta2"]
    direction = np.sign(beta1 * m + (1 - beta1) * g)
    return {"p": values["p"] - values["lr"] * direction, "m": beta2 * m + (1 - beta2) * g}


_PLAIN_LION = {"beta1": 0.9, "beta2": 0.99, "decay": "none", "clip_value": None, "gated": False}

LION_OPS = (
    optimizer_op(
        "lion_update",
        form_lion,
        step_lion,
        list_samples(3, 2, [_PLAIN_LION, {**_PLAIN_LION, "decay": "decoupled", "gated": True}]),
    ),
)


def rule_lion(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    return UpdateCall("lion_update", ["exp_avg"], [inputs.lr], {"beta1": beta1, "beta2": beta2})


# Lion is not in PyTorch; these are the defaults of the paper that defines it.
_DEFAULTS_LION = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}

LION_OPTIMIZERS = (OptimizerKind("lion", _DEFAULTS_LION, "decoupled", rule_lion),)

OPS = (*SGD_OPS, *LION_OPS)

OPTIMIZERS = (*SGD_OPTIMIZERS, *LION_OPTIMIZERS)
