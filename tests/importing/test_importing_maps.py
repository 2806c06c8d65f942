"""Maps of `wgcc import` as TOML; gate orders and joined queries, keys and values."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from adapters import ROOT
from cli_runs import run
from test_importing_layers import CLOSE, FOLDER, Arrays, Capture, imported, outputs, random
from wgcc.errors import WgError
from wgcc.importing.map_toml import read_rules
from wgcc.importing.transforms import gate_places, read_transform
from wgcc.importing.weight_files import read_weights

TWO = """\
model M {
  left: Linear[8, 8]
  right: Linear[8, 8]

  entry predict(x: f32[8]) -> (y: f32[8]) = right(left(x))
}
"""
FUSED = """\
model M {
  attn: MultiHeadAttention[6, 2]

  entry predict(x: f32[1, 5, 6]) -> (y: f32[1, 5, 6]) = attn(x)
}
"""


@pytest.mark.parametrize("name", ["gpt2", "decoder", "cnn_deep", "recurrent", "attention"])
def test_the_proposed_map_can_be_given_back(name: str, tmp_path: Path, capsys: Capture) -> None:
    """As TOML and as text: the same weights."""
    files = [str(FOLDER / f"{name}.{end}") for end in ("safetensors", "wg")]
    found = []
    for ending in ("toml", "txt"):
        rules, out = tmp_path / f"rules.{ending}", tmp_path / f"{ending}.safetensors"
        code, _, err = run(capsys, "import", *files, "--propose", str(rules))
        assert code == 0 and "edit it, and give it with --map" in err
        code, _, err = run(capsys, "import", *files, "--map", str(rules), "-o", str(out))
        assert code == 0 and "not used" not in err, err
        found.append(load_file(out))
    example = load_file(FOLDER / f"{name}_run.safetensors")
    y = outputs(FOLDER / f"{name}.wg", found[0], example["x"])
    assert (np.abs(y - example["y"]) / (1 + np.abs(example["y"]))).max() <= CLOSE
    assert all(np.array_equal(found[1][key], array) for key, array in found[0].items())
    code, _, err = run(capsys, "import", *files, "--propose", str(rules))
    assert code == 2 and "is there already" in err


def tensors() -> Arrays:
    found = {f"{name}.weight": random(8, 8) + place for place, name in enumerate(("apple", "pear"))}
    return found | {
        f"{name}.bias": random(8) + place for place, name in enumerate(("apple", "pear"))
    }


def test_what_is_undecided_can_be_chosen(tmp_path: Path, capsys: Capture) -> None:
    rules = tmp_path / "rules.toml"
    code, _, err, _ = imported(TWO, tensors(), tmp_path, capsys, "--propose", str(rules))
    assert code == 1 and "not decided: left.w" in err
    text = rules.read_text()
    assert "# undecided: left.w [8, 8], as the names do not decide; remove the # before" in text
    assert '# "pear.weight" = { to = "left.w" }' in text
    for line in ('"pear.weight" = { to = "left.w"', '"apple.weight" = { to = "right.w"'):
        text = text.replace(f"# {line} }}", f"{line}, transpose = true }}")
    rules.write_text(text)
    code, shown, err, made = imported(TWO, tensors(), tmp_path, capsys, "--map", str(rules))
    assert code == 0, shown + err
    assert np.array_equal(made["left.w"], tensors()["pear.weight"].T)
    assert np.array_equal(made["right.b"], tensors()["apple.bias"])


def by_rules(text: str, tmp_path: Path, capsys: Capture) -> tuple[int, str, Arrays]:
    (tmp_path / "rules.toml").write_text(text)
    with_map = ("--map", str(tmp_path / "rules.toml"), "--partial")
    code, _, err, made = imported(TWO, tensors(), tmp_path, capsys, *with_map)
    return code, err, made


def test_patterns_and_parts(tmp_path: Path, capsys: Capture) -> None:
    text = """
