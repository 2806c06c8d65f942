"""Single expressions as programs: elaborated, then run in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostic, Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Graph

DIMS = "dim A = 2, B = 3, C = 4, D = 5, E = 6, S = 7\n"
RNG = {"rng/seed": np.uint32(7), "rng/step": np.uint32(0)}

# Expression, type of its result, inputs `name: (type, array)`, expected array.
Case = tuple[str, str, dict[str, Any], Any]


def graph_of(expression: str, result: str, types: dict[str, str], dims: str = DIMS) -> Graph:
    """The graph of an expression whose type must be `result`; nothing may be reported."""
    return _graphs(dims, [_entry("run", expression, result, types)])["run"]


def graphs_of(cases: Sequence[Case], dims: str = DIMS) -> list[Graph]:
    """The graphs of many expressions at once: reading the library takes longer than tracing one."""
    entries = [
        _entry(f"run{number}", expression, result, _types(inputs))
        for number, (expression, result, inputs, _) in enumerate(cases)
    ]
    return list(_graphs(dims, entries).values())


def value_of(
    expression: str, result: str, dims: str = DIMS, **inputs: tuple[str, Any]
) -> np.ndarray[Any, Any]:
    """The value of the expression for inputs `name=("f32[A, B]", array)`."""
    return run(graph_of(expression, result, _types(inputs), dims), inputs)


def run(graph: Graph, inputs: dict[str, Any]) -> np.ndarray[Any, Any]:
    values = {name: np.asarray(array) for name, (_, array) in inputs.items()}
    return np.asarray(evaluate(graph, {**RNG, **values}).outputs["out"])


def problem_of(expression: str, dims: str = DIMS, **types: str) -> Diagnostic:
    """The one error (or warning) of an expression."""
    found = Diagnostics()
    check(_source(dims, [_entry("run", expression, "f32", types)]), found)
    assert list(found), f"nothing was reported for {expression}"
    return found.items[0]


def _types(inputs: dict[str, Any]) -> dict[str, str]:
    return {name: type_ for name, (type_, _) in inputs.items()}


def _graphs(dims: str, entries: Sequence[str]) -> dict[str, Graph]:
    found = Diagnostics()
    programs = check(_source(dims, entries), found)
    assert not list(found), [f"{item.span.text}: {item.code}: {item.message}" for item in found]
    return dict(programs["M"].entries)


def _source(dims: str, entries: Sequence[str]) -> Source:
    return Source("model.wg", f"{dims}model M {{\n" + "\n".join(entries) + "\n}\n")


def _entry(name: str, expression: str, result: str, types: dict[str, str]) -> str:
    inputs = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    return f"  entry {name}({inputs}) -> (out: {result}) {{\n    return {expression}\n  }}"
