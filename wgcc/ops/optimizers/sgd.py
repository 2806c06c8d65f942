"""sgd_update(p*n, g*n, [buf*n], lr, [share], scale, [decay], [apply]) -> (p*n, [buf*n]): SGD.

PyTorch's. Attributes: n, momentum (0: the lists `buf` are absent), dampening (0: the scalar `share`
is absent), nesterov, decay ("none", "l2" or "decoupled"), clip_value (or None), gated. `buf` starts
at zero, so the first step makes it g; in later ones `share` = 1 - dampening of g is added.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array
from wgcc.ops.dtypes import literal
from wgcc.ops.multi_tensor import list_samples, optimizer_op
from wgcc.ops.optimizers.kind import OptimizerKind, StepInputs, UpdateCall
from wgcc.ops.registry import UpdateForm


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

OPS = (
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

OPTIMIZERS = (OptimizerKind("sgd", _DEFAULTS, "l2", rule),)
