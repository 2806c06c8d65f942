"""adadelta_update(p*n, g*n, sq*n, acc*n, lr, scale, [decay], [apply]) -> (p*n, sq*n, acc*n).

PyTorch's Adadelta. Attributes: n, rho, eps, decay, clip_value (or None), gated.
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
    rho, rest = literal(attrs["rho"], "f32"), literal(1 - attrs["rho"], "f32")
    eps = literal(attrs["eps"], "f32")
    lines = [
        f"sq = {rho} * sq + {rest} * g * g;",
        f"let change = sqrt(acc + {eps}) / sqrt(sq + {eps}) * g;",
        f"acc = {rho} * acc + {rest} * change * change;",
        "p = p - lr * change;",
    ]
    return UpdateForm(("p", "g", "sq", "acc"), ("lr",), ("p", "sq", "acc"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # sq = rho sq + (1 - rho) g²; change = √(acc + eps) / √(sq + eps) g; acc likewise of change²
    g, rho, eps = values["g"], attrs["rho"], attrs["eps"]
    sq = rho * values["sq"] + (1 - rho) * np.square(g)
    change = np.sqrt(values["acc"] + eps) / np.sqrt(sq + eps) * g
    acc = rho * values["acc"] + (1 - rho) * np.square(change)
    return {"p": values["p"] - values["lr"] * change, "sq": sq, "acc": acc}


_PLAIN = {"rho": 0.9, "eps": 1e-6, "decay": "none", "clip_value": None, "gated": False}

OPS = (
    optimizer_op(
        "adadelta_update",
        form,
        step,
        list_samples(4, 2, [_PLAIN, {**_PLAIN, "decay": "l2", "gated": True}]),
    ),
)


def rule(inputs: StepInputs) -> UpdateCall:
    attrs = {name: inputs.fixed[name] for name in ("rho", "eps")}
    return UpdateCall("adadelta_update", ["square_avg", "acc_delta"], [inputs.lr], attrs)


# PyTorch's defaults.
_DEFAULTS = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0}

OPTIMIZERS = (OptimizerKind("adadelta", _DEFAULTS, "l2", rule),)
