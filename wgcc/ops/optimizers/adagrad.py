"""adagrad_update(p*n, g*n, total*n, lr, scale, [decay], [apply]) -> (p*n, total*n): Adagrad.

Attributes: n, eps, decay, clip_value (or None), gated.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import literal
from wgcc.ops.multi_tensor import list_samples, optimizer_op
from wgcc.ops.optimizers.kind import OptimizerKind, StepInputs, UpdateCall
from wgcc.ops.registry import UpdateForm


def form(attrs: Attrs) -> UpdateForm:
    eps = literal(attrs["eps"], "f32")
    lines = ["total = total + g * g;", f"p = p - lr * (g / (sqrt(total) + {eps}));"]
    return UpdateForm(("p", "g", "total"), ("lr",), ("p", "total"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # total += g²; p -= lr g / (√total + eps)
    g, total = values["g"], values["total"] + np.square(values["g"])
    return {"p": values["p"] - values["lr"] * g / (np.sqrt(total) + attrs["eps"]), "total": total}


_PLAIN = {"eps": 1e-10, "decay": "none", "clip_value": None, "gated": False}

OPS = (
    optimizer_op(
        "adagrad_update",
        form,
        step,
        list_samples(3, 2, [_PLAIN, {**_PLAIN, "decay": "l2", "gated": True}]),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    lr, slowing = inputs.lr, inputs.fixed["lr_decay"]
    if slowing:
        # lr / (1 + (step - 1) lr_decay)
        lr = lr / ((inputs.step - 1.0) * slowing + 1.0)
    start = {"sum": inputs.fixed["initial_accumulator_value"]}
    return UpdateCall("adagrad_update", ["sum"], [lr], {"eps": inputs.fixed["eps"]}, start)


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-2,
    "lr_decay": 0.0,
    "weight_decay": 0.0,
    "initial_accumulator_value": 0.0,
    "eps": 1e-10,
}

OPTIMIZERS = (OptimizerKind("adagrad", _DEFAULTS, "l2", rule),)
