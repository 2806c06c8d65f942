"""The expected changes of tensors that a training entry writes: part of the self-test.

A loss after three steps can hide a wrong gradient; the optimizer's averages of gradients show it.
Updates that are normalised by their own magnitude (the step of Adam) are left out: there rounding
noise counts as much as a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wgcc.evaluate import Session
from wgcc.ir.graph import FLOATS
from wgcc.ir.places import AVERAGE, CALLS, STEP, is_random_state, optimizer_state
from wgcc.lazy_numpy import Array, np

# Relative to the mean magnitude of a tensor's changes. f16 has 11 significant bits or fewer.
TOLERANCE = {"f32": 1e-2, "f16": 0.25}
SAMPLES = 4
# A change below this fraction of the largest of its kind may consist of rounding errors only.
NEGLIGIBLE = 1e-3
# Where few elements change (a row of a cache), the scale is their own magnitude, not the mean.
PEAK = 0.05
# Changes are differences of stored numbers, which are rounded.
ROUNDING = 2e-5


def make_changes(session: Session, before: Mapping[str, Array], entry: str) -> dict[str, Any]:
    """Summarises how the calls so far have changed the tensors that the entry writes."""
    program = session.program
    written = {**session.params, **session.state}
    names = [name for name in watched(program.entries[entry].writes) if name in before]
    types = {**program.params, **program.state}
    names = [name for name in names if types[name].type.dtype in FLOATS]
    changes = {name: _wide(written[name]) - _wide(before[name]) for name in names}
    sizes = {name: float(np.abs(change).mean()) for name, change in changes.items()}
    largest: dict[str, float] = {}
    for name in names:
        largest[_kind(name)] = max(sizes[name], largest.get(_kind(name), 0.0))
    facts = {}
    for name in names:
        rounding = ROUNDING * float(np.abs(_wide(written[name])).mean())
        peak = PEAK * float(np.abs(changes[name]).max())
        scale = max(sizes[name], NEGLIGIBLE * largest[_kind(name)], rounding, peak)
        if 0 < scale < float("inf"):
            facts[name] = _facts(changes[name], sizes[name], scale)
    return {"tolerance": TOLERANCE[program.precision], "tensors": facts}


# What optimizers store that divide a gradient by its size, and what follows from that quotient:
# where gradients nearly vanish, its sign is that of a rounding error.
_NORMALISING = ("exp_avg", "square_avg", "sum", "row_var", "variance", "momentum_buffer")
_EXCLUDED = ("exp_avg_sq", "max_exp_avg_sq", "acc_delta", STEP, CALLS, AVERAGE)


def watched(written: Iterable[str]) -> list[str]:
    """The written tensors to compare: averages of gradients, and those that were not normalised."""
    names = list(written)
    owned = [state for name in names if (state := optimizer_state(name)) is not None]
    normalised = {state.parameter for state in owned if state.what in _NORMALISING}
    # The momentum of RMSprop, which stores `square_avg`, averages quotients; Muon's, gradients.
    by_rmsprop = {state.parameter for state in owned if state.what == "square_avg"}
    quotients = {s.name for s in owned if s.what == "momentum_buffer" and s.parameter in by_rmsprop}
    left_out = {*normalised, *quotients}
    return [
        name
        for name in names
        if name not in left_out and _kind(name) not in _EXCLUDED and not is_random_state(name)
    ]


def _kind(name: str) -> str:
    """The kind of optimizer state, such as `exp_avg`; empty for any other tensor."""
    state = optimizer_state(name)
    return state.what if state else ""


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64).reshape(-1)


def _facts(change: Array, size: float, scale: float) -> dict[str, Any]:
    from wgcc_runtime.selftest import sample_places

    samples = [_rounded(change[at]) for at in sample_places(change.size, SAMPLES)]
    mean = _rounded(change.mean())
    return {"mean": mean, "size": _rounded(size), "at": samples, "scale": _rounded(scale)}


def _rounded(number: Any) -> float:
    """Much finer than the tolerance, and short in the plan."""
    return float(f"{float(number):.5g}")
