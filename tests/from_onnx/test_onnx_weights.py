"""What `wgcc import` takes for weights: they keep their names and shapes, and can be trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted, Wishes, convert_file, convert_model
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.training_options import Training
from wgcc.importing.onnx_weights import FOLDED, KIND, SIGNATURE, named_weights

node = helper.make_node
rng = np.random.default_rng(5)


def random(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def imported(
    folder: Path, nodes: list[Any], inputs: dict[str, Any], held: dict[str, Any], **said: Any
) -> Converted:
    """The model that computes y of inputs; the bundle gives onnxruntime's numbers."""
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", ports, outputs, initializer=tensors)
    for name, props in said.get("props", {}).items():
        port = helper.make_tensor_value_info(name, 1, list(held[name].shape))
        for key, value in props.items():
            port.metadata_props.add(key=key, value=value)
        graph.value_info.append(port)
    for key, value in said.get("graph", {}).items():
        graph.metadata_props.add(key=key, value=value)
    sets = [helper.make_opsetid("", said.get("opset", 20))]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    model.producer_name = said.get("producer", "")
    path = folder / "m.onnx"
    onnx.save(model, path)
    found = convert_file(path, Wishes(training=Training("all", "mse")))
    assert all(item.is_small for item in build(path, found).differences)
    return found


def test_parts_and_shapes_of_weights_are_trained(tmp_path: Path) -> None:
    """A token before the others, positions up to the length, relative positions, a gain."""
    held = {
        "cls": random(1, 1, 6), "to": np.array([2, 1, 6]), "wpe": random(9, 6),
        "rows": np.arange(5), "gain": random(6), "axes": np.array([0, 1]),
        "table": random(7, 6), "ids": np.array([[0, 1, 1, 3, 0]]),
    }  # fmt: skip
    nodes = [
        node("Expand", ["cls", "to"], ["token"]),
        node("Concat", ["token", "x"], ["a"], axis=1),
        node("Gather", ["wpe", "rows"], ["positions"]),
        node("Add", ["a", "positions"], ["b"]),
        node("Unsqueeze", ["gain", "axes"], ["wide"]),
        node("Mul", ["b", "wide"], ["c"]),
        node("Gather", ["table", "ids"], ["bias"]),
        node("Add", ["c", "bias"], ["y"]),
    ]
    found = imported(tmp_path, nodes, {"x": [2, 4, 6]}, held)
    text = found.written.text
    assert "param cls: f32[1, 1, 6]" in text and "expand(cls, [2, 1, 6])" in text
    assert "param wpe: f32[9, 6]" in text and "wpe[: 5]" in text
    assert "param gain: f32[1, 1, 6]" in text
    assert "embedding: Embedding[7, 6]" in text, "rows that are read twice stay one"
    frozen = [line for line in text.splitlines() if "frozen" in line]
    assert [line.split(":")[0].split()[-1] for line in frozen] == ["table"], "the ids alone"


def test_a_weight_that_two_nodes_reshape_stays_one(tmp_path: Path) -> None:
    held = {"w": random(4), "column": np.array([4, 1])}
    nodes = [
        node("Reshape", ["w", "column"], ["a"]),
        node("Mul", ["x", "a"], ["b"]),
        node("Mul", ["b", "a"], ["c"]),
        node("Add", ["c", "w"], ["y"]),
    ]
    found = imported(tmp_path, nodes, {"x": [4, 4]}, held)
    assert found.written.text.count("param w: f32[4] ~ external") == 1
    assert set(found.written.weights) == {"w"}


def test_what_pytorch_calls_no_parameter_is_not_trained(tmp_path: Path) -> None:
    """Masks, tables and buffers lie beside the weights; a learned number is one of them."""
    held = {
        "net.w": random(6), "net.mask": random(6), "zeros": random(6), "val_1": random(1, 6),
        "net.scale": np.float32(1.5), "val_2": np.float32(0.5),
    }  # fmt: skip
    names = ["x", *held]
    nodes = [
        node("Mul" if number % 2 else "Add", [f"h{number}" if number else "x", name],
             ["y" if number == len(held) - 1 else f"h{number + 1}"])
        for number, name in enumerate(names[1:])
    ]  # fmt: skip
    props = {
        "net.w": {KIND: "PARAMETER"}, "net.mask": {KIND: "BUFFER"},
        "net.scale": {KIND: "PARAMETER"}, "val_1": {FOLDED: "['net.bias', 'val_0']"},
    }  # fmt: skip
    signature = "\n# inputs\np_net_bias: PARAMETER target='net.bias'\n"
    found = imported(
        tmp_path, nodes, {"x": [3, 6]}, held, props=props, graph={SIGNATURE: signature}
    )
    lines = [line.strip() for line in found.written.text.splitlines() if " ~ external" in line]
    assert lines == [
        "param w: f32[6] ~ external",
        "frozen param mask: f32[6] ~ external",
        "frozen param zeros_param: f32[6] ~ external",
        "param net_bias: f32[1, 6] ~ external",
        "param scale: f32 ~ external",
    ]
    assert " 0.5" in found.written.text


def test_hostile_words_about_weights(tmp_path: Path) -> None:
    props = {"w": {KIND: "PARAMETER"}, "v": {FOLDED: "[" * 9000}}
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])]
    held = {"w": random(6), "v": random(6)}
    text = imported(tmp_path, nodes, {"x": [2, 6]}, held, props=props).written.text
    assert "frozen param v" in text


