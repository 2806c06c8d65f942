"""The update of each group of parameters, by the rule of the kind of optimizer.

Most kinds work element by element: one multi-tensor op updates a whole group. Others build a graph
for each parameter, whose result the same kind of op subtracts from all of them.

The settings of an optimizer: fixed numbers, numbers computed in each step, and groups.

The state of one entry: its own, and what its optimizers add.

Gradients before an update: accumulation over calls, their norm, clipping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

from wgcc.ir.graph import Builder, Graph, Node, TensorType, Value
from wgcc.ir.places import CALLS, GRADIENT_SUM, OptimizerState
from wgcc.ir.program import Init, ModelTensor
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OPTIMIZERS, OptimizerKind
from wgcc.ops.optimizers.kind import StepInputs, TensorRule, TensorStep, UpdateCall


@dataclass(frozen=True, slots=True)
class SettingsGroup:
    """Parameters (by position) that share all settings. `weight_decay` None means there is none."""

    members: tuple[int, ...]
    lr: Term
    weight_decay: Term | None


class Settings:
    def __init__(self, b: Builder, node: Node) -> None:
        names: tuple[str, ...] = node.attrs["dynamic"]
        self._b = b
        self._node = node
        self.known: Mapping[str, Any] = {
            **OPTIMIZERS[node.attrs["kind"]].defaults,
            **node.attrs["settings"],
        }
        self._dynamic = {
            name: Term(b, value) for name, value in zip(names, node.inputs, strict=False)
        }

    def fixed_value(self, name: str) -> Any:
        """A setting that is always known at compile time; None if it is not set."""
        assert name not in self._dynamic, f"{name} cannot change from step to step"
        return self.known.get(name)

    def scalar(self, name: str) -> Term | None:
        """A setting that may change from step to step; None if it is not set."""
        if name in self._dynamic:
            return self._dynamic[name]
        number = self.known.get(name)
        return None if number is None else self.number(number)

    def number(self, number: float) -> Term:
        return Term(self._b, self._b.constant(float(number)))

    def groups(self, params: int) -> list[SettingsGroup]:
        """The parameters by settings, in the order of the first of each; later groups override."""
        own: list[Mapping[str, Any]] = [{}] * params
        for members, settings in self._node.attrs["groups"]:
            for index in members:
                own[index] = settings
        members_of: dict[tuple[tuple[str, float], ...], list[int]] = {}
        for index, settings in enumerate(own):
            members_of.setdefault(tuple(sorted(settings.items())), []).append(index)
        return [self._group(members, dict(key)) for key, members in members_of.items()]

    def _group(self, members: Sequence[int], own: Mapping[str, float]) -> SettingsGroup:
        lr = self.scalar("lr")
        assert lr is not None
        if own.get("lr_scale", 1.0) != 1.0:
            lr = lr * own["lr_scale"]
        return SettingsGroup(tuple(members), lr, self._decay(own))

    def _decay(self, own: Mapping[str, float]) -> Term | None:
        if "weight_decay" in self._dynamic and "weight_decay" not in own:
            return self._dynamic["weight_decay"]
        number = own.get("weight_decay", self.known["weight_decay"])
        return self.number(number) if number else None


COUNTER = TensorType((), "u32")


class EntryState:
    """`tensors` describes the added state, `writes` has the new values."""

    def __init__(self, graph: Graph) -> None:
        self.values = {value.name: value for value in graph.state}
        self.tensors: dict[str, ModelTensor] = {}
        self.writes: dict[str, Value] = {}

    def read(self, name: str, type_: TensorType, init: Init | None = None) -> Value:
        """The current state `name`, after earlier updates of the same call; 0 initially."""
        start = init or Init("value", values=(0.0,))
        self.tensors.setdefault(name, ModelTensor(name, type_, start))
        value = self.values.setdefault(name, Value(name, type_))
        return self.writes.get(name, value)

    def write(self, name: str, value: Value) -> None:
        self.writes[name] = value


# As in torch.nn.utils.clip_grad_norm_, where it avoids a division by a norm of 0.
NORM_EPS = 1e-6
CLIP_EACH = "clip_param_norm"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The optimizer uses `grads` times `scale`; `norm` is their norm before clipping."""

    grads: Sequence[Value]
    norm: Term
    scale: Term
    apply: Term | None


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one `minimize`, and where what is stored for them belongs."""

    b: Builder
    settings: Settings
    state: EntryState
    optimizer: str
    kind: OptimizerKind
    names: Sequence[str]
    grads: Sequence[Value]

    @property
    def one_by_one(self) -> bool:
        """Whether nodes other than multi-tensor ops read them, so that they are not in an arena."""
        clipped = self.settings.scalar(CLIP_EACH) is not None
        return clipped or self.kind.tensor_rule is not None


def one_by_one(node: Node) -> str:
    """Why gradients are not all in an arena before something reads one; "" if they are."""
    if node.op != "update":
        return ""
    optimizer, kind = node.attrs["optimizer"], node.attrs["kind"]
    if CLIP_EACH in node.attrs["settings"] or CLIP_EACH in node.attrs["dynamic"]:
        return f"`{CLIP_EACH}` of the optimizer `{optimizer}` reads gradients one by one"
    if OPTIMIZERS[kind].tensor_rule is not None:
        return f"the optimizer `{optimizer}` ({kind}) reads gradients one by one"
    return ""


def prepare(gradients: Gradients) -> Prepared:
    grads, apply = gradients.grads, None
    if (gradients.settings.fixed_value("accumulate") or 1) > 1:
        grads, apply = _accumulate(gradients)
    settings = gradients.settings
    squares = [_squares(gradients.b, g) for g in grads] if gradients.one_by_one else []
    total = reduce(add, squares) if squares else _all_squares(gradients, grads)
    norm, scale = total.apply("sqrt"), settings.number(1.0)
    loss_scale = settings.scalar("loss_scale")
    if loss_scale is not None:
        scale = loss_scale.apply("reciprocal")
        norm = norm * scale
    max_norm = settings.scalar("clip_norm")
    if max_norm is not None:
        scale = scale.apply("mul", _shrink(max_norm, norm), name=f"{gradients.optimizer}.scale")
    limit = settings.scalar(CLIP_EACH)
    if limit is not None:
        grads = [
            _scale(Term(gradients.b, g), _shrink(limit, square.apply("sqrt") * scale))
            for g, square in zip(grads, squares, strict=True)
        ]
    return Prepared(grads, norm, -scale if settings.fixed_value("maximize") else scale, apply)


def _all_squares(gradients: Gradients, grads: Sequence[Value]) -> Term:
    name = f"{gradients.optimizer}.sum_squares"
    return Term(gradients.b, gradients.b.apply("sum_squares", *grads, n=len(grads), name=name))


def _squares(b: Builder, gradient: Value) -> Term:
    """Σ g² of one gradient."""
    return Term(b, gradient).square().sum(range(len(gradient.shape)))


def _shrink(most: Term, norm: Term) -> Term:
    """min(1, most / (norm + eps))."""
    return (most / (norm + NORM_EPS)).apply("minimum", norm.like(1.0))


def _scale(gradient: Term, factor: Term) -> Value:
    return (gradient * factor.broadcast(gradient.shape)).value


def _accumulate(gradients: Gradients) -> tuple[Sequence[Value], Term]:
    """The mean over `accumulate` calls; the flag is 1 in the last of them, else 0."""
    b, state, optimizer = gradients.b, gradients.state, gradients.optimizer
    calls = int(gradients.settings.fixed_value("accumulate"))
    micro_name = OptimizerState(optimizer, CALLS).name
    micro = Term(b, state.read(micro_name, COUNTER))
    is_last = micro.equals(calls - 1)
    state.write(micro_name, is_last.choose(micro.like(0), micro + 1).value)
    places = [OptimizerState(optimizer, GRADIENT_SUM, name).name for name in gradients.names]
    sums = [
        state.read(place, grad.type) for place, grad in zip(places, gradients.grads, strict=True)
    ]
    more = micro.exceeds(0)
    added = _add_one_by_one if gradients.one_by_one else _add_at_once
    results = added(gradients, places, sums, more, 1 / calls)
    for place, value in zip(places, results, strict=True):
        state.write(place, value)
    return results, is_last.cast("f32")


def _add_at_once(
    gradients: Gradients, places: Sequence[str], sums: Sequence[Value], more: Term, weight: float
) -> Sequence[Value]:
    return gradients.b.apply_many(
        "accumulate",
        *sums,
        *gradients.grads,
        more.cast("f32").value,
        names=tuple(f"{place}.new" for place in places),
        n=len(sums),
        weight=weight,
    )


def _add_one_by_one(
    gradients: Gradients, places: Sequence[str], sums: Sequence[Value], more: Term, weight: float
) -> Sequence[Value]:
    results = []
    for before, gradient in zip(sums, gradients.grads, strict=True):
        kept = more.broadcast(before.shape).choose(Term(gradients.b, before), 0.0)
        results.append((kept + Term(gradients.b, gradient) * weight).value)
    return results


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
            self.state.write(place, self.gate(before, after).value)
        return self.remembered[name]

    def gate(self, before: Term, after: Term) -> Term:
        """`after` if this call changes anything, else `before`."""
        if self.apply is None:
            return after
        return self.apply.exceeds(0.0).broadcast(after.shape).choose(after, before)


def update_group(job: Job, group: SettingsGroup) -> list[Value]:
    """The new values of the group's parameters; new moments are written to the state."""
    if job.kind.tensor_rule is not None:
        return _update_by_graphs(job, group, job.kind.tensor_rule)
    assert job.kind.rule is not None
    inputs = StepInputs(job.optimizer, group.lr, job.step, job.settings.known, job.remember)
    call = job.kind.rule(inputs)
    attrs = {"clip_value": job.settings.fixed_value("clip_value"), **call.attrs}
    call = replace(call, scalars=[*call.scalars, job.scale], attrs=attrs)
    return _apply(job, group, call, [job.grads[i] for i in group.members])


