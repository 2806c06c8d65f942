"""The optimizer's multi-tensor ops: their inputs are lists of n tensors, then scalars.

An update is written once, for one tensor (`step`, numpy) and one element (`UpdateForm`, WGSL); the
shape rule and the reference over all n tensors follow from it.

accumulate(acc*n, g*n, keep; n, weight) -> acc*n: gradients of several micro-batches added up.

`keep` is 1 to continue the sum and 0 to start a new one; `weight` is 1 / (number of batches).

ema_update(e*n, p*n, [apply]; n, decay, gated) -> e*n: moving averages of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wgcc.ir.graph import Attrs, TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_same, check_scalar
from wgcc.ops.dtypes import literal
from wgcc.ops.registry import Op, Sample, ShapeError, Update, UpdateForm

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
    found = []
    for attrs in cases:
        extra = (attrs.get("decay", "none") != "none") + bool(attrs.get("gated"))
        types = [*shapes * lists, *[()] * (scalars + extra)]
        found.append(Sample(types, {"n": 3, **attrs}, 0.1, 1.0, differentiable=False))
    return found


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
