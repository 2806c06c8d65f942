"""`wgcc import --train`: other classes than those of the file, and losses of classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_suite
import wgcc_runtime
from adapters import ROOT
from cli_runs import run
from wgcc.errors import WgError
from wgcc.from_onnx.compare import compared_numbers
from wgcc.from_onnx.convert import Converted, Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.training_options import Classes, Training
from wgcc.lazy_numpy import Array

MODELS = ROOT / "tests" / "onnx_models"
HEAD = Training("head")


def saved(path: Path, nodes: list[Any], outputs: dict[str, list[int]], **held: Array) -> Path:
    """A model of `x: f32[2, 4]`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 4])],
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in outputs.items()],
        initializer=[numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    sets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def written_softmax(keep: int, axis: int = 1) -> list[Any]:
    """As exporters of JAX and TensorFlow write it: with sums that keep their axis, or reshaped."""
    shape = "column" if axis == 1 else "row"
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"]),
        helper.make_node("ReduceMax", ["z", "axes"], ["m"], keepdims=keep),
        *([] if keep else [helper.make_node("Reshape", ["m", shape], ["m2"])]),
        helper.make_node("Sub", ["z", "m" if keep else "m2"], ["s"]),
        helper.make_node("Exp", ["s"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axes"], ["t"], keepdims=keep),
        *([] if keep else [helper.make_node("Reshape", ["t", shape], ["t2"])]),
        helper.make_node("Div", ["e", "t" if keep else "t2"], ["p"]),
    ]
    return nodes


def softmax_file(path: Path, keep: int, axis: int = 1) -> Path:
    return saved(
        path,
        written_softmax(keep, axis),
        {"p": [2, 3]},
        w=np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32) * 200,
        axes=np.array([axis]),
        column=np.array([-1, 1]),
        row=np.array([1, -1]),
    )


@pytest.mark.parametrize("keep", [0, 1])
def test_a_loss_of_probabilities_is_one_of_their_logits(keep: int, tmp_path: Path) -> None:
    """A class of probability 0 is learned, too: there its logarithm has no gradient."""
    path = softmax_file(tmp_path / "m.onnx", keep)
    found = convert_file(path, Wishes(training=HEAD))
    assert "= softmax(forward(x))" in found.written.text
    assert "cross_entropy(y, target)" in found.written.text and "exp(" not in found.written.text
    imported = build(path, found)
    assert imported.differences[0].largest < 1e-5
    imported.compiled.write(tmp_path / "b", found.written.weights)
    x = np.ones((2, 4), np.float32)
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        p = model.predict(x=x)["p"]
        worst = int(p[0].argmin())
        assert p[0, worst] == 0
        before = float(model.eval(x=x, target=[worst, worst])["loss"])
        assert 90 < before < 5000
        assert float(model.train(x=x, target=[worst, worst])["loss"]) == before
        assert float(model.eval(x=x, target=[worst, worst])["loss"]) < before


def test_quotients_that_are_no_softmax_of_rows(tmp_path: Path) -> None:
    text = convert_file(softmax_file(tmp_path / "m.onnx", 1, axis=0), Wishes()).written.text
    assert "softmax(linear(x), axis = 0)" in text
    nodes = written_softmax(1)
    nodes[-1] = helper.make_node("Div", ["e", "z"], ["p"])
    held = {"w": np.ones((4, 3), np.float32), "axes": np.array([1])}
    text = convert_file(saved(tmp_path / "n.onnx", nodes, {"p": [2, 3]}, **held), Wishes()).written
    assert "softmax" not in text.text


def test_several_outputs_of_which_one_is_trained(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"]),
        helper.make_node("Relu", ["x"], ["r"]),
    ]
    w = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    path = saved(tmp_path / "m.onnx", nodes, {"r": [2, 4], "p": [2, 3]}, w=w)
    found = convert_file(path, Wishes(training=Training("head", output="p")))
    assert "return y[0], softmax(y[1])" in found.written.text
    assert max(item.largest for item in build(path, found).differences) < 1e-6


def matrix_of(found: Converted) -> Array:
    """That of the layer which `entry train` trains."""
    (line,) = (line for line in found.written.text.splitlines() if "minimize" in line)
    layer = line.split('"')[1].removesuffix(".*")
    return found.written.weights[f"{layer}.w"]


@pytest.mark.parametrize("name", ["bert", "gpt", "lstm_dynamo", "mobilenet"])
def test_classes_beside_and_in_place_of_the_old(name: str) -> None:
    """The old ones stay as they are, new ones beside them begin as their mean, others at zero."""

    def imported(classes: Classes | None) -> Converted:
        return convert_file(MODELS / f"{name}.onnx", Wishes(training=HEAD, classes=classes))

    old = matrix_of(imported(None))
    found = imported(Classes(2, keeps_old=True))
    new, width = matrix_of(found), old.shape[1]
    assert [value.shape[-1] for value in found.traced.outputs.values()] == [width + 2]
    np.testing.assert_array_equal(new[:, :width], old)
    np.testing.assert_allclose(new[:, width:].T, [old.mean(axis=1)] * 2, atol=1e-6)
    alone = matrix_of(imported(Classes(5, keeps_old=False)))
    assert alone.shape == (old.shape[0], 5) and not alone.any()
    if name == "lstm_dynamo":
        assert build(MODELS / f"{name}.onnx", found).differences[0].largest < 1e-4


def refused(path: Path, classes: Classes) -> str:
    with pytest.raises(WgError) as caught:
        convert_file(path, Wishes(training=HEAD, classes=classes))
    return str(caught.value)


def test_models_without_a_layer_of_classes(tmp_path: Path) -> None:
    w = np.ones((4, 4), np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"y": [2, 4]})
    assert "--classes 3: the last layer must be a product" in refused(path, Classes(3, False))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("MatMul", ["z", "w"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"y": [2, 4]}, w=w)
    assert "--more-classes 1: `w` of the last layer is used elsewhere" in refused(
        path, Classes(1, True)
    )


