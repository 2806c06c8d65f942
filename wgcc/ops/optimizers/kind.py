"""What a kind of optimizer is: its settings with their bounds, and its update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        if self.low == -inf:
            return f"below {self.high:g}" if self.high < inf else "any number"
        low = f"more than {self.low:g}" if self.open_ else f"at least {self.low:g}"
        return low if self.high == inf else f"{low} and below {self.high:g}"


@dataclass(frozen=True, slots=True)
class Setting:
    """`form` is "number", "whole", "pair", "triple", "bool", or "word": one of `words`.

    A `dynamic` setting may change from step to step; the others are compiled into the code.
    `per_group`: a group of parameters may have its own. `meaning` is for the documentation.
    """

    meaning: str
    bounds: Bounds = Bounds()
    form: str = "number"
    dynamic: bool = False
    per_group: bool = False
    words: tuple[str, ...] = ()


SETTINGS: Mapping[str, Setting] = {
    "lr": Setting("learning rate", dynamic=True),
    "lr_scale": Setting("factor on the learning rate of a group", per_group=True),
    "weight_decay": Setting(
        "pulls parameters towards zero: added to the gradient, or subtracted from the parameter, "
        "times the learning rate (adamw, lion, adafactor, muon)",
        dynamic=True,
        per_group=True,
    ),
    "momentum": Setting("fraction of the last step that is added to the next", Bounds(high=1.0)),
    "dampening": Setting("fraction of the gradient that momentum leaves out", Bounds(high=1.0)),
    "nesterov": Setting("Nesterov momentum", form="bool"),
    "betas": Setting("decay of the averages of gradients", Bounds(high=1.0), form="pair"),
    "eps": Setting("keeps the denominator away from zero", Bounds(open_=True)),
    "amsgrad": Setting("divides by the largest average so far", form="bool"),
    "alpha": Setting("decay of the average of squares", Bounds(high=1.0)),
    "centered": Setting("divides by the standard deviation of gradients", form="bool"),
    "rho": Setting("decay of the averages of squares", Bounds(high=1.0)),
    "lr_decay": Setting("slows the learning rate down: lr / (1 + (step − 1) lr_decay)"),
    "initial_accumulator_value": Setting("sum of squares before the first step"),
    "momentum_decay": Setting("how fast the momentum rises"),
    "decoupled_weight_decay": Setting("weight decay as in adamw", form="bool"),
    "beta2_decay": Setting("power of the step that averages of squares move by", Bounds(-inf, 0.0)),
    "d": Setting("largest root mean square of an update", Bounds(low=1.0)),
    "ns_coefficients": Setting(
        "coefficients of the Newton–Schulz iteration", Bounds(-inf), form="triple"
    ),
    "ns_steps": Setting(
        "number of Newton–Schulz iterations", Bounds(low=1.0, high=100.0), form="whole"
    ),
    "adjust_lr_fn": Setting(
        "factor on the learning rate of an i × o matrix: √max(1, o / i), or 0.2 √max(i, o)",
        form="word",
        words=("original", "match_rms_adamw"),
    ),
    "maximize": Setting("makes the value larger instead of smaller", form="bool"),
    "clip_norm": Setting(
        "largest norm of all gradients together", Bounds(open_=True), dynamic=True
    ),
    "clip_param_norm": Setting(
        "largest norm of the gradient of one parameter", Bounds(open_=True), dynamic=True
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
COMMON = (
    "maximize",
    "clip_norm",
    "clip_param_norm",
    "clip_value",
    "accumulate",
    "ema",
    "loss_scale",
)
GROUP_SETTINGS = tuple(name for name, setting in SETTINGS.items() if setting.per_group)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What one group's update may use.

    `step` is the number of this update, 1 for the first; `fixed` are the settings known at compile
    time, defaults included. `remember(name, start, next)` is a number that is kept between updates:
    it gives next(the last one).
    """

    optimizer: str
    lr: Term
    step: Term
    fixed: Mapping[str, Any]
    remember: Callable[[str, float, Callable[[Term], Term]], Term]


@dataclass(frozen=True, slots=True)
class UpdateCall:
    """The multi-tensor op to apply: its moments by name, its scalars in order, its attributes.

    Moments start at 0, or at what `start` says.
    """

    op: str
    moments: Sequence[str]
    scalars: Sequence[Term]
    attrs: Mapping[str, Any]
    start: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorStep:
    """What the update of one parameter may use where it is a graph.

    `p` is the parameter and `g` its gradient, after clipping; `read(name, shape)` is what was
    stored for it (0 at first).
    """

    lr: Term
    step: Term
    fixed: Mapping[str, Any]
    p: Term
    g: Term
    read: Callable[[str, tuple[int, ...]], Term]


@dataclass(frozen=True, slots=True)
class Direction:
    """What is subtracted from the parameter, and what is stored for the next step, by name."""

    change: Term
    memory: Mapping[str, Term]


TensorRule = Callable[[Sequence[TensorStep]], Sequence[Direction]]


@dataclass(frozen=True, slots=True)
class OptimizerKind:
    """`defaults` has its own settings; `decay` says how weight decay changes an update.

    "l2" adds decay p to the gradient, "decoupled" subtracts lr decay p from the parameter.

    An update that works element by element has a `rule`: one kernel for all parameters. One that
    needs more, such as products, has a `tensor_rule`, which builds the graph for each parameter of
    a group.
    `axes` is how many axes a parameter must have.
    """

    name: str
    defaults: Mapping[str, Any]
    decay: str
    rule: Callable[[StepInputs], UpdateCall] | None = None
    tensor_rule: TensorRule | None = None
    axes: int | None = None

    @property
    def settings(self) -> tuple[str, ...]:
        return (*self.defaults, *COMMON)

    def setting(self, name: str) -> Setting:
        """`eps` of adafactor are two numbers."""
        known, default = SETTINGS[name], self.defaults.get(name)
        pair = isinstance(default, tuple) and known.form == "number"
        return replace(known, form="pair") if pair else known

    def decay_with(self, settings: Mapping[str, Any]) -> str:
        return "decoupled" if settings.get("decoupled_weight_decay") else self.decay
