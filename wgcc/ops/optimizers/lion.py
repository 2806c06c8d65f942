"""lion_update(p*n, g*n, m*n, lr, scale, [decay], [apply]) -> (p*n, m*n): the Lion optimizer.

Attributes: n, beta1, beta2, decay ("decoupled", with the scalar decay = lr weight_decay, as Lion is
defined), clip_value (or None), gated.
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
    lines = [
        f"p = p - lr * sign({_mix(attrs['beta1'])});",
        f"m = {_mix(attrs['beta2'])};",
    ]
    return UpdateForm(("p", "g", "m"), ("lr",), ("p", "m"), "\n".join(lines))


def _mix(beta: float) -> str:
    return f"{literal(beta, 'f32')} * m + {literal(1 - beta, 'f32')} * g"


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # p -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g
    g, m, beta1, beta2 = values["g"], values["m"], attrs["beta1"], attrs["beta2"]
    direction = np.sign(beta1 * m + (1 - beta1) * g)
    return {"p": values["p"] - values["lr"] * direction, "m": beta2 * m + (1 - beta2) * g}


_PLAIN = {"beta1": 0.9, "beta2": 0.99, "decay": "none", "clip_value": None, "gated": False}

OPS = (
    optimizer_op(
        "lion_update",
        form,
        step,
        list_samples(3, 2, [_PLAIN, {**_PLAIN, "decay": "decoupled", "gated": True}]),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    beta1, beta2 = inputs.fixed["betas"]
    return UpdateCall("lion_update", ["exp_avg"], [inputs.lr], {"beta1": beta1, "beta2": beta2})


# Lion is not in PyTorch; these are the defaults of the paper that defines it.
_DEFAULTS = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}

OPTIMIZERS = (OptimizerKind("lion", _DEFAULTS, "decoupled", rule),)
