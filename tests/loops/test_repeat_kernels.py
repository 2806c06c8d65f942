"""Loops on both adapters and on the twin: kernels of one round, run many times, give numpy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from loop_graphs import CASES, draw_inputs, loop_graph
from test_random_loop_entries import with_gradient
from wgcc.compiler import Compiled, compile_file, compile_program
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


BYTES = """
dim T = 5, B = 3
fn step(s: (i32[B], u8[B]), x: (u8[B], bool[B])) -> ((i32[B], u8[B]), (u8[B], bool[B])) {
  n, last = s
  a, keep = x
  return (where(keep, n + i32(a), n), a), (last + a, not keep)
}
model Bytes {
  state seen: u8[B] = 7
  entry run(xs: u8[T, B], keep: bool[T, B]) -> (n: i32[B], ys: u8[T, B], zs: bool[T, B]) {
    (n, last), (ys, zs) = scan(step, (zeros(i32[B]), seen), (xs, keep))
    seen := last
    return n, ys, zs
  }
}
"""


def test_packed_bytes_are_sliced(machine: Any, tmp_path: Path) -> None:
    """Rounds do not start at whole words."""
    source = tmp_path / "bytes.wg"
    source.write_text(BYTES)
    compile_file(source).write(tmp_path / "bytes")
    random = np.random.default_rng(0)
    xs, keep = random.integers(0, 255, (5, 3)).astype(np.uint8), random.random((5, 3)) < 0.5
    model = wgcc_runtime.load(tmp_path / "bytes", device=machine)
    found = model.call("run", xs=xs, keep=keep)
    assert np.array_equal(found["n"], np.where(keep, xs, 0).astype(np.int32).sum(axis=0))
    before = np.concatenate([np.full((1, 3), 7, np.uint8), xs[:-1]])
    assert np.array_equal(found["ys"], before + xs)
    assert np.array_equal(found["zs"], ~keep)
    assert np.array_equal(model.state()["seen"], xs[-1])
