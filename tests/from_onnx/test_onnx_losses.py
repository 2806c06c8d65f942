"""`wgcc import --train --loss`: where classes of an output are, and which function it ends in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import wgcc_runtime
from wgcc.errors import WgError
from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.training_options import Training
from wgcc.lazy_numpy import Array

node = helper.make_node
CONV = node("Conv", ["x", "w"], ["z"])


def saved(
    path: Path, nodes: list[Any], x: list[int], shape: list[int], opset: int = 20, **held: Any
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, x)],
        [helper.make_tensor_value_info("y", 1, shape)],
        initializer=[numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )
    sets = [helper.make_opsetid("", opset)]
    (path / "m.onnx").write_bytes(
        helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString()
    )
    return path / "m.onnx"


def kernel(*shape: int) -> Array:
    found: Array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return found


# How an output of a convolution goes on, its shape, and the axis of its five classes.
SEGMENTATIONS = {
    "scores": ([node("Relu", ["z"], ["y"])], [2, 5, 4, 3], 1),
    "softmax": ([node("Softmax", ["z"], ["y"], axis=1)], [2, 5, 4, 3], 1),
    "softmax, moved": (
        [node("Softmax", ["z"], ["p"], axis=1), node("Transpose", ["p"], ["y"], perm=[0, 2, 3, 1])],
        [2, 4, 3, 5], 3,
    ),
    "moved, softmax": (
        [node("Transpose", ["z"], ["p"], perm=[0, 2, 1, 3]), node("Softmax", ["p"], ["y"], axis=2)],
        [2, 4, 5, 3], 2,
    ),
    "joined": ([node("Reshape", ["z", "joined"], ["y"])], [2, 5, 12], 1),
    "softmax, joined": (
        [node("Softmax", ["z"], ["p"], axis=1), node("Reshape", ["p", "joined"], ["y"])],
        [2, 5, 12], 1,
    ),
}  # fmt: skip


def cross_entropy(scores: Array, target: Array) -> float:
    """Of scores whose last axis has the classes."""
    total = np.log(np.exp(scores).sum(-1, keepdims=True))
    return float(-np.take_along_axis(scores - total, target[..., None], -1).mean())


@pytest.mark.parametrize("form", SEGMENTATIONS)
def test_classes_of_pixels(form: str, tmp_path: Path) -> None:
    """Each pixel has a class: those of images are along the axis of channels."""
    nodes, shape, axis = SEGMENTATIONS[form]
    path = saved(
        tmp_path, [CONV, *nodes], [2, 3, 4, 3], shape, w=kernel(5, 3, 1, 1), joined=[2, 5, 12]
    )
    found = convert_file(path, Wishes(training=Training("head")))
    imported = build(path, found)
    assert imported.differences[0].largest < 1e-5
    imported.compiled.write(tmp_path / "b", found.written.weights)
    x = np.random.default_rng(1).normal(size=(2, 3, 4, 3)).astype(np.float32)
    (y,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    scores = np.moveaxis(np.log(y) if "softmax" in form else y, axis, -1)
    target = np.random.default_rng(2).integers(0, 5, scores.shape[:-1])
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        result = model.eval(x=x, target=target)
        assert float(result["loss"]) == pytest.approx(cross_entropy(scores, target), rel=1e-4)
        assert float(result["accuracy"]) == pytest.approx((scores.argmax(-1) == target).mean())


def refused(path: Path, loss: str = "cross_entropy") -> str:
    with pytest.raises(WgError) as caught:
        convert_file(path, Wishes(training=Training("head", loss)))
    return str(caught.value)


def test_axes_that_have_no_classes(tmp_path: Path) -> None:
    product = node("MatMul", ["x", "w"], ["z"])
    path = saved(tmp_path, [product, node("Softmax", ["z"], ["y"], axis=0)], [2, 4], [2, 3],
                 w=kernel(4, 3))  # fmt: skip
    assert "`y` [2, 3] has its classes along axis 0" in refused(path)
    path = saved(tmp_path, [CONV, node("Softmax", ["z"], ["y"], axis=1)], [2, 3, 4, 3],
                 [2, 5, 4, 3], opset=11, w=kernel(5, 3, 1, 1))  # fmt: skip
    assert "it is not known which of its axes has the classes" in refused(path)


@pytest.mark.parametrize("loss", ["bce", "bce_logits"])
def test_a_loss_of_what_a_sigmoid_is_of(loss: str, tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["z"]), node("Sigmoid", ["z"], ["y"])]
    path = saved(tmp_path, nodes, [2, 4], [2, 3], w=kernel(4, 3) * 100)
    assert "`y` ends in a sigmoid" in refused(path) and "give --loss bce" in refused(path)
    found = convert_file(path, Wishes(training=Training("head", loss)))
    assert "= sigmoid(forward(x))" in found.written.text
    assert "bce_logits(y, target)" in found.written.text and "bce(" not in found.written.text
    imported = build(path, found)
    assert imported.differences[0].largest < 1e-5
    imported.compiled.write(tmp_path / "b", found.written.weights)
    x, z = np.ones((2, 4), np.float32), kernel(4, 3).sum(0) * 100
    target = np.repeat([z < 0], 2, 0).astype(np.float32)
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        before = float(model.train(x=x, target=target)["loss"])
        assert before == pytest.approx(np.abs(z).mean(), rel=1e-3)
        assert float(model.eval(x=x, target=target)["loss"]) < before
    plain = convert_file(path, Wishes(training=Training("head", "mse"))).written.text
    assert (
        "mse(y, target)" in plain and "(x: f32[batch, 4]) -> (y: f32[batch, 3]) = forward" in plain
    )
