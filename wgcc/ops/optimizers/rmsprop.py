"""rmsprop_update(p*n, g*n, sq*n, [avg*n], [buf*n], lr, scale, [decay], [apply]): PyTorch's RMSprop.

Attributes: n, alpha, eps, momentum (0: the lists `buf` are absent), centered (false: the lists
`avg` are absent), decay, clip_value (or None), gated.
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
    alpha, rest = literal(attrs["alpha"], "f32"), literal(1 - attrs["alpha"], "f32")
    eps, momentum = literal(attrs["eps"], "f32"), literal(attrs["momentum"], "f32")
    lines, spread = [f"sq = {alpha} * sq + {rest} * g * g;"], "sq"
    if attrs["centered"]:
        # Rounding may make a variance of zero negative.
        lines.append(f"avg = avg + {rest} * (g - avg);")
        spread = "max(sq - avg * avg, Values(0.0f))"
    step = f"g / (sqrt({spread}) + {eps})"
    if attrs["momentum"]:
        lines.append(f"buf = {momentum} * buf + {step};")
        step = "buf"
    lines.append(f"p = p - lr * ({step});")
    kept = _kept(attrs)
    return UpdateForm(("p", "g", *kept), ("lr",), ("p", *kept), "\n".join(lines))


def _kept(attrs: Attrs) -> tuple[str, ...]:
    centered = ("avg",) if attrs["centered"] else ()
    return ("sq", *centered, *(("buf",) if attrs["momentum"] else ()))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # sq = alpha sq + (1 - alpha) g²; step = g / (√(sq - avg²) + eps); buf = momentum buf + step
    g, alpha, found = values["g"], attrs["alpha"], {}
    found["sq"] = spread = alpha * values["sq"] + (1 - alpha) * np.square(g)
    if attrs["centered"]:
        found["avg"] = alpha * values["avg"] + (1 - alpha) * g
        spread = np.maximum(spread - np.square(found["avg"]), 0)
    change = g / (np.sqrt(spread) + attrs["eps"])
    if attrs["momentum"]:
        found["buf"] = change = attrs["momentum"] * values["buf"] + change
    return {"p": values["p"] - values["lr"] * change, **found}


_PLAIN = {
    "alpha": 0.99,
    "eps": 1e-8,
    "momentum": 0.0,
    "centered": False,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}

OPS = (
    optimizer_op(
        "rmsprop_update",
        form,
        step,
        [
            *list_samples(3, 2, [_PLAIN, {**_PLAIN, "decay": "l2", "gated": True}]),
            *list_samples(4, 2, [{**_PLAIN, "momentum": 0.9, "clip_value": 0.3}]),
            *list_samples(5, 2, [{**_PLAIN, "momentum": 0.9, "centered": True}]),
        ],
    ),
)

_NAMES = {"sq": "square_avg", "avg": "grad_avg", "buf": "momentum_buffer"}


def rule(inputs: StepInputs) -> UpdateCall:
    attrs = {name: inputs.fixed[name] for name in ("alpha", "eps", "momentum", "centered")}
    return UpdateCall("rmsprop_update", [_NAMES[k] for k in _kept(attrs)], [inputs.lr], attrs)


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-2,
    "alpha": 0.99,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "momentum": 0.0,
    "centered": False,
}

OPTIMIZERS = (OptimizerKind("rmsprop", _DEFAULTS, "l2", rule),)
