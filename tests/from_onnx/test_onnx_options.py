"""`wgcc import MODEL.onnx`: sizes, fixed inputs, and what the output says of the comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cli_runs import run
from wgcc.errors import WgError
from wgcc.from_onnx.convert import Wishes, convert_file

node = helper.make_node
Ports = dict[str, tuple[int, list[Any]]]


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def saved(
    path: Path,
    nodes: list[Any],
    inputs: Ports,
    held: dict[str, Any] | None = None,
    opset: int = 17,
    outputs: tuple[str, ...] = ("y",),
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *port) for name, port in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        initializer=[
            numpy_helper.from_array(np.asarray(array), name) for name, array in (held or {}).items()
        ],
    )
    sets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def imported(capsys: Any, path: Path, *options: str) -> tuple[str, str, str]:
    """What is said, the README and the text."""
    folder = path.parent / "out"
    code, _, said = run(capsys, "import", str(path), "-o", str(folder), *options)
    assert code == 0, said
    return said, (folder / "README.md").read_text(), (folder / "model.wg").read_text()


def refused(capsys: Any, path: Path, *options: str) -> str:
    code, _, said = run(capsys, "import", str(path), "-o", str(path.parent / "no"), *options)
    assert code == 1 and not (path.parent / "no").exists()
    return said


def linear(path: Path) -> Path:
    nodes = [node("Gemm", ["x", "w", "b"], ["y"])]
    return saved(path, nodes, {"x": (1, [2, 4])}, {"w": random(4, 3), "b": random(3)})


def classifier(path: Path, wrong: bool = False) -> Path:
    """A body whose import can be made wrong, and a head."""
    nodes = [
        node("Gemm", ["x", "w"], ["h"]),
        node("Sin" if wrong else "Tanh", ["h"], ["t"]),
        node("Gemm", ["t", "v", "b"], ["z"]),
        node("Softmax", ["z"], ["y"]),
    ]
    held = {"w": random(4, 5), "v": random(5, 7), "b": random(7)}
    return saved(path, nodes, {"x": (1, [2, 4])}, held)


def test_new_classes_are_compared_with_random_numbers_in_their_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = classifier(tmp_path / "m.onnx")
    said, readme, _ = imported(capsys, path, "--train", "head", "--classes", "3")
    assert "compared with random numbers in it" in said + readme
    assert "(largest number 0.333)" not in said and "shows little" not in said
    assert "compared with random numbers in it" in readme
    from safetensors.numpy import load_file

    weights = load_file(tmp_path / "out" / "weights.safetensors")
    assert not weights["linear_2.w"].any() and not weights["linear_2.b"].any()


def test_a_wrong_body_below_new_classes_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from wgcc.from_onnx.rules import RULES

    monkeypatch.setitem(RULES, ("", "Tanh"), RULES["", "Sin"])
    path = classifier(tmp_path / "m.onnx")
    said = refused(capsys, path, "--train", "head", "--classes", "3")
    assert "differs from onnxruntime: `y` by" in said


def test_no_comparison_is_said_where_there_was_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, readme, _ = imported(capsys, linear(tmp_path / "m.onnx"), "--no-compare")
    assert "not compared with the original: --no-compare was given" in said
    assert "It was not compared with the original" in readme
    assert "Compared with" not in readme and "differs" not in said


def test_json_says_null_for_what_was_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = linear(tmp_path / "m.onnx")
    arguments = ("-o", str(tmp_path / "out"), "--no-compare", "--json")
    code, out, _ = run(capsys, "import", str(path), *arguments)
    found = json.loads(out)
    assert code == 0 and found["comparedWith"] is None and found["differences"] == {}
    assert found["notes"] == ["--no-compare was given"]


def test_outputs_that_show_nothing_or_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NaN everywhere, in a part, one number everywhere, and what no input changes."""
    nodes = [
        node("Sqrt", ["low"], ["nan"]),
        node("Mul", ["x", "nan"], ["bad"]),
        node("Log", ["x"], ["part"]),
        node("Mul", ["x", "zero"], ["flat"]),
        node("Exp", ["table"], ["same"]),
        node("Neg", ["x"], ["good"]),
        node("Abs", ["x"], ["size"]),
        node("Neg", ["size"], ["below"]),
        node("Sub", ["below", "one"], ["low"]),
    ]
    nodes = nodes[6:] + nodes[:6]
    held = {"zero": np.float32(0), "table": random(9), "one": np.float32(1)}
    outputs = ("bad", "part", "flat", "same", "good")
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [4, 8])}, held, outputs=outputs)
    said, readme, _ = imported(capsys, path)
    lines = {line.partition(":")[0]: line for line in said.splitlines()}
    assert lines["bad"].startswith("bad: not compared: every number of the original is NaN")
    assert "of 32 numbers are NaN or infinite" in lines["part"]
    assert "every number of it is" in lines["flat"] and "shows little" in lines["flat"]
    assert "does not depend on the inputs" in lines["same"]
    assert lines["good"].endswith(")")
    assert "| `bad` | – | – | every number of the original is NaN" in readme


