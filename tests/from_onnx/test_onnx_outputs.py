"""ONNX outputs that are constants, scattered reductions, n-grams, and inputs that hold NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import wgcc_runtime
from wgcc.compiler import compile_file
from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted, Wishes, convert_model
from wgcc.from_onnx.problems import NotImportable
from wgcc.from_onnx.training_options import Training

FLOAT, INT64, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE
Array = np.ndarray[Any, Any]


def model_of(
    nodes: list[Any], inputs: dict[str, tuple[int, list[int]]], outputs: dict[str, int],
    held: dict[str, Array] | None = None,
) -> Any:  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (held or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(converted: Converted, folder: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    """What the bundle computes, by ONNX's names."""
    written = converted.written
    (folder / "model.wg").write_text(written.text, encoding="utf-8")
    compile_file(folder / "model.wg").write(folder / "bundle", written.weights)
    with wgcc_runtime.load(folder / "bundle", device="wasm") as model:
        results = model.predict(**{written.inputs[name]: array for name, array in inputs.items()})
    return {name: results[own] for name, own in written.outputs.items()}


def both(model: Any, folder: Path, inputs: dict[str, Array], **wishes: Any) -> None:
    """wgcc's outputs are onnxruntime's."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in model.graph.output]
    right = dict(zip(names, session.run(names, inputs), strict=True))
    got = run(convert_model(model, "m.onnx", Wishes(**wishes)), folder, inputs)
    for name in names:
        np.testing.assert_allclose(got[name], right[name], rtol=1e-5, atol=1e-6, err_msg=name)


X = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "constant",
    [np.arange(3, dtype=np.int64), np.float64([0.25, 1e-3]), np.uint64([7]), np.bool_([True])],
    ids=lambda array: array.dtype.name,
)
def test_constant_outputs(constant: Array, tmp_path: Path) -> None:
    """Alone, and beside an output that is computed."""
    kind = helper.np_dtype_to_tensor_dtype(constant.dtype)
    nodes = [helper.make_node("Identity", ["c"], ["y"]), helper.make_node("Relu", ["x"], ["z"])]
    inputs = {"x": (FLOAT, [2, 3])}
    both(model_of(nodes, inputs, {"y": kind, "z": FLOAT}, {"c": constant}), tmp_path, {"x": X})
    both(model_of(nodes[:1], inputs, {"y": kind}, {"c": constant}), tmp_path, {"x": X})


def test_shape_of_an_input_is_a_constant(tmp_path: Path) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["y"]), helper.make_node("Size", ["x"], ["n"])]
    both(model_of(nodes, {"x": (FLOAT, [2, 3])}, {"y": INT64, "n": INT64}), tmp_path, {"x": X})


def test_constant_outputs_beyond_32_bits_are_refused() -> None:
    nodes = [helper.make_node("Identity", ["c"], ["y"])]
    model = model_of(nodes, {"x": (FLOAT, [2, 3])}, {"y": INT64}, {"c": np.array([1 << 40])})
    with pytest.raises(NotImportable, match="more than 32 bits"):
        convert_model(model, "m.onnx", Wishes())


@pytest.mark.parametrize("reduction", ["mul", "max", "min"])
@pytest.mark.parametrize("known", [True, False])
def test_scattered_reductions(reduction: str, known: bool, tmp_path: Path) -> None:
    """Places that occur several times, once and never; in the file, or in an input."""
    generator = np.random.default_rng(2)
    x, updates = (generator.normal(size=(n, 3)).astype(np.float32) for n in (5, 4))
    ids = np.array([[0, 1, 4], [0, 1, 2], [0, 3, -1], [2, 1, 0]], np.int64)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction=reduction)
    inputs = {"x": (FLOAT, [5, 3]), "u": (FLOAT, [4, 3])}
    given = {"x": x, "u": updates}
    if not known:
        inputs["i"], given["i"] = (INT64, [4, 3]), ids
    model = model_of([node], inputs, {"y": FLOAT}, {"i": ids} if known else {})
    both(model, tmp_path, given)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams(mode: str, tmp_path: Path) -> None:
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=3,
        max_skip_count=2, ngram_counts=[0, 3, 7], ngram_indexes=[5, 0, 1, 3, 2, 4, 6],
        pool_int64s=[1, 2, 3, 1, 2, 2, 2, 1, 2, 3, 2, 1, 1], weights=[0.5, 2, 3, 1, 0.25, 4, 7],
    )  # fmt: skip
    ids = np.random.default_rng(4).integers(1, 4, (3, 11)).astype(np.int64)
    model = model_of([node], {"x": (INT64, [3, 11])}, {"y": FLOAT})
    both(model, tmp_path, {"x": ids})


def attention() -> Any:
    nodes = [
        helper.make_node("Unsqueeze", ["mask", "one"], ["m"]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["t"]),
        helper.make_node("Softmax", ["t"], ["y"]),
    ]
    inputs = {"q": (FLOAT, [2, 4, 3]), "k": (FLOAT, [2, 3, 5]), "mask": (FLOAT, [2, 5])}
    return model_of(nodes, inputs, {"y": FLOAT}, {"one": np.array([1])})


def test_masks_may_be_infinite(tmp_path: Path) -> None:
    """An input that is added to scores is marked in the text, and no other."""
    generator = np.random.default_rng(5)
    q, k = (generator.normal(size=shape).astype(np.float32) for shape in ((2, 4, 3), (2, 3, 5)))
    mask = np.where(generator.random((2, 5)) < 0.4, -np.inf, 0).astype(np.float32)
    assert np.isinf(mask).any()
    both(attention(), tmp_path, {"q": q, "k": k, "mask": mask})
    text = convert_model(attention(), "m.onnx", Wishes()).written.text
    assert "mask: f32?[batch, 5]" in text and "q: f32[batch, 4, 3]" in text


def test_marks_are_those_of_entries_when_it_trains() -> None:
    wishes = Wishes(training=Training("all"), any_floats=["q"])
    nodes = [helper.make_node("MatMul", ["q", "w"], ["y"])]
    held = {"w": np.ones((3, 2), np.float32)}
    model = model_of(nodes, {"q": (FLOAT, [4, 3])}, {"y": FLOAT}, held)
    text = convert_model(model, "m.onnx", wishes).written.text
    assert "fn forward(q: f32[batch, 3])" in text
    assert "entry predict(q: f32?[batch, 3])" in text and "entry train(q: f32?[batch, 3]" in text


def test_tests_for_nan_get_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("IsNaN", ["x"], ["n"]),
        helper.make_node("Where", ["n", "zero", "x"], ["y"]),
        helper.make_node("IsInf", ["x"], ["i"]),
    ]
    held = {"zero": np.float32(0)}
    outputs = {"y": FLOAT, "i": TensorProto.BOOL}
    x = np.float32([[np.nan, 1, -np.inf], [np.inf, 0, 3]])
    both(model_of(nodes, {"x": (FLOAT, [2, 3])}, outputs, held), tmp_path, {"x": x})


def test_unknown_input_of_any_floats_is_refused() -> None:
    with pytest.raises(WgError, match=r"--any-float p: no input .* there are: q, k, mask"):
        convert_model(attention(), "m.onnx", Wishes(any_floats=["p"]))
