"""`wgcc import model.onnx`: operators, models that PyTorch exported, training, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

import onnx_suite
import wgcc_runtime
from adapters import ROOT
from cli_runs import run
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.from_onnx import trace
from wgcc.from_onnx.convert import Converted, Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.problems import NotImportable
from wgcc.from_onnx.training_options import Training
from wgcc.syntax.layout import format_source

MODELS = ROOT / "tests" / "onnx_models"
RECORDED = json.loads((MODELS / "recorded.json").read_text())
NAMES = sorted(path.stem for path in MODELS.glob("*.onnx"))
# Of 905 tests of single operators.
LEAST_RIGHT = 855


def test_operators_of_the_onnx_suite() -> None:
    """On the twin, all of them: that takes about 45 s of one core."""
    verdicts = {case.name: onnx_suite.judge(case) for case in onnx_suite.cases()}
    wrong = {name: text for name, text in verdicts.items() if text.startswith("wrong")}
    assert not wrong
    right = [name for name, text in verdicts.items() if not text]
    assert len(verdicts) == 905 and len(right) >= LEAST_RIGHT


def converted(name: str, **wishes: Any) -> Converted:
    return convert_file(MODELS / f"{name}.onnx", Wishes(**wishes))


@pytest.mark.parametrize("name", NAMES)
def test_models_that_pytorch_exported(name: str, tmp_path: Path) -> None:
    """Outputs are those of onnxruntime and of PyTorch, gradients of the last layer PyTorch's."""
    facts = RECORDED[name.removesuffix("_dynamo")]
    head = converted(name, training=Training("head"))
    imported = build(MODELS / f"{name}.onnx", head)
    assert imported.compared_with == "onnxruntime"
    assert all(item.largest < 1e-4 for item in imported.differences)
    text = bytes(imported.files["model.wg"]).decode()
    assert format_source(Source("model.wg", text), Diagnostics()) == text
    imported.compiled.write(tmp_path, head.written.weights)
    shapes = {key: value.shape for key, value in head.traced.inputs.items()}
    inputs = {
        head.written.inputs[key]: np.reshape(facts["inputs"][key], shape)
        for key, shape in shapes.items()
    }
    with wgcc_runtime.load(tmp_path, device="wasm") as model:
        (logits,) = model.predict(**inputs).values()
        np.testing.assert_allclose(logits.reshape(-1), facts["logits"], atol=1e-4)
        before = model.params()
        found = model.train(**inputs, target=np.array(facts["target"]))
        np.testing.assert_allclose(found["loss"], facts["loss"], atol=1e-5)
        state, after = model.state(), model.params()
    trained = {key for key in after if not np.array_equal(after[key], before[key])}
    assert len(trained) == len(facts["gradients"])
    for key in trained:
        # The first moment of Adam is a tenth of the first gradient.
        gradient = 10 * state[f"opt/opt/exp_avg/{key}"]
        wanted = facts["gradients"]["weight" if key.endswith(".w") else "bias"]
        wanted = np.reshape(wanted, gradient.shape[::-1]).transpose()
        np.testing.assert_allclose(gradient, wanted, atol=1e-4)


def test_equal_modules_of_a_list_are_a_list() -> None:
    """PyTorch calls the parts of a list by its whole name: `/stages.0/stages.0.1/conv1/Conv`."""
    text = converted("resnet").written.text
    assert "/// stages.0/0\nlayer Part {" in text and "  parts[2]: Part\n" in text
    assert "for block in parts { relu_1 = block(relu_1) }" in text
    assert "part_0: Part2" in text and "part_1: Part3" in text


# By the name of a wheel: where its model is, its open size, and how many numbers it stores.
WHEELS = {
    "magika": ("magika/models/standard_v3_3/model.onnx", "unk__214", 784_471),
    "basic_pitch": ("basic_pitch/saved_models/icassp_2022/nmp.onnx", "unk__749", 35_736),
}


