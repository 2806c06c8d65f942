"""tests/filetests/PASS/*.ir: the result of a pass, and that it still means the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from adapters import ROOT
from filecheck import filecheck
from read_ir import program_of, read_graphs
from wgcc.evaluate import evaluate
from wgcc.ir.graph import FLOATS, Graph
from wgcc.ir.program import Program
from wgcc.ir.text import graph_text
from wgcc.ir.verify import verify
from wgcc.ops import OPS, infer_types
from wgcc.ops.registry import Marker
from wgcc.passes.autograd import autograd
from wgcc.passes.hoist import hoist
from wgcc.passes.optimizer import optimizer
from wgcc.passes.pipeline import PREPARED, SIMPLIFIED, run_passes
from wgcc.passes.rewrite import expand
from wgcc.passes.simplify import simplify

FOLDER = ROOT / "tests" / "filetests"


def optimizer_of_entry(graph: Graph) -> Graph:
    return optimizer(Program("file", entries={"only": graph})).entries["only"]


def prepare_entry(graph: Graph) -> Graph:
    prepared = run_passes(program_of(graph), until=PREPARED, since=SIMPLIFIED)
    return prepared.entries[graph.name]


GRAPH_PASSES: Mapping[str, Callable[[Graph], Graph]] = {
    "autograd": autograd,
    "expand": expand,
    "hoist": hoist,
    "optimizer": optimizer_of_entry,
    "prepare": prepare_entry,
    "simplify": simplify,
}
CASES = sorted(case for name in GRAPH_PASSES for case in (FOLDER / name).glob("*.ir"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_what_a_pass_makes(case: Path) -> None:
    source = case.read_text(encoding="utf-8")
    before = read_graphs(source)
    after = {name: GRAPH_PASSES[case.parent.name](graph) for name, graph in before.items()}
    for name, graph in after.items():
        verify(graph, infer_types)
        if not any(isinstance(OPS[node.op].lower, Marker) for node in before[name].nodes):
            assert_same_meaning(before[name], graph)
    filecheck(source, "".join(map(graph_text, after.values())))


def assert_same_meaning(before: Graph, after: Graph) -> None:
    values = draw_values(before)
    expected, found = evaluate(before, values), evaluate(after, values)
    assert list(found.outputs) == list(expected.outputs)
    for name, array in expected.outputs.items():
        # Constants are rounded to f32 after they are folded, and before they are used.
        np.testing.assert_allclose(found.outputs[name], array, rtol=1e-6, atol=1e-6, err_msg=name)


def draw_values(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        value.name: random.uniform(0.5, 2.0, value.shape)
        if value.dtype in FLOATS
        else random.integers(0, 2, value.shape)
        for value in graph.sources
    }
