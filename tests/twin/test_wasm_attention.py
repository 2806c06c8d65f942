"""Attention of the WebAssembly twin over packed panels: every sample of its ops, any threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from op_bundles import forward_graph, write_op_bundle
from op_samples import input_arrays, reference_of
from wasm_kernels import KINDS, Built
from wgcc.backends.wasm.panels import attention, micro_kernel
from wgcc.compiler import compile_program
from wgcc.errors import Diagnostics, Source
from wgcc.ir.program import Program
from wgcc.ops import OPS
from wgcc.ops.registry import Sample
from wgcc.schedule.kernel import DispatchWork

NAMES = ("attention", "attention_grad_q", "attention_grad_kv")
DTYPES = {kind: np.dtype(dtype) for dtype, kind in KINDS.items()}


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIN_ROWS", "MIN_COLUMNS"):
        monkeypatch.setattr(attention, name, 1)
    # Panels are kept apart where their depth is even.
    monkeypatch.setattr(micro_kernel, "ALIASED", 16)


def work_of(name: str, sample: Sample) -> DispatchWork:
    graph = forward_graph("e", OPS[name], sample)
    program = Program("Samples", entries={"e": graph})
    schedule = compile_program(Source("samples.wg", ""), program, Diagnostics()).schedule
    (dispatch,) = schedule.entries["e"].dispatches
    ((work, _),) = dispatch.works
    return work


def built(name: str, sample: Sample) -> Built:
    """With random numbers in all that is bound; small whole numbers where those are positions."""
    work, random = work_of(name, sample), np.random.default_rng(1)
    arrays = {
        binding.name: (
            random.normal(size=binding.count).astype(np.float32)
            if binding.element == "f32"
            else np.full(binding.count, 3, DTYPES[binding.element])
        )
        for binding in work.bindings
    }
    return Built(work, arrays, threads=3)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("name", NAMES)
def test_panels_give_the_reference(name: str, tmp_path: Path) -> None:
    op = OPS[name]
    samples = list(op.samples)
    bundle = write_op_bundle(op, samples, forward_graph, tmp_path / "bundle")
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for i, sample in enumerate(samples):
            arrays = [
                a.astype(np.float32) if a.dtype.kind == "f" else a for a in input_arrays(op, sample)
            ]
            found = model.call(f"sample{i}", **{f"in{n}": array for n, array in enumerate(arrays)})
            wanted = reference_of(op, sample, input_arrays(op, sample))
            for got, expected in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=f"{sample}")


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("name", NAMES)
def test_threads_give_the_same_bits(name: str) -> None:
    for sample in OPS[name].samples:
        kernel = built(name, sample)
        assert "multiply_panels" in kernel.functions
        alone = kernel.run()
        for threads in (2, 3):
            shared = kernel.run(threads)
            for binding, array in alone.items():
                assert array.tobytes() == shared[binding].tobytes(), (sample, threads, binding)


@pytest.mark.parametrize("name", NAMES)
def test_rows_one_by_one_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows, as in decoding, are not packed."""
    for sample in OPS[name].samples:
        monkeypatch.setattr(attention, "MIN_ROWS", 1 << 30)
        single = built(name, sample)
        assert "multiply_panels" not in single.functions
        monkeypatch.setattr(attention, "MIN_ROWS", 1)
        monkeypatch.setattr(attention, "MIN_COLUMNS", 1)
        packed = built(name, sample).run()
        for binding, array in single.run().items():
            largest = float(np.abs(array).max())
            np.testing.assert_allclose(packed[binding], array, rtol=0, atol=1e-5 * largest)
