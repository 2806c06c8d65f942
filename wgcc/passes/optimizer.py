"""Replaces `update` by the optimizer's nodes: scalars of this step, and multi-tensor updates.

The moments, counters and averages it needs become state of the program, named `opt/NAME/…`.

Entries `with ema` read the averages of parameters where others read the parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from wgcc.ir.graph import Builder, Graph, Node, Value
from wgcc.ir.places import AVERAGE, STEP, OptimizerState
from wgcc.ir.program import Init, ModelTensor, Program
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.passes.optimizer_update import (
    COUNTER,
    EntryState,
    Gradients,
    Job,
    Settings,
    one_by_one,
    prepare,
    update_group,
)
from wgcc.passes.rewrite import Rewrite, prune, rename_values


def read_averages(graph: Graph, optimizer: str, stored: Collection[str]) -> Graph:
    """`stored` are the names of all state; a parameter without an average is read itself."""
    averages = {
        value.name: Value(OptimizerState(optimizer, AVERAGE, value.name).name, value.type)
        for value in graph.params
    }
    averages = {name: value for name, value in averages.items() if value.name in stored}
    return replace(
        graph,
        params=tuple(value for value in graph.params if value.name not in averages),
        state=(*graph.state, *averages.values()),
        nodes=tuple(rename_values(node, averages) for node in graph.nodes),
        outputs={n: averages.get(value.name, value) for n, value in graph.outputs.items()},
        writes={n: averages.get(value.name, value) for n, value in graph.writes.items()},
    )


def optimizer(program: Program) -> Program:
    entries: dict[str, Graph] = {}
    added: dict[str, ModelTensor] = {}
    kinds = dict(program.optimizers)
    for name, graph in program.entries.items():
        kinds.update(
            (node.attrs["optimizer"], node.attrs["kind"])
            for node in graph.nodes
            if node.op == "update"
        )
        entries[name], tensors = _entry(graph)
        added.update(tensors)
    for name, owner in program.averaged.items():
        entries[name] = read_averages(entries[name], owner, added)
    return replace(program, entries=entries, state={**added, **program.state}, optimizers=kinds)


def _entry(graph: Graph) -> tuple[Graph, Mapping[str, ModelTensor]]:
    rewrite, state = Rewrite(graph), EntryState(graph)
    names = {value.name: value.name for value in graph.params}
    for old in graph.nodes:
        if old.op != "update":
            rewrite.keep(old)
            continue
        node = rewrite.current_node(old)
        rewrite.replace(node, partial(_update, rewrite.builder, node, state, names))
    done = rewrite.finish()
    done = replace(
        done,
        state=tuple(state.values.values()),
        writes={**done.writes, **state.writes},
    )
    why = next(filter(None, map(one_by_one, graph.nodes)), "")
    return prune(done.with_facts(inseparable=why)), state.tensors


def _update(b: Builder, node: Node, state: EntryState, names: dict[str, str]) -> Sequence[Value]:
    """`names` maps current values of parameters to the parameters; new values are added to it."""
    tensors = node.inputs[len(node.attrs["dynamic"]) :]
    params, grads = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
    owners = [names.get(param.name, param.name) for param in params]
    names.update(zip((value.name for value in node.outputs), owners, strict=False))
    with b.at(node.span, node.attrs["optimizer"]):
        return _all_groups(_job(b, node, state, owners, params, grads))


def _all_groups(job: Job) -> Sequence[Value]:
    updated = list(job.params)
    for group in job.settings.groups(len(updated)):
        for index, value in zip(group.members, update_group(job, group), strict=True):
            updated[index] = value
    _average(job, updated)
    return [*updated, job.norm.value]


def _job(
    b: Builder,
    node: Node,
    state: EntryState,
    names: Sequence[str],
    params: Sequence[Value],
    grads: Sequence[Value],
) -> Job:
    settings, optimizer = Settings(b, node), node.attrs["optimizer"]
    kind = OPTIMIZERS[node.attrs["kind"]]
    ready = prepare(Gradients(b, settings, state, optimizer, kind, names, grads))
    return Job(
        b=b,
        state=state,
        settings=settings,
        optimizer=optimizer,
        kind=kind,
        names=names,
        params=params,
        grads=ready.grads,
        step=_count_step(b, state, optimizer, ready.apply),
        norm=ready.norm,
        scale=ready.scale,
        apply=ready.apply,
    )


def _count_step(b: Builder, state: EntryState, optimizer: str, apply: Term | None) -> Term:
    """The number of this update as f32; the counter is incremented if the update is applied."""
    name = OptimizerState(optimizer, STEP).name
    before = Term(b, state.read(name, COUNTER))
    after = before + 1
    state.write(name, after.value if apply is None else (before + apply.cast("u32")).value)
    return after.apply("cast", dtype="f32", name=f"{optimizer}.step")


def _average(job: Job, updated: Sequence[Value]) -> None:
    """Moving averages of the parameters, which start as copies of the parameters."""
    decay = job.settings.fixed_value("ema")
    if decay is None:
        return
    places = [OptimizerState(job.optimizer, AVERAGE, name).name for name in job.names]
    averages = [
        job.state.read(place, value.type, Init("copy", of=name))
        for place, value, name in zip(places, updated, job.names, strict=True)
    ]
    new_averages = job.b.apply_many(
        "ema_update",
        *averages,
        *updated,
        *([job.apply.value] if job.apply else []),
        names=tuple(f"{place}.new" for place in places),
        n=len(updated),
        decay=decay,
        gated=job.apply is not None,
    )
    for place, value in zip(places, new_averages, strict=True):
        job.state.write(place, value)
