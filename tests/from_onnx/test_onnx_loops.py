"""`Loop` and `Scan` of ONNX become `scan`; only rounds that differ are written out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import wgcc_runtime
from wgcc.from_onnx.convert import Converted, Wishes, convert_file
from wgcc.from_onnx.folder import build
from wgcc.from_onnx.problems import NotImportable
from wgcc.from_onnx.training_options import Training

INT, BOOL, FLOAT = TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT
ROUNDS = 200
node = helper.make_node


def port(name: str, kind: int, shape: Sequence[int | None]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def body_of(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    """The body of a `Loop` that goes on as long as its number of rounds says."""
    nodes = [*nodes, node("Identity", ["go"], ["goes"])]
    lead = [port("i", INT, []), port("go", BOOL, [])]
    return helper.make_graph(nodes, "b", [*lead, *inputs], [port("goes", BOOL, []), *outputs])


def saved(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[Any], **held: Any
) -> Path:
    ports = [port(name, FLOAT, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", ports, outputs, initializer=tensors)
    sets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    file = path / "m.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def agrees(file: Path, found: Converted | None = None) -> Converted:
    """The numbers are those of onnxruntime."""
    found = found or convert_file(file, Wishes())
    imported = build(file, found)
    assert imported.compared_with == "onnxruntime"
    for item in imported.differences:
        assert item.is_small and item.finite, item
    return found


def test_a_loop_with_states_results_counter_and_outer_values(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["h", "w"], ["z"]),
        node("Gather", ["x", "i"], ["xi"], axis=1),
        node("Sum", ["z", "xi", "outer"], ["z2"]),
        node("Tanh", ["z2"], ["h2"]),
        node("Cast", ["i"], ["fi"], to=FLOAT),
        node("Mul", ["h2", "fi"], ["y"]),
        node("Add", ["k", "one"], ["k2"]),
        node("Identity", ["same"], ["same2"]),
        node("Identity", ["k2"], ["k3"]),
    ]
    states = [port("h", FLOAT, [2, 4]), port("k", INT, []), port("same", FLOAT, [2, 4])]
    after = [port("h2", FLOAT, [2, 4]), port("k2", INT, []), port("same2", FLOAT, [2, 4])]
    body = body_of(nodes, states, [*after, port("y", FLOAT, [2, 4]), port("k3", INT, [])])
    outputs = ["last", "count", "kept", "ys", "counts"]
    loop = node("Loop", ["n", "", "h0", "k0", "s"], outputs, body=body, name="/enc/walk")
    kinds = [(FLOAT, 2), (INT, 0), (FLOAT, 2), (FLOAT, 3), (INT, 1)]
    ports = [port(n, k, [None] * r) for n, (k, r) in zip(outputs, kinds, strict=True)]
    file = saved(
        tmp_path, [node("Relu", ["s"], ["outer"]), loop], {"x": [2, ROUNDS, 4], "s": [2, 4]}, ports,
        w=np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32) / 4,
        n=np.array(ROUNDS), h0=np.zeros((2, 4), np.float32), k0=np.array(5), one=np.array(1),
    )  # fmt: skip
    found = agrees(file)
    assert "0..200)  // walk" in found.written.text and "/// one round of enc/walk" in (
        found.written.text
    )
    assert found.written.text.count("scan(") == 1
    assert {"walk.linear.w", "h0"} == set(found.written.weights), "a product is a Linear there"
    assert not found.traced.notes


def test_the_number_of_rounds_follows_from_a_condition(tmp_path: Path) -> None:
    """`while k < 150`, as exporters write it: no limit but the condition."""
    nodes = [
        node("Add", ["k", "one"], ["k2"]),
        node("Less", ["k2", "top"], ["goes"]),
        node("Mul", ["h", "d"], ["h2"]),
    ]
    lead = [port("i", INT, []), port("go", BOOL, [])]
    body = helper.make_graph(
        nodes, "b", [*lead, port("k", INT, []), port("h", FLOAT, [3])],
        [port("goes", BOOL, []), port("k2", INT, []), port("h2", FLOAT, [3])],
    )  # fmt: skip
    loop = node("Loop", ["m", "t", "k0", "x"], ["k", "y"], body=body)
    held = {"m": 2**62, "t": True, "k0": 0, "one": 1, "top": 150, "d": np.float32(0.99)}
    file = saved(tmp_path, [loop], {"x": [3]}, [port("k", INT, []), port("y", FLOAT, [3])], **held)
    assert "0..150)" in agrees(file).written.text


# Axes and directions of two inputs and two outputs, and how the loop is written.
FORMS = {
    "plain": ([0, 0], [0, 0], [0, 0], [0, 0], "(a, b))"),
    "reverse": ([1, 1], [1, 1], [1, 1], [1, 0], "(a, b), axis = 1, reverse = true)"),
    "mixed": ([0, 1], [1, 0], [-1, 0], [0, 1], "))"),
    "moved": ([1, 1], [1, 1], [-1, 0], [1, 0], "), reverse = true)"),
    "negative": ([-1, 0], [0, 1], [1, 1], [1, 1], "))"),
}


@pytest.mark.parametrize("form", FORMS)
def test_scan_on_any_axis_and_in_any_direction(form: str, tmp_path: Path) -> None:
    in_axes, in_ways, out_axes, out_ways, written = FORMS[form]
    nodes = [
        node("Add", ["a1", "s"], ["t"]),
        node("Mul", ["t", "h"], ["t2"]),
        node("Add", ["t2", "b1"], ["t3"]),
        node("Tanh", ["t3"], ["s2"]),
        node("Sub", ["s2", "b1"], ["z1"]),
        node("Identity", ["s2"], ["y1"]),
    ]
    vectors = {name: port(name, FLOAT, [3]) for name in ("s", "a1", "b1", "s2", "y1", "z1")}
    given, returned = (
        [vectors[n] for n in names] for names in (("s", "a1", "b1"), ("s2", "y1", "z1"))
    )
    body = helper.make_graph(nodes, "b", given, returned)
    scan = node(
        "Scan", ["s0", "a", "b"], ["last", "y", "z"], body=body, num_scan_inputs=2,
        scan_input_axes=in_axes, scan_input_directions=in_ways,
        scan_output_axes=out_axes, scan_output_directions=out_ways,
    )  # fmt: skip
    shapes = [[ROUNDS, 3] if axis == 0 else [3, ROUNDS] for axis in in_axes]
    inputs = {"s0": [3], "h": [3], "a": shapes[0], "b": shapes[1]}
    outputs = [port("last", FLOAT, [3]), *(port(n, FLOAT, [None] * 2) for n in ("y", "z"))]
    found = agrees(saved(tmp_path, [scan], inputs, outputs))
    (line,) = [line for line in found.written.text.splitlines() if "scan(" in line]
    assert line.endswith(written)


def test_rounds_of_every_kind(tmp_path: Path) -> None:
    """Without states, with results that are constants, states that are replaced, bools, images."""
    no_states = body_of(
        [node("Cast", ["i"], ["f"], to=FLOAT), node("Mul", ["f", "x"], ["m1"]),
         node("Identity", ["two"], ["m2"]), node("Identity", ["i"], ["m3"])],
        [], [port("m1", FLOAT, [3]), port("m2", FLOAT, [2]), port("m3", INT, [])],
    )  # fmt: skip
    replaced = body_of(
        [node("Identity", ["three"], ["h2"]), node("Add", ["h", "g"], ["r1"]),
         node("Identity", ["x"], ["g2"])],
        [port("h", FLOAT, [3]), port("g", FLOAT, [3])],
        [port("h2", FLOAT, [3]), port("g2", FLOAT, [3]), port("r1", FLOAT, [3])],
    )  # fmt: skip
    with_bool = body_of(
        [node("Not", ["b"], ["b2"]), node("Where", ["b", "x", "h"], ["h1"]),
         node("Tanh", ["h1"], ["h2"])],
        [port("b", BOOL, []), port("h", FLOAT, [3])],
        [port("b2", BOOL, []), port("h2", FLOAT, [3])],
    )  # fmt: skip
    images = body_of(
        [node("Conv", ["p", "w"], ["c"], pads=[1] * 4), node("Tanh", ["c"], ["p2"])],
        [port("p", FLOAT, [1, 2, 5, 5])], [port("p2", FLOAT, [1, 2, 5, 5])],
    )  # fmt: skip
    nodes = [
        node("Loop", ["n", ""], ["o1", "o2", "o3"], body=no_states),
        node("Loop", ["n", "", "x", "x"], ["o4", "unread", "o5"], body=replaced),
        node("Loop", ["n", "", "t", "x"], ["o6", "o7"], body=with_bool),
        node("Conv", ["image", "w"], ["i2"], pads=[1] * 4),
        node("Loop", ["n", "", "i2"], ["o8"], body=images),
    ]
    kinds = [(FLOAT, 2), (FLOAT, 2), (INT, 1), (FLOAT, 1), (FLOAT, 2), (BOOL, 0), (FLOAT, 1),
             (FLOAT, 4)]  # fmt: skip
    outputs = [port(f"o{n + 1}", kind, [None] * rank) for n, (kind, rank) in enumerate(kinds)]
    file = saved(
        tmp_path, nodes, {"x": [3], "image": [1, 2, 5, 5]}, outputs,
        n=np.array(71), two=np.ones(2, np.float32), three=np.arange(3, dtype=np.float32),
        t=np.array(True), w=np.random.default_rng(0).normal(size=(2, 2, 3, 3)).astype("f") / 4,
    )  # fmt: skip
    assert agrees(file).written.text.count("scan(") == 4


@pytest.mark.parametrize("outputs", [["y", "", "z"], ["", "y", "z"], ["y", "y2"], ["y", "y2", ""]])
def test_results_of_a_loop_that_nothing_reads(outputs: list[str], tmp_path: Path) -> None:
    """onnxruntime crashes where a file leaves out their names; the comparison names them."""
    nodes = [node("Tanh", ["h"], ["h2"]), node("Neg", ["g"], ["g2"]), node("Sin", ["h2"], ["r"])]
    given, after = (
        [port(name, FLOAT, [3]) for name in names] for names in (("h", "g"), ("h2", "g2", "r"))
    )
    loop = node("Loop", ["n", "", "x", "x"], outputs, body=body_of(nodes, given, after))
    ports = [port(n, FLOAT, [5, 3] if n == "z" else [3]) for n in outputs if n]
    agrees(saved(tmp_path, [loop], {"x": [3]}, ports, n=np.array(5)))


def test_a_window_that_moves_with_the_counter(tmp_path: Path) -> None:
    """`x[:, i : i + 3]`, whose size ONNX's rules for shapes do not know."""
    nodes = [
        node("Add", ["i", "three"], ["end"]),
        node("Unsqueeze", ["i", "zero"], ["s"]),
        node("Unsqueeze", ["end", "zero"], ["e"]),
        node("Slice", ["x", "s", "e", "one", "one"], ["part"]),
        node("ReduceSum", ["part", "one"], ["total"], keepdims=0),
        node("Add", ["h", "total"], ["h2"]),
    ]
    body = body_of(nodes, [port("h", FLOAT, [4])], [port("h2", FLOAT, [4])])
    loop = node("Loop", ["n", "", "h0"], ["y"], body=body)
    file = saved(
        tmp_path, [loop], {"x": [4, 92], "h0": [4]}, [port("y", FLOAT, [4])],
        n=np.array(90), three=np.array(3), zero=np.array([0]), one=np.array([1]),
    )  # fmt: skip
    assert "+: 3]" in agrees(file).written.text


