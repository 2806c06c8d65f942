"""`wgcc import` of quantised models and of floats with fewer bits: a word says what becomes f32."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_suite
from cli_runs import run
from wgcc.from_onnx.convert import Wishes, convert_file, convert_model

node = helper.make_node


def saved(path: Path, nodes: list[Any], kind: int, held: dict[str, Any]) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", kind, [4, 16])],
        [helper.make_tensor_value_info("y", kind, [4, 8])], initializer=tensors,
    )  # fmt: skip
    sets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    (path / "m.onnx").write_bytes(model.SerializeToString())
    return path / "m.onnx"


def imported(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> tuple[str, str]:
    """What the command says, and the README that it writes."""
    folder = file.parent / "out"
    code, out, error = run(capsys, "import", str(file), "-o", str(folder), *more)
    assert code == 0, error
    return out + error, (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("kind", "dtype", "short"),
    [(TensorProto.FLOAT16, np.float16, "f16"), (TensorProto.BFLOAT16, ml_dtypes.bfloat16, "bf16"),
     (TensorProto.DOUBLE, np.float64, "f64")],
)  # fmt: skip
def test_floats_of_other_sizes(
    kind: int, dtype: Any, short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(3)
    held = {
        "w": generator.normal(size=(16, 8)).astype(dtype),
        "b": generator.normal(size=8).astype(dtype),
    }
    nodes = [node("MatMul", ["x", "w"], ["z"]), node("Add", ["z", "b"], ["y"])]
    said, readme = imported(capsys, saved(tmp_path, nodes, kind, held))
    for text in (said, readme):
        assert f"{short} weights become f32: w, b" in text
        assert f"{short} inputs become f32: x" in text
        assert f"{short} outputs become f32: y" in text
    assert "param" not in (tmp_path / "out" / "model.wg").read_text().replace("Linear", "")
    assert "Linear[16, 8]" in (tmp_path / "out" / "model.wg").read_text()


def test_quantised_nodes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(4)
    held = {
        "w": generator.integers(-128, 128, (16, 8)).astype(np.int8),
        "s": generator.uniform(0.01, 0.02, 8).astype(np.float32),
        "b": generator.integers(-99, 99, 8).astype(np.int32), "bs": np.float32(0.1),
        "xs": np.float32(0.05), "xz": np.uint8(128),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"], name="round"),
        node("DequantizeLinear", ["q", "xs", "xz"], ["x2"], name="back"),
        node("DequantizeLinear", ["w", "s"], ["f"], axis=1, name="weights"),
        node("DequantizeLinear", ["b", "bs"], ["c"], name="bias"),
        node("MatMul", ["x2", "f"], ["z"]),
        node("Add", ["z", "c"], ["y"]),
    ]
    said, readme = imported(capsys, saved(tmp_path, nodes, TensorProto.FLOAT, held))
    for text in (said, readme):
        assert "as products load them: DequantizeLinear weights" in text
        assert "computed in f32: QuantizeLinear round, DequantizeLinear back" in text
        assert "are stored as f32: DequantizeLinear bias" in text


def pooled(kind: str, opset: int, size: int, attributes: dict[str, Any]) -> tuple[Any, Any]:
    """What onnxruntime computes, and what the imported text does."""
    pool = node(kind, ["x"], ["y"], ceil_mode=1, **attributes)
    graph = helper.make_graph(
        [pool], "g", [helper.make_tensor_value_info("x", 1, [1, 2, size])],
        [helper.make_tensor_value_info("y", 1, None)],
    )  # fmt: skip
    sets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    x = np.random.default_rng(size).normal(size=(1, 2, size)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = onnx_suite._by_numpy(convert_model(model, "m.onnx", Wishes()), {"x": x})
    return session.run(None, {"x": x})[0], found["y"]


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_of_ceil_mode(kind: str) -> None:
    """Windows that begin in the padding are left out, although ONNX's shape rules count them."""
    for opset, size, k, stride, pads, dilation, counted in product(
        (12, 22), (6, 7), (2, 3), (2, 3), ([0, 0], [1, 1], [0, 1], [1, 0]), (1, 2), (0, 1)
    ):
        old = opset < 18 and (kind == "LpPool" or (kind == "AveragePool" and dilation > 1))
        if old or (counted and kind != "AveragePool"):
            continue
        given: dict[str, Any] = {"kernel_shape": [k], "strides": [stride], "pads": pads}
        given |= {"dilations": [dilation]} if dilation > 1 else {}
        given |= {"count_include_pad": counted} if kind == "AveragePool" else {}
        wanted, found = pooled(kind, opset, size, given)
        assert found.shape == wanted.shape, (opset, size, given)
        np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=f"{opset} {size} {given}")