def test_gains_that_were_stored_once_train_apart(tmp_path: Path) -> None:
    """PyTorch's exporters store all vectors of ones once, though no two norms share theirs."""
    held = {"one": np.ones(6, np.float32), "zero": np.zeros(6, np.float32), "w": random(6, 6)}
    nodes = [
        node("LayerNormalization", ["x", "one", "zero"], ["a"], name="/n1/LN"),
        node("MatMul", ["a", "w"], ["b"], name="/MatMul"),
        node("LayerNormalization", ["b", "one", "zero"], ["y"], name="/n2/LN"),
    ]
    inputs = {"x": [2, 6]}
    text = imported(tmp_path, nodes, inputs, held, producer="pytorch").written.text
    assert "n1: LayerNorm[6]" in text and "n2: LayerNorm[6]" in text
    text = imported(tmp_path, nodes, inputs, held, producer="other").written.text
    assert text.count("~ external") == 2, "others mean what they say"


def test_patches_stay_stored_as_they_are(tmp_path: Path) -> None:
    """An image as a sequence: no axis is moved but those of the input."""
    held = {"w": random(8, 3, 2, 2), "flat": np.array([2, 8, 9]), "out": random(8, 5)}
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[2, 2]),
        node("Reshape", ["a", "flat"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1]),
        node("MatMul", ["c", "out"], ["y"]),
    ]
    text = imported(tmp_path, nodes, {"x": [2, 3, 6, 6]}, held).written.text
    predict = text.partition("entry train")[0]
    assert predict.count("rearrange(") == 1 and "[batch, 9, 8])" in predict


def test_names_for_what_is_used_once_or_taken_apart(tmp_path: Path) -> None:
    """`x * sigmoid(x)` and RMS norm, of a sequence that is stored with its channels first."""
    held = {"w": random(6), "two": np.float32(2), "eps": np.float32(1e-6), "one": np.float32(1)}
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("Sigmoid", ["t"], ["s"]),
        node("Mul", ["t", "s"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        node("Pow", ["b", "two"], ["c"]),
        node("ReduceMean", ["c"], ["d"], axes=[-1]),
        node("Add", ["d", "eps"], ["e"]),
        node("Sqrt", ["e"], ["f"]),
        node("Div", ["one", "f"], ["g"]),
        node("Mul", ["b", "g"], ["h"]),
        node("Mul", ["w", "h"], ["y"]),
    ]
    text = imported(tmp_path, nodes, {"x": [2, 4, 6]}, held, opset=17).written.text
    assert "norm_layer: RMSNorm[6](eps = 1e-06)" in text or "RMSNorm[6](eps = 1e-06)" in text
    assert "(silu(x))" in text and "rearrange" not in text.partition("entry train")[0]


def test_signals_of_pytorch_have_no_axis_for_parts(tmp_path: Path) -> None:
    held = {"step": np.int64(4), "window": np.hanning(8).astype(np.float32)}
    nodes = [node("STFT", ["x", "step", "window"], ["y"])]
    assert "stack(" in imported(tmp_path, nodes, {"x": [2, 24]}, held, opset=17).written.text


def test_states_of_zeros_are_no_weights(tmp_path: Path) -> None:
    held = {
        "w": random(1, 12, 4), "r": random(1, 12, 3), "b": random(1, 24),
        "h": np.zeros((1, 2, 3), np.float32),
    }  # fmt: skip
    nodes = [node("LSTM", ["x", "w", "r", "b", "", "h", "h"], ["y"], hidden_size=3)]
    text = imported(tmp_path, nodes, {"x": [5, 2, 4]}, held).written.text
    assert "~ external" not in text and "zeros(f32[1, 2, 3])" in text


def test_weights_may_be_called_what_training_entries_call_their_values(tmp_path: Path) -> None:
    held = {"loss": random(6), "accuracy": random(6), "m.y": random(6)}
    nodes = [
        node("Add", ["x", "loss"], ["a"]),
        node("Mul", ["a", "accuracy"], ["b"]),
        node("Add", ["b", "m.y"], ["y"]),
    ]
    found = imported(tmp_path, nodes, {"x": [2, 6]}, held)
    assert set(found.written.weights) == {"loss_param", "accuracy_param", "y_param"}


def test_transposed_weights_are_found_by_what_the_exporter_says() -> None:
    """For weights alone: a square matrix has to be known as [inputs, outputs]."""
    held = {"val_3": random(6, 6), "fc.bias": random(6)}
    nodes = [node("MatMul", ["x", "val_3"], ["a"], name="n"), node("Add", ["a", "fc.bias"], ["y"])]
    graph = helper.make_graph(nodes, "g", [], [])
    for name, key, value in (("fc.bias", KIND, "PARAMETER"), ("val_3", FOLDED, "['fc.weight']")):
        graph.value_info.add(name=name).metadata_props.add(key=key, value=value)
    signature = "p_fc_weight: PARAMETER target='fc.weight'"
    graph.metadata_props.add(key=SIGNATURE, value=signature)
    found = named_weights(graph, held)
    assert set(found.arrays) == {"fc.kernel", "fc.bias"}
    assert found.origin.inputs_first == {"fc.kernel"}


@pytest.mark.parametrize("which", ["all", "head"])
def test_nothing_to_train(which: str) -> None:
    ports = [[helper.make_tensor_value_info(name, 1, [2, 6])] for name in "xy"]
    graph = helper.make_graph([node("Relu", ["x"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(WgError, match=f"--train {which}: the model has no parameters"):
        convert_model(model, "m.onnx", Wishes(training=Training(which, "mse")))
