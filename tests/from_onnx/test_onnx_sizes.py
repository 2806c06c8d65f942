"""Open sizes of an imported model: `wgcc build --set` builds it for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import wgcc_runtime
from cli_runs import run
from wgcc.compiler import read_program
from wgcc.evaluate import Session
from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.size_expressions import Expression, explain, fill, form_of, skeleton
from wgcc.syntax import ast
from wgcc.syntax.print_source import expression_text, print_source
from wgcc.syntax.templates import NOWHERE, parse_own

node = helper.make_node
Ports = dict[str, tuple[int, list[Any]]]
VOCABULARY, WIDTH = 11, 8


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def saved(
    path: Path, nodes: list[Any], inputs: Ports, held: dict[str, Any], outputs: list[str]
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *port) for name, port in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        initializer=[numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )
    sets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def sizes_of(name: str, *axes: int) -> list[Any]:
    """`name_N`: the size of each axis as a list."""
    return [node("Shape", [name], [f"{name}_{axis}"], start=axis, end=axis + 1) for axis in axes]


def attention_nodes(masked: bool) -> list[Any]:
    """Two heads over `h`, with the sizes computed as exporters do."""
    nodes = [node("Concat", ["ids_0", "ids_1", "two", "four"], ["split"], axis=0)]
    for name in "qkv":
        nodes += [
            node("MatMul", ["h", f"w{name}"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [name], perm=[0, 2, 1, 3]),
        ]
    scores = "biased" if masked else "scores"
    return [
        *nodes,
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["scores"]),
        *([node("Add", ["scores", "bias"], ["biased"])] if masked else []),
        node("Softmax", [scores], ["weights"]),
        node("MatMul", ["weights", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        node("Concat", ["ids_0", "ids_1", "eight"], ["joined"], axis=0),
        node("Reshape", ["turned", "joined"], ["y"]),
    ]


HELD = {
    "table": random(VOCABULARY, WIDTH), "places": random(40, WIDTH), "kinds": random(2, WIDTH),
    "wq": random(8, 8), "wk": random(8, 8) / 2, "wv": random(8, 8) * 2, "two": np.array([2]),
    "four": np.array([4]), "eight": np.array([8]), "zero": np.array(0), "one": np.array(1),
    "none": np.array(0, np.int64), "low": np.float32(-1e4), "axis": np.array([0]),
    "flat": np.array([1, 1]), "first": np.array([0, 1]), "zero_f": np.float32(0),
}  # fmt: skip


def bert(path: Path) -> Path:
    """Words, kinds that are all 0, positions by a range, and a mask that is an input."""
    nodes = [
        *sizes_of("ids", 0, 1),
        node("Shape", ["ids"], ["whole"]),
        node("ConstantOfShape", ["whole"], ["kind"], value=helper.make_tensor("", 7, [1], [0])),
        node("Squeeze", ["ids_1", "axis"], ["length"]),
        node("Range", ["zero", "length", "one"], ["steps"]),
        node("Gather", ["table", "ids"], ["a"]),
        node("Gather", ["kinds", "kind"], ["b"]),
        node("Gather", ["places", "steps"], ["c"]),
        node("Add", ["a", "b"], ["ab"]),
        node("Add", ["ab", "c"], ["h"]),
        node("Unsqueeze", ["mask", "middle"], ["wide"]),
        node("Mul", ["wide", "low"], ["bias"]),
        *attention_nodes(masked=True),
    ]
    ports: Ports = {"ids": (7, ["batch", "seq"]), "mask": (1, ["batch", "seq"])}
    held = {**HELD, "middle": np.array([1, 2])}
    return saved(path, nodes, ports, held, ["y"])


def gpt(path: Path) -> Path:
    """A causal mask made of positions."""
    nodes = [
        *sizes_of("ids", 0, 1),
        node("Squeeze", ["ids_1", "axis"], ["length"]),
        node("Range", ["zero", "length", "one"], ["steps"]),
        node("Gather", ["table", "ids"], ["a"]),
        node("Gather", ["places", "steps"], ["c"]),
        node("Add", ["a", "c"], ["h"]),
        node("Unsqueeze", ["steps", "axis"], ["columns"]),
        node("Unsqueeze", ["steps", "last"], ["rows"]),
        node("Greater", ["columns", "rows"], ["later"]),
        node("Where", ["later", "low", "zero_f"], ["bias"]),
        *attention_nodes(masked=True),
    ]
    held = {**HELD, "last": np.array([1])}
    return saved(path, nodes, {"ids": (7, ["batch", "seq"])}, held, ["y"])


def cached(path: Path) -> Path:
    """One step of a decoder, which gives the longer cache back."""
    nodes = [
        node("MatMul", ["x", "wk"], ["k1"]),
        node("Concat", ["past_k", "k1"], ["k"], axis=1),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["x", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "k"], ["y"]),
    ]
    ports: Ports = {"x": (1, ["batch", 1, 8]), "past_k": (1, ["batch", "past", 8])}
    return saved(path, nodes, ports, {"wk": HELD["wk"]}, ["y", "k"])


def two_sequences(path: Path) -> Path:
    """A decoder that looks at an encoder's output; rows of both are flattened and mixed."""
    nodes = [
        node("Shape", ["src"], ["src_shape"]),
        node("Reshape", ["src", "rows"], ["flat_src"]),
        node("MatMul", ["flat_src", "wk"], ["k0"]),
        node("Reshape", ["k0", "src_shape"], ["k"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["tgt", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "k"], ["m"]),
        node("ReduceMean", ["m"], ["mean"], axes=[0], keepdims=1),
        node("Sub", ["m", "mean"], ["y"]),
    ]
    ports: Ports = {"src": (1, ["batch", "slen", 8]), "tgt": (1, ["batch", "tlen", 8])}
    held = {"wk": HELD["wk"], "rows": np.array([-1, 8])}
    return saved(path, nodes, ports, held, ["y"])


MODELS = {
    "bert": (bert, {"batch": 1, "seq": 6}, {"batch": 3, "seq": 17}),
    "bert_long": (bert, {"batch": 2, "seq": 20}, {"batch": 1, "seq": 5}),
    "gpt": (gpt, {"batch": 2, "seq": 7}, {"batch": 5, "seq": 13}),
    "cached": (cached, {"batch": 1, "past": 4}, {"batch": 2, "past": 9}),
    "two_sequences": (two_sequences, {"batch": 2, "slen": 5, "tlen": 4},
                      {"batch": 3, "slen": 1, "tlen": 7}),
}  # fmt: skip


def inputs_at(path: Path, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for port in onnx.load(path).graph.input:
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in port.type.tensor_type.shape.dim]
        if port.type.tensor_type.elem_type == 7:
            found[port.name] = rng.integers(0, VOCABULARY, shape)
        else:
            found[port.name] = rng.standard_normal(shape).astype(np.float32)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_built_for_other_sizes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of the import, built with other sizes, gives onnxruntime's numbers on the twin."""
    make, sizes, others = MODELS[name]
    path = make(tmp_path / "m.onnx")
    given = [part for key, size in sizes.items() for part in ("--set", f"{key}={size}")]
    folder = tmp_path / "out"
    code, _, said = run(capsys, "import", str(path), "-o", str(folder), *given)
    assert code == 0, said
    listed = ", ".join(f"{key} = {size}" for key, size in sizes.items())
    assert f"dim {listed}\n" in (folder / "model.wg").read_text()
    other = [part for key, size in others.items() for part in ("--set", f"{key}={size}")]
    weights = ("--weights", str(folder / "weights.safetensors"))
    arguments = (str(folder / "model.wg"), *weights, "-o", str(tmp_path / "b"), *other)
    code, _, said = run(capsys, "build", *arguments)
    assert code == 0, said
    inputs = inputs_at(path, others)
    wanted = onnxruntime.InferenceSession(str(path)).run(None, inputs)
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        results = model.predict(**inputs)
    for got, right in zip(results.values(), wanted, strict=True):
        np.testing.assert_allclose(got, right, atol=1e-4)


def test_advice_for_other_rows_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are mixed, so that the bundle takes no others; the command in the message makes one."""
    path = two_sequences(tmp_path / "m.onnx")
    folder = tmp_path / "out"
    sizes = ("--set", "batch=2", "--set", "slen=5", "--set", "tlen=4")
    assert run(capsys, "import", str(path), "-o", str(folder), *sizes)[0] == 0
    inputs = inputs_at(path, {"batch": 5, "slen": 5, "tlen": 4})
    advice = pytest.raises(wgcc_runtime.WgccError, match="wgcc build MODEL --set batch=5")
    with wgcc_runtime.load(folder / "bundle", device="wasm") as model, advice:
        model.predict(**inputs)
    weights = ("--weights", str(folder / "weights.safetensors"), "-o", str(tmp_path / "b"))
    arguments = (str(folder / "model.wg"), "--set", "batch=5", *weights)
    assert run(capsys, "build", *arguments)[0] == 0
    with wgcc_runtime.load(tmp_path / "b", device="wasm") as model:
        assert model.predict(**inputs)["y"].shape == (5, 4, 8)


def test_a_size_that_the_file_fixes_elsewhere_gets_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of the export's length: nothing suggests to build it for another."""
    nodes = [
        node("Add", ["x", "table"], ["h"]),
        node("ReduceMean", ["h"], ["m"], axes=[0], keepdims=1),
        node("Sub", ["h", "m"], ["y"]),
    ]
    held = {"table": random(3, 4)}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["batch", "n"])}, held, ["y"])
    folder = tmp_path / "out"
    arguments = ("-o", str(folder), "--set", "batch=3", "--set", "n=4")
    assert run(capsys, "import", str(path), *arguments)[0] == 0
    assert "dim " not in (folder / "model.wg").read_text()
    model = wgcc_runtime.load(folder / "bundle", device="wasm")
    with model, pytest.raises(wgcc_runtime.WgccError) as caught:
        model.predict(x=np.ones((5, 4)))
    assert "--set" not in str(caught.value)


