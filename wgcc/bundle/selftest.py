"""The self-test recorded in every bundle: the expected outputs of its entries for random inputs.

Expected outputs come from the numpy evaluator in float64, with the bundle's initial values. Entries
whose evaluation would take too long for a build are left out, as are those that need `external`
values that were not given.

A loss after three steps can hide a wrong gradient; so the changes of what a training entry writes
are recorded, too: the optimizer's averages of gradients show it. Updates that are normalised by
their own magnitude (the step of Adam) are left out: rounding noise counts as much as a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from wgcc.evaluate import OutOfRangeError, Precision, Session, effort
from wgcc.ir.dtypes import F16, INTEGER_RANGES, LARGEST_FLOAT
from wgcc.ir.graph import FLOATS, Graph, Value
from wgcc.ir.places import AVERAGE, CALLS, STEP, is_random_state, optimizer_state
from wgcc.ir.program import ModelTensor, Program, is_capture
from wgcc.lazy_numpy import Array, np

SEED = 1
STEPS = 3
# The effort of an evaluation, all steps together: about half a second of numpy.
MOST_WORK = 40_000_000
# The same for a test that is made when a bundle is verified: about a minute.
MOST_LARGE_WORK = 20_000_000_000
# f32 kernels against float64 over a few steps; sums are relative to the sum of magnitudes.
# f16 has 11 significant bits.
TOLERANCE = {"f32": 1e-4, F16: 2e-2}
FIRST = 8
# The largest drawn number for integer inputs without a range.
HIGHEST = {dtype: high if high < 256 else 3 for dtype, (_, high) in INTEGER_RANGES.items()}


def make_selftest(
    program: Program, plan: dict[str, Any], values: Mapping[str, Array]
) -> dict[str, Any]:
    from wgcc_runtime.blas_threads import blas_threads

    # Its products are small: other threads of BLAS would mostly wait, at full speed.
    with blas_threads(1):
        return _make_selftest(program, plan, values)


def _make_selftest(
    program: Program, plan: dict[str, Any], values: Mapping[str, Array]
) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    missing = _missing(program, values)
    for name, graph in program.entries.items():
        sources = (*graph.params, *graph.state)
        if any(value.name in missing for value in sources):
            continue
        if sum(value.type.size for value in sources) > MOST_WORK:
            continue
        steps = STEPS if plan["entries"][name]["training"] else 1
        if effort(graph) * steps > MOST_WORK:
            steps = 1
        if effort(graph) * steps <= MOST_WORK and graph.outputs:
            keys = plan["entries"][name]["inputs"]
            test = _first_in_range(program, graph, values, keys, steps)
            entries |= {name: test} if test else {}
    return {"seed": SEED, "entries": entries}


def make_large_selftest(
    program: Program, plan: dict[str, Any], values: Mapping[str, Array]
) -> dict[str, Any]:
    """One call of the entry that takes least, in f32: for models too large for `make_selftest`.

    Entries that train come last, because numpy needs their memory several times.
    """
    missing = _missing(program, values)
    able = [
        graph
        for graph in program.entries.values()
        if graph.outputs and not any(v.name in missing for v in (*graph.params, *graph.state))
    ]
    for graph in sorted(able, key=lambda graph: (graph.entry.trains, effort(graph))):
        if effort(graph) <= MOST_LARGE_WORK:
            keys = plan["entries"][graph.name]["inputs"]
            test = _first_in_range(program, graph, values, keys, 1, "f32")
            if test:
                return {"seed": SEED, "entries": {graph.name: test}}
    return {"seed": SEED, "entries": {}}


def _first_in_range(
    program: Program,
    graph: Graph,
    values: Mapping[str, Array],
    keys: Mapping[str, str],
    steps: int,
    precision: Precision = "f64",
) -> dict[str, Any] | None:
    """Tries random inputs, then zeros if an index gets out of range; if both fail, no test."""
    for highest in (HIGHEST, dict.fromkeys(HIGHEST, 0)):
        specs = {value.name: _spec(graph, value, highest) for value in graph.inputs}
        try:
            return _test_entry(program, graph, values, keys, steps, specs, precision)
        except OutOfRangeError:
            continue
    return None


def _missing(program: Program, values: Mapping[str, Array]) -> dict[str, ModelTensor]:
    """`external` tensors whose values were not given, and tensors that start as their copies."""
    tensors = {**program.params, **program.state}

    def is_missing(tensor: ModelTensor) -> bool:
        origin = tensors[tensor.init.of] if tensor.init.kind == "copy" else tensor
        return origin.init.kind == "external" and origin.name not in values

    return {name: tensor for name, tensor in tensors.items() if is_missing(tensor)}


def _test_entry(
    program: Program,
    graph: Graph,
    values: Mapping[str, Array],
    keys: Mapping[str, str],
    steps: int,
    specs: Mapping[str, Any],
    precision: Precision,
) -> dict[str, Any]:
    """Inputs are drawn by the `keys` of their tensors, as in the runtimes."""
    from wgcc_runtime.drawn import drawn_input

    used = _only_used(program, graph)
    held = {name: values[name] for name in (*used.params, *used.state) if name in values}
    session = Session(used, held, held, precision)
    del held
    before = {**session.params, **session.state}
    outputs = []
    for step in range(steps):
        inputs = {
            v.name: drawn_input(specs[v.name], keys[v.name], v.shape, SEED, step)
            for v in graph.inputs
        }
        results = session.call(graph.name, inputs)
        usable = {
            name: array
            for name, array in results.items()
            if not is_capture(name) and _is_usable(array, program.precision)
        }
        outputs.append({name: _facts(array) for name, array in usable.items()})
    test = {
        "inputs": specs,
        "steps": steps,
        "outputs": outputs,
        "tolerance": TOLERANCE[program.precision],
    }
    changes = make_changes(session, before, graph.name)
    return {**test, "changes": changes} if changes["tensors"] else test


def _only_used(program: Program, graph: Graph) -> Program:
    """The program with the tensors that this entry uses, and those that one of them starts as."""
    names = {value.name for value in (*graph.params, *graph.state)}
    tensors = {**program.params, **program.state}
    names |= {tensors[name].init.of for name in names}
    return replace(
        program,
        params={name: tensor for name, tensor in program.params.items() if name in names},
        state={name: tensor for name, tensor in program.state.items() if name in names},
    )


def _is_usable(array: Array, precision: str) -> bool:
    """An output that f32 cannot hold for random inputs (a log of a negative number) is not usable.

    Neither is a choice among classes (an argmax) that rounding to f16 may change.
    """
    exact = precision == "f32" or array.dtype.kind == "f"
    return exact and bool((np.abs(array) <= LARGEST_FLOAT).all())


def _spec(graph: Graph, value: Value, highest: Mapping[str, int]) -> dict[str, Any]:
    if value.dtype in FLOATS:
        return {"kind": "uniform", "low": -1, "high": 1}
    if value.name in graph.entry.ranges:
        low, high, _ = graph.entry.ranges[value.name]
        return {"kind": "integers", "low": low, "high": high}
    return {"kind": "integers", "low": 0, "high": highest[value.dtype]}


def _facts(array: Array) -> dict[str, Any]:
    wide = np.asarray(array, np.float64).reshape(-1)
    return {
        "sum": _round(wide.sum()),
        "abs": _round(np.abs(wide).sum()),
        "first": [_round(x) for x in wide[:FIRST]],
    }


def _round(number: Any, digits: int = 9) -> float:
    """Nine digits represent an f32 exactly and hide differences between numpy builds.

    Five are much finer than the tolerance of changes.
    """
    return float(f"{float(number):.{digits}g}")


# Relative to the mean magnitude of a tensor's changes. f16 has 11 significant bits or fewer.
CHANGE_TOLERANCE = {"f32": 1e-2, F16: 0.25}
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
    names = [name for name in names_to_compare(program.entries[entry].writes) if name in before]
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
            facts[name] = _change_facts(changes[name], sizes[name], scale)
    return {"tolerance": CHANGE_TOLERANCE[program.precision], "tensors": facts}


# What optimizers store that divide a gradient by its size, and what follows from that quotient:
# where gradients nearly vanish, its sign is that of a rounding error.
_NORMALISING = ("exp_avg", "square_avg", "sum", "row_var", "variance", "momentum_buffer")
_EXCLUDED = ("exp_avg_sq", "max_exp_avg_sq", "acc_delta", STEP, CALLS, AVERAGE)


def names_to_compare(written: Iterable[str]) -> list[str]:
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


def _change_facts(change: Array, size: float, scale: float) -> dict[str, Any]:
    from wgcc_runtime.selftest import sample_places

    samples = [_round(change[at], 5) for at in sample_places(change.size, SAMPLES)]
    mean = _round(change.mean(), 5)
    return {"mean": mean, "size": _round(size, 5), "at": samples, "scale": _round(scale, 5)}
