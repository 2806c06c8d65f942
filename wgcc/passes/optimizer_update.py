"""The update of each group of parameters, by the rule of the kind of optimizer.

Most kinds work element by element: one multi-tensor op updates a whole group. Others build a graph
for each parameter, whose result the same kind of op subtracts from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from wgcc.ir.builder import Builder
from wgcc.ir.graph import TensorType, Value
from wgcc.ir.program import Init
from wgcc.ir.state_names import OptimizerState
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OptimizerKind
from wgcc.ops.optimizers.kind import StepInputs, TensorRule, TensorStep, UpdateCall
from wgcc.passes.optimizer_settings import Group, Settings
from wgcc.passes.optimizer_state import EntryState

# p - 1 · g: subtracts what a graph has computed.
_SUBTRACT = {"momentum": 0.0, "dampening": 0.0, "nesterov": False}


@dataclass(frozen=True, slots=True)
class Job:
    """One `minimize` of one entry: what its updates share.

    `names` are those of the parameters; `step` is the number of this update, 1 for the first;
    `norm` is that of all gradients; `scale` multiplies every gradient; `apply` (if any) says
    whether this call changes anything. `remembered` are numbers that are stored between updates.
    """

    b: Builder
    state: EntryState
    settings: Settings
    optimizer: str
    kind: OptimizerKind
    names: Sequence[str]
    params: Sequence[Value]
    grads: Sequence[Value]
    step: Term
    norm: Term
    scale: Term
    apply: Term | None
    remembered: dict[str, Term] = field(default_factory=dict)

    def place(self, what: str, index: int) -> str:
        return OptimizerState(self.optimizer, what, self.names[index]).name

    def moments(self, what: str, index: int, start: float) -> Value:
        init = Init("value", values=(start,))
        return self.state.read(self.place(what, index), self.params[index].type, init)

    def remember(self, name: str, start: float, advance: Callable[[Term], Term]) -> Term:
        """All groups use the same number."""
        if name not in self.remembered:
            place = OptimizerState(self.optimizer, name).name
            init = Init("value", values=(start,))
            before = Term(self.b, self.state.read(place, TensorType((), "f32"), init))
            after = self.remembered[name] = advance(before)
            self.state.write(place, self.gated(before, after).value)
        return self.remembered[name]

    def gated(self, before: Term, after: Term) -> Term:
        """`after` if this call changes anything, else `before`."""
        if self.apply is None:
            return after
        return self.apply.exceeds(0.0).broadcast(after.shape).choose(after, before)


def update_group(job: Job, group: Group) -> list[Value]:
    """The new values of the group's parameters; new moments are written to the state."""
    if job.kind.tensor_rule is not None:
        return _update_by_graphs(job, group, job.kind.tensor_rule)
    assert job.kind.rule is not None
    inputs = StepInputs(job.optimizer, group.lr, job.step, job.settings.known, job.remember)
    call = job.kind.rule(inputs)
    attrs = {"clip_value": job.settings.fixed("clip_value"), **call.attrs}
    call = replace(call, scalars=[*call.scalars, job.scale], attrs=attrs)
    return _apply(job, group, call, [job.grads[i] for i in group.members])


def _update_by_graphs(job: Job, group: Group, rule: TensorRule) -> list[Value]:
    steps = [_tensor_step(job, group, i) for i in group.members]
    with job.b.at(job.b.span, f"{job.optimizer}.change"):
        found = rule(steps)
    for i, step, direction in zip(group.members, steps, found, strict=True):
        for name, after in direction.memory.items():
            after = job.gated(step.read(name, after.shape), after)
            job.state.write(job.place(name, i), after.value)
    changes = [direction.change.value for direction in found]
    one = job.settings.number(1.0)
    call = UpdateCall("sgd_update", [], [one, one], {**_SUBTRACT, "clip_value": None})
    return _apply(job, group, call, changes)


def _tensor_step(job: Job, group: Group, index: int) -> TensorStep:
    p, g = Term(job.b, job.params[index]), _clipped(job, index)
    read = partial(_read, job, index)
    return TensorStep(group.lr, job.step, job.settings.known, p, g, read)


def _read(job: Job, index: int, name: str, shape: tuple[int, ...]) -> Term:
    return Term(job.b, job.state.read(job.place(name, index), TensorType(shape, "f32")))


def _clipped(job: Job, index: int) -> Term:
    g = Term(job.b, job.grads[index])
    g = g * job.scale.broadcast(g.shape)
    limit = job.settings.fixed("clip_value")
    if limit is None:
        return g
    return g.apply("minimum", g.like(limit)).apply("maximum", g.like(-limit))


def _apply(job: Job, group: Group, call: UpdateCall, grads: Sequence[Value]) -> list[Value]:
    """Apply a multi-tensor op, with weight decay, to the parameters of a group."""
    scalars, decay = list(call.scalars), "none"
    if group.weight_decay is not None:
        decay = job.kind.decay_with(job.settings.known)
        decoupled = decay == "decoupled"
        scalars.append(group.lr * group.weight_decay if decoupled else group.weight_decay)
    if job.apply is not None:
        scalars.append(job.apply)
    lists = [[job.params[i] for i in group.members], grads]
    lists += [
        [job.moments(what, i, call.start.get(what, 0.0)) for i in group.members]
        for what in call.moments
    ]
    written = [job.place(what, i) for what in call.moments for i in group.members]
    found = job.b.apply_many(
        call.op,
        *(value for values in lists for value in values),
        *(scalar.value for scalar in scalars),
        names=(*(f"{job.names[i]}.new" for i in group.members), *(f"{s}.new" for s in written)),
        n=len(group.members),
        gated=job.apply is not None,
        decay=decay,
        **call.attrs,
    )
    count = len(group.members)
    for name, value in zip(written, found[count:], strict=True):
        job.state.write(name, value)
    return list(found[:count])