def test_one_size_may_stay_open_beside_a_fixed_one(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "table"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    held = {"table": random(6, 4), "w": random(4, 2)}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["batch", "n", 4])}, held, ["y"])
    text = convert_file(path, Wishes({"batch": 1, "n": 6})).written.text
    assert "dim batch = 1\n" in text and "f32[batch, 6, 4]" in text


def test_an_axis_that_goes_at_size_1_keeps_a_size_a_number(tmp_path: Path) -> None:
    """`Squeeze` without axes drops a batch of 1, and no other."""
    nodes = [node("ReduceMean", ["x"], ["m"], axes=[1]), node("Squeeze", ["m"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["batch", 4])}, {}, ["y"])
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.shape.dim.add(dim_param="batch")
    onnx.save(model, path)
    assert "dim " not in convert_file(path, Wishes({"batch": 1})).written.text
    assert "dim batch = 3\n" in convert_file(path, Wishes({"batch": 3})).written.text


def test_halved_sizes_are_no_sums(tmp_path: Path) -> None:
    """A stride of 2 halves and rounds: a text that says n - 4 for n = 8 would be wrong for 12."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[2], pads=[1, 1]),
        node("Shape", ["c"], ["s"], start=2, end=3),
        node("Concat", ["batch", "s", "two"], ["to"], axis=0),
        node("Reshape", ["c", "to"], ["y"]),
    ]
    held = {"w": random(2, 3, 3), "batch": np.array([1]), "two": np.array([2])}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, [1, 3, "n"])}, held, ["y"])
    text = convert_file(path, Wishes({"n": 8})).written.text
    assert "dim batch = 1" in text and "n = 8" not in text


def rows_alone(path: Path, is_alone: bool) -> Path:
    """Shapes are stated for one row; rows that are not alone are normalised together."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Reshape", ["a", "heads"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3]),
        node("Softmax", ["c"], ["d"], axis=-1 if is_alone else 0),
        node("Reshape", ["d", "joined"], ["e"]),
        node("MatMul", ["e", "v"], ["f"]),
        node("Reshape", ["f", "flat"], ["y"]),
    ]
    held = {"w": random(6, 8), "v": random(4, 2), "heads": np.array([1, 3, 2, 4]),
            "joined": np.array([2, 3, 4]), "flat": np.array([1, -1])}  # fmt: skip
    return saved(path, nodes, {"x": (1, [1, 3, 6])}, held, ["y"])