@pytest.mark.parametrize("name", WHEELS)
def test_real_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A classifier of files by their bytes, and a network that hears notes, from their wheels."""
    place, size, parameters = WHEELS[name]
    (wheel,) = (ROOT / ".cache" / "models").glob(f"{name}-*.whl")
    (tmp_path / "m.onnx").write_bytes(zipfile.ZipFile(wheel).read(place))
    folder = tmp_path / "out"
    arguments = ("-o", str(folder), "--set", f"{size}=1", "--json")
    code, out, error = run(capsys, "import", str(tmp_path / "m.onnx"), *arguments)
    assert code == 0, error
    assert max(json.loads(out)["differences"].values()) < 1e-4
    weights = load_file(folder / "weights.safetensors")
    assert sum(array.size for array in weights.values()) == parameters


def test_text_is_what_a_person_would_write() -> None:
    """Blocks by modules, equal ones as a list; what the exporter took apart is put together."""
    text = converted("gpt").written.text
    assert "h[3]: H" in text and "for block in h {" in text
    assert "c_fc: Linear[32, 128]\n" in text and "approximate = true)" in text
    assert text.count("layer ") == 2, "attention and a block"
    assert "LayerNorm[32]" in text
    text = converted("resnet").written.text
    assert "rearrange" in text and text.count("rearrange") == 1, "images stay channels-last"
    assert "Norm[" not in text and "_scale" not in text, "batch norm is folded into convolutions"
    assert "BatchNorm[4]" in converted("resnet", keeps_batch_norm=True).written.text
    assert "LSTM[6, 12](bidirectional = true)" in converted("lstm_dynamo").written.text


def test_weights_of_one_byte_stay_bytes(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    bytes_ = generator.integers(-128, 128, (16, 8)).astype(np.int8)
    held = {"w": bytes_, "s": generator.uniform(0.01, 0.02, 8).astype(np.float32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=1),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in held.items()]
    model = model_of(nodes, {"x": [4, 16]}, ["y"], initializer=tensors)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes())
    assert "frozen param" in found.written.text and ": i8[16, 8] ~ external" in found.written.text
    assert found.written.weights["w"].dtype == np.int8
    assert build(tmp_path / "m.onnx", found).differences[0].largest < 1e-4


def test_corrections_are_trained_alone(tmp_path: Path) -> None:
    found = converted("gpt", training=Training(lora=("*.attn.*",), rank=2))
    assert 'replace "h.*.attn.c_attn", "h.*.attn.c_proj" with Lora(rank = 2)' in found.written.text
    build(MODELS / "gpt.onnx", found).compiled.write(tmp_path, found.written.weights)
    ids = np.arange(32).reshape(2, 16)
    with wgcc_runtime.load(tmp_path, device="wasm") as model:
        before = model.params()
        losses = [float(model.train(ids=ids, target=ids)["loss"]) for _ in range(5)]
        after = model.params()
    assert losses[-1] < losses[0]
    changed = {name for name in after if not np.array_equal(after[name], before[name])}
    assert changed and all("lora_" in name for name in changed)


def test_three_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From an ONNX file to a trained bundle that predicts."""
    folder = str(tmp_path / "mine")
    code, out, error = run(
        capsys, "import", str(MODELS / "lstm.onnx"), "-o", folder, "--train", "head", "--json"
    )
    assert code == 0, error
    assert json.loads(out)["differences"]["logits"] < 1e-4
    generator = np.random.default_rng(1)
    np.savez(tmp_path / "d.npz", x=generator.normal(size=(8, 9, 6)), target=[0, 1, 2, 3] * 2)
    bundle = f"{folder}/bundle"
    code, _, error = run(
        capsys, "train", bundle, str(tmp_path / "d.npz"), "--steps", "5", "--device", "wasm"
    )
    assert code == 0, error
    np.savez(tmp_path / "x.npz", x=generator.normal(size=(2, 9, 6)))
    code, out, error = run(
        capsys, "run", bundle, "predict", "-i", str(tmp_path / "x.npz"), "--device", "wasm"
    )
    assert code == 0, error
    assert "logits" in out


def model_of(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **more: Any) -> Any:
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, 1, [None] * 2) for name in outputs]
    graph = helper.make_graph(nodes, "g", ports, results, **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def refused(path: Path, **wishes: Any) -> str:
    with pytest.raises(WgError) as caught:
        convert_file(path, Wishes(**wishes))
    return str(caught.value)


def test_everything_that_cannot_be_imported_is_listed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["x"], ["b"], name="fine"),
        helper.make_node("Multinomial", ["b"], ["c"], name="second"),
        helper.make_node("Own", ["c"], ["d"], name="third", domain="com.example"),
    ]
    model = model_of(nodes, {"x": [2, 3]}, ["d"])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NotImportable) as caught:
        convert_file(path, Wishes())
    assert [problem.node for problem in caught.value.problems] == ["first", "second", "third"]
    assert "first: NonZero (opset 20): the shape of its output" in str(caught.value)
    assert "third: com.example.Own (opset 1): ONNX has no operator" in str(caught.value)


def test_sizes(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of([node], {"x": ["batch", 3]}, ["y"]).SerializeToString())
    assert "these sizes are not fixed: batch (of `x`)" in refused(path)
    assert "--set bach: no input has a size of this name" in refused(path, sizes={"bach": 2})
    found = convert_file(path, Wishes(sizes={"batch": 4}))
    assert "dim batch = 4" in found.written.text and "x: f32[batch, 3]" in found.written.text


