"""Long chains of views and joins: kernels stay small and give what numpy gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters import NAMES, request_device
from random_models.judge import judge

CHAINS = {
    "rotations": "v = concat([v[1:4], v[0:1]], axis = 0)",
    "sums in between": "v = concat([v[0:2] + 1.0, v[2:4]], axis = 0)",
    "rotations of functions": "v = concat([tanh(v[1:4]), v[0:1]], axis = 0) * 0.9",
    "a buffer of the last values": "v = concat([v[1:4], x[k % 4][new]], axis = 0)",
    "reversed halves": (
        "t = transpose(reshape(v, [2, 2])); v = concat([reshape(t, [4])[2:4], v[0:2]], axis = 0)"
    ),
}
MODEL = """
model M {{
  param w: f32[4] = 0.5
  entry f(x: f32[4]) -> (y: f32[4]) {{
    v = x * w
    for k in 0..{rounds} {{ {body} }}
    return v + x
  }}
  entry slopes(x: f32[4]) -> (loss: f32, d_w: f32[4]) {{
    v = x * w
    for k in 0..{rounds} {{ {body} }}
    loss = sum(v * v * x)
    return loss, grad(loss, w)
  }}
}}
"""
# An exponential kernel has megabytes.
LARGEST_KERNEL = 60_000


@pytest.fixture(scope="module")
def devices() -> dict[str, Any]:
    return {name: request_device(name) for name in NAMES}


@pytest.mark.parametrize("body", CHAINS.values(), ids=CHAINS)
def test_chains_of_joins(body: str, devices: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(MODEL.format(rounds=24, body=body), encoding="utf-8")
    judge(path, devices, tmp_path / "bundle")
    sizes = {item.name: item.stat().st_size for item in (tmp_path / "bundle/kernels").iterdir()}
    assert max(sizes.values()) < LARGEST_KERNEL, sizes