def test_a_batch_that_the_file_fixes_stays_open(tmp_path: Path) -> None:
    """Each of many rows gives what the file gives for one. Where rows mix, there is no `dim`."""
    mixed = rows_alone(tmp_path / "m.onnx", False)
    assert "dim " not in convert_file(mixed, Wishes()).written.text
    path = rows_alone(tmp_path / "m.onnx", True)
    found = convert_file(path, Wishes())
    text = found.written.text
    assert "dim batch = 1" in text and "f32[batch, 3, 6]) -> (y: f32[batch, 12])" in text
    (tmp_path / "m.wg").write_text(text)
    rows, session = random(5, 3, 6), onnxruntime.InferenceSession(str(path))
    wanted = np.concatenate([session.run(None, {"x": row[None]})[0] for row in rows])
    program = read_program(tmp_path / "m.wg", sizes={"batch": 5})[1]
    results = Session(program, found.written.weights).call("predict", {"x": rows})
    np.testing.assert_allclose(results["y"], wanted, atol=1e-5)


def test_a_part_that_changes_only_at_far_sizes(tmp_path: Path) -> None:
    """The first n // 16 columns: 3 of them from 48 to 63, and other numbers elsewhere."""
    nodes = [
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("Div", ["s", "part"], ["end"]),
        node("Slice", ["x", "zero", "end", "one"], ["y"]),
    ]
    held = {"part": np.array([16]), "zero": np.array([0]), "one": np.array([1])}
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, ["batch", "n"])}, held, ["y"])
    text = convert_file(path, Wishes({"batch": 1, "n": 48})).written.text
    assert "dim batch = 1\n" in text and "f32[batch, 48]" in text and ": 3]" in text


