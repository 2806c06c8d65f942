"""A kind of optimizer: its settings with their bounds, and its update.

The optimizer's multi-tensor ops: their inputs are lists of n tensors, then scalars.

An update is written once, for one tensor (`step`, numpy) and one element (`UpdateForm`, WGSL); the
shape rule and the reference over all n tensors follow from it.

accumulate(acc*n, g*n, keep; n, weight) -> acc*n: gradients of several micro-batches added up.

`keep` is 1 to continue the sum and 0 to start a new one; `weight` is 1 / (number of batches).

ema_update(e*n, p*n, [apply]; n, decay, gated) -> e*n: moving averages of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from wgcc.ir.graph import Attrs, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import (
    Op,
    Sample,
    ShapeError,
    Update,
    UpdateForm,
    check_same,
    check_scalar,
    literal,
)


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
    """The inputs of one group's update.

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
    """The inputs of one parameter's update, if that is written as a graph.

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
    """`change` is subtracted from the parameter; `memory` is stored for the next step, by name."""

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


FormRule = Callable[[Attrs], UpdateForm]
# From the values by name (one tensor of each list; scalars) and attributes to new values by name.
StepRule = Callable[[Mapping[str, Array], Attrs], Mapping[str, Array]]


def update_op(name: str, form: FormRule, step: StepRule, samples: Sequence[Sample]) -> Op:
    """An op of this update. If `gated`, nothing changes unless a last scalar `apply` is above 0."""

    def gated_form(attrs: Attrs) -> UpdateForm:
        return _gate(form(attrs)) if attrs.get("gated") else form(attrs)

    def infer(*types: TensorType, **attrs: Any) -> tuple[TensorType, ...]:
        return _infer(name, gated_form(attrs), types, attrs["n"])

    def reference(*arrays: Array, **attrs: Any) -> tuple[Array, ...]:
        return _reference(gated_form(attrs), step, arrays, attrs)

    return Op(name, infer, reference, Update(gated_form), samples=samples)


def optimizer_op(name: str, form: FormRule, step: StepRule, samples: Sequence[Sample]) -> Op:
    """An update of parameters `p` by gradients `g`, after the steps that all optimizers share.

    g is multiplied by the scalar `scale` and clamped to ± attribute `clip_value` (if not None).
    Attribute `decay` says how the scalar `decay` is used: "l2" adds decay p to g, "decoupled"
    subtracts decay p from p; with "none" there is no such scalar.
    """

    def whole_form(attrs: Attrs) -> UpdateForm:
        inner = form(attrs)
        extra = ("scale",) if attrs["decay"] == "none" else ("scale", "decay")
        lines = [*_prelude_wgsl(attrs), inner.wgsl]
        return replace(inner, scalars=(*inner.scalars, *extra), wgsl="\n".join(lines))

    def whole_step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
        return step(_prelude(values, attrs), attrs)

    return update_op(name, whole_form, whole_step, samples)


def _prelude_wgsl(attrs: Attrs) -> list[str]:
    lines = ["g = g * scale;"]
    if attrs["clip_value"] is not None:
        low, high = (literal(n * float(attrs["clip_value"]), "f32") for n in (-1, 1))
        lines.append(f"g = clamp(g, Values({low}), Values({high}));")
    if attrs["decay"] == "l2":
        lines.append("g = g + decay * p;")
    if attrs["decay"] == "decoupled":
        lines.append("p = p - decay * p;")
    return lines


def _prelude(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    p, g = values["p"], values["g"] * values["scale"]
    if attrs["clip_value"] is not None:
        g = np.clip(g, -attrs["clip_value"], attrs["clip_value"])
    if attrs["decay"] == "l2":
        g = g + values["decay"] * p
    if attrs["decay"] == "decoupled":
        p = p - values["decay"] * p
    return {**values, "p": p, "g": g}


def _gate(form: UpdateForm) -> UpdateForm:
    indented = "\n".join(f"  {line}" for line in form.wgsl.splitlines())
    wgsl = f"if (apply > 0.0f) {{\n{indented}\n}}"
    return replace(form, scalars=(*form.scalars, "apply"), wgsl=wgsl)


def _infer(
    name: str, form: UpdateForm, types: Sequence[TensorType], n: int
) -> tuple[TensorType, ...]:
    wanted = n * len(form.lists) + len(form.scalars)
    if n < 1 or len(types) != wanted:
        layout = ", ".join([*(f"{n} {item}" for item in form.lists), *form.scalars])
        raise ShapeError(f"{name} takes {wanted} inputs ({layout}), not {len(types)}")
    lists = {item: types[at * n : (at + 1) * n] for at, item in enumerate(form.lists)}
    for tensors in zip(*lists.values(), strict=True):
        check_same(name, *tensors)
    for item, type_ in zip(form.scalars, types[n * len(lists) :], strict=True):
        check_scalar(name, item, type_, ("f32",))
    return tuple(type_ for item in form.writes for type_ in lists[item])


def _reference(
    form: UpdateForm, step: StepRule, arrays: Sequence[Array], attrs: Attrs
) -> tuple[Array, ...]:
    n = attrs["n"]
    scalars = dict(zip(form.scalars, arrays[n * len(form.lists) :], strict=True))
    results = []
    for k in range(n):
        values = {item: arrays[at * n + k] for at, item in enumerate(form.lists)}
        active = "apply" not in scalars or scalars["apply"] > 0
        results.append({**values, **(step({**values, **scalars}, attrs) if active else {})})
    return tuple(np.asarray(result[item]) for item in form.writes for result in results)


def list_samples(lists: int, scalars: int, cases: Sequence[Mapping[str, Any]]) -> list[Sample]:
    """One sample per set of attributes; `decay` and `gated` each add their scalar."""
    shapes = ((65,), (3, 5), ())
    samples = []
    for attrs in cases:
        extra = (attrs.get("decay", "none") != "none") + bool(attrs.get("gated"))
        types = [*shapes * lists, *[()] * (scalars + extra)]
        samples.append(Sample(types, {"n": 3, **attrs}, 0.1, 1.0, differentiable=False))
    return samples


def form(attrs: Attrs) -> UpdateForm:
    weight = literal(attrs["weight"], "f32")
    wgsl = f"acc = select(Values(0.0f), acc, keep > 0.0f) + {weight} * g;"
    return UpdateForm(("acc", "g"), ("keep",), ("acc",), wgsl)


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # acc = keep acc + weight g, also when acc is not finite
    kept = np.where(values["keep"] > 0, values["acc"], 0)
    return {"acc": kept + attrs["weight"] * values["g"]}


def form_ema(attrs: Attrs) -> UpdateForm:
    rest = literal(1 - attrs["decay"], "f32")
    return UpdateForm(("e", "p"), (), ("e",), f"e = e + {rest} * (p - e);")


def step_ema(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # e = decay e + (1 - decay) p
    return {"e": attrs["decay"] * values["e"] + (1 - attrs["decay"]) * values["p"]}


_LISTS = [(65,), (3, 5)] * 2


OPS = (
    update_op(
        "accumulate",
        form,
        step,
        [
            Sample([*[(65,), (3, 5)] * 2, ()], {"n": 2, "weight": 0.25}, differentiable=False),
            Sample(
                [(7,), (7,), ()], {"n": 1, "weight": 0.5}, low=-2.0, high=-1.0, differentiable=False
            ),
        ],
    ),
    update_op(
        "ema_update",
        form_ema,
        step_ema,
        [
            Sample(_LISTS, {"n": 2, "decay": 0.999, "gated": False}, differentiable=False),
            Sample([*_LISTS, ()], {"n": 2, "decay": 0.9, "gated": True}, differentiable=False),
        ],
    ),
)