# comment
keep = ["right.*"]
"*.weight" = { to = "left.w", rows = [0, 8] }
"""
    code, err, _ = by_rules(text, tmp_path, capsys)
    assert code == 1 and "rules.toml:4: two rules fill left.w" in err
    explicit = text.replace('"*.weight"', '"pear.weight"') + '"left.nothing" = { to = "left.b" }\n'
    code, err, made = by_rules(explicit, tmp_path, capsys)
    assert code == 0 and np.array_equal(made["left.w"], tensors()["pear.weight"])
    assert "rules.toml:5: no tensor of the file is left.nothing: not used" in err
    assert "right.w" not in made


def test_a_rule_without_star_is_stronger(tmp_path: Path, capsys: Capture) -> None:
    model = TWO.replace("left", "apple").replace("right", "pear")
    (tmp_path / "r.toml").write_text(
        '"pear.weight" = { to = "pear.w", transpose = true }\n"*.weight" = { to = "*.w" }\n'
    )
    code, _, err, made = imported(
        model, tensors(), tmp_path, capsys, "--map", str(tmp_path / "r.toml")
    )
    assert code == 0, err
    assert np.array_equal(made["pear.w"], tensors()["pear.weight"].T)
    assert np.array_equal(made["apple.w"], tensors()["apple.weight"])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('"pear.weight" = { to = "left.ww" }', "no parameter left.ww; did you mean left.w?"),
        ('"pear.weight" = { transposed = true }', "no `transposed`; did you mean transpose?"),
        ('"pear.weight" = "left.w"', "a rule is a table such as"),
        ('"pear.weight" = {}', "`to` must be the name of a parameter"),
        ('"pear.weight" = { to = 3 }', "`to` must be the name of a parameter"),
        ('"pear.weight" = { to = "left.w", transpose = 1 }', "`transpose` must be true or false"),
        ('"pear.weight" = { to = "left.w", axes = [true] }', "`axes` must be a list"),
        ('"pear.weight" = { to = "left.w", axes = [1, 0], transpose = true }', "say the same"),
        ('"pear.weight" = { to = "left.w", rows = [1] }', "`rows` must be [first, end]"),
        ('"pear.weight" = { to = "left.w", gates = "zrx" }', "`zrx` is no order of gates"),
        ('"pear.weight" = { to = "left.w", rope = "8" }', "rope = 8"),
        ('"pear.weight" = { to = ["left.w", "right.w"] }', "`split` must be its axis"),
        (
            '"pear.weight" = { to = ["left.w", "left.b"], split = 0 }',
            "cannot be split along axis 0",
        ),
        ('"pear.weight" = { to = "left.w", split = 2 }', "`split` must be 0 or 1"),
        ('"pear.weight" = { to = "left.w", split = 1.0 }', "`split` must be 0 or 1"),
        ('"pear.weight" = { to = "left.w", split = true }', "`split` must be 0 or 1"),
        (
            '"pear.weight" = { to = ["left.b", "right.b"], split = 1, columns = [2, 9] }',
            "[8, 8], columns [2, 9] cannot be split along axis 1",
        ),
        ('"pear.weight" = { to = "*.w" }', "has more `*` than the tensor's name"),
        ('keep = ["lef.w"]', "the model has no parameter lef.w; did you mean left.w?"),
        ("pear.weight = { to = 'left.w' ", "names with dots are written in quotes"),
        ('"pear.weight" = "left', "rules.toml:3:22: "),
    ],
)
def test_wrong_rules(rule: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    code, err, made = by_rules(f"# one\n\n{rule}\n", tmp_path, capsys)
    assert code == 1 and "rules.toml:3" in err and message in err and not made


def test_a_tensor_is_split_by_the_sizes_of_parameters(tmp_path: Path, capsys: Capture) -> None:
    """Queries of 8, keys and values of 4, as grouped attention has them."""
    model = """\
