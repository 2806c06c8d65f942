"""Random loops and their gradients give numpy's numbers: rounds share memory as they may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from random_loop_entries import random_loops
from wgcc.compiler import compile_program
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.passes.pipeline import run_passes
from wgcc.passes.rewrite import builder_for

EACH = 8


def with_gradient(graph: Graph) -> Graph:
    """Also the gradient of the sum of all results' squares."""
    builder = builder_for(graph)
    builder.nodes += graph.nodes
    loss = builder.constant(0.0)
    for value in graph.outputs.values():
        square = builder.apply("square", value)
        total = builder.apply("sum", square, axes=tuple(range(value.type.rank)))
        loss = builder.apply("add", loss, total)
    gradients = builder.apply_many("grad", loss, *graph.inputs)
    more = {f"d{i}": value for i, value in enumerate(gradients)}
    return replace(graph, nodes=tuple(builder.nodes), outputs={**graph.outputs, **more})


@pytest.mark.parametrize("first", range(0, 2 * EACH, EACH))
def test_random_loops(first: int, tmp_path: Path) -> None:
    seeds = range(first, first + EACH)
    graphs = {f"e{i}": replace(with_gradient(random_loops(i)), name=f"e{i}") for i in seeds}
    program = Program("Random", entries=graphs)
    compile_program(Source("m.wg", ""), program, Diagnostics()).write(tmp_path / "bundle")
    with wgcc_runtime.load(tmp_path / "bundle", device="wasm") as model:
        for name, graph in run_passes(program).entries.items():
            random = np.random.default_rng(1)
            given = {v.name: random.uniform(-1, 1, v.shape).astype("f4") for v in graph.inputs}
            found = model.call(name, **given)
            for key, wanted in evaluate(graph, given).outputs.items():
                scale = max(1.0, float(np.abs(wanted).max()))
                close = np.allclose(found[key], wanted, rtol=1e-3, atol=1e-3 * scale)
                assert close, f"{name}: {key} is\n{found[key]}\nnot\n{wanted}"
