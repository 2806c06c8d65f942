"""What a training entry must leave behind: part of the self-test, for losses hardly tell gradients.

A loss after three steps hides a wrong gradient; the optimizer's averages of gradients show it. What
an optimizer divides by its own size (the step of Adam) is left out: there rounding noise counts as
much as a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wgcc.evaluate import Session
from wgcc.ir.graph import FLOATS
from wgcc.ir.state_names import AVERAGE, CALLS, STEP, is_random_state, optimizer_state
from wgcc.lazy_numpy import Array, np

# Relative to the mean magnitude of a tensor's changes. Halves have 11 bits, and small ones fewer.
TOLERANCE = {"f32": 1e-2, "f16": 0.25}
SAMPLES = 4
# What is smaller than this part of the largest of its kind may be nothing but rounding errors.
NEGLIGIBLE = 1e-3
# Where few elements change (a row of a cache), their own size counts, not the mean over all.
PEAK = 0.05
# Changes are differences of stored numbers, which are rounded.
ROUNDING = 2e-5


def make_changes(session: Session, before: Mapping[str, Array], entry: str) -> dict[str, Any]:
    """Facts about how the calls so far have changed what the entry writes."""
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
    found = {}
    for name in names:
        rounding = ROUNDING * float(np.abs(_wide(written[name])).mean())
        peak = PEAK * float(np.abs(changes[name]).max())
        scale = max(sizes[name], NEGLIGIBLE * largest[_kind(name)], rounding, peak)
        if 0 < scale < float("inf"):
            found[name] = _facts(changes[name], sizes[name], scale)
    return {"tolerance": TOLERANCE[program.precision], "tensors": found}


def watched(written: Iterable[str]) -> list[str]:
    """Of what an entry writes: averages of gradients, and what no optimizer has divided."""
    names = list(written)
    owned = [state for name in names if (state := optimizer_state(name)) is not None]
    divided = {state.parameter for state in owned if state.what == "exp_avg"}
    left_out = ("exp_avg_sq", STEP, CALLS, AVERAGE)
    return [
        name
        for name in names
        if name not in divided and _kind(name) not in left_out and not is_random_state(name)
    ]


def _kind(name: str) -> str:
    """What an optimizer keeps, `exp_avg` for instance; nothing for what belongs to no optimizer."""
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
    """Far finer than the tolerance, and short."""
    return float(f"{float(number):.5g}")
