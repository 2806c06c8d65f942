"""Chooses the weights that checkpoints leave out: those in the bundle that are only corrected.

A model with weights of 4 bits learns a few corrections; only these, and their moments, are saved.
Mirrors left_out.js.
"""

from __future__ import annotations

from collections.abc import Iterable

from wgcc_runtime.plan import Entry, Plan, Tensor


def left_out(plan: Plan) -> frozenset[str]:
    """Parameters that no entry writes, and state that has nothing to do with training.

    Only of models that train beside parameters that come from outside, and so are in the bundle.
    """
    persistent = plan.persistent().values()
    training = [entry for entry in plan.entries.values() if entry.training]
    outside = any(t.role == "param" and t.init["kind"] == "external" for t in persistent)
    if not outside or not training:
        return frozenset()
    written = {name for entry in plan.entries.values() for name in entry.writes}
    fixed = (t.name for t in persistent if t.role == "param" and t.name not in written)
    return frozenset(fixed) | _scratch(plan, training)


def _scratch(plan: Plan, training: list[Entry]) -> set[str]:
    """Caches that training does not use, and the counters that are written with them."""
    learned = {name for entry in training for name in entry.writes}
    state = [t for t in plan.persistent().values() if t.role == "state" and t.name not in learned]
    caches = {t.name for t in state if t.size > 1 and not _uses(training, t)}
    together = [entry.writes for entry in plan.entries.values() if caches & set(entry.writes)]
    counters = {name for writes in together for name in writes}
    # Kernels bind several scalars at once, so that bindings do not tell which of them they use.
    return caches | {t.name for t in state if t.size == 1 and t.name in counters}


def _uses(entries: Iterable[Entry], tensor: Tensor) -> bool:
    """Whether one of them reads or writes it."""
    start, end = tensor.offset, tensor.offset + tensor.bytes
    return any(
        binding.buffer == tensor.buffer
        and binding.offset < end
        and start < binding.offset + binding.size
        for entry in entries
        for dispatch in entry.dispatches
        for binding in dispatch.bindings
    )