def test_a_readme_claims_no_comparison_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("Abs", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Log", ["b"], ["y"])]
    said, readme, _ = imported(capsys, saved(tmp_path / "m.onnx", nodes, {"x": (1, [4])}))
    assert "y: not compared" in said
    assert "nothing was compared:" in readme and "Compared with" not in readme


def test_inputs_to_compare_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = linear(tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.full((2, 4), 1000.0))
    said, readme, _ = imported(capsys, path, "--inputs", str(tmp_path / "in.npz"))
    assert "on the inputs of in.npz" in said and "on the inputs of in.npz" in readme
    largest = float(np.abs(1000 * random(4, 3).sum(0) + random(3)).max())
    assert f"(largest number {largest:.3g})" in said
    for arrays, reason in (
        ({"z": np.ones((2, 4))}, "has no array `x`; it has z"),
        ({"x": np.ones((3, 4))}, "`x` is [3, 4], but the input is [2, 4]"),
        ({"x": np.ones((2, 4)), "z": np.ones(1)}, "no input is called z"),
        ({"x": np.full((2, 4), "a")}, "has elements of"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays)
        assert reason in refused(capsys, path, "--inputs", str(tmp_path / "bad.npz"))


def noisy(path: Path) -> Path:
    """A VAE: the code is drawn."""
    nodes = [
        node("Gemm", ["x", "w"], ["mean"]),
        node("RandomNormalLike", ["mean"], ["eps"], scale=0.5, mean=2.0),
        node("Add", ["mean", "eps"], ["z"]),
        node("RandomUniform", [], ["u"], shape=[2, 3], low=-1.0, high=3.0),
        node("Mul", ["z", "u"], ["y"]),
    ]
    return saved(path, nodes, {"x": (1, [2, 4])}, {"w": random(4, 3)})


def test_random_numbers_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import wgcc_runtime

    said, readme, text = imported(capsys, noisy(tmp_path / "m.onnx"))
    assert "0.5 * randn(f32[2, 3]) + 2.0" in text and "4.0 * rand(f32[2, 3]) - 1.0" in text
    assert "were given to both as inputs" in said and "were given to both as inputs" in readme
    with wgcc_runtime.load(tmp_path / "out" / "bundle", device="wasm") as model:
        first, second = (model.predict(x=np.ones((2, 4)))["y"] for _ in range(2))
    assert not np.array_equal(first, second)


def test_drawn_numbers_in_a_branch_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = helper.make_tensor_value_info("z", 1, [2, 4])
    yes = helper.make_graph([node("RandomNormalLike", ["x"], ["z"])], "yes", [], [port])
    no = helper.make_graph([node("Neg", ["x"], ["z"])], "no", [], [port])
    nodes = [node("If", ["flag"], ["y"], then_branch=yes, else_branch=no)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [2, 4])}, {"flag": np.array(True)})
    said, readme, _ = imported(capsys, path)
    assert "not compared with the original: it draws random numbers inside" in said
    assert "Compared with" not in readme


def test_drawn_numbers_beside_new_classes_and_given_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("RandomNormalLike", ["x"], ["eps"]),
        node("Add", ["x", "eps"], ["h"]),
        node("Gemm", ["h", "w"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [2, 4])}, {"w": random(4, 3)})
    np.savez(tmp_path / "in.npz", x=random(2, 4))
    options = ("--train", "head", "--classes", "5", "--inputs", str(tmp_path / "in.npz"))
    said, _, _ = imported(capsys, path, *options)
    assert "random numbers in it; the random numbers that it draws were given" in said


def rates(path: Path) -> Path:
    """Only one branch fits the length of x."""

    def side(name: str, rows: int) -> Any:
        held = [numpy_helper.from_array(np.array([rows, 32]), f"{name}_shape")]
        inner = [
            node("Reshape", ["x", f"{name}_shape"], [f"{name}_r"]),
            node("ReduceMean", [f"{name}_r"], [f"{name}_y"], keepdims=0),
        ]
        port = helper.make_tensor_value_info(f"{name}_y", 1, [])
        return helper.make_graph(inner, name, [], [port], initializer=held)

    nodes = [
        node("Equal", ["sr", "rate"], ["is_16"]),
        node("If", ["is_16"], ["y"], then_branch=side("a", 18), else_branch=side("b", 9)),
    ]
    return saved(path, nodes, {"x": (1, [576]), "sr": (7, [])}, {"rate": np.array(16000)})


