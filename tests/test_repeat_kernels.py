"""Loops on both adapters and on the twin: kernels of one round, run many times, give numpy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from loop_graphs import CASES, draw_inputs, loop_graph
from test_random_loop_entries import with_gradient
from wgcc.compiler import Compiled, compile_program
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.passes.pipeline import run_passes


def compiled(*graphs: Graph, precision: str = "f32") -> Compiled:
    program = Program("Loops", entries={g.name: g for g in graphs}, precision=precision)
    return compile_program(Source("loops.wg", ""), program, Diagnostics())


@pytest.mark.parametrize("rounds", [5, 1])
def test_loops_give_the_reference(rounds: int, machine: Any, tmp_path: Path) -> None:
    graphs = [loop_graph(name, rounds) for name in CASES]
    compiled(*graphs).write(tmp_path / "bundle")
    model = wgcc_runtime.load(tmp_path / "bundle", device=machine)
    for graph in graphs:
        given = draw_inputs(graph)
        found = model.call(graph.name, **given)
        for name, wanted in evaluate(graph, given).outputs.items():
            close = np.allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
            assert close, f"{graph.name}: {name} is\n{found[name]}\nnot\n{wanted}"
        again = model.call(graph.name, **given)
        assert all(np.array_equal(found[name], again[name]) for name in found), graph.name


def test_large_stacks_are_halves(tmp_path: Path) -> None:
    """With `precision = f16`: what the gradient of a loop reads again, side by side."""
    graph = with_gradient(loop_graph("gru", rounds=6, rows=16, width=32))
    found = compiled(graph, precision="f16")
    regions = {region for d in found.schedule.dispatches for region in d.regions if region.half}
    stacked = 6 * 16 * 32
    assert max(region.count for region in regions) >= 3 * stacked, "r, z and n"
    found.write(tmp_path / "gru")
    model = wgcc_runtime.load(tmp_path / "gru", device="llvmpipe")
    given = {name: 0.3 * array for name, array in draw_inputs(graph).items()}
    wanted = evaluate(run_passes(found.program).entries["gru"], given).outputs
    for name, array in model.call("gru", **given).items():
        scale = float(np.abs(wanted[name]).max())
        assert np.allclose(array, wanted[name], rtol=0, atol=5e-3 * scale), name
