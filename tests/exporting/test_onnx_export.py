"""`wgcc export`: every op by its samples, whole models, and refusals."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file, save_file

from adapters import ROOT
from cli_runs import MODEL, run
from op_samples import Array, build, input_arrays, reference_of
from torch_exports import MODELS, Case
from wgcc.errors import WgError
from wgcc.exporting.compositions import COMPOSITIONS
from wgcc.ir.graph import Graph
from wgcc.ops import OPS, Op
from wgcc.ops.registry import Sample
from wgcc.to_onnx.export import export_entry

# What onnxruntime itself cannot do: some ops of u32, and whole numbers divided by zero.
# Gradients that use what attention saved: their samples are drawn without it.
OF_ANOTHER = {"attention_grad_q", "attention_grad_kv", "attention_grad_mask"}
REFUSED = {
    "accumulate", "stats", "wgsl", "attention_grad_stats_q", "attention_stats", "merge_ids",
    "order_ids", "pack", "random", "remat_barrier", "resize_weight",
    "state_ends", "state_grad_channels", "state_grad_states", "state_output", "state_scan",
    "sum_in_order", "sum_squares",
}  # fmt: skip
COMPOSED = sorted(COMPOSITIONS.keys() | {"add_along", "avg_pool", "cross_entropy", "gather_grad"})
NOT_RUN = ("NOT_IMPLEMENTED", "by zero", "out of data bounds", "GatherElements")


def run_onnx(model: Any, inputs: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    return [np.asarray(array) for array in session.run(None, inputs)]


def by_reference(op: Op, sample: Sample, model: Any, given: dict[str, Array], y: Array) -> None:
    (found,) = ReferenceEvaluator(model).run(None, given)
    wide = np.asarray(found, np.float64), y.astype(np.float64)
    assert np.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True), (op.name, sample)


def judge(op: Op, sample: Sample, reference: bool = False) -> str:
    """right, refused, or not run; with `reference`, by ONNX's own evaluator, too."""
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
    if reference:
        by_reference(op, sample, model, given, reference_of(op, sample, arrays)[0])
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
    """Refused are random numbers, parts of optimizers, functions in WGSL and what passes make."""
    found: dict[str, Counter[str]] = {}
    for op in OPS.values():
        for sample in () if op.name in OF_ANOTHER else op.samples:
            found.setdefault(op.name, Counter())[judge(op, sample)] += 1
    total = sum(found.values(), Counter())
    assert total["right"] >= 1220 and total["not run"] <= 24
    refused = {name for name, counts in found.items() if counts["refused"]}
    assert all(set(found[name]) <= {"refused", "f16"} for name in refused)
    assert refused == REFUSED | {name for name in OPS if name.endswith("_update")} - {
        "window_update"
    }


@pytest.mark.parametrize("name", COMPOSED)
def test_ops_that_onnx_does_not_have(name: str) -> None:
    """By ONNX's own evaluator, too, which is slow."""
    samples = [
        s for s in OPS[name].samples if np.prod(build(OPS[name], s)[1].outputs[0].shape) < 600
    ]
    assert samples and all(judge(OPS[name], s, reference=True) == "right" for s in samples[:4])


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


def test_loops_gradients_and_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scan` both ways, `selective_scan`, `attention` with an offset, a loss and its gradient."""
    case, bundle, file = Case(MODELS["everything"]), str(tmp_path / "b"), tmp_path / "e.onnx"
    assert run(capsys, "build", str(case.path), "-o", bundle)[0] == 0
    save_file(case.weights(), tmp_path / "w.safetensors")
    weights = ("--weights", str(tmp_path / "w.safetensors"))
    code, _, error = run(capsys, "export", bundle, "-o", str(file), *weights)
    assert code == 0 and "slope: differs by at most" in error, error
    model, wanted = onnx.load(file), case.outputs()
    assert Counter(node.op_type for node in model.graph.node)["Scan"] >= 7
    results = [run_onnx(model, case.inputs()), ReferenceEvaluator(model).run(None, case.inputs())]
    for found in results:
        for array, right in zip(found, wanted.values(), strict=True):
            np.testing.assert_allclose(array, right, rtol=1e-4, atol=1e-5)


def test_modules_of_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of a module, and its state dict. What it computes was compared with PyTorch's."""
    (tmp_path / "m.wg").write_text(MODEL)
    bundle, out = str(tmp_path / "b"), tmp_path / "net.py"
    assert run(capsys, "build", str(tmp_path / "m.wg"), "-o", bundle)[0] == 0
    code, _, error = run(capsys, "export", bundle, "--to", "torch", "-o", str(out))
    assert code == 0, error
    text = out.read_text()
    ast.parse(text)
    assert "class Net(nn.Module):" in text
    assert "        self.f_w = nn.Parameter(torch.zeros((2, 3), dtype=torch.float32))\n" in text
    assert "torch.tanh(" in text and "x @ self.f_w" in text
    assert text.endswith("}\n") and 'return {"y": ' in text
    held = load_file(tmp_path / "net.safetensors")
    assert {name: array.shape for name, array in held.items()} == {
        "f_w": (2, 3), "f_b": (3,), "g_w": (3, 1), "g_b": (1,),
    }  # fmt: skip
    code, _, error = run(capsys, "export", bundle, "--to", "torch", "-o", str(tmp_path / "net.txt"))
    assert code == 2 and "is no .py file" in error


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
    (tmp_path / "empty").mkdir()
    code, _, error = run(capsys, "export", str(tmp_path / "empty"), "-o", str(out))
    assert code == 1 and "plan.json" in error and "internal error" not in error
