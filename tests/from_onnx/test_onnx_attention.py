"""Attention that exporters took apart is written as `attention(…)`, with the same numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_suite
from adapters import ROOT
from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.folder import build

node = helper.make_node
B, H, T, K = 2, 3, 5, 4
LEAST = float(np.finfo(np.float32).min)
MASKS = {"keep": (TensorProto.BOOL, [B, 1, 1, T]), "bias": (1, [B, 1, T, T])}
Held = dict[str, Any]


def products(held: Held) -> list[Any]:
    """The scores of BERT and GPT-2: divided by √K."""
    held["root"] = np.float32(K**0.5)
    return [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["qk"]),
        node("Div", ["qk", "root"], ["s"]),
    ]


def both_scaled(held: Held) -> list[Any]:
    """`scaled_dot_product_attention` of PyTorch's exporters."""
    held["root"] = np.float32(K**-0.25)
    return [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("Mul", ["q", "root"], ["q2"]),
        node("Mul", ["root", "kt"], ["kt2"]),
        node("MatMul", ["q2", "kt2"], ["s"]),
    ]


def unscaled(_: Held) -> list[Any]:
    return [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
    ]


def causal_array(low: float) -> Any:
    return np.where(np.tri(T, dtype=bool), 0.0, low).astype(np.float32)[None, None]


def plain(_: Held) -> list[Any]:
    return [node("Identity", ["s"], ["m"])]


def causal_added(held: Held) -> list[Any]:
    held["mask"] = causal_array(-np.inf)
    return [node("Add", ["s", "mask"], ["m"])]


def causal_where(held: Held) -> list[Any]:
    held |= {"tri": np.tri(T, dtype=bool), "low": np.float32(-1e4)}
    return [node("Where", ["tri", "s", "low"], ["m"])]


def keep_where(held: Held) -> list[Any]:
    held["low"] = np.float32(LEAST)
    return [node("Not", ["keep"], ["drop"]), node("Where", ["drop", "low", "s"], ["m"])]


def keep_added(held: Held) -> list[Any]:
    """BERT: (1 - mask) times the least float."""
    held |= {"one": np.float32(1), "low": np.float32(LEAST)}
    return [
        node("Cast", ["keep"], ["f"], to=1),
        node("Sub", ["one", "f"], ["g"]),
        node("Mul", ["g", "low"], ["mask"]),
        node("Add", ["s", "mask"], ["m"]),
    ]


def bias_added(_: Held) -> list[Any]:
    return [node("Add", ["bias", "s"], ["m"])]


def causal_and_keep(held: Held) -> list[Any]:
    """GPT-2: a causal choice, then a mask of padding. Rows see only padding, or nothing."""
    held |= {"tri": np.tri(T, dtype=bool), "least": np.float32(LEAST)}
    first = node("Where", ["tri", "s", "least"], ["s1"])
    return [first, *[_renamed(item) for item in keep_added(held)]]


def _renamed(item: Any) -> Any:
    item.input[:] = ["s1" if name == "s" else name for name in item.input]
    return item


# By name: the scores, the mask, and what the text must have.
FORMS: dict[str, tuple[Callable[[Held], list[Any]], Callable[[Held], list[Any]], str]] = {
    "plain": (products, plain, "attention(q, k, v)"),
    "both scaled": (both_scaled, plain, "attention(q, k, v)"),
    "unscaled": (unscaled, plain, "attention(q, k, v, scale = 1.0)"),
    "causal added": (both_scaled, causal_added, "attention(q, k, v, causal = true)"),
    "causal where": (products, causal_where, "attention(q, k, v, causal = true)"),
    "keep where": (products, keep_where, "attention(q, k, v, mask = mask)"),
    "keep added": (products, keep_added, "attention(q, k, v, mask = mask)"),
    "bias added": (both_scaled, bias_added, "attention(q, k, v, mask = mask)"),
    "causal and keep": (products, causal_and_keep, "attention(q, k, v, mask = mask_2)"),
}


