"""Checks a model file: kernels against the numpy evaluator, gradients against differences.

The tolerance of each result is measured: the evaluator runs a few more times with rounding errors
added after every node, and results that change much then may differ much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import wgcc_runtime
from wgcc.bundle.emit import InitialValues
from wgcc.compiler import Compiled, compile_program, read_program
from wgcc.evaluate import Evaluated, Session, as_held, from_words
from wgcc.ir.graph import FLOATS, Graph, Value
from wgcc.ir.program import Program
from wgcc.ops import OPS
from wgcc.passes.pipeline import run_passes

Array = np.ndarray[Any, Any]
Values = Mapping[str, Array]

# A few times the error of a GPU's exp, log or division, relative and absolute.
NOISE, NOISE_FLOOR = 2e-6, 2e-7
NOISY_RUNS = 3
# Allowed in addition to the change by noise, relative to 1 + |value|.
TOLERANCE = 1e-5
SLACK = 6.0
# Differences at two steps give the slope without the third derivative's error.
STEP, SLOPE_TOLERANCE = 2e-4, 2e-4
TRAINING_CALLS = 3


class Wrong(AssertionError):
    """A model whose kernels or gradients are not what they should be."""


@dataclass(frozen=True)
class Call:
    """One call of an entry: its inputs, expected outputs, and the tolerance of each element."""

    entry: str
    inputs: Values
    outputs: Values
    allowed: Values


def judge(path: Path, devices: Mapping[str, Any], folder: Path) -> Compiled:
    """Raises `Wrong` if a kernel on any device, or a gradient is wrong."""
    source, traced, diagnostics = read_program(path)
    program = run_passes(traced, until="opt", check=True)
    compiled = compile_program(source, traced, diagnostics)
    compiled.write(folder)
    calls = expected_calls(program)
    check_slopes(program, calls)
    for name, device in devices.items():
        with wgcc_runtime.load(folder, device=device) as model:
            _run(model, calls, name)
    return compiled


def expected_calls(program: Program) -> list[Call]:
    """Every entry once, training a few times, then all again: state must change alike."""
    weights = dict(InitialValues(program))
    exact = Session(program, weights, weights)
    noisy = [NoisySession(program, weights, weights) for _ in range(NOISY_RUNS)]
    for number, session in enumerate(noisy):
        session.number = number + 1
    calls = []
    for entry in [*_script(program), *program.entries]:
        inputs = dict(_inputs(program.entries[entry], len(calls)))
        outputs = exact.call(entry, inputs)
        moved = [session.call(entry, inputs) for session in noisy]
        allowed = {
            name: _allowed(value, [run[name] for run in moved]) for name, value in outputs.items()
        }
        calls.append(Call(entry, inputs, outputs, allowed))
    return calls


def _script(program: Program) -> Iterator[str]:
    for name, graph in program.entries.items():
        trains = any(written in program.params for written in graph.writes)
        yield from [name] * (TRAINING_CALLS if trains else 1)


def _inputs(graph: Graph, number: int) -> Iterator[tuple[str, Array]]:
    draw = np.random.default_rng(number)
    for value in graph.inputs:
        if value.dtype in FLOATS:
            found = draw.uniform(-2, 2, value.shape).astype(np.float32)
        else:
            low, high = _range(graph, value)
            found = draw.integers(low, high, value.shape, endpoint=True)
        yield value.name, np.asarray(found)


def _range(graph: Graph, value: Value) -> tuple[int, int]:
    if value.name in graph.entry.ranges:
        low, high, _ = graph.entry.ranges[value.name]
        return low, high
    return {"bool": (0, 1), "u8": (0, 255), "i8": (-128, 127), "u32": (0, 9)}.get(
        value.dtype, (-4, 5)
    )


def _allowed(exact: Array, moved: list[Array]) -> Array:
    wide = np.asarray(exact, np.float64)
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(np.asarray(run, np.float64) - wide) for run in moved], axis=0)
        if exact.dtype.kind != "f":
            return np.where(spread == 0, 0.0, np.inf)
        return np.nan_to_num(TOLERANCE * (1 + np.abs(wide)) + SLACK * spread, nan=np.inf)


class NoisySession(Session):
    """A session whose nodes all round a little differently, equal values equally."""

    number = 0

    def call(self, entry: str, inputs: Values | None = None) -> dict[str, Array]:
        graph = self.program.entries[entry]
        result = _noisy(graph, {**self.params, **self.state, **(inputs or {})}, self.number)
        for name, array in result.writes.items():
            (self.params if name in self.params else self.state)[name] = array
        return dict(result.outputs)


def _noisy(graph: Graph, values: Values, number: int) -> Evaluated:
    given = {**values, **{item.value.name: from_words(item) for item in graph.constants}}
    known = {value.name: as_held(given[value.name], value.type) for value in graph.sources}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            found = OPS[node.op].reference(*(known[v.name] for v in node.inputs), **node.attrs)
            results = found if isinstance(found, tuple | list) else (found,)
            for value, result in zip(node.outputs, results, strict=True):
                held = as_held(_shaken(np.asarray(result), value, number), value.type)
                known[value.name] = held
    pick = lambda wanted: {name: known[value.name] for name, value in wanted.items()}  # noqa: E731
    return Evaluated(pick(graph.outputs), pick(graph.writes))


def _shaken(array: Array, value: Value, number: int) -> Array:
    """Noise is a function of the value, so that ties stay ties; integers are exact."""
    if value.dtype not in FLOATS:
        return array
    wave = np.cos(array * 12345.678 + number)
    exact = array == np.round(array)
    return np.where(exact, array, array * (1 + NOISE * wave) + NOISE_FLOOR * wave)


# ---- on the GPU


def _run(model: Any, calls: list[Call], where: str) -> None:
    model.check_finite = False
    for number, call in enumerate(calls):
        found = model.call(call.entry, **call.inputs)
        for name, wanted in call.outputs.items():
            what = f"{where}: {call.entry}.{name} (call {number})"
            _compare(found[name], wanted, call.allowed[name], what)


def _compare(found: Array, wanted: Array, allowed: Array, what: str) -> None:
    if found.shape != wanted.shape:
        raise Wrong(f"{what}: shape {found.shape}, not {wanted.shape}")
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    bad = ~(error <= allowed) & np.isfinite(wanted.astype(np.float64)) & np.isfinite(allowed)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Wrong(
            f"{what}: {found[at]} at {list(at)}, should be {wanted[at]} (± {allowed[at]:.2g}); "
            f"{int(bad.sum())} of {bad.size} elements are off"
        )


# ---- gradients


def check_slopes(program: Program, calls: list[Call]) -> None:
    """`d_NAME` of the entry `slopes` against differences of its `loss` along random directions."""
    graph = program.entries.get("slopes")
    if graph is None or not _is_smooth(graph):
        return
    weights = dict(InitialValues(program))
    session = Session(program, weights, weights)
    inputs = dict(_inputs(graph, 0))
    values = {**session.params, **session.state, **inputs}
    names = [name.removeprefix("d_") for name in graph.outputs if name.startswith("d_")]
    outputs = session.call("slopes", inputs)
    draw, graph = np.random.default_rng(1), _only_loss(graph)
    for name in names:
        gradient = np.asarray(outputs[f"d_{name}"], np.float64)
        tries = [_slope_error(graph, values, name, gradient, draw) for _ in range(3)]
        # A difference across a kink is wrong: one direction that agrees is enough if the others'
        # differences at two step sizes do not agree with each other.
        if all(error > SLOPE_TOLERANCE for error, steady in tries if steady) and any(
            steady for _, steady in tries
        ):
            raise Wrong(f"the gradient by {name} is off by {[f'{e:.2g}' for e, _ in tries]}")


def _only_loss(graph: Graph) -> Graph:
    """The model without what only the gradients need."""
    kept, wanted = [], {graph.outputs["loss"].name}
    for node in reversed(graph.nodes):
        if any(value.name in wanted for value in node.outputs):
            kept.append(node)
            wanted.update(value.name for value in node.inputs)
    outputs = {"loss": graph.outputs["loss"]}
    nodes = tuple(reversed(kept))
    return replace(graph, nodes=nodes, outputs=outputs, writes={}, range_flag=None)


def _is_smooth(graph: Graph) -> bool:
    """Differences say nothing where gradients are stopped or values rounded."""
    values = (value for node in graph.nodes for value in node.outputs)
    stops = any(node.op == "stop_grad" for node in graph.nodes)
    return not stops and all(value.dtype != "f16" for value in values)


def _slope_error(
    graph: Graph, values: Values, name: str, gradient: Array, draw: np.random.Generator
) -> tuple[float, bool]:
    direction = draw.normal(size=gradient.shape)
    direction /= max(1e-9, float(np.sqrt(np.sum(direction**2))))
    slopes = [_difference(graph, values, name, step * direction) / (2 * step)
              for step in (STEP, STEP / 2, STEP / 4)]  # fmt: skip
    better = [(4 * slopes[i + 1] - slopes[i]) / 3 for i in range(2)]
    size = 1e-2 + float(np.sqrt(np.sum(gradient**2)))
    steady = abs(better[0] - better[1]) / size < SLOPE_TOLERANCE / 2
    return abs(better[1] - float(np.sum(gradient * direction))) / size, steady


def _difference(graph: Graph, values: Values, name: str, change: Array) -> float:
    from wgcc.evaluate import evaluate

    start = np.asarray(values[name], np.float64)
    ends = [
        evaluate(graph, {**values, name: start + sign * change}).outputs["loss"]
        for sign in (1.0, -1.0)
    ]
    return float(ends[0]) - float(ends[1])
