"""adagrad_update(p*n, g*n, total*n, lr, scale, [decay], [apply]) -> (p*n, total*n): Adagrad.

Attributes: n, eps, decay, clip_value (or None), gated.

adadelta_update(p*n, g*n, sq*n, acc*n, lr, scale, [decay], [apply]) -> (p*n, sq*n, acc*n).

PyTorch's Adadelta. Attributes: n, rho, eps, decay, clip_value (or None), gated.

rmsprop_update(p*n, g*n, sq*n, [avg*n], [buf*n], lr, scale, [decay], [apply]): PyTorch's RMSprop.

Attributes: n, alpha, eps, momentum (0: the lists `buf` are absent), centered (false: the lists
`avg` are absent), decay, clip_value (or None), gated.
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
    eps = literal(attrs["eps"], "f32")
    lines = ["total = total + g * g;", f"p = p - lr * (g / (sqrt(total) + {eps}));"]
    return UpdateForm(("p", "g", "total"), ("lr",), ("p", "total"), "\n".join(lines))


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # total += g²; p -= lr g / (√total + eps)
    g, total = values["g"], values["total"] + np.square(values["g"])
    return {"p": values["p"] - values["lr"] * g / (np.sqrt(total) + attrs["eps"]), "total": total}


_PLAIN = {"eps": 1e-10, "decay": "none", "clip_value": None, "gated": False}

ADAGRAD_OPS = (
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

ADAGRAD_OPTIMIZERS = (OptimizerKind("adagrad", _DEFAULTS, "l2", rule),)


def form_adadelta(attrs: Attrs) -> UpdateForm:
    rho, rest = literal(attrs["rho"], "f32"), literal(1 - attrs["rho"], "f32")
    eps = literal(attrs["eps"], "f32")
    lines = [
        f"sq = {rho} * sq + {rest} * g * g;",
        f"let change = sqrt(acc + {eps}) / sqrt(sq + {eps}) * g;",
        f"acc = {rho} * acc + {rest} * change * change;",
        "p = p - lr * change;",
    ]
    return UpdateForm(("p", "g", "sq", "acc"), ("lr",), ("p", "sq", "acc"), "\n".join(lines))


def step_adadelta(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # sq = rho sq + (1 - rho) g²; change = √(acc + eps) / √(sq + eps) g; acc likewise of change²
    g, rho, eps = values["g"], attrs["rho"], attrs["eps"]
    sq = rho * values["sq"] + (1 - rho) * np.square(g)
    change = np.sqrt(values["acc"] + eps) / np.sqrt(sq + eps) * g
    acc = rho * values["acc"] + (1 - rho) * np.square(change)
    return {"p": values["p"] - values["lr"] * change, "sq": sq, "acc": acc}


_PLAIN_ADADELTA = {"rho": 0.9, "eps": 1e-6, "decay": "none", "clip_value": None, "gated": False}

ADADELTA_OPS = (
    optimizer_op(
        "adadelta_update",
        form_adadelta,
        step_adadelta,
        list_samples(4, 2, [_PLAIN_ADADELTA, {**_PLAIN_ADADELTA, "decay": "l2", "gated": True}]),
    ),
)


def rule_adadelta(inputs: StepInputs) -> UpdateCall:
    attrs = {name: inputs.fixed[name] for name in ("rho", "eps")}
    return UpdateCall("adadelta_update", ["square_avg", "acc_delta"], [inputs.lr], attrs)


# PyTorch's defaults.
_DEFAULTS_ADADELTA = {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0}

ADADELTA_OPTIMIZERS = (OptimizerKind("adadelta", _DEFAULTS_ADADELTA, "l2", rule_adadelta),)


def form_rmsprop(attrs: Attrs) -> UpdateForm:
    alpha, rest = literal(attrs["alpha"], "f32"), literal(1 - attrs["alpha"], "f32")
    eps, momentum = literal(attrs["eps"], "f32"), literal(attrs["momentum"], "f32")
    lines, spread = [f"sq = {alpha} * sq + {rest} * g * g;"], "sq"
    if attrs["centered"]:
        # Rounding may make a variance of zero negative.
        lines.append(f"avg = avg + {rest} * (g - avg);")
        spread = "max(sq - avg * avg, Values(0.0f))"
    change = f"g / (sqrt({spread}) + {eps})"
    if attrs["momentum"]:
        lines.append(f"buf = {momentum} * buf + {change};")
        change = "buf"
    lines.append(f"p = p - lr * ({change});")
    kept = _moment_names(attrs)
    return UpdateForm(("p", "g", *kept), ("lr",), ("p", *kept), "\n".join(lines))


def _moment_names(attrs: Attrs) -> tuple[str, ...]:
    centered = ("avg",) if attrs["centered"] else ()
    return ("sq", *centered, *(("buf",) if attrs["momentum"] else ()))


def step_rmsprop(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # sq = alpha sq + (1 - alpha) g²; step = g / (√(sq - avg²) + eps); buf = momentum buf + step
    g, alpha, moments = values["g"], attrs["alpha"], {}
    moments["sq"] = spread = alpha * values["sq"] + (1 - alpha) * np.square(g)
    if attrs["centered"]:
        moments["avg"] = alpha * values["avg"] + (1 - alpha) * g
        spread = np.maximum(spread - np.square(moments["avg"]), 0)
    change = g / (np.sqrt(spread) + attrs["eps"])
    if attrs["momentum"]:
        moments["buf"] = change = attrs["momentum"] * values["buf"] + change
    return {"p": values["p"] - values["lr"] * change, **moments}


_PLAIN_RMSPROP = {
    "alpha": 0.99,
    "eps": 1e-8,
    "momentum": 0.0,
    "centered": False,
    "decay": "none",
    "clip_value": None,
    "gated": False,
}

RMSPROP_OPS = (
    optimizer_op(
        "rmsprop_update",
        form_rmsprop,
        step_rmsprop,
        [
            *list_samples(3, 2, [_PLAIN_RMSPROP, {**_PLAIN_RMSPROP, "decay": "l2", "gated": True}]),
            *list_samples(4, 2, [{**_PLAIN_RMSPROP, "momentum": 0.9, "clip_value": 0.3}]),
            *list_samples(5, 2, [{**_PLAIN_RMSPROP, "momentum": 0.9, "centered": True}]),
        ],
    ),
)

_NAMES = {"sq": "square_avg", "avg": "grad_avg", "buf": "momentum_buffer"}


def rule_rmsprop(inputs: StepInputs) -> UpdateCall:
    attrs = {name: inputs.fixed[name] for name in ("alpha", "eps", "momentum", "centered")}
    return UpdateCall(
        "rmsprop_update", [_NAMES[k] for k in _moment_names(attrs)], [inputs.lr], attrs
    )


# PyTorch's defaults.
_DEFAULTS_RMSPROP = {
    "lr": 1e-2,
    "alpha": 0.99,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "momentum": 0.0,
    "centered": False,
}

RMSPROP_OPTIMIZERS = (OptimizerKind("rmsprop", _DEFAULTS_RMSPROP, "l2", rule_rmsprop),)

OPS = (*ADAGRAD_OPS, *ADADELTA_OPS, *RMSPROP_OPS)

OPTIMIZERS = (*ADAGRAD_OPTIMIZERS, *ADADELTA_OPTIMIZERS, *RMSPROP_OPTIMIZERS)