def saved(path: Path, nodes: list[Any], held: Held) -> Path:
    used = {name for item in nodes for name in item.input}
    ports = [helper.make_tensor_value_info(name, 1, [B, H, T, K]) for name in "qkv"]
    ports += [
        helper.make_tensor_value_info(name, kind, shape)
        for name, (kind, shape) in MASKS.items()
        if name in used
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    outputs = [helper.make_tensor_value_info("y", 1, [B, H, T, K])]
    graph = helper.make_graph(nodes, "g", ports, outputs, initializer=tensors)
    sets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def keeps_of(path: Path) -> dict[str, Any]:
    """A whole row without any key, rows with a few, and one with all."""
    generator = np.random.default_rng(1)
    given = {name: generator.normal(size=(B, H, T, K)).astype(np.float32) for name in "qkv"}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    if any(port.name == "keep" for port in session.get_inputs()):
        given["keep"] = np.array([[0, 1, 0, 1, 1], [0] * 5], bool).reshape(B, 1, 1, T)
    if any(port.name == "bias" for port in session.get_inputs()):
        given["bias"] = generator.normal(size=(B, 1, T, T)).astype(np.float32)
    return {"inputs": given, "wanted": session.run(["y"], given)[0]}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_exporters(form: str, tmp_path: Path) -> None:
    scores, mask, wanted = FORMS[form]
    held: Held = {}
    nodes = [*scores(held), *mask(held)]
    nodes += [node("Softmax", ["m"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, held)
    found = convert_file(path, Wishes())
    assert wanted in found.written.text and "softmax" not in found.written.text
    facts = keeps_of(path)
    result = onnx_suite._by_twin(found, facts["inputs"])
    np.testing.assert_allclose(result["y"], facts["wanted"], atol=1e-5)


def low_added(held: Held) -> list[Any]:
    return [node("Where", ["keep", "zero", "low"], ["mask"]), node("Add", ["s", "mask"], ["m"])]


def low_chosen(held: Held) -> list[Any]:
    return [node("Where", ["keep", "s", "low"], ["m"])]


def low_stored(held: Held) -> list[Any]:
    keep = np.array([[0, 1, 0, 1, 1], [0] * 5], bool).reshape(B, 1, 1, T)
    held["stored"] = np.where(keep, held["zero"], held["low"])
    return [node("Add", ["s", "stored"], ["m"])]


@pytest.mark.parametrize("low", [-np.inf, LEAST, -1e9])
@pytest.mark.parametrize("masked", [low_added, low_chosen, low_stored])
def test_rows_without_keys_are_zero_where_the_exporter_says_so(
    masked: Callable[[Held], list[Any]], low: float, tmp_path: Path
) -> None:
    """PyTorch replaces weights that are not numbers, of rows that are -inf, by 0.

    Rows of finite numbers, however low, are numbers.
    """
    held: Held = {"zero": np.float32(0), "low": np.float32(low)}
    nodes = [
        *both_scaled(held),
        *masked(held),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("IsNaN", ["p"], ["n"]),
        node("Where", ["n", "zero", "p"], ["p2"]),
        node("MatMul", ["p2", "v"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, held)
    found = convert_file(path, Wishes())
    assert "attention(q, k, v, mask = " in found.written.text
    facts = keeps_of(path)
    assert (facts["wanted"][1] == 0).all() == np.isinf(low)
    result = onnx_suite._by_twin(found, facts["inputs"])
    np.testing.assert_allclose(result["y"], facts["wanted"], atol=1e-5)


def test_a_mask_times_a_number_is_bounded(tmp_path: Path) -> None:
    """Half of the least float hides a key as little as the least float itself."""
    held: Held = {"zero": np.float32(0), "low": np.float32(LEAST), "half": np.float32(0.5)}
    nodes = [
        *both_scaled(held),
        node("Where", ["keep", "zero", "low"], ["whole"]),
        node("Mul", ["whole", "half"], ["mask"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, held)
    found = convert_file(path, Wishes())
    assert "maximum(" in found.written.text and "attention(" in found.written.text
    facts = keeps_of(path)
    result = onnx_suite._by_twin(found, facts["inputs"])
    np.testing.assert_allclose(result["y"], facts["wanted"], atol=1e-5)


def test_what_is_no_attention_stays(tmp_path: Path) -> None:
    """Weights that are also an output, and a mask that is scaled with the scores."""
    held: Held = {"two": np.float32(2)}
    nodes = [
        *products(held),
        node("Add", ["s", "bias"], ["m0"]),
        node("Mul", ["m0", "two"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, held)
    found = convert_file(path, Wishes())
    assert "attention" not in found.written.text
    assert build(path, found).differences[0].is_small


def test_sums_of_sums_take_no_time(tmp_path: Path) -> None:
    """Both sides of a sum may be scores; a value that is doubled again and again is left."""
    nodes = [node("Add", ["q", "q"], ["a0"])]
    nodes += [node("Add", [f"a{n}", f"a{n}"], [f"a{n + 1}"]) for n in range(40)]
    nodes += [node("Mul", ["k", "k"], ["b0"])]
    nodes += [node("Mul", [f"b{n}", f"b{n}"], [f"b{n + 1}"]) for n in range(40)]
    nodes += [
        node("Transpose", ["b40"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["a40", "kt"], ["s"]),
        node("Add", ["s", "s"], ["m"]),
        node("Softmax", ["m"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    start = time.monotonic()
    convert_file(saved(tmp_path / "m.onnx", nodes, {}), Wishes())
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("name", "option"),
    [("gpt", "causal = true"), ("gpt_dynamo", "causal = true"), ("bert", "mask = ")],
)
def test_models_that_pytorch_exported(name: str, option: str) -> None:
    text = convert_file(ROOT / "tests" / "onnx_models" / f"{name}.onnx", Wishes()).written.text
    (line,) = [line for line in text.splitlines() if "= attention(" in line]
    assert option in line and "softmax" not in text


def test_the_operator_of_onnx_itself() -> None:
    """`Attention` is defined by other operators, which are recognised."""
    texts = {}
    for part in ("test_attention_4d", "test_attention_3d_causal", "test_attention_4d_attn_mask"):
        (case,) = [case for case in onnx_suite.cases(part) if case.name == part]
        model = type(case.model).FromString(case.model.SerializeToString())
        texts[part] = onnx_suite._converted(model, {}).written.text
        assert onnx_suite.judge(case) == ""
    assert all("attention(" in text for text in texts.values()), texts
    assert "causal = true" in texts["test_attention_3d_causal"]
    assert "attention(q, k, v)" in texts["test_attention_4d"]
