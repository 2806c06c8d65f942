"""sgd_update(p*n, g*n, [buf*n], lr, scale, [decay], [apply]) -> (p*n, [buf*n]): PyTorch's SGD.

Attributes: n, momentum (0: the lists `buf` are absent), nesterov, decay ("none", "l2" or
"decoupled"), clip_value (or None), gated. `buf` starts at zero, so the first step makes it g.
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
    lines = [f"buf = {momentum} * buf + g;", f"p = p - lr * {direction};"]
    return UpdateForm(("p", "g", "buf"), ("lr",), ("p", "buf"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # buf = momentum buf + g; p = p - lr buf (nesterov: lr (g + momentum buf))
    p, g, lr, momentum = values["p"], values["g"], values["lr"], attrs["momentum"]
    if not momentum:
        return {"p": p - lr * g}
    buf = momentum * values["buf"] + g
    return {"p": p - lr * (g + momentum * buf if attrs["nesterov"] else buf), "buf": buf}


_PLAIN = {"momentum": 0.0, "nesterov": False, "decay": "none", "clip_value": None, "gated": False}
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
        ],
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    momentum = inputs.fixed["momentum"]
    attrs = {"momentum": momentum, "nesterov": bool(inputs.fixed["nesterov"])}
    return UpdateCall("sgd_update", ["momentum"] if momentum else [], [inputs.lr], attrs)


# PyTorch's defaults.
_DEFAULTS = {"lr": 1e-3, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}

OPTIMIZERS = (OptimizerKind("sgd", _DEFAULTS, "l2", rule),)
