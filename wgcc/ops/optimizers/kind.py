"""What a kind of optimizer is: its settings with their bounds, and its update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from wgcc.ops.formula import Term


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a setting: from `low` (excluded if `open_`) to below `high`."""

    low: float = 0.0
    high: float = inf
    open_: bool = False

    def allow(self, number: float) -> bool:
        above = number > self.low if self.open_ else number >= self.low
        return above and number < self.high

    def __str__(self) -> str:
        low = f"more than {self.low:g}" if self.open_ else f"at least {self.low:g}"
        return low if self.high == inf else f"{low} and below {self.high:g}"


@dataclass(frozen=True, slots=True)
class Setting:
    """`form` is "number", "whole", "pair" or "bool".

    A `dynamic` setting may change from step to step; the others are compiled into the code.
    `per_group`: a group of parameters may have its own. `meaning` is for the documentation.
    """

    meaning: str
    bounds: Bounds = Bounds()
    form: str = "number"
    dynamic: bool = False
    per_group: bool = False


SETTINGS: Mapping[str, Setting] = {
    "lr": Setting("learning rate", dynamic=True),
    "lr_scale": Setting("factor on the learning rate of a group", per_group=True),
    "weight_decay": Setting(
        "pulls parameters towards zero: added to the gradient (sgd, adam) or subtracted from the "
        "parameter, times the learning rate (adamw, lion)",
        dynamic=True,
        per_group=True,
    ),
    "momentum": Setting("fraction of the last step that is added to the next", Bounds(high=1.0)),
    "nesterov": Setting("Nesterov momentum", form="bool"),
    "betas": Setting("decay of the averages of gradients", Bounds(high=1.0), form="pair"),
    "eps": Setting("keeps the denominator away from zero", Bounds(open_=True)),
    "clip_norm": Setting(
        "largest norm of all gradients together", Bounds(open_=True), dynamic=True
    ),
    "clip_value": Setting("largest magnitude of one gradient element", Bounds(open_=True)),
    "accumulate": Setting(
        "calls whose gradients are averaged for one update", Bounds(low=1.0), "whole"
    ),
    "ema": Setting("decay of a moving average of the parameters", Bounds(high=1.0)),
    "loss_scale": Setting(
        "the loss was multiplied by this; gradients are divided by it",
        Bounds(open_=True),
        dynamic=True,
    ),
}
# Every optimizer has these settings. They have no defaults: what is not set has no effect.
COMMON = ("clip_norm", "clip_value", "accumulate", "ema", "loss_scale")
GROUP_SETTINGS = tuple(name for name, setting in SETTINGS.items() if setting.per_group)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What one group's update may use.

    `step` is the number of this update, 1 for the first; `fixed` are the settings known at compile
    time, defaults included.
    """

    optimizer: str
    lr: Term
    step: Term
    fixed: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateCall:
    """The multi-tensor op to apply: its moments by name, its scalars in order, its attributes."""

    op: str
    moments: Sequence[str]
    scalars: Sequence[Term]
    attrs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OptimizerKind:
    """`defaults` has its own settings; `decay` says how weight decay changes an update.

    "l2" adds decay p to the gradient, "decoupled" subtracts lr decay p from the parameter.
    """

    name: str
    defaults: Mapping[str, Any]
    decay: str
    rule: Callable[[StepInputs], UpdateCall]

    @property
    def settings(self) -> tuple[str, ...]:
        return (*self.defaults, *COMMON)