def test_windows_that_count_from_the_end(tmp_path: Path) -> None:
    """Those whose end would count from the front are empty in ONNX: running refuses them."""
    nodes = [node("Add", ["i", "three"], ["end"]), node("Slice", ["x", "i", "end", "zero"], ["w"]),
             node("Neg", ["w"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [port("x", FLOAT, [8]), port("i", INT, [1])], [port("y", FLOAT, [None])],
        [numpy_helper.from_array(np.array([n]), name) for n, name in ((3, "three"), (0, "zero"))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = convert_file(tmp_path / "m.onnx", Wishes())
    build(tmp_path / "m.onnx", found).compiled.write(tmp_path / "b", found.written.weights)
    x = np.arange(8, dtype=np.float32)
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as loaded:
        for start in (0, 5, -4, -8):
            given = {found.written.inputs["x"]: x, found.written.inputs["i"]: [start]}
            np.testing.assert_array_equal(loaded.predict(**given)["y"], -x[start : start + 3])
        for start in (-1, -3, 6):
            given = {found.written.inputs["x"]: x, found.written.inputs["i"]: [start]}
            with pytest.raises(wgcc_runtime.WgccError, match="is outside 0 to 5"):
                loaded.predict(**given)


def test_a_loop_in_a_loop(tmp_path: Path) -> None:
    """The inner one reads a value of the outer one, and a weight that is also read outside."""
    inner = helper.make_graph(
        [node("MatMul", ["u", "w"], ["u1"]), node("Add", ["u1", "h"], ["u2"]),
         node("Tanh", ["u2"], ["u3"]), node("Identity", ["go2"], ["goes2"])],
        "inner", [port("j", INT, []), port("go2", BOOL, []), port("u", FLOAT, [2, 3])],
        [port("goes2", BOOL, []), port("u3", FLOAT, [2, 3])],
    )  # fmt: skip
    nodes = [node("Loop", ["few", "", "h"], ["v"], body=inner), node("Sin", ["v"], ["h2"])]
    body = body_of(nodes, [port("h", FLOAT, [2, 3])], [port("h2", FLOAT, [2, 3])])
    loop = node("Loop", ["many", "", "x2"], ["y"], body=body)
    first = node("MatMul", ["x", "w"], ["x2"])
    file = saved(
        tmp_path, [first, loop], {"x": [2, 3]}, [port("y", FLOAT, [2, 3])],
        w=np.eye(3, dtype=np.float32) / 2, few=np.array(3), many=np.array(100),
    )  # fmt: skip
    found = agrees(file)
    assert found.written.text.count("scan(") == 2
    assert list(found.written.weights) == ["w"]


def test_loops_of_equal_modules_are_a_list(tmp_path: Path) -> None:
    nodes: list[Any] = []
    held: dict[str, Any] = {"n": np.array(ROUNDS)}
    for layer in range(3):
        step = [node("MatMul", ["h", f"w{layer}"], ["z"]), node("Tanh", ["z"], ["h2"])]
        body = body_of(step, [port("h", FLOAT, [2, 3])], [port("h2", FLOAT, [2, 3])])
        scope = f"/layers.{layer}"
        nodes += [
            node("Loop", ["n", "", f"x{layer}"], [f"a{layer}"], body=body, name=f"{scope}/loop"),
            node("Sin", [f"a{layer}"], [f"b{layer}"], name=f"{scope}/Sin"),
            node("Add", [f"b{layer}", f"x{layer}"], [f"x{layer + 1}"], name=f"{scope}/Add"),
        ]
        held[f"w{layer}"] = np.eye(3, dtype=np.float32) * (0.9 - layer / 10)
    file = saved(tmp_path, nodes, {"x0": [2, 3]}, [port("x3", FLOAT, [2, 3])], **held)
    found = agrees(file)
    assert "layers[3]: Layers" in found.written.text and found.written.text.count("layer ") == 2
    assert {f"layers.{n}.loop.linear.w" for n in range(3)} == set(found.written.weights)


def growing(tmp_path: Path, rounds: int) -> Path:
    step = [node("Concat", ["h", "x"], ["h2"], axis=0)]
    body = body_of(step, [port("h", FLOAT, [None])], [port("h2", FLOAT, [None])])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body, name="grow")
    return saved(tmp_path, [loop], {"x": [3]}, [port("y", FLOAT, [None])], n=np.array(rounds))


def test_rounds_that_differ_are_written_out(tmp_path: Path) -> None:
    found = agrees(growing(tmp_path, 4))
    reason = "`h` is f32[3] before a round and f32[6] after it"
    assert "scan(" not in found.written.text
    assert found.traced.notes == [f"grow: 4 rounds are written out: {reason}"]
    with pytest.raises(NotImportable) as caught:
        convert_file(growing(tmp_path, 65), Wishes())
    wanted = f"it has 65 rounds; at most 64 are written out, and no `scan`: {reason}"
    assert caught.value.problems[0].reason == wanted


@pytest.mark.parametrize(("limit", "rounds"), [(0, 0), (1, 1), (5, 1), (None, 1)])
def test_a_condition_that_is_false_after_the_first_round(
    limit: int | None, rounds: int, tmp_path: Path
) -> None:
    """No round at all where the number of rounds is 0."""
    never = numpy_helper.from_array(np.array(False))
    nodes = [node("Constant", [], ["goes"], value=never), node("Add", ["h", "h"], ["h2"])]
    lead = [port("i", INT, []), port("go", BOOL, []), port("h", FLOAT, [3])]
    body = helper.make_graph(nodes, "b", lead, [port("goes", BOOL, []), port("h2", FLOAT, [3])])
    loop = node("Loop", ["n" if limit is not None else "", "", "x"], ["y0"], body=body)
    last = node("Neg", ["y0"], ["y"])
    held = {"n": np.array(limit)} if limit is not None else {}
    file = saved(tmp_path, [loop, last], {"x": [3]}, [port("y", FLOAT, [3])], **held)
    assert agrees(file).written.text.count("x + x") == rounds


def test_training_goes_through_a_loop(tmp_path: Path) -> None:
    """The gradient of a weight in a round is the sum over all rounds."""
    step = [node("MatMul", ["h", "w"], ["z"]), node("Add", ["z", "x"], ["h2"])]
    body = body_of(step, [port("h", FLOAT, [1, 2])], [port("h2", FLOAT, [1, 2])])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    w = np.array([[0.5, 0.1], [-0.2, 0.4]], np.float32)
    file = saved(tmp_path, [loop], {"x": [1, 2]}, [port("y", FLOAT, [1, 2])], n=np.array(6), w=w)
    found = agrees(file, convert_file(file, Wishes(training=Training("all", "mse"))))
    build(file, found).compiled.write(tmp_path / "b", found.written.weights)
    x, target = np.array([[1.0, -2.0]]), np.array([[0.3, 0.7]])

    def loss(matrix: Any) -> float:
        h = x
        for _ in range(6):
            h = h @ matrix + x
        return float(((h - target) ** 2).mean())

    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        model.train(x=x, target=target)
        gradient = 10 * model.state()["opt/opt/exp_avg/loop.linear.w"]
    for place in np.ndindex(2, 2):
        step_ = np.zeros((2, 2))
        step_[place] = 1e-5
        slope = (loss(w + step_) - loss(w - step_)) / 2e-5
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-3, atol=1e-4)
