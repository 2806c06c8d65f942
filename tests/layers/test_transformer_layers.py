"""The standard layers of Transformers: PyTorch's numbers at once and row by row, and masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from building import build
from cli_runs import run
from elaborated import problems

FOLDER = ROOT / "tests" / "importing"


def test_decoding_row_by_row_gives_what_pytorch_gives_at_once(
    machine: Any, tmp_path: Path, capsys: Any
) -> None:
    """Of an encoder and a decoder that attends to it, with imported weights."""
    weights = tmp_path / "weights.safetensors"
    files = (str(FOLDER / "transformer.safetensors"), str(FOLDER / "transformer.wg"))
    code, shown, err = run(capsys, "import", *files, "-o", str(weights))
    assert code == 0, shown + err
    bundle = build(FOLDER / "transformer.wg", tmp_path / "bundle")
    model = wgcc_runtime.load(bundle, device=machine, weights=weights)
    recorded = load_file(FOLDER / "transformer_run.safetensors")
    x, y = recorded["x"], recorded["y"]
    np.testing.assert_allclose(model.predict(x=x)["y"], y, atol=1e-5)
    memory = model.encode(x=x[:1])["memory"]
    rows = [
        model.decode(x=row[None], memory=memory, at=np.int32(at))["y"][0]
        for at, row in enumerate(x[0])
    ]
    np.testing.assert_allclose(rows, y[0], atol=1e-5)


MASKS = """
test "a hidden row is as if it were not there" {
  f = MultiHeadAttention[4, 2]()
  x = randn(f32[2, 3, 4])
  mask = where(arange(3) < 2, 0.0, -1e30) + zeros(f32[2, 2, 3, 3])
  assert close(f.masked(x, mask)[:, : 2], f(x[:, : 2]), tol = 1e-6)
  e = TransformerEncoderLayer[4, 2, 8](norm_first = true)
  assert close(e.masked(x, mask)[:, : 2], e(x[:, : 2]), tol = 1e-6)
}
test "cross attention to the rows themselves is self attention" {
  f = MultiHeadAttention[4, 2](bias = false)
  x = randn(f32[2, 3, 4])
  assert close(f.cross(x, x), f(x), tol = 1e-6)
}
test "causal rows do not see later ones" {
  e = TransformerEncoderLayer[4, 2, 8](causal = true)
  x = randn(f32[1, 3, 4])
  assert close(e(x)[:, : 2], e(x[:, : 2]), tol = 1e-6)
}
"""


def test_masks_and_cross_attention() -> None:
    assert problems(MASKS) == []


def test_decoding_without_a_cache_says_what_to_write() -> None:
    text = """model M {
  attn: MultiHeadAttention[4, 2]
  entry decode(x: f32[1, 4], at: i32) -> (y: f32[1, 4]) = attn.extend(x, at)
}
"""
    found = problems(text)[0]
    assert "decoding needs a cache: `MultiHeadAttention[D, H](cache = 256)`" in found