def _update_by_graphs(job: Job, group: SettingsGroup, rule: TensorRule) -> list[Value]:
    steps = [_tensor_step(job, group, i) for i in group.members]
    with job.b.at(job.b.span, f"{job.optimizer}.change"):
        directions = rule(steps)
    for i, step, direction in zip(group.members, steps, directions, strict=True):
        for name, after in direction.memory.items():
            after = job.gate(step.read(name, after.shape), after)
            job.state.write(job.place(name, i), after.value)
    changes = [direction.change.value for direction in directions]
    one = job.settings.number(1.0)
    call = UpdateCall("sgd_update", [], [one, one], {**_SUBTRACT, "clip_value": None})
    return _apply(job, group, call, changes)


def _tensor_step(job: Job, group: SettingsGroup, index: int) -> TensorStep:
    p, g = Term(job.b, job.params[index]), _clipped_gradient(job, index)
    read = partial(_read, job, index)
    return TensorStep(group.lr, job.step, job.settings.known, p, g, read)


def _read(job: Job, index: int, name: str, shape: tuple[int, ...]) -> Term:
    return Term(job.b, job.state.read(job.place(name, index), TensorType(shape, "f32")))


def _clipped_gradient(job: Job, index: int) -> Term:
    g = Term(job.b, job.grads[index])
    g = g * job.scale.broadcast(g.shape)
    limit = job.settings.fixed_value("clip_value")
    if limit is None:
        return g
    return g.apply("minimum", g.like(limit)).apply("maximum", g.like(-limit))


def _apply(job: Job, group: SettingsGroup, call: UpdateCall, grads: Sequence[Value]) -> list[Value]:
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
    outputs = job.b.apply_many(
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
    for name, value in zip(written, outputs[count:], strict=True):
        job.state.write(name, value)
    return list(outputs[:count])
