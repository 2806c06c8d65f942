"""Bundles built with --pairs: fewer dispatches, and the same bits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import wgcc_runtime
from tint_compiler import compile_all
from wgcc.cli.group import cli
from wgcc.compiler import Compiled, compile_file
from wgcc.kernel.check import check
from wgcc.kernel.parse import parse_module

# Products whose tiles do not fit into workgroup memory beside each other, an operand that one
# kernel loads by number and the other by vector, sums of columns, attention, a convolution.
MODEL = """
dim B = 4, T = 32, D = 64, H = 4
model Net {
  qkv: Linear[D, 3 * D]
  out: Linear[D, D]
  norm: LayerNorm[D]
  up: Linear[D, 2 * D](bias = false)
  down: Linear[2 * D, D]
  param kernel: f32[4, D] ~ uniform(-0.5, 0.5)
  optimizer opt: adam { lr = 1e-2; clip_norm = 1.0 }

  entry train(x: f32[B, T, D]) -> (loss: f32) {
    p = rearrange(qkv(x), "B T (three H K) -> three B H T K", three = 3, H = H)
    y = attention(p[0], p[1], p[2], causal = true)
    x = x + out(rearrange(y, "B H T K -> B T (H K)"))
    x = x + (x |> norm |> up |> gelu |> down)
    loss = mean(square(causal_conv1d(x, kernel)))
    minimize loss with opt
    return loss
  }
}
"""
# Groups that could change places, with kernels of too many threads to share a dispatch.
LARGE = """
model Large {
  entry sums(x: f32[400, 400], y: f32[500, 500], z: f32[300, 600])
      -> (s: f32[400], t: f32[500], c: f32[300, 600]) {
    return sum(square(x), axis = 0), sum(square(y), axis = 1), cos(z)
  }
}
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Compiled]]:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "m.wg").write_text(MODEL, encoding="utf-8")
    compiled = [compile_file(folder / "m.wg", pairs=pairs) for pairs in (False, True)]
    for name, each in zip(("alone", "pairs"), compiled, strict=True):
        each.write(folder / name)
    return folder, compiled


def trained(bundle: Path, device: Any) -> dict[str, np.ndarray]:
    model = wgcc_runtime.load(bundle, device=device, seed=3)
    x = np.random.default_rng(1).normal(size=(4, 32, 64)).astype(np.float32)
    losses = [model.call("train", x=x)["loss"] for _ in range(3)]
    return {"losses": np.array(losses), **model.params()}


def test_pairs_are_fewer_dispatches(both: tuple[Path, list[Compiled]]) -> None:
    alone, pairs = (len(c.schedule.entries["train"].dispatches) for c in both[1])
    assert pairs <= alone - 3


def test_nothing_changes_without_a_pair(tmp_path: Path) -> None:
    """Commands that compile a bundle again know by its pairs what it was built with."""
    (tmp_path / "m.wg").write_text(LARGE, encoding="utf-8")
    alone, pairs = (compile_file(tmp_path / "m.wg", pairs=pairs) for pairs in (False, True))
    assert pairs.planned.plan == alone.planned.plan


def test_pairs_have_the_same_bits(both: tuple[Path, list[Compiled]], machine: Any) -> None:
    alone, pairs = (trained(both[0] / name, machine) for name in ("alone", "pairs"))
    assert alone["losses"][-1] < alone["losses"][0]
    assert {name for name in alone if alone[name].tobytes() != pairs[name].tobytes()} == set()


def test_kernels_of_pairs_keep_all_rules(both: tuple[Path, list[Compiled]]) -> None:
    """Barriers in uniform control flow, workgroup memory, bindings: by the checker and by Tint."""
    texts = {kernel.file: kernel.text for kernel in both[1][1].planned.kernels}
    joined = {name: text for name, text in texts.items() if "own_group" in text}
    assert any("pool[" in text for text in joined.values())
    problems = {name: check(parse_module(text)).problems for name, text in joined.items()}
    assert {name: found for name, found in problems.items() if found} == {}
    compiled = compile_all(both[0] / "pairs" / "kernels" / name for name in joined)
    assert {path: text for path, text in compiled.items() if text} == {}


def test_tuning_says_that_pairs_have_no_other_kernels(both: tuple[Path, list[Compiled]]) -> None:
    result = CliRunner().invoke(cli, ["tune", str(both[0] / "pairs")])
    assert result.exit_code == 1
    assert "was built with --pairs: tune a bundle that was built without" in str(result.exception)
