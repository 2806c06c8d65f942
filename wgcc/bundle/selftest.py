"""The self-test recorded in every bundle: the expected outputs of its entries for random inputs.

Expected outputs come from the numpy evaluator in float64, with the bundle's initial values. Entries
whose evaluation would take too long for a build are left out, as are those that need `external`
values that were not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wgcc.bundle.changes import make_changes
from wgcc.effort import effort
from wgcc.evaluate import OutOfRangeError, Precision, Session
from wgcc.ir.dtypes import LARGEST_FLOAT
from wgcc.ir.graph import FLOATS, Graph, Value
from wgcc.ir.program import Program, Tensor
from wgcc.lazy_numpy import Array, np

SEED = 1
STEPS = 3
# The effort of an evaluation, all steps together: about half a second of numpy.
MOST_WORK = 40_000_000
# The same for a test that is made when a bundle is verified: about a minute.
MOST_LARGE_WORK = 20_000_000_000
# f32 kernels against float64 over a few steps; sums are relative to the sum of magnitudes.
# f16 has 11 significant bits.
TOLERANCE = {"f32": 1e-4, "f16": 2e-2}
FIRST = 8
# The largest drawn number for integer inputs without a range.
HIGHEST = {"bool": 1, "i8": 127, "u8": 255, "i32": 3, "u32": 3}


def make_selftest(
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


def _missing(program: Program, values: Mapping[str, Array]) -> dict[str, Tensor]:
    """`external` tensors whose values were not given, and tensors that start as their copies."""
    tensors = {**program.params, **program.state}

    def is_missing(tensor: Tensor) -> bool:
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

    used = _used(program, graph)
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
        usable = {n: array for n, array in results.items() if _is_usable(array, program.precision)}
        outputs.append({name: _facts(array) for name, array in usable.items()})
    test = {
        "inputs": specs,
        "steps": steps,
        "outputs": outputs,
        "tolerance": TOLERANCE[program.precision],
    }
    changes = make_changes(session, before, graph.name)
    return {**test, "changes": changes} if changes["tensors"] else test


def _used(program: Program, graph: Graph) -> Program:
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
    """Not usable: an output that f32 cannot hold for random inputs (a log of a negative number).

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
        "sum": _rounded(wide.sum()),
        "abs": _rounded(np.abs(wide).sum()),
        "first": [_rounded(x) for x in wide[:FIRST]],
    }


def _rounded(number: Any) -> float:
    """Nine digits represent an f32 exactly and hide differences between numpy builds."""
    return float(f"{float(number):.9g}")
