"""Bundles whose entries each apply one op to one sample, for the sweep of ops on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from op_samples import build
from wgcc.compiler import compile_program
from wgcc.errors import Diagnostics, Source
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.ops import Op
from wgcc.ops.registry import Sample

MakeGraph = Callable[[str, Op, Sample], Graph]


def write_op_bundle(op: Op, samples: list[Sample], make: MakeGraph, folder: Path) -> Path:
    """One entry `sample0`, `sample1`, … per sample."""
    graphs = [make(f"sample{i}", op, sample) for i, sample in enumerate(samples)]
    program = Program("Samples", entries={graph.name: graph for graph in graphs})
    compile_program(Source("samples.wg", ""), program, Diagnostics()).write(folder)
    return folder


def forward_graph(name: str, op: Op, sample: Sample) -> Graph:
    builder, node = build(op, sample)
    outputs = {f"out{i}": value for i, value in enumerate(node.outputs)}
    return Graph(name, inputs=node.inputs, nodes=tuple(builder.nodes), outputs=outputs)


def gradient_graph(name: str, op: Op, sample: Sample) -> Graph:
    """The gradient of sum(result²) with respect to every float input."""
    builder, node = build(op, sample)
    own = node.outputs[: len(node.outputs) - op.saved]
    squares = [builder.apply("square", value) for value in own]
    sums = [builder.apply("sum", v, axes=tuple(range(v.type.rank))) for v in squares]
    loss = sums[0]
    for more in sums[1:]:
        loss = builder.apply("add", loss, more)
    wanted = [value for value in node.inputs if value.dtype == "f32"]
    gradients = builder.apply_many("grad", loss, *wanted)
    outputs = {f"out{i}": value for i, value in enumerate(gradients)}
    return Graph(name, inputs=node.inputs, nodes=tuple(builder.nodes), outputs=outputs)
