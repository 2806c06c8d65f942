"""A small linear model and the optimizer settings it is trained with, for the tests of optimizers
and for the script that records PyTorch's results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parent / "optimizer_recorded.json"
STEPS = 9
SHAPES = {"w": (3, 2), "b": (2,)}


@dataclass(frozen=True)
class Case:
    """`decay_rate` makes lr fall: lr · decay_rate^step. `bias` are the settings of a group of b."""

    kind: str
    settings: dict[str, Any] = field(default_factory=dict)
    bias: dict[str, float] = field(default_factory=dict)
    decay_rate: float = 1.0


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
    "lion": Case("lion", {"lr": 0.01, "weight_decay": 0.3}),
    "lion_schedule": Case("lion", {"lr": 0.02, "betas": (0.8, 0.9)}, {"lr_scale": 2.0}, 0.8),
}


def initial() -> dict[str, np.ndarray]:
    return {"w": np.sin(np.arange(6.0)).reshape(3, 2), "b": np.array([0.3, -0.2])}


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.cos(np.arange(12.0) * (1 + step)).reshape(4, 3)
    return x, np.sin(np.arange(8.0) + step).reshape(4, 2)
