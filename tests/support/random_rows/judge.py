"""Compares an entry that runs in parts with the same text built for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from random_rows.generate import Program
from wgcc.compiler import trace_for_rows
from wgcc.elaborate import elaborate
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program as Traced
from wgcc.passes.mark_rows import mark_rows
from wgcc_runtime.plan import Tensor
from wgcc_runtime.rows import run_rows

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
# Numbers are doubles here; sums are taken apart and put together again.
TOLERANCE = 1e-6
# Sums of f16 are rounded to 11 bits, each part by itself.
HALF = 2e-2


class Wrong(AssertionError):
    """The parts give other numbers than the whole."""


def judge(program: Program, counts: tuple[int, ...]) -> str:
    """`invalid`, `refused`, `incomparable` (no other number of rows can be built) or `right`."""
    traced = trace(program.text, {})
    if traced is None:
        return "invalid"
    source = Source("rows.wg", program.text)
    (rows,) = mark_rows(traced, trace_for_rows(source, traced, {})).entries["run"].entry.rows
    if rows.why:
        return "refused"
    compared = [_compare(program, traced, rows, count) for count in counts]
    return "right" if any(compared) else "incomparable"


def trace(text: str, sizes: Mapping[str, int]) -> Traced | None:
    return elaborate(Source("rows.wg", text), Diagnostics(), sizes=sizes)


def inputs_of(program: Program, count: int) -> Arrays:
    draw = np.random.default_rng(count)
    return {
        "x": draw.normal(size=(count, program.columns)),
        "z": draw.normal(size=(count, program.columns)),
        "w": draw.normal(size=count) + 0.5,
        "y": draw.integers(0, program.columns, count),
        "a": np.float64(0.75),
    }


def weights_of(traced: Traced) -> Arrays:
    """By name alone, so that all numbers of rows have the same."""
    return {
        name: np.random.default_rng(len(name)).normal(size=param.type.shape)
        for name, param in traced.params.items()
    }


def _compare(program: Program, traced: Traced, rows: Any, count: int) -> bool:
    whole = trace(program.text, {"B": count})
    if whole is None:
        return False
    inputs = inputs_of(program, count)
    wanted = _run(whole.entries["run"], whole, inputs)
    model = _Model(traced)
    entry = _entry(traced.entries["run"], rows)
    # A call with the entry's own number of rows is no call in parts.
    parts = run_rows(model, entry, inputs) or model.call_prepared("run", **inputs)  # type: ignore
    near = HALF if "f16(" in program.text else TOLERANCE
    for name, value in wanted.items():
        if not np.allclose(parts[name], value, near, near, equal_nan=True):
            text = f"{name} is {parts[name]} in parts of {rows.count}, {value} for {count} rows"
            raise Wrong(f"{text}\n{program.text}")
    return True


def _run(graph: Graph, traced: Traced, inputs: Mapping[str, Any]) -> Arrays:
    given = {key: np.asarray(value) for key, value in inputs.items()}
    with np.errstate(all="ignore"):
        return dict(evaluate(graph, {**weights_of(traced), **given}).outputs)


class _Model:
    """What `run_rows` needs of a model, computed in numpy."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced

    def call_prepared(self, entry: str, **inputs: Any) -> Arrays:
        return _run(self._traced.entries[entry], self._traced, inputs)


def _entry(graph: Graph, rows: Any) -> Any:
    """The entry as a plan describes it."""
    outputs = {
        name: Tensor(name, value.dtype, value.shape, 0, 0, "output", False, {})
        for name, value in graph.outputs.items()
    }
    inputs = {
        value.name: Tensor(value.name, value.dtype, value.shape, 0, 0, "input", False, {})
        for value in graph.inputs
    }
    ports = {"inputs": inputs, "outputs": outputs, "ranges": {}}
    return SimpleNamespace(name=graph.name, rows=rows, captures={}, **ports)
