"""Every op, every sample, on both adapters and on the twin: equal to numpy.

Gradients are compared with the same gradient graph in float64, which test_ops.py compares with
central differences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from op_bundles import MakeGraph, forward_graph, gradient_graph, write_op_bundle
from op_samples import Array, input_arrays, reference_of
from wgcc.evaluate import evaluate
from wgcc.ops import OPS, Op
from wgcc.ops.registry import Expand, Marker, Pointwise, Reduce, ReduceMany, Sample, Update
from wgcc.passes.autograd import autograd

# The tolerance for every op. f16 values are rounded to 11 bits, not always in the same direction.
FORWARD = {"f32": 1e-5, "f16": 2e-3}
GRADIENT = 1e-4

# Optimizer ops need arenas, which a single node does not have; test_curves.py runs them.
SWEPT = [
    op
    for op in OPS.values()
    if not isinstance(op.lower, Marker | Update | ReduceMany) and op.samples
]


def _differentiates(op: Op, sample: Sample) -> bool:
    graph = forward_graph("e", op, sample)
    floats = all(v.dtype == "f32" for v in graph.outputs.values())
    return sample.differentiable and floats and any(v.dtype == "f32" for v in graph.inputs)


DIFFERENTIABLE = [
    op for op in SWEPT if op.grad is not None and any(_differentiates(op, s) for s in op.samples)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles that all machines run."""
    return tmp_path_factory.mktemp("ops")


def _build_once(op: Op, samples: list[Sample], graph: MakeGraph, bundle: Path) -> Path:
    return bundle if bundle.exists() else write_op_bundle(op, samples, graph, bundle)


@pytest.mark.parametrize("op", SWEPT, ids=lambda op: op.name)
def test_kernels_give_the_reference(op: Op, machine: Any, folder: Path) -> None:
    samples = list(op.samples)
    bundle = _build_once(op, samples, forward_graph, folder / "results" / op.name)
    model = wgcc_runtime.load(bundle, device=machine)
    for i, sample in enumerate(samples):
        arrays = input_arrays(op, sample)
        found = _call(model, i, arrays)
        for got, wanted in zip(found, reference_of(op, sample, arrays), strict=True):
            dtype = forward_graph("e", op, sample).outputs["out0"].dtype
            _compare(got, wanted, FORWARD.get(dtype, 0.0), f"{sample}")


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradient_kernels(op: Op, machine: Any, folder: Path) -> None:
    samples = _few([s for s in op.samples if _differentiates(op, s)], op)
    bundle = _build_once(op, samples, gradient_graph, folder / "gradients" / op.name)
    model = wgcc_runtime.load(bundle, device=machine)
    for i, sample in enumerate(samples):
        arrays = input_arrays(op, sample)
        graph = autograd(gradient_graph("e", op, sample))
        given = {v.name: a for v, a in zip(graph.inputs, arrays, strict=True)}
        wanted = evaluate(graph, given).outputs.values()
        for got, expected in zip(_call(model, i, arrays), wanted, strict=True):
            _compare(got, expected, GRADIENT, f"{sample}")


def _few(samples: list[Sample], op: Op) -> list[Sample]:
    """Elementwise rules do not depend on the shape: three samples are enough."""
    return samples[-3:] if isinstance(op.lower, Pointwise | Reduce | Expand) else samples


def _call(model: Any, number: int, arrays: list[Array]) -> list[Array]:
    inputs = {f"in{i}": _as_given(array) for i, array in enumerate(arrays)}
    return list(model.call(f"sample{number}", **inputs).values())


def _as_given(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _compare(got: Array, wanted: Array, tolerance: float, what: str) -> None:
    assert got.shape == wanted.shape, what
    expected = wanted.astype(np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite], what)
    expected = expected[finite]
    error = np.abs(got[finite].astype(np.float64) - expected) / (1 + np.abs(expected))
    assert np.max(error, initial=0.0) <= tolerance, f"{what}: error {np.max(error)}"
