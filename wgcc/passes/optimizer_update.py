"""One multi-tensor update per group of parameters, by the rule of the kind of optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Value
from wgcc.ir.state_names import OptimizerState
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.ops.optimizers.kind import StepInputs, UpdateCall
from wgcc.passes.optimizer_settings import Group, Settings
from wgcc.passes.optimizer_state import EntryState


@dataclass(frozen=True, slots=True)
class Job:
    """One `minimize` of one entry: what its updates share.

    `names` are those of the parameters; `step` is the number of this update, 1 for the first;
    `norm` is that of all gradients; `scale` multiplies every gradient; `apply` (if any) says
    whether this call changes anything.
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
        name = OptimizerState(self.optimizer, kind, self.names[index]).name
        return self.state.read(name, self.params[index].type)


def update_group(job: Job, group: Group) -> list[Value]:
    """The new values of the group's parameters; new moments are written to the state."""
    kind = OPTIMIZERS[job.kind]
    inputs = StepInputs(job.optimizer, group.lr, job.step, job.settings.known)
    call = kind.rule(inputs)
    scalars = [*call.scalars, job.scale]
    attrs = dict(call.attrs)
    if group.weight_decay is not None:
        attrs["decay"] = kind.decay
        decoupled = kind.decay == "decoupled"
        scalars.append(group.lr * group.weight_decay if decoupled else group.weight_decay)
    if job.apply is not None:
        scalars.append(job.apply)
    return _apply(job, group, replace(call, scalars=scalars, attrs=attrs))


def _apply(job: Job, group: Group, call: UpdateCall) -> list[Value]:
    lists = [[job.params[i] for i in group.members], [job.grads[i] for i in group.members]]
    lists += [[job.moments(kind, i) for i in group.members] for kind in call.moments]
    written = [
        OptimizerState(job.optimizer, kind, job.names[i]).name
        for kind in call.moments
        for i in group.members
    ]
    found = job.b.apply_many(
        call.op,
        *(value for values in lists for value in values),
        *(scalar.value for scalar in call.scalars),
        names=(*(f"{job.names[i]}.new" for i in group.members), *(f"{s}.new" for s in written)),
        n=len(group.members),
        clip_value=job.settings.fixed("clip_value"),
        gated=job.apply is not None,
        **{"decay": "none", **call.attrs},
    )
    count = len(group.members)
    for name, value in zip(written, found[count:], strict=True):
        job.state.write(name, value)
    return list(found[:count])
