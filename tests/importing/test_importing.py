"""`wgcc import`: weights saved by PyTorch give the same outputs here; maps can be corrected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wgcc_runtime
from adapters import ROOT
from cli_runs import MODEL, run
from wgcc.importing.transforms import read_transform

FOLDER = ROOT / "tests" / "importing"
CLOSE = 1e-5


def imported(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> Path:
    model, weights = str(FOLDER / f"{name}.wg"), str(tmp_path / "w.safetensors")
    tensors = str(FOLDER / f"{name}.safetensors")
    code, _, err = run(capsys, "import", tensors, model, "-o", weights, *more)
    assert code == 0, err
    bundle = tmp_path / "bundle"
    assert run(capsys, "build", model, "-o", str(bundle), "--weights", weights)[0] == 0
    return bundle


@pytest.mark.parametrize(("name", "argument"), [("cnn", "x"), ("decoder", "ids")])
def test_outputs_are_those_of_pytorch(
    name: str, argument: str, tmp_path: Path, lavapipe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = imported(name, tmp_path, capsys)
    recorded = load_file(FOLDER / f"{name}_run.safetensors")
    found = wgcc_runtime.load(bundle, device=lavapipe).call("predict", **{argument: recorded["x"]})
    error = np.abs(found["y"] - recorded["y"]) / (1 + np.abs(recorded["y"]))
    assert error.max() <= CLOSE


def test_what_is_proposed_can_be_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (str(FOLDER / "decoder.safetensors"), str(FOLDER / "decoder.wg"))
    code, out, err = run(capsys, "import", *files)
    assert code == 0 and "rows 8:16, transposed" in out
    assert "please check: blocks.0.up.w, blocks.0.up.b, blocks.0.down.w and 5 more" in err
    assert out.count("; by order") == 8
    (tmp_path / "map.txt").write_text(out)
    again = run(capsys, "import", *files, "--map", str(tmp_path / "map.txt"))
    assert again[0] == 0
    assert [line.split("#")[0] for line in again[1].splitlines()] == [
        line.split("#")[0] for line in out.splitlines()
    ]


def test_a_map_corrects_with_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    map_file = tmp_path / "map.txt"
    map_file.write_text(
        "# exchanged on purpose\n"
        "blocks.*.up.w <- h.*.mlp.2.weight, transposed\n"
        "blocks.*.down.w <- h.*.mlp.0.weight   # not turned\n"
        "norm.g\n"
    )
    out = str(tmp_path / "w.safetensors")
    files = (str(FOLDER / "decoder.safetensors"), str(FOLDER / "decoder.wg"), "-o", out)
    code, shown, _ = run(capsys, "import", *files, "--map", str(map_file))
    assert code == 0 and "norm.g  # [8] keeps its initial values" in shown
    assert "# assumed: blocks.0.down.w, blocks.1.down.w: as the rule says, though usually" in shown
    given, made = load_file(FOLDER / "decoder.safetensors"), load_file(out)
    assert np.array_equal(made["blocks.1.up.w"], given["h.1.mlp.2.weight"].T)
    assert np.array_equal(made["blocks.1.down.w"], given["h.1.mlp.0.weight"])
    assert "norm.g" not in made and "norm.b" in made


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("tok.w <- wtf.weight", "map.txt:1: the file has no tensor wtf.weight; did you mean wte"),
        (
            "tokk.w <- wte.weight",
            "map.txt:1: the model has no parameter tokk.w; did you mean tok.w",
        ),
        ("tok.w <- wte.weight, upside down", "`upside down` is not a change of a tensor"),
        ("tok.w <-", "no tensor after `<-`"),
        ("tok.w <- h.*.ln_1.weight", "more `*` on the right"),
        (
            "tok.w <- wte.weight, transposed",
            "wte.weight [11, 8], transposed, is [8, 11], but tok.w",
        ),
        ("tok.w <- wte.weight, rows 3:99", "cannot be rows 3:99"),
        ("tok.w <- wte.weight, axes 0,0", "cannot be axes 0,0"),
    ],
)
def test_mistakes_in_maps(
    line: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map.txt").write_text(line)
    files = (str(FOLDER / "decoder.safetensors"), str(FOLDER / "decoder.wg"))
    code, _, err = run(capsys, "import", *files, "--map", str(tmp_path / "map.txt"))
    assert code == 1 and complaint in err


def test_files_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.wg"
    model.write_text(MODEL)
    complaints = {
        "w.pt": "save_file(model.state_dict()",
        "w.safetensors": "not a",
        "w.npz": "cannot be read as an .npz file",
        "w.onnx": "w.onnx",
    }
    for name, complaint in complaints.items():
        (tmp_path / name).write_bytes(b"\x80\x02}q\x00.")
        code, out, err = run(capsys, "import", str(tmp_path / name), str(model))
        assert (code, out) == (1, "") and complaint in err


def test_weights_of_npz_and_onnx_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers as from a safetensors file."""
    from onnx import helper, numpy_helper

    (tmp_path / "model.wg").write_text(MODEL)
    rng = np.random.default_rng(0)
    shapes = {"f.weight": (3, 2), "f.bias": (3,), "g.weight": (1, 3), "g.bias": (1,)}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, tmp_path / "w.safetensors")
    np.savez(tmp_path / "w.npz", **tensors)
    held = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    port = helper.make_tensor_value_info("x", 1, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [port],
                              [helper.make_tensor_value_info("y", 1, [2])], held)  # fmt: skip
    (tmp_path / "w.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    found = []
    for name in ("w.safetensors", "w.npz", "w.onnx"):
        out = tmp_path / f"{name}.out"
        code, _, err = run(
            capsys, "import", str(tmp_path / name), str(tmp_path / "model.wg"), "-o", str(out)
        )
        assert code == 0, err
        found.append(out.read_bytes())
    assert found[0] == found[1] == found[2]


def test_json_and_what_is_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.wg").write_text(MODEL)
    rng = np.random.default_rng(0)
    tensors = {
        "net.0.weight": rng.normal(size=(3, 2)).astype(np.float16),
        "net.0.bias": rng.normal(size=3),
        "net.2.weight": rng.normal(size=(1, 3)),
        "net.2.mask": np.ones((7, 7)),
    }
    save_file(tensors, tmp_path / "w.safetensors")
    files = (str(tmp_path / "w.safetensors"), str(tmp_path / "model.wg"))
    code, out, err = run(capsys, "import", *files, "--json")
    found = json.loads(out)
    assert code == 1 and "no tensor in the file fits g.b" in err and "--partial" in err
    assert found["map"]["g.w"] == {
        "tensor": "net.2.weight", "changes": "transposed", "found": "shape", "assumed": "",
    }  # fmt: skip
    assert (found["missing"], found["unused"]) == (["g.b"], ["net.2.mask"])
    out = str(tmp_path / "o.safetensors")
    assert run(capsys, "import", *files, "-o", out, "--partial")[0] == 0
    made = load_file(out)
    assert {array.dtype for array in made.values()} == {np.dtype(np.float32)}
    assert np.array_equal(made["f.w"], tensors["net.0.weight"].T.astype(np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "", "transposed", "hwio", "axes 2,0,1", "rows 0:8, transposed", "columns 8:16",
        "rows 0:8, columns 8:16, flipped, axes 2,0,1, reshaped",
    ],
)  # fmt: skip
def test_transforms_are_read_as_written(text: str) -> None:
    assert read_transform(text, "here").text() == text
