"""`wgcc export --to torch`: the text is the one with which PyTorch gave the right numbers.

record_torch_export.py runs it in PyTorch and records it; another text needs another run.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cli_runs import run
from torch_exports import FOLDER, MODELS, Case, exported_ops, fingerprint, recorded
from wgcc.compiler import read_program
from wgcc.ops import OPS
from wgcc.to_torch.module_text import module_text, stored_names

AGAIN = (
    "the exported text changed: run tests/support/record_torch_export.py where PyTorch is installed"
)


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_those_that_pytorch_ran(name: str) -> None:
    assert Case(MODELS[name]).text() == (FOLDER / f"{name}.py.txt").read_text(encoding="utf-8"), (
        AGAIN
    )
    assert recorded()["differences"][name] < 1e-6
    assert recorded()["torch"].startswith("2.")


def test_texts_of_ops_are_those_that_pytorch_ran() -> None:
    held = recorded()["ops"]
    texts = {op.name: fingerprint(op) for op in exported_ops()}
    changed = [name for name in texts if held.get(name, {"text": ""})["text"] != texts[name]]
    assert not changed, f"{changed}: {AGAIN}"
    assert sum(op["right"] for op in held.values()) >= 1230
    without = {name for name, op in held.items() if not op["right"] and op["text"]}
    assert without == {"attention_grad_q", "attention_grad_kv", "attention_grad_mask"}


def test_names_that_differ_only_in_dots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are two tensors of the state dict; names of nn.Module stay PyTorch's."""
    bundle, out = str(tmp_path / "b"), tmp_path / "net.py"
    assert run(capsys, "build", str(MODELS["everything"]), "-o", bundle)[0] == 0
    code, _, err = run(capsys, "export", bundle, "--to", "torch", "-o", str(out))
    assert code == 0, err
    case, held = Case(MODELS["everything"]), load_file(tmp_path / "net.safetensors")
    names = stored_names(case.graph)
    assert len(set(names.values())) == len(names) == len(held)
    assert (names["a.b"], names["a_b"]) in {("a_b", "a_b_2"), ("a_b_2", "a_b")}
    assert names["forward"] == "forward_2" and names["train"] == "train_2"
    text = out.read_text()
    declared = {
        node.targets[0].attr for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)
    }  # fmt: skip
    assert declared == set(held) and "class F_2(nn.Module)" in text
    import wgcc_runtime

    with wgcc_runtime.load(bundle, device="wasm") as model:
        for name, array in model.params().items():
            assert np.array_equal(held[names[name]], array)


def test_an_entry_without_inputs(tmp_path: Path) -> None:
    (tmp_path / "m.wg").write_text("""\
model M {
  param w: f32[3] = 1.0

  entry predict() -> (y: f32) = sum(w)
}
""")
    text = module_text(read_program(tmp_path / "m.wg")[1], "predict", "w")
    ast.parse(text)
    assert "def forward(self) -> dict[str, Tensor]:" in text


def test_what_is_refused() -> None:
    """Random numbers, parts of optimizers, functions in WGSL, statistics, and what passes make."""
    refused = {op.name for op in exported_ops() if not fingerprint(op)}
    assert {"random", "pack", "sgd_update", "state_scan"} <= refused
    assert not refused & {
        "window",
        "scan",
        "selective_scan",
        "attention",
        "avg_pool",
        "cross_entropy",
    }
    others = ("random", "pack", "accumulate", "wgsl", "stats")
    assert all("_" in name or name in others for name in refused)
    assert refused <= set(OPS)


def test_windows_of_images_are_short_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Positions of pixels are stored by axis, and not for each image, row and channel."""
    (tmp_path / "m.wg").write_text("""\
model M {
  w: Linear[27, 8]

  entry predict(x: f32[8, 64, 64, 3]) -> (y: f32[8, 4096, 8]) = w(unfold(x, 3, pad = 1))
}
""")
    bundle = str(tmp_path / "b")
    assert run(capsys, "build", str(tmp_path / "m.wg"), "-o", bundle)[0] == 0
    for kind, file in (("torch", tmp_path / "m.py"), ("onnx", tmp_path / "m.onnx")):
        code, _, err = run(capsys, "export", bundle, "--to", kind, "-o", str(file))
        assert code == 0, err
        assert file.stat().st_size < 12_000
