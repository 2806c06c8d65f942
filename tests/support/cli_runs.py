"""A small model, and how tests run the command line on it."""

from __future__ import annotations

import pytest

from adapters import ROOT
from wgcc.cli import main

WRONG = ROOT / "tests" / "filetests" / "diagnostics" / "03_three_errors_at_once.wg"

MODEL = """\
dim B = 4, H = 3

model Net {
  seed = 1
  f: Linear[2, H]
  g: Linear[H, 1]
  optimizer opt: sgd { lr = 0.1 }

  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(x |> f |> tanh |> g, y)
    minimize loss with opt
    return loss
  }

  entry predict(x: f32[1, 2]) -> (y: f32[1, 1]) = x |> f |> tanh |> g
}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err