model M {
  attn: Attention[8, 4, 2]

  entry predict(x: f32[1, 3, 8]) -> (y: f32[1, 3, 8]) = attn(x)
}
"""
    held = {"self_attn.qkv_proj.weight": random(16, 8), "self_attn.o_proj.weight": random(8, 8)}
    (tmp_path / "r.toml").write_text(
        '"*.qkv_proj.weight" = { to = ["attn.wq.w", "attn.wk.w", "attn.wv.w"], split = 0, '
        "transpose = true }\n"
    )
    code, shown, err, made = imported(
        model, held, tmp_path, capsys, "--map", str(tmp_path / "r.toml")
    )
    assert code == 0, shown + err
    parts = np.split(held["self_attn.qkv_proj.weight"], [8, 12])
    for name, part in zip("qkv", parts, strict=True):
        assert np.array_equal(made[f"attn.w{name}.w"], part.T)


def test_only_the_rows_or_columns_of_a_rule_are_split() -> None:
    for key, axis in (("rows", 0), ("columns", 1)):
        table = {"to": ["b.w", "c.w"], "split": axis, key: [2, 6]}
        rule = read_rules(table, "here")[0]
        pieces = rule.transforms((6, 6), [(2, 6), (2, 6)], "here")
        assert [getattr(piece, key) for piece in pieces] == [(2, 4), (4, 6)]
    both = read_rules({"to": ["b.w", "c.w"], "split": 1, "rows": [2, 6]}, "here")[0]
    pieces = both.transforms((6, 6), [(4, 3)] * 2, "here")
    assert [(piece.rows, piece.columns) for piece in pieces] == [((2, 6), (0, 3)), ((2, 6), (3, 6))]


@pytest.mark.parametrize("keras", [False, True])
def test_queries_keys_and_values_are_joined(keras: bool, tmp_path: Path, capsys: Capture) -> None:
    """For a model that has them side by side: as PyTorch and as Flax store them."""
    words = ("query", "key", "value") if keras else ("q_proj", "k_proj", "v_proj")
    leaf, last = ("kernel", "out") if keras else ("weight", "out_proj")
    held = {f"self_attn.{w}.{leaf}": random(6, 6) + at for at, w in enumerate(words)}
    held |= {f"self_attn.{w}.bias": random(6) + at for at, w in enumerate(words)}
    held |= {f"self_attn.{last}.{leaf}": random(6, 6), f"self_attn.{last}.bias": random(6)}
    code, shown, err, made = imported(FUSED, held, tmp_path, capsys)
    assert code == 0, shown + err
    first = f"self_attn.qkv.bias is self_attn.{words[0]}.bias, self_attn.{words[1]}.bias"
    assert first in err
    wanted = [held[f"self_attn.{w}.{leaf}"] for w in words]
    joined = np.concatenate([w if keras else w.T for w in wanted], 1)
    assert np.array_equal(made["attn.in_proj.w"], joined)
    assert made["attn.in_proj.b"][6:12].tolist() == held[f"self_attn.{words[1]}.bias"].tolist()


def test_matrices_of_onnx_are_joined_as_its_nodes_use_them(tmp_path: Path, capsys: Capture) -> None:
    """Square matrices of `MatMul` are [inputs, outputs], whatever they are called."""
    held = {f"self_attn.{w}_proj.weight": random(6, 6) + at for at, w in enumerate("qkv")}
    held["self_attn.out_proj.weight"] = random(6, 6)
    held |= {name.replace("weight", "bias"): random(6) for name in list(held)}
    nodes = [
        helper.make_node("MatMul", ["x", name], [name[:-7]])
        for name in held
        if name.endswith("weight")
    ]
    ports = [helper.make_tensor_value_info(n, 1, [5, 6]) for n in ("x", nodes[-1].output[0])]
    parts = [numpy_helper.from_array(array, name) for name, array in held.items()]

    def joined(made: list[onnx.NodeProto]) -> tuple[int, str]:
        graph = helper.make_graph(made, "g", ports[:1], ports[1:], parts)
        opset = [helper.make_opsetid("", 20)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "a.onnx")
        (tmp_path / "m.wg").write_text(FUSED)
        files = [str(tmp_path / name) for name in ("a.onnx", "m.wg", "w.safetensors")]
        code, shown, err = run(capsys, "import", *files[:2], "-o", files[2])
        return code, shown + err

    code, said = joined(nodes)
    assert code == 0, said
    wanted = np.concatenate([held[f"self_attn.{w}_proj.weight"] for w in "qkv"], 1)
    made = load_file(tmp_path / "w.safetensors")
    assert np.array_equal(made["attn.in_proj.w"], wanted)
    assert np.array_equal(made["attn.out_proj.w"], held["self_attn.out_proj.weight"])
    other = helper.make_node("Gemm", nodes[0].input, nodes[0].output, transB=1)
    code, said = joined([other, *nodes[1:]])
    assert code == 1 and "attn.in_proj.w" in said, "one of them is stored the other way round"


def test_orders_of_gates() -> None:
    """Those of PyTorch are wgcc's; of Keras and ONNX they are not."""
    assert gate_places("ifgo") == (0, 1, 2, 3) == gate_places("ifco")
    assert gate_places("iofc") == (0, 2, 3, 1) and gate_places("zrh") == (1, 0, 2)
    assert not gate_places("ifg") and not gate_places("iifo")
    way = read_transform("transposed, gates iofc", "here")
    assert way.text() == "transposed, gates iofc"
    stored = np.arange(8)[:, None] * np.ones((1, 3))
    assert way.in_order(way.apply(stored))[0].tolist() == [0, 1, 4, 5, 6, 7, 2, 3]
    assert not way.fits((6, 3), (3, 6))


