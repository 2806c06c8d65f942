"""Weights of ONNX files, wherever they are stored: in nodes, branches, loops and functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cli_runs import run
from wgcc.from_onnx.convert import Converted, Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.training_options import Training

node = helper.make_node
ALL = Wishes(training=Training("all", "mse"))


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def saved(
    path: Path,
    nodes: list[Any],
    x: list[int],
    held: dict[str, Any],
    functions: Any = (),
    y: list[int] | None = None,
) -> Path:
    """The model that computes y of x."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, x)],
        [helper.make_tensor_value_info("y", 1, y)],
        initializer=[numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10, functions=functions)
    onnx.save(model, path)
    return path


def constants(held: dict[str, Any]) -> list[Any]:
    return [
        node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in held.items()
    ]


def imported(path: Path) -> Converted:
    found = convert_file(path, ALL)
    assert all(item.is_small and item.finite for item in build(path, found).differences)
    return found


OPERATORS: dict[str, tuple[list[Any], list[int], dict[str, Any]]] = {
    "a convolution of unequal strides": (
        [node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1])],
        [1, 3, 8, 6],
        {"w": random(4, 3, 1, 3), "b": random(4)},
    ),
    "a grouped convolution": (
        [node("Conv", ["x", "w"], ["y"], group=2)],
        [1, 4, 8],
        {"w": random(6, 2, 3)},
    ),
    "a transposed convolution": (
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])],
        [1, 3, 4, 4],
        {"w": random(3, 2, 2, 2)},
    ),
    "a linear layer": (
        [node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        [3, 5],
        {"w": random(4, 5), "b": random(4)},
    ),
    "a product with a vector": ([node("MatMul", ["x", "w"], ["y"])], [3, 5], {"w": random(5)}),
    "a gain": ([node("Mul", ["x", "w"], ["y"])], [3, 5], {"w": random(5)}),
    "a norm": (
        [node("LayerNormalization", ["x", "w", "b"], ["y"])],
        [3, 5],
        {"w": random(5), "b": random(5) + 1},
    ),
    "a recurrent layer": (
        [node("GRU", ["x", "w", "r", "b"], ["y"], hidden_size=3)],
        [5, 2, 4],
        {"w": random(1, 9, 4), "r": random(1, 9, 3), "b": random(1, 18)},
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_weights_in_nodes_are_those_of_initialisers(name: str, tmp_path: Path) -> None:
    nodes, shape, held = OPERATORS[name]
    stored = imported(saved(tmp_path / "m.onnx", nodes, shape, held)).written
    path = saved(tmp_path / "m.onnx", [*constants(held), *nodes], shape, {})
    in_nodes = imported(path).written
    assert in_nodes.text == stored.text and "frozen" not in stored.text
    assert in_nodes.weights.keys() == stored.weights.keys()
    for key, array in stored.weights.items():
        np.testing.assert_array_equal(in_nodes.weights[key], array)


def body(nodes: list[Any], output: str, held: dict[str, Any], inputs: list[Any]) -> Any:
    port = helper.make_tensor_value_info(output, 1, [3, 4])
    tensors = [numpy_helper.from_array(array, name) for name, array in held.items()]
    return helper.make_graph(nodes, "inner", inputs, [port], initializer=tensors)


@pytest.mark.parametrize("is_known", [True, False])
def test_weights_in_branches(is_known: bool, tmp_path: Path) -> None:
    """Both branches call theirs `w`; one is stored in a node, the other as an initialiser."""
    yes = body([node("MatMul", ["x", "w"], ["a"])], "a", {"w": random(4, 4)}, [])
    inner = [*constants({"w": random(4, 4) * 2}), node("MatMul", ["x", "w"], ["b"])]
    no = body(inner, "b", {}, [])
    held = {"flag": np.array(True), "limit": np.float32(0.5)}
    choice = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "limit"], ["c"])]
    nodes = [
        *([] if is_known else choice),
        node("If", ["flag" if is_known else "c"], ["y"], then_branch=yes, else_branch=no),
    ]
    found = imported(saved(tmp_path / "m.onnx", nodes, [3, 4], held))
    assert "frozen" not in found.written.text
    assert len(found.written.weights) == (1 if is_known else 2)


def test_weights_in_loops(tmp_path: Path) -> None:
    counter = helper.make_tensor_value_info("i", 7, [])
    going = helper.make_tensor_value_info("go", 9, [])
    state = helper.make_tensor_value_info("h", 1, [3, 4])
    nodes = [
        node("Identity", ["go"], ["go_on"]),
        *constants({"b": random(4)}),
        node("MatMul", ["h", "w"], ["p"]),
        node("Add", ["p", "b"], ["q"]),
        node("Tanh", ["q"], ["t"]),
    ]
    graph = body(nodes, "t", {"w": random(4, 4)}, [counter, going, state])
    graph.output.insert(0, helper.make_tensor_value_info("go_on", 9, []))
    loop = node("Loop", ["count", "", "x"], ["y"], body=graph)
    path = saved(tmp_path / "m.onnx", [loop], [3, 4], {"count": np.array(3)}, y=[3, 4])
    found = imported(path)
    assert "frozen" not in found.written.text
    assert sorted(array.size for array in found.written.weights.values()) == [4, 16]


def test_weights_in_functions_are_shared_by_all_calls(tmp_path: Path) -> None:
    inner = [*constants({"w": random(4, 4)}), node("MatMul", ["a", "w"], ["b"])]
    sets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Mix", ["a"], ["b"], inner, sets)
    nodes = [node("Mix", ["x"], ["h"], domain="own"), node("Mix", ["h"], ["y"], domain="own")]
    found = imported(saved(tmp_path / "m.onnx", nodes, [3, 4], {}, [function]))
    assert "frozen" not in found.written.text and len(found.written.weights) == 1


def test_what_training_all_leaves_as_it_is_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was computed from a weight is a constant."""
    nodes = [
        node("Exp", ["a"], ["decay"]),
        node("Mul", ["x", "decay"], ["h"]),
        node("MatMul", ["h", "w"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, [2, 20], {"a": random(20), "w": random(20, 3)})
    arguments = ("-o", str(tmp_path / "out"), "--train", "all", "--loss", "mse")
    code, _, said = run(capsys, "import", str(path), *arguments)
    assert code == 0 and "--train all leaves these as they are, as they are no weights: h\n" in said
