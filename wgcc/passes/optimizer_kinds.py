"""One multi-tensor update per group of parameters: PyTorch's formulas, by kind of optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Value
from wgcc.ops.formula import Term
from wgcc.passes.optimizer_settings import Group, Settings
from wgcc.passes.optimizer_state import EntryState


@dataclass(frozen=True, slots=True)
class Job:
    """One `minimize` of one entry: what its updates have in common.

    `names` are the parameters' own; `step` is the number of this update, 1 for the first; `norm`
    is that of all gradients; `scale` multiplies every gradient; `apply` (if any) says whether
    anything changes in this call.
    """

    b: Builder
    state: EntryState
    settings: Settings
    optimizer: str
    kind: str
    names: Sequence[str]
    params: Sequence[Value]
    grads: Sequence[Value]
    step: Term
    norm: Term
    scale: Term
    apply: Term | None

    def moments(self, kind: str, index: int) -> Value:
        name = moment_name(self.optimizer, kind, self.names[index])
        return self.state.read(name, self.params[index].type)


def moment_name(optimizer: str, kind: str, param: str) -> str:
    return f"opt/{optimizer}/{kind}/{param}"


def update_group(job: Job, group: Group) -> list[Value]:
    """The new values of the group's parameters; new moments are written to the state."""
    op, moments, scalars, attrs = RULES[job.kind](job, group)
    if group.weight_decay is not None:
        decoupled = job.kind in DECOUPLED
        decay = group.lr * group.weight_decay if decoupled else group.weight_decay
        attrs = {**attrs, "decay": "decoupled" if decoupled else "l2"}
    tail = [*scalars, job.scale, *([] if group.weight_decay is None else [decay])]
    return _apply(job, group, op, moments, [*tail, *([job.apply] if job.apply else [])], attrs)


Rule = Callable[[Job, Group], tuple[str, Sequence[str], Sequence[Term], Mapping[str, Any]]]
DECOUPLED = ("adamw", "lion")


def _sgd(job: Job, group: Group) -> tuple[str, Sequence[str], Sequence[Term], Mapping[str, Any]]:
    momentum = job.settings.fixed("momentum")
    attrs = {"momentum": momentum, "nesterov": bool(job.settings.fixed("nesterov"))}
    return "sgd_update", ["momentum"] if momentum else [], [group.lr], attrs


def _adam(job: Job, group: Group) -> tuple[str, Sequence[str], Sequence[Term], Mapping[str, Any]]:
    beta1, beta2 = job.settings.fixed("betas")
    first, second = bias_correction(job.step, beta1), bias_correction(job.step, beta2)
    step_size = group.lr.apply("div", first, name=f"{job.optimizer}.step_size")
    correction = second.apply("sqrt", name=f"{job.optimizer}.correction")
    attrs = {"beta1": beta1, "beta2": beta2, "eps": job.settings.fixed("eps")}
    return "adam_update", ["exp_avg", "exp_avg_sq"], [step_size, correction], attrs


def _lion(job: Job, group: Group) -> tuple[str, Sequence[str], Sequence[Term], Mapping[str, Any]]:
    beta1, beta2 = job.settings.fixed("betas")
    return "lion_update", ["exp_avg"], [group.lr], {"beta1": beta1, "beta2": beta2}


RULES: Mapping[str, Rule] = {"sgd": _sgd, "adam": _adam, "adamw": _adam, "lion": _lion}


def bias_correction(step: Term, beta: float) -> Term:
    """1 - beta^step, as -expm1(step ln beta): beta^step alone would lose the digits near 1."""
    return -(step * log(beta)).apply("expm1") if beta > 0 else step.like(1.0)


def _apply(
    job: Job,
    group: Group,
    op: str,
    moments: Sequence[str],
    scalars: Sequence[Term],
    attrs: Mapping[str, Any],
) -> list[Value]:
    lists = [[job.params[i] for i in group.members], [job.grads[i] for i in group.members]]
    lists += [[job.moments(kind, i) for i in group.members] for kind in moments]
    written = [
        moment_name(job.optimizer, kind, job.names[i]) for kind in moments for i in group.members
    ]
    found = job.b.apply_many(
        op,
        *(value for values in lists for value in values),
        *(scalar.value for scalar in scalars),
        names=(*(f"{job.names[i]}.new" for i in group.members), *(f"{s}.new" for s in written)),
        n=len(group.members),
        clip_value=job.settings.fixed("clip_value"),
        gated=job.apply is not None,
        **{"decay": "none", **attrs},
    )
    count = len(group.members)
    for name, value in zip(written, found[count:], strict=True):
        job.state.write(name, value)
    return list(found[:count])