def with_data_outside(path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../secret"
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = model_of([node], {"x": [3]}, ["y"], initializer=[tensor])
    path.write_bytes(model.SerializeToString())


def with_huge_constant(path: Path) -> None:
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 20]), "s")
    node = helper.make_node("ConstantOfShape", ["s"], ["y"])
    path.write_bytes(model_of([node], {}, ["y"], initializer=[shape]).SerializeToString())


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "holds no graph"),
    "text": (lambda path: path.write_bytes(b"hello" * 99), "cannot be read as an ONNX model"),
    "cut": (
        lambda path: path.write_bytes((MODELS / "lstm.onnx").read_bytes()[:9000]),
        "cannot be read as an ONNX model",
    ),
    "outside": (with_data_outside, "`w` is stored in `../secret`, outside the model's folder"),
    "huge": (with_huge_constant, "too large to be computed now"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    make, message = DAMAGES[name]
    make(tmp_path / "m.onnx")
    assert message in refused(tmp_path / "m.onnx")


def test_shared_weights_stay_one(tmp_path: Path) -> None:
    """Rounds of a loop that read one matrix train one matrix."""
    matrix = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "w"], ["z"]),
            helper.make_node("Tanh", ["z"], ["h2"]),
            helper.make_node("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", 1, [2, 4]),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h2", 1, [2, 4]),
        ],
    )
    rounds = numpy_helper.from_array(np.array(3), "n")
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    model = model_of([node], {"x": [2, 4]}, ["y"], initializer=[matrix, rounds])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes(training=Training("all", "mse")))
    assert {name: array.size for name, array in found.written.weights.items()} == {
        "loop.linear.w": 16
    }
    assert build(tmp_path / "m.onnx", found).differences[0].largest < 1e-5


def test_names_of_a_file_are_no_code(tmp_path: Path) -> None:
    """Names with line breaks, names of sizes, keywords and the model's own names."""
    nodes = [
        helper.make_node("Relu", ["target"], ["a"], name="t\n    y = 7.0"),
        helper.make_node("Exp", ["a"], ["forward"], name="m\n/b"),
        helper.make_node("Add", ["forward", "batch"], ["return"]),
    ]
    inputs = {"target": ["batch", 3], "batch": ["batch", 3]}
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, inputs, ["return"]).SerializeToString())
    found = convert_file(path, Wishes(sizes={"batch": 2}, training=Training(None)))
    assert "7.0" not in found.written.text.replace("// t     y = 7.0", "")
    assert build(path, found).differences[0].largest < 1e-5


def test_endless_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that double their work, 8 million nodes in all; the limit is reached early here."""
    assert trace.MOST_STEPS == 100_000
    monkeypatch.setattr(trace, "MOST_STEPS", 5_000)

    def function(number: int) -> Any:
        inner = "Relu" if number == 0 else f"f{number - 1}"
        domain = "" if number == 0 else "own"
        calls = [
            helper.make_node(inner, ["x"], ["a"], domain=domain),
            helper.make_node(inner, ["a"], ["y"], domain=domain),
        ]
        sets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
        return helper.make_function("own", f"f{number}", ["x"], ["y"], calls, sets)

    node = helper.make_node("f22", ["x"], ["y"], domain="own")
    model = model_of([node], {"x": [2, 3]}, ["y"])
    model.functions.extend(function(number) for number in range(23))
    model.opset_import.append(helper.make_opsetid("own", 1))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert "the model has over 5,000 nodes" in refused(tmp_path / "m.onnx")


def test_the_last_layer_is_its_matrix_with_its_bias(tmp_path: Path) -> None:
    held = {"w": np.ones((4, 3), np.float32), "c": np.ones((2, 3), np.float32)}
    tensors = [numpy_helper.from_array(array, name) for name, array in held.items()]
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"])
    model = model_of([node], {"x": [2, 4]}, ["y"], initializer=tensors)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes(training=Training("head")))
    assert 'minimize loss with opt over "w", "c"' in found.written.text


def test_nothing_is_written_after_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "m.onnx", tmp_path / "out"
    path.write_bytes(b"hello")
    assert run(capsys, "import", str(path), "-o", str(folder))[0] == 1
    assert not folder.exists()
    model = str(MODELS / "lstm.onnx")
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    code, _, error = run(capsys, "import", model, "-o", str(folder))
    assert code == 2 and "is there already" in error
    assert [item.name for item in folder.iterdir()] == ["mine.txt"]
    code, _, error = run(capsys, "import", model, "-o", str(tmp_path / "x"), "--train", "heat.w")
    assert code == 1 and "no parameter has a name like this; did you mean head.w?" in error
    assert run(capsys, "import", model)[0] == 2


def test_without_the_package_a_message_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "from wgcc.cli import main\n"
        f"sys.exit(main(['import', {str(MODELS / 'lstm.onnx')!r}, '-o', '/nowhere/x']))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 1
    assert "pip install 'wgcc[onnx]'" in found.stderr and "Traceback" not in found.stderr


def test_saved_inputs_are_used(tmp_path: Path) -> None:
    """Collections of models keep inputs beside the file."""
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (tmp_path / "m.onnx").write_bytes((MODELS / "lstm.onnx").read_bytes())
    array = numpy_helper.from_array(np.ones((2, 9, 6), np.float32), "x")
    (folder / "input_0.pb").write_bytes(array.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes())
    assert build(tmp_path / "m.onnx", found).comparison.inputs == "its own inputs"
    assert onnx.__version__