@pytest.mark.parametrize("keeps_old", [True, False])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
def test_a_number_for_each_class_after_the_product(
    kind: str, keeps_old: bool, tmp_path: Path
) -> None:
    """Old classes keep their scores; a layer of new ones alone has no score yet."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node(kind, ["z", "c"], ["y"]),
    ]
    w, c = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 2, 6], np.float32)
    path = saved(tmp_path / "m.onnx", nodes, {"y": [2, 3]}, w=w, c=c)
    wishes = Wishes(training=HEAD, classes=Classes(2, keeps_old))
    found = convert_file(path, wishes)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    y = onnx_suite._by_numpy(found, {"x": x})["y"]
    scores = {"Add": x @ w + c, "Sub": x @ w - c, "Mul": x @ w * c, "Div": x @ w / c}[kind]
    if keeps_old:
        np.testing.assert_allclose(y[:, :3], scores, rtol=1e-5)
        assert y.shape == (2, 5) and (y[:, 3] == y[:, 4]).all()
    else:
        held = [array.reshape(-1)[0] for array in found.written.weights.values() if array.size == 2]
        assert not y.any() and held in ([], [0.0], [1.0])
        assert held != [0.0] or kind in ("Add", "Sub")


def test_classes_of_two_layers(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "v"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    held = {name: np.ones((4, 3), np.float32) for name in "wv"}
    path = saved(tmp_path / "m.onnx", nodes, {"y": [2, 3]}, **held)
    wanted = "--more-classes 1: the classes come from two layers, `w` and `v`"
    assert refused(path, Classes(1, True)) == wanted


def test_classes_after_a_label_and_before_a_fixed_shape(tmp_path: Path) -> None:
    """The first output may be the number of the class; a stated shape may not fit any more."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"]),
        helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
        helper.make_node("Reshape", ["z", "shape"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 4])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [2]),
            helper.make_tensor_value_info("scores", 1, [2, 3]),
        ],
        initializer=[numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
    )
    shape = graph.initializer.add()
    for sizes, is_possible in (([2, -1], True), ([2, 3], False)):
        shape.CopyFrom(numpy_helper.from_array(np.array(sizes), "shape"))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        if is_possible:
            wishes = Wishes(training=HEAD, classes=Classes(2, keeps_old=True))
            found = convert_file(path, wishes)
            assert found.traced.outputs["scores"].shape == (2, 5)
        else:
            text = refused(path, Classes(2, keeps_old=True))
            assert "--more-classes 2: `scores` fixes the old number of classes: it reshapes" in text


def test_options_of_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, folder = str(MODELS / "lstm.onnx"), str(tmp_path / "x")
    for options, message in (
        (("--classes", "3"), "--classes 3 needs --train"),
        (("--lora", "*", "--more-classes", "3"), "--more-classes 3 needs --train"),
        (("--train", "head", "--loss", "mse", "--classes", "3"), "with cross_entropy"),
        (("--train", "head", "--classes", "3", "--more-classes", "1"), "give --classes or"),
        (("--train", "head", "--classes", "0"), "0 is not in the range"),
        (("--lr", "0.1"), "--lr needs --train or --lora"),
        (("--train", "head", "--lr", "0"), "0.0 is not in the range"),
    ):
        code, _, error = run(capsys, "import", model, "-o", folder, *options)
        assert code == 2 and message in error, error
    code, _, error = run(
        capsys, "import", model, "-o", folder, "--train", "head", "--more-classes", "2",
        "--lr", "3e-3",
    )  # fmt: skip
    assert code == 0, error
    assert "adamw { lr = 0.003;" in (tmp_path / "x" / "model.wg").read_text()
    assert "data.npz has the arrays x, target, with" in (tmp_path / "x" / "README.md").read_text()
    np.savez(tmp_path / "d.npz", x=np.zeros((4, 9, 6)), target=[4, 5, 4, 5])
    code, _, error = run(
        capsys, "train", f"{folder}/bundle", str(tmp_path / "d.npz"), "--steps", "2",
        "--held-out", "0.5", "--device", "wasm",
    )  # fmt: skip
    assert code == 0 and "2 of 4 rows are held out" in error


def test_codes_are_drawn_from_the_table_that_they_are_compared_with(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["codes", "two"], ["column"]),
        helper.make_node("Equal", ["column", "table"], ["same"]),
        helper.make_node("Cast", ["same"], ["y"], to=1),
    ]
    held = {"two": np.array([2]), "table": np.arange(5, 60, dtype=np.int32).reshape(1, 1, -1)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("codes", TensorProto.INT32, [2, 9])],
        [helper.make_tensor_value_info("y", 1, [2, 9, 55])],
        initializer=[numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes())
    assert compared_numbers(found.traced) == {"codes": (5, 59)}
    assert build(tmp_path / "m.onnx", found).differences[0].scale == 1


def test_inputs_that_are_called_like_what_training_writes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"]),
        helper.make_node("Add", ["z", "y"], ["a"]),
        helper.make_node("Add", ["a", "loss"], ["b"]),
        helper.make_node("Add", ["b", "eval"], ["out"]),
    ]
    names = ("x", "y", "loss", "eval")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, 1, [2, 4]) for name in names],
        [helper.make_tensor_value_info("out", 1, [2, 4])],
        initializer=[numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes(training=HEAD))
    assert build(tmp_path / "m.onnx", found).differences[0].largest < 1e-6