def test_a_condition_of_run_time_chooses_between_results(tmp_path: Path) -> None:
    def branch(name: str, operator: str) -> Any:
        inner = [node("Relu", ["x"], [f"{name}0"]), node(operator, [f"{name}0", "w"], [name])]
        return helper.make_graph(
            inner, name, [], [helper.make_tensor_value_info(name, 1, [4, 16])]
        )  # fmt: skip

    nodes = [
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Greater", ["top", "limit"], ["is_large"]),
        node(
            "If",
            ["is_large"],
            ["z"],
            then_branch=branch("a", "Add"),
            else_branch=branch("b", "Sub"),
        ),
        node("Slice", ["z", "zero", "eight", "one"], ["y"]),
    ]
    held = {
        "w": np.ones(16, np.float32), "limit": np.float32(2.0),
        "zero": np.array([0]), "eight": np.array([8]), "one": np.array([1]),
    }  # fmt: skip
    found = convert_file(saved(tmp_path, nodes, TensorProto.FLOAT, held), Wishes())
    assert "where(" in found.written.text
    for factor, offset in ((0.1, -1.0), (10.0, 1.0)):
        x = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32) * factor
        result = onnx_suite._by_numpy(found, {"x": x})["y"]
        np.testing.assert_allclose(result, np.maximum(x, 0)[:, :8] + offset, atol=1e-6)


def test_options_without_effect_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(
        tmp_path, [node("MatMul", ["x", "w"], ["y"])], TensorProto.FLOAT,
        {"w": np.ones((16, 8), np.float32)},
    )  # fmt: skip
    out = ("-o", str(tmp_path / "out"))
    for options, wanted in {
        ("--loss", "mse"): "--loss needs --train or --lora",
        ("--loss", "cross_entropy"): "--loss needs --train or --lora",
        ("--loss-output", "y"): "--loss-output needs --train or --lora",
        ("--rank", "8"): "--rank needs --lora",
        ("--rank", "4", "--train", "all"): "--rank needs --lora",
    }.items():
        code, _, error = run(capsys, "import", str(file), *out, *options)
        assert code == 2 and wanted in error, options
        assert not (tmp_path / "out").exists()
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"")
    (tmp_path / "m.wg").write_text("wg 1")
    code, _, error = run(capsys, "import", str(weights), str(tmp_path / "m.wg"), "--rank", "8")
    assert code == 2 and "--rank is for models" in error
    said, _ = imported(capsys, file, "--keep-batchnorm")
    assert "--keep-batchnorm has no effect" in said


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resizing_before_opset_11(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There was one rule for places, which later opsets call asymmetric."""
    scales = numpy_helper.from_array(np.array([1, 1, 2, 1.5], np.float32), "scales")
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, *size])
        for name, size in (("x", (4, 6)), ("y", (8, 9)))
    ]
    graph = helper.make_graph(
        [node("Resize", ["x", "scales"], ["y"], mode=mode)], "g", ports[:1], ports[1:], [scales]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    said, _ = imported(capsys, tmp_path / "m.onnx")
    # An import whose numbers are others is refused.
    assert "from onnxruntime" in said
