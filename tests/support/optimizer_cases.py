"""A small linear model and the optimizer settings it is trained with, for the tests of optimizers
and for the script that records PyTorch's results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adapters import ROOT

RECORDED = ROOT / "tests" / "recorded" / "optimizer_recorded.json"
STEPS = 9
SHAPES = {"w": (3, 2), "b": (2,)}


@dataclass(frozen=True)
class Case:
    """`decay_rate` makes lr fall: lr · decay_rate^step. `bias` are the settings of a group of b,
    which is not trained with `only_matrix`."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    bias: dict[str, float] = field(default_factory=dict)
    decay_rate: float = 1.0
    only_matrix: bool = False


CASES = {
    "sgd": Case("sgd", {"lr": 0.1}),
    "sgd_decay": Case("sgd", {"lr": 0.1, "weight_decay": 0.05}),
    "sgd_momentum": Case("sgd", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd_nesterov": Case("sgd", {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    "sgd_clip_norm": Case("sgd", {"lr": 0.2, "clip_norm": 0.5}),
    "sgd_clip_value": Case("sgd", {"lr": 0.2, "clip_value": 0.1}),
    "sgd_accumulate": Case("sgd", {"lr": 0.2, "momentum": 0.9, "accumulate": 2}),
    "adam": Case("adam", {"lr": 0.05}),
    "adam_decay": Case(
        "adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}
    ),
    "adam_no_momentum": Case("adam", {"lr": 0.05, "betas": (0.0, 0.95)}),
    "adam_schedule": Case("adam", {"lr": 0.1}, decay_rate=0.7),
    "adamw": Case("adamw", {"lr": 0.05}),
    "adamw_all": Case(
        "adamw",
        {"lr": 0.1, "weight_decay": 0.2, "clip_norm": 0.3, "accumulate": 3, "ema": 0.8},
        bias={"weight_decay": 0.0, "lr_scale": 0.5},
        decay_rate=0.9,
    ),
    "adamw_loss_scale": Case("adamw", {"lr": 0.05, "clip_norm": 0.3, "loss_scale": 1024.0}),
    "sgd_dampening": Case("sgd", {"lr": 0.05, "momentum": 0.9, "dampening": 0.4}),
    "sgd_maximize": Case("sgd", {"lr": 0.02, "momentum": 0.5, "maximize": True}),
    "sgd_clip_param_norm": Case(
        "sgd", {"lr": 0.2, "momentum": 0.9, "clip_param_norm": 0.3, "accumulate": 2}
    ),
    "adam_amsgrad": Case("adam", {"lr": 0.1, "betas": (0.5, 0.6), "amsgrad": True}),
    "adamw_amsgrad": Case(
        "adamw", {"lr": 0.1, "betas": (0.5, 0.6), "amsgrad": True, "maximize": True}
    ),
    "rmsprop": Case("rmsprop", {"lr": 0.05}),
    "rmsprop_all": Case(
        "rmsprop",
        {"lr": 0.02, "alpha": 0.9, "momentum": 0.7, "centered": True, "weight_decay": 0.1},
        bias={"weight_decay": 0.0, "lr_scale": 0.5},
        decay_rate=0.9,
    ),
    "rmsprop_accumulate": Case("rmsprop", {"lr": 0.05, "accumulate": 2, "maximize": True}),
    "adagrad": Case("adagrad", {"lr": 0.3, "lr_decay": 0.1, "weight_decay": 0.05}),
    "adagrad_start": Case("adagrad", {"lr": 0.3, "initial_accumulator_value": 0.7, "eps": 1e-2}),
    "adadelta": Case("adadelta", {"lr": 1.0}),
    "adadelta_all": Case(
        "adadelta",
        {"lr": 3.0, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1, "accumulate": 2, "ema": 0.5},
        bias={"lr_scale": 2.0},
    ),
    "nadam": Case("nadam", {"lr": 0.05}),
    "nadam_all": Case(
        "nadam",
        {
            "lr": 0.1,
            "betas": (0.8, 0.9),
            "momentum_decay": 0.1,
            "weight_decay": 0.2,
            "decoupled_weight_decay": True,
            "accumulate": 3,
        },
        bias={"weight_decay": 0.0},
        decay_rate=0.9,
    ),
    "radam": Case("radam", {"lr": 0.05}),
    "radam_all": Case(
        "radam",
        {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.3, "decoupled_weight_decay": True},
        decay_rate=0.9,
    ),
    "radam_decay": Case("radam", {"lr": 0.05, "betas": (0.0, 0.6), "weight_decay": 0.3}),
    "adafactor": Case("adafactor", {"lr": 0.1}),
    "adafactor_all": Case(
        "adafactor",
        {
            "lr": 0.5,
            "beta2_decay": -0.5,
            "eps": (1e-3, 0.5),
            "d": 1.5,
            "weight_decay": 0.1,
            "accumulate": 2,
            "clip_norm": 0.5,
        },
        bias={"lr_scale": 0.5},
        decay_rate=0.8,
    ),
    "muon": Case("muon", {"lr": 0.05}, only_matrix=True),
    "muon_all": Case(
        "muon",
        {
            "lr": 0.1,
            "weight_decay": 0.3,
            "momentum": 0.8,
            "nesterov": False,
            "ns_steps": 3,
            "adjust_lr_fn": "match_rms_adamw",
            "accumulate": 2,
            "ema": 0.5,
        },
        decay_rate=0.9,
        only_matrix=True,
    ),
    "lion": Case("lion", {"lr": 0.01, "weight_decay": 0.3}),
    "lion_schedule": Case("lion", {"lr": 0.02, "betas": (0.8, 0.9)}, {"lr_scale": 2.0}, 0.8),
}


def initial() -> dict[str, np.ndarray]:
    return {"w": np.sin(np.arange(6.0)).reshape(3, 2), "b": np.array([0.3, -0.2])}


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.cos(np.arange(12.0) * (1 + step)).reshape(4, 3)
    return x, np.sin(np.arange(8.0) + step).reshape(4, 2)