def test_an_input_that_is_fixed_chooses_the_branch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rates(tmp_path / "m.onnx")
    said = refused(capsys, path)
    assert "it reshapes [576], 576 elements, to [9, 32], 288" in said
    assert "if its condition is known: --input sr=NUMBER" in said
    said, readme, text = imported(capsys, path, "--input", "sr=16000")
    assert "predict(x: f32[576])" in text and "where" not in text
    assert "- the input `sr` is fixed: 16000" in readme and "differs by at most" in said


def test_fixed_inputs_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rates(tmp_path / "m.onnx")
    assert "no input is called so; they are x, sr" in refused(capsys, path, "--input", "sx=1")
    assert "it has whole numbers" in refused(capsys, path, "--input", "sr=1.5")
    assert "it has 576 elements [576], but 2 are given" in refused(capsys, path, "--input", "x=1,2")
    code, _, said = run(capsys, "import", str(path), "-o", str(tmp_path / "o"), "--input", "sr")
    assert code == 2 and "NAME=NUMBER" in said


def test_sizes_without_a_name_are_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("GlobalAveragePool", ["x"], ["p"]), node("Flatten", ["p"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [1, 3, "?", "?"])})
    found = convert_file(path, Wishes({"x_2": 4, "x_3": 6}))
    assert found.traced.inputs["x"].shape == (1, 3, 4, 6)


def test_sizes_are_named_as_the_file_or_the_language_does(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "z"], ["y"])]
    ports: Ports = {"x": (1, ["Dim.0", "a.b"]), "z": (1, ["Dim.0", 1])}
    path = saved(tmp_path / "m.onnx", nodes, ports)
    for names in (("Dim.0", "a.b"), ("Dim_0", "a_b"), ("Dim.0", "a_b")):
        found = convert_file(path, Wishes(dict(zip(names, (2, 3), strict=True))))
        assert found.traced.inputs["x"].shape == (2, 3)
    with pytest.raises(WgError, match=r"Dim_0 \(of `x`, there `Dim\.0`\)"):
        convert_file(path, Wishes())


def test_two_names_that_are_one_word_are_two_sizes(tmp_path: Path) -> None:
    nodes = [node("Concat", ["x", "z"], ["y"], axis=0)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["a.b"]), "z": (1, ["a_b"])})
    found = convert_file(path, Wishes({"a.b": 2, "a_b_2": 3}))
    assert found.traced.outputs["y"].shape == (5,)


@pytest.mark.parametrize(("kernel", "wanted"), [(1, 1), (5, 8), (40, 64)])
def test_suggested_sizes_work(kernel: int, wanted: int, tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"])]
    held = {"w": random(2, 1, kernel)}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["batch", 1, "frames"])}, held)
    with pytest.raises(WgError, match=f"--set batch=1 --set frames={wanted}$"):
        convert_file(path, Wishes())
    assert convert_file(path, Wishes({"batch": 1, "frames": wanted})).traced.outputs


def test_no_size_is_suggested_that_cannot_work(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [1, "n"])}, {"to": np.array([3, 1007])})
    with pytest.raises(WgError, match=r"numbers that fit the model: --set n=N$"):
        convert_file(path, Wishes())


def test_dotted_sizes_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], {"x": (1, ["Dynamic.0"])})
    imported(capsys, path, "--set", "Dynamic.0=3")


@pytest.mark.parametrize("name", ["m.gguf", "m.onnx", "m.safetensors"])
def test_gguf_files_are_known_by_their_first_bytes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"GGUF\3\0\0\0" + bytes(16))
    assert "does not name its architecture" in refused(capsys, tmp_path / name)


def test_tensors_that_are_too_large_are_refused(tmp_path: Path) -> None:
    nodes = [node("Tile", ["x", "n"], ["t"]), node("ReduceSum", ["t"], ["y"], keepdims=0)]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [1])}, {"n": np.array([10**9])})
    with pytest.raises(WgError, match="its result has 1,000,000,000 elements"):
        convert_file(path, Wishes())


def test_the_work_of_an_import_grows_with_its_nodes(tmp_path: Path) -> None:
    """Calls of functions are counted: four times the nodes take at most five times the calls."""
    import sys

    def calls(count: int) -> int:
        kinds = ["Relu", "Sigmoid", "Tanh"]
        nodes = [
            node(kinds[place % 3], [f"h{place}" if place else "x"],
                 [f"h{place + 1}" if place < count - 1 else "y"])
            for place in range(count)
        ]  # fmt: skip
        path = saved(tmp_path / f"{count}.onnx", nodes, {"x": (1, [4])})
        total = 0

        def counted(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal total
            total += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            convert_file(path, Wishes())
        finally:
            sys.setprofile(None)
        return total

    calls(10)
    assert calls(1600) < 5 * calls(400)
