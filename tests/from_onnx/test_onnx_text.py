"""The text that `wgcc import` writes: layers by scopes, lists, names, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from adapters import ROOT
from wgcc.from_onnx.convert import Wishes, convert_file, convert_model
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.names import scopes_of
from wgcc.from_onnx.training_options import Training

MODELS = ROOT / "tests" / "onnx_models"
node = helper.make_node


def text_of(name: str) -> str:
    return convert_file(MODELS / f"{name}.onnx", Wishes()).written.text


def test_scopes_of_metadata_become_layers() -> None:
    """The newer exporter of PyTorch: names have no scopes, and rewritten nodes no metadata."""
    text = text_of("gpt_dynamo")
    assert "h[3]: H" in text and "for block in h {" in text
    assert text.count("layer ") == 2, "attention and a block, as from the older exporter"
    assert "chunk(c_attn(ln), 3, axis = 2)" in text


def test_names_of_functions() -> None:
    text = text_of("bert")
    assert "attn: AttentionBlock" in text and "norm_layer: LayerNorm" in text
    assert "layers[2]: Layer" in text and "split_out, split_out_2" in text_of("gpt")
    assert "attention_2" not in text and "norm_2" not in text
    for name in ("gpt", "gpt_dynamo", "bert"):
        assert "q = rearrange(" in text_of(name) and "attention(q, k, v" in text_of(name)


def test_scopes_of_nodes_without_any() -> None:
    def made(number: int, **props: str) -> Any:
        found = node("Relu", ["x"], [f"y{number}"], name=f"n{number}")
        for key, value in props.items():
            entry = found.metadata_props.add()
            entry.key, entry.value = f"pkg.torch.onnx.{key}" if key != "namespace" else key, value
        return found

    nodes = [
        made(0, name_scopes="['', 'h.0', 'h.0.attn', 'h.0.attn.q', 'linear']"),
        made(1),
        made(2, name_scopes="['', 'h.0', 'h.0.attn', 'view']"),
        made(3),
        made(4, namespace=": Net/h.1: Block/h.1.attn: Attention/view: aten.view.default"),
        made(5),
    ]
    found = list(scopes_of(nodes).values())
    assert found[1] == ("h.0", "attn") and found[3] == (), "as far as both neighbours agree"
    assert found[4] == ("h.1", "attn") and found[5] == ()


def test_numbered_modules_of_other_exporters_are_a_list(tmp_path: Path) -> None:
    nodes: list[Any] = []
    held: dict[str, Any] = {}
    for n in range(3):
        scope = f"encoder/layer_{n}"
        nodes += [
            node("MatMul", [f"x{n}", f"w{n}"], [f"a{n}"], name=f"{scope}/MatMul"),
            node("Tanh", [f"a{n}"], [f"b{n}"], name=f"{scope}/Tanh"),
            node("Add", [f"b{n}", f"x{n}"], [f"x{n + 1}"], name=f"{scope}/Add"),
        ]
        held[f"w{n}"] = np.eye(6, dtype=np.float32) * n
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of(nodes, {"x0": ["batch", 6]}, {"x3": ["batch", 6]}, held))
    found = convert_file(path, Wishes(sizes={"batch": 4}))
    assert "layers[3]: Layer" in found.written.text and "for block in layers" in found.written.text
    assert {f"encoder.layers.{n}.linear.w" for n in range(3)} == set(found.written.weights)
    assert build(path, found).differences[0].is_small


def model_of(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], held: dict[str, Any]
) -> bytes:
    ports = [
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in group.items()]
        for group in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", *ports, initializer=tensors)
    sets = [helper.make_opsetid("", 20)]
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString())


def test_sizes_that_the_file_states_elsewhere_are_numbers(tmp_path: Path) -> None:
    """Inputs have names for their sizes, but reshapes inside have the numbers of the export."""
    model = onnx.load(MODELS / "bert.onnx")
    for port in model.graph.input:
        for dim, name in zip(port.type.tensor_type.shape.dim, ("batch", "sequence"), strict=True):
            dim.dim_param = name
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    wishes = Wishes(sizes={"batch": 2, "sequence": 16}, training=Training("head"))
    text = convert_file(path, wishes).written.text
    assert "dim " not in text and "batch" not in text and "target: i32[2])" in text


def test_two_names_of_one_size() -> None:
    nodes = [
        node("Tanh", ["x"], ["a"], name="/m/Tanh"),
        node("Sin", ["a"], ["b"], name="/m/Sin"),
        node("Add", ["a", "b"], ["y"], name="/m/Add"),
    ]
    data = model_of(nodes, {"x": ["rows", "columns"]}, {"y": ["rows", "columns"]}, {})
    wanted = "f32[rows, columns]"
    for columns in (5, 4):
        sizes = {"rows": 4, "columns": columns}
        text = convert_model(
            onnx.load_from_string(data), "m.onnx", Wishes(sizes=sizes)
        ).written.text
        assert f"fn forward(x: {wanted}) -> {wanted}" in text