def test_numbers_are_explained_by_sizes() -> None:
    sizes = [{"a": 2, "b": 5}, {"a": 3, "b": 5}, {"a": 2, "b": 6}, {"a": 4, "b": 8}]
    cases = {
        (7, 7, 7, 7): "7", (2, 3, 2, 4): "a", (10, 15, 12, 32): "a * b",
        (20, 30, 24, 64): "2 * a * b", (9, 9, 11, 15): "2 * b - 1", (1, 2, 1, 3): "a - 1",
        (1, 1, 2, 3): None, (1, 0, 1, 9): None, (7, 8, 8, 11): None,
    }  # fmt: skip
    for numbers, wanted in cases.items():
        found = explain(numbers, sizes)
        text = expression_text(found.tree) if isinstance(found, Expression) else str(found)
        assert text == str(wanted)


def test_numbers_of_a_program() -> None:
    text = "const y2 = reshape(x[0 : 7], [7, 1]) * 7 + 1.5e-07 * f(0..7) + f32([7.0, 7.5])"
    found = skeleton(file := parse_own(text))
    assert found.numbers == [0, 7, 7, 1, 7, 0, 7] and len(found.lists) == 1
    for sizes, wanted in (
        ([{"n": 7}, {"n": 8}], "reshape(x[0 : n], [n, 1]) * n + 1.5e-07 * f(0..n) + z"),
        ([{"n": 6}, {"n": 7}], "[n + 1, 1]) * (n + 1) + 1.5e-07 * f(0..n + 1) + z"),
    ):
        meanings = [explain((n, n + (n == 7)), sizes) for n in found.numbers]
        remarks = {file.items[0]: "node"}
        filled = fill(file, meanings, [ast.Name(NOWHERE, "z")], remarks)  # type: ignore[arg-type]
        assert wanted in print_source(filled)
        assert remarks[filled.items[0]] == "node", "remarks follow the statements that changed"


@pytest.mark.parametrize("seed", range(20))
def test_tables_that_have_a_formula(seed: int) -> None:
    """A formula gives the table back, evaluated as the language would."""
    rng = np.random.default_rng(seed)
    rows, columns, shift = rng.integers(2, 6, 3)
    first, step = (int(number) for number in rng.integers(-4, 5, 2))
    flat = np.arange(rows * columns, dtype=np.int32)
    tables = [
        np.full((rows, columns), first, np.float32),
        (first + step * np.arange(columns))[None].repeat(rows, 0).astype(np.int32),
        (first + (step or 1) * flat).reshape(rows, 1, columns),
        np.where(np.triu(np.ones((rows, columns)), shift - 3), -5, 2).astype(np.float32)[None],
        np.tril(np.ones((rows, rows), bool)),
    ]
    for table in tables:
        form = form_of(table)
        if form is None:
            assert table.ndim == 3 and table[0, 0, -1] == table[0, -1, 0]
            continue
        text = expression_text(form.tree([ast.Int(NOWHERE, size) for size in table.shape]))
        np.testing.assert_array_equal(np.broadcast_to(evaluated(text), table.shape), table)


def evaluated(text: str) -> Any:
    """The few functions that formulas use, in numpy."""

    class Type:
        def __init__(self, kind: Any) -> None:
            self.kind = kind

        def __getitem__(self, shape: Any) -> Any:
            return self.kind, shape

        def __call__(self, array: Any) -> Any:
            return array.astype(self.kind)

    names = {
        "zeros": lambda t: np.zeros(t[1], t[0]), "ones": lambda t: np.ones(t[1], t[0]),
        "arange": np.arange, "reshape": np.reshape, "expand": np.broadcast_to,
        "where": np.where, "f32": Type(np.float32), "i32": Type(np.int32),
    }  # fmt: skip
    is_negated = text.startswith("not ")
    found = eval(text.removeprefix("not "), {"__builtins__": {}}, names)
    return ~found if is_negated else found


@pytest.mark.parametrize("seed", range(10))
def test_tables_without_a_formula(seed: int) -> None:
    table = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
    assert form_of(table) is None