def test_recurrent_weights_of_onnx(tmp_path: Path, capsys: Capture) -> None:
    """Two directions and two layers of an LSTM that PyTorch exported; outputs are onnxruntime's."""
    file = ROOT / "tests" / "onnx_models" / "lstm.onnx"
    batch, length, width = (
        dim.dim_value for dim in onnx.load(file).graph.input[0].type.tensor_type.shape.dim
    )
    (tmp_path / "m.wg").write_text(f"""\
model M {{
  lstm: LSTM[{width}, 12](layers = 2, bidirectional = true)
  head: Linear[24, 4]

  entry predict(x: f32[{batch}, {length}, {width}]) -> (y: f32[{batch}, 4]) = head(lstm(x)[:, -1])
}}
""")
    out = tmp_path / "w.safetensors"
    code, shown, err = run(capsys, "import", str(file), str(tmp_path / "m.wg"), "-o", str(out))
    assert code == 0, shown + err
    assert "lstm.back.1.bias_hh    <- lstm.bias_hh_l1_reverse, gates iofg " in shown
    x = np.random.default_rng(1).normal(size=(batch, length, width)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(file).run(None, {"x": x})
    np.testing.assert_allclose(outputs(tmp_path / "m.wg", load_file(out), x), wanted, atol=1e-5)


def test_a_gru_of_onnx(tmp_path: Path, capsys: Capture) -> None:
    held = {"W": random(1, 9, 4), "R": random(1, 9, 3), "B": random(1, 18)}
    gru = helper.make_node("GRU", ["x", *held], ["y"], name="", hidden_size=3,
                           linear_before_reset=1)  # fmt: skip
    matrix = helper.make_node("MatMul", ["y", "onnx::MatMul_7"], ["z"], name="/fc/MatMul")
    held["onnx::MatMul_7"] = random(3, 3)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
             (("x", [5, 2, 4]), ("z", [5, 1, 2, 3]))]  # fmt: skip
    parts = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([gru, matrix], "g", ports[:1], ports[1:], parts)
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "g.onnx")
    (tmp_path / "m.wg").write_text("""\
model M {
  gru: GRU[4, 3]
  fc: Linear[3, 3](bias = false)

  entry predict(x: f32[2, 5, 4]) -> (y: f32[2, 5, 3]) = fc(gru(x))
}
""")
    out = tmp_path / "w.safetensors"
    code, shown, err = run(
        capsys, "import", str(tmp_path / "g.onnx"), str(tmp_path / "m.wg"), "-o", str(out)
    )
    assert code == 0, shown + err
    assert "gates zrn" in shown and "fc.w                  <- fc.kernel " in shown
    x = np.random.default_rng(1).normal(size=(2, 5, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "g.onnx")
    (wanted,) = session.run(None, {"x": x.transpose(1, 0, 2)})
    found = outputs(tmp_path / "m.wg", load_file(out), x)
    np.testing.assert_allclose(found, wanted[:, 0].transpose(1, 0, 2), atol=1e-5)


def test_a_map_without_end(tmp_path: Path, capsys: Capture) -> None:
    code, err, made = by_rules("a = " + "[" * 100_000, tmp_path, capsys)
    assert code == 1 and "rules.toml: " in err and "internal" not in err and not made


def test_a_whole_model_of_pytorch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's own message advises to run the code that is in the file."""

    def load(*_: object, **given: object) -> object:
        assert given["weights_only"] is True
        raise pickle.UnpicklingError("Weights only load failed. You have two options: …")

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=load))
    (tmp_path / "m.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(WgError, match=r"it holds Python objects; save model\.state_dict\(\)$"):
        read_weights(tmp_path / "m.pt")
