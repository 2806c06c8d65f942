"""`wgcc export --to onnx`: every op by its samples, whole models, and refusals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from adapters import ROOT
from cli_runs import MODEL, run
from op_samples import Array, build, input_arrays, reference_of
from wgcc.errors import WgError
from wgcc.ir.graph import Graph
from wgcc.ops import OPS, Op
from wgcc.ops.registry import Sample
from wgcc.to_onnx.export import export_entry
from wgcc.to_onnx.rules import RULES

# What onnxruntime itself cannot do: some ops of u32, and whole numbers divided by zero.
NOT_RUN = ("NOT_IMPLEMENTED", "by zero", "out of data bounds", "GatherElements")


def run_onnx(model: Any, inputs: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    return [np.asarray(array) for array in session.run(None, inputs)]


def judge(op: Op, sample: Sample) -> str:
    """right, refused, or not run."""
    node = build(op, sample)[1]
    if any(value.dtype == "f16" for value in (*node.inputs, *node.outputs)):
        return "f16"
    graph = Graph("e", inputs=node.inputs, nodes=(node,), outputs={"y": node.outputs[0]})
    try:
        model = export_entry(SimpleNamespace(entries={"e": graph}), "e", {})  # type: ignore[arg-type]
    except WgError as error:
        assert "cannot be exported" in str(error)
        return "refused"
    arrays = input_arrays(op, sample, np.float32)
    given = {value.name: np.asarray(a) for value, a in zip(node.inputs, arrays, strict=True)}
    try:
        (found,) = run_onnx(model, given)
    except Exception as error:
        assert any(text in str(error) for text in NOT_RUN), (op.name, sample)
        return "not run"
    wanted = reference_of(op, sample, arrays)[0]
    assert found.shape == wanted.shape, (op.name, sample)
    wide = found.astype(np.float64), wanted.astype(np.float64)
    assert np.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True), (op.name, sample)
    return "right"


def test_every_op_gives_its_reference() -> None:
    samples = [(op, sample) for op in OPS.values() if op.name in RULES for sample in op.samples]
    found = Counter(judge(op, sample) for op, sample in samples)
    assert found["right"] >= 990 and found["refused"] <= 33 and found["not run"] <= 27


@pytest.mark.parametrize("name", ["resnet", "bert", "gpt"])
def test_there_and_back(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that was imported computes the same after its export."""
    original = ROOT / "tests" / "onnx_models" / f"{name}.onnx"
    code, _, error = run(capsys, "import", str(original), "-o", str(tmp_path / "m"))
    assert code == 0, error
    file = tmp_path / "again.onnx"
    code, _, error = run(capsys, "export", str(tmp_path / "m" / "bundle"), "-o", str(file))
    assert code == 0 and "opset 20" in error, error
    models = onnx.load(original), onnx.load(file)
    ports = [port.name for port in models[1].graph.input]
    assert ports == [port.name for port in models[0].graph.input]
    generator = np.random.default_rng(5)
    first, second = {}, {}
    for port in models[0].graph.input:
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        is_float = port.type.tensor_type.elem_type == 1
        drawn = generator.normal(size=shape) if is_float else generator.integers(0, 2, shape)
        first[port.name] = drawn.astype(np.float32 if is_float else np.int64)
        second[port.name] = drawn.astype(np.float32 if is_float else np.int32)
    wanted, found = run_onnx(models[0], first)[0], run_onnx(models[1], second)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.wg").write_text(MODEL)
    bundle, out = str(tmp_path / "b"), tmp_path / "x.onnx"
    assert run(capsys, "build", str(tmp_path / "m.wg"), "-o", bundle)[0] == 0
    code, _, error = run(capsys, "export", bundle, "-o", str(out), "--entry", "train")
    assert code == 1 and "entry train changes parameters or state" in error
    code, _, error = run(capsys, "export", bundle, "-o", str(out), "--entry", "nothing")
    assert code == 1 and "there is no entry nothing: the bundle has train, predict" in error
    assert not out.exists()
    assert run(capsys, "export", bundle, "-o", str(out))[0] == 0
    assert onnx.load(out).producer_name == "wgcc"
