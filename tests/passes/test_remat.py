"""`remat` layers: the same results with less memory, because values are recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from wgcc.compiler import compile_file
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source
from wgcc.ir.program import Program
from wgcc.passes.pipeline import run_passes

DEEP = """
dim B = 64, D = 24, F = 96, L = 5

layer Block[D, F] {{
  norm: LayerNorm[D]
  up: Linear[D, F]
  down: Linear[F, D]
  drop: Dropout(0.2)

  fn forward[N](x: f32[N, D], gain: f32) -> (f32[N, D], f32) {{
    h = x |> norm |> up |> gelu |> drop |> down
    return x + h * gain, mean(h)
  }}
}}

model Deep {{
  seed = 2
  {mark} blocks[L]: Block[D, F]
  optimizer opt: adam {{ lr = 1e-2 }}

  fn forward(x: f32[B, D]) -> (f32[B, D], f32) {{
    extra = 0.0 * sum(x)
    for block in blocks {{
      x, m = block(x, 0.5)
      extra = extra + m ** 2
    }}
    return x, extra
  }}

  entry train(x: f32[B, D], y: f32[B, D]) -> (loss: f32) {{
    h, extra = forward(x)
    loss = mse(h, y) + extra
    minimize loss with opt
    return loss
  }}

  entry predict(x: f32[B, D]) -> (y: f32[B, D]) {{
    y, _ = forward(x)
    return y
  }}
}}
"""


def write(tmp_path: Path, name: str, mark: str) -> Path:
    path = tmp_path / f"{name}.wg"
    path.write_text(DEEP.format(mark=mark), encoding="utf-8")
    return path


def elaborated(text: str) -> Program:
    found = Diagnostics()
    program = next(iter(check(Source("m.wg", text), found).values()))
    assert not found.errors, found.items[0].message
    return program


def count(program: Program, entry: str, op: str) -> int:
    return sum(node.op == op for node in program.entries[entry].nodes)


def test_planned_memory_falls(tmp_path: Path) -> None:
    plain, saving = (
        compile_file(write(tmp_path, name, mark)).planned.plan["memory"]["temps"]
        for name, mark in (("plain", ""), ("saving", "remat"))
    )
    assert saving < 0.5 * plain


def test_numbers_stay_the_same(tmp_path: Path, device: Any) -> None:
    """Including dropout: recomputing draws the same numbers."""
    rng = np.random.default_rng(1)
    batch = {name: rng.normal(size=(64, 24)).astype(np.float32) for name in "xy"}
    runs = []
    for name, mark in (("plain", ""), ("saving", "remat")):
        bundle = build(write(tmp_path, name, mark), tmp_path / name)
        model = wgcc_runtime.load(bundle, device=device)
        losses = [float(model.train(**batch)["loss"]) for _ in range(8)]
        runs.append((losses, model.predict(x=batch["x"])["y"]))
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=2e-6)
    np.testing.assert_allclose(runs[1][1], runs[0][1], rtol=1e-4, atol=1e-5)


def test_only_gradients_are_computed_with_the_second_values() -> None:
    program = elaborated(DEEP.format(mark="remat"))
    # Each block has one input tensor and two outputs.
    assert count(program, "train", "remat") == 5 * 3
    done = run_passes(program, check=True)
    assert count(done, "train", "remat") == 0 and count(done, "predict", "remat_barrier") == 0
    # One product of each block is recomputed; nothing needs the other one's result.
    products = count(done, "train", "matmul")
    plain = run_passes(elaborated(DEEP.format(mark="")))
    assert count(plain, "train", "matmul") < products <= count(plain, "train", "matmul") + 5


@pytest.mark.parametrize("mark", ["remat", "frozen remat"])
def test_marks_can_be_nested(mark: str) -> None:
    text = f"""
layer In {{
  param w: f32[3] = 1.0
  fn forward(x: f32[3]) -> f32[3] = tanh(x * w)
}}
layer Out {{
  remat inner[2]: In
  fn forward(x: f32[3]) -> f32[3] {{
    for each in inner {{ x = each(x) }}
    return x
  }}
}}
model M {{
  {mark} part: Out
  param v: f32[3] = 2.0
  optimizer opt: sgd {{ lr = 0.1 }}
  entry train(x: f32[3]) -> (loss: f32) {{
    loss = sum(part(x * v) ** 2)
    minimize loss with opt
    return loss
  }}
}}
"""
    program = elaborated(text)
    regions = {n.attrs["region"] for n in program.entries["train"].nodes if n.op == "remat"}
    assert len(regions) == 1
    run_passes(program, check=True)


def test_remat_is_a_name_elsewhere() -> None:
    elaborated("fn f(remat: f32) -> f32 = remat\nmodel M { entry go(x: f32) -> (y: f32) = f(x) }")
