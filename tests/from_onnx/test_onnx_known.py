"""ONNX operators whose operands are known, and outputs that nothing reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper, numpy_helper

from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.problems import NotImportable

node = helper.make_node


def saved(
    path: Path, nodes: list[Any], x: tuple[int, list[int]], held: dict[str, Any], opset: int = 17
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", *x)],
        [helper.make_tensor_value_info("y", 1, x[1] if opset < 10 else None)],
        initializer=[numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )
    sets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def imported(path: Path) -> str:
    """The bundle gives onnxruntime's numbers; its text."""
    found = convert_file(path, Wishes())
    compared = build(path, found)
    assert compared.compared_with == "onnxruntime"
    assert all(item.is_small and item.finite for item in compared.differences)
    return found.written.text


@pytest.mark.parametrize(
    ("shape", "ids", "axis"),
    [
        ((1, 8), (1, 5), 1),
        ((2, 8), (2, 8), 1),
        ((3, 4), (2, 3), 0),
        ((2, 3, 4), (1, 2, 4), -1),
        ((5,), (9,), 0),
    ],
)
def test_elements_gathered_from_a_table(
    shape: tuple[int, ...], ids: tuple[int, ...], axis: int, tmp_path: Path
) -> None:
    """Where ONNX's own reference fails, too: a table whose other axes are longer than the ids'."""
    size = shape[axis]
    places = np.random.default_rng(1).integers(-size, size, ids)
    held = {"table": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "ids": places}
    nodes = [
        node("GatherElements", ["table", "ids"], ["t"], axis=axis),
        node("Mul", ["t", "x"], ["y"]),
    ]
    imported(saved(tmp_path / "m.onnx", nodes, (1, list(ids)), held))


@pytest.mark.parametrize("ids", [np.array([[0, 9]]), np.array([[0], [1], [2]])])
def test_elements_that_are_not_there(ids: Any, tmp_path: Path) -> None:
    nodes = [
        node("GatherElements", ["table", "ids"], ["t"], axis=1),
        node("Mul", ["t", "x"], ["y"]),
    ]
    held = {"table": np.ones((2, 4), np.float32), "ids": ids}
    with pytest.raises(NotImportable) as caught:
        convert_file(saved(tmp_path / "m.onnx", nodes, (1, [1]), held), Wishes())
    assert "do not fit axis 1 of [2, 4]" in str(caught.value)


def test_onnxruntime_computes_what_the_reference_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("cannot reshape array of size 1 into shape (1,32)")

    monkeypatch.setattr(onnx.reference.ReferenceEvaluator, "run", fails)
    nodes = [node("Sin", ["table"], ["t"]), node("Mul", ["t", "x"], ["y"])]
    held = {"table": np.arange(20, dtype=np.float32)}
    path = saved(tmp_path / "m.onnx", nodes, (1, [20]), held)
    found = convert_file(path, Wishes())
    (table,) = found.written.weights.values()
    np.testing.assert_allclose(table, np.sin(np.arange(20)), atol=1e-6)


def test_no_text_of_python_is_shown(tmp_path: Path) -> None:
    """Indices that no one can compute with: the operator and its shapes are named."""
    nodes = [node("Gather", ["table", "ids"], ["t"]), node("Mul", ["t", "x"], ["y"])]
    held = {"table": np.ones((2, 4), np.float32), "ids": np.array([7])}
    with pytest.raises(NotImportable) as caught:
        convert_file(saved(tmp_path / "m.onnx", nodes, (1, [1]), held), Wishes())
    text = str(caught.value)
    assert "t: Gather" in text and "its operands [2, 4], [1] are known" in text
    assert "Error" not in text and "numpy" not in text


def test_sequences_are_refused_by_name(tmp_path: Path) -> None:
    """Of known tensors of different shapes, and as an output."""
    nodes = [
        node("SequenceConstruct", ["short", "long"], ["s"]),
        node("SequenceAt", ["s", "place"], ["t"]),
        node("Mul", ["t", "x"], ["y"]),
    ]
    held = {"short": np.ones(2, np.float32), "long": np.ones(3, np.float32), "place": np.array(0)}
    path = saved(tmp_path / "m.onnx", nodes, (1, [1]), held)
    with pytest.raises(NotImportable, match="its output `s` is a sequence of tensors of different"):
        convert_file(path, Wishes())
    model = onnx.load(path)
    model.graph.node[0].input[:] = ["short", "short"]
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", 1, [2]))
    onnx.save(model, path)
    with pytest.raises(NotImportable, match="s: output: it is no tensor, but of sequence_type"):
        convert_file(path, Wishes())


@pytest.mark.parametrize("opset", [7, 9, 10, 12])
@pytest.mark.parametrize("reads", [False, True])
def test_dropout_with_a_mask(opset: int, reads: bool, tmp_path: Path) -> None:
    nodes = [node("Dropout", ["x"], ["d", "mask"]), node("Neg", ["d"], ["n"])]
    if reads and opset >= 10:
        nodes.append(node("Cast", ["mask"], ["m"], to=1))
    source = "n" if not reads else "m" if opset >= 10 else "mask"
    nodes.append(node("Add", ["n", source], ["y"]))
    path = saved(tmp_path / "m.onnx", nodes, (1, [3, 4]), {}, opset)
    if reads:
        # onnxruntime has no mask for the older ones.
        assert "-x" in convert_file(path, Wishes()).written.text
    else:
        imported(path)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.int8, np.bool_, np.float32])
@pytest.mark.parametrize("is_known", [True, False])
def test_whole_numbers_are_placed(kind: Any, is_known: bool, tmp_path: Path) -> None:
    """As `pack_padded_sequence` inverts a permutation. Large ones are exact, too."""
    large = 2**31 - 3 if kind in (np.int64, np.int32) else 100
    held = {
        "base": np.zeros(5, kind),
        "values": np.array([1, 0, large, 3, 1], dtype=np.int64).astype(kind),
        "ids": np.array([2, 0, 4, 1, 3]),
        "five": np.array(5),
    }
    order = [] if is_known else [node("TopK", ["x", "k"], ["sorted", "ids_2"], axis=0)]
    held |= {} if is_known else {"k": np.array([5])}
    nodes = [
        *order,
        node("ScatterElements", ["base", "ids" if is_known else "ids_2", "values"], ["s"], axis=0),
        node("Cast", ["s"], ["c"], to=1),
        node("Mul", ["c", "x"], ["y"]),
    ]
    imported(saved(tmp_path / "m.onnx", nodes, (1, [5]), held))


def test_rows_of_whole_numbers_are_placed(tmp_path: Path) -> None:
    held = {
        "base": np.arange(12).reshape(4, 3),
        "ids": np.array([[2], [0]]),
        "values": np.array([[7, 8, 9], [4, 5, 6]]),
    }
    nodes = [
        node("Cast", ["x"], ["whole"], to=7),
        node("Add", ["base", "whole"], ["b"]),
        node("ScatterND", ["b", "ids", "values"], ["s"]),
        node("Cast", ["s"], ["y"], to=1),
    ]
    imported(saved(tmp_path / "m.onnx", nodes, (1, [4, 3]), held))
