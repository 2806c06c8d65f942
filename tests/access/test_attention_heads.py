"""Heads of usual sizes: what their kernels do to real GPUs, by the access model, and their numbers.

tests/ops/test_ops_gpu.py has odd sizes and every option of attention.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from kernel_families import family
from wgcc.access.model import Access, access_of
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import Session
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import tree_of

Array = np.ndarray[Any, Any]
HEADS = (32, 64, 128)
MOST_REGISTERS, MOST_SECTORS, MOST_CONFLICTS = 128, 1.3, 2
ENOUGH_WORKGROUPS = 64

TRAINED = """
dim B = 4, T = 512, K = 64
model Layer {
  attn: Attention[4 * K, 4, 4]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, T, 4 * K]) -> (loss: f32) {
    loss = mse(attn(x), x)
    minimize loss with opt
    return loss
  }
}
"""

DECODED = """
dim H = 8, KH = 2, S = 512, K = 64
model Cached {
  state keys: f32[KH, S, K] = 0.0
  state values: f32[KH, S, K] = 0.0
  entry decode(q: f32[H, 1, K]) -> (y: f32[H, 1, K]) = attention(q, keys, values)
}
"""


def launches(path: Path, entry: str, sizes: dict[str, int]) -> dict[str, tuple[Launch, Access]]:
    """Each kernel of attention by its family."""
    found = {}
    for dispatch in compile_file(path, sizes=sizes).schedule.entries[entry].dispatches:
        launch = dispatch.launches["gpu"]
        name = family(launch)
        if name.startswith("attention"):
            found[name] = launch, access_of(tree_of(launch.kernel), launch.grid)
    return found


@pytest.mark.parametrize("head", HEADS)
def test_training_fits_into_registers(head: int, tmp_path: Path) -> None:
    path = tmp_path / "layer.wg"
    path.write_text(TRAINED)
    found = launches(path, "train", {"K": head})
    tiles = {f"attention{part}_tiles" for part in ("", "_grad_q", "_grad_kv")}
    assert found.keys() == tiles
    for launch, access in found.values():
        assert access.live <= MOST_REGISTERS
        assert access.bank_conflicts <= MOST_CONFLICTS
        assert access.workgroups >= ENOUGH_WORKGROUPS
        check_sectors(access)
        # A third of the workgroup memory of a core that has 32 KiB, so that it is never idle.
        assert launch.kernel.workgroup_bytes <= 10_922


@pytest.mark.parametrize("head", HEADS)
def test_decoding_uses_all_lanes(head: int, tmp_path: Path) -> None:
    path = tmp_path / "cached.wg"
    path.write_text(DECODED)
    ((_, access),) = launches(path, "decode", {"K": head}).values()
    assert access.live <= MOST_REGISTERS and access.bank_conflicts <= MOST_CONFLICTS
    # Every head has a workgroup, whose lanes share the keys: whatever is loaded for each of them,
    # all lanes load a vector of it.
    assert access.workgroups == 8 and access.threads == 256
    check_sectors(access)
    shared = [site for site in access.sites if site.name in ("x1", "x2")]
    assert len(shared) >= 2 and all(site.size == 16 for site in shared)
    assert all(site.ideal == site.accesses * site.size for site in shared)


def check_sectors(access: Access) -> None:
    """Loads and stores of vectors touch no more than they use."""
    vectors = [site for site in access.sites if site.size > 4]
    assert sum(s.sectors for s in vectors) <= MOST_SECTORS * sum(s.ideal for s in vectors)
    assert access.sector_ratio <= MOST_SECTORS


NUMBERS = """
fn slopes[B, H, KH, T, K, V](q: f32[B, H, T, K], k: f32[B, KH, T, K], v: f32[B, KH, T, V])
  -> (f32[B, H, T, V], f32[B, H, T, K], f32[B, KH, T, K], f32[B, KH, T, V]) {
  y = attention(q, k, v, causal = true)
  (dq, dk, dv) = grad(sum(y * y), (q, k, v))
  return y, dq, dk, dv
}

model Heads {
  entry small(q: f32[1, 2, 37, 32], k: f32[1, 2, 37, 32], v: f32[1, 2, 37, 32])
    -> (y: f32[1, 2, 37, 32], dq: f32[1, 2, 37, 32], dk: f32[1, 2, 37, 32], dv: f32[1, 2, 37, 32]) =
    slopes(q, k, v)
  entry middle(q: f32[1, 2, 70, 64], k: f32[1, 1, 70, 64], v: f32[1, 1, 70, 48])
    -> (y: f32[1, 2, 70, 48], dq: f32[1, 2, 70, 64], dk: f32[1, 1, 70, 64], dv: f32[1, 1, 70, 48]) =
    slopes(q, k, v)
  entry large(q: f32[1, 1, 33, 128], k: f32[1, 1, 33, 128], v: f32[1, 1, 33, 128])
    -> (
      y: f32[1, 1, 33, 128], dq: f32[1, 1, 33, 128], dk: f32[1, 1, 33, 128], dv: f32[1, 1, 33, 128]
    ) = slopes(q, k, v)
  entry widest(q: f32[1, 1, 5, 272], k: f32[1, 1, 5, 272], v: f32[1, 1, 5, 136])
    -> (y: f32[1, 1, 5, 136], dq: f32[1, 1, 5, 272], dk: f32[1, 1, 5, 272], dv: f32[1, 1, 5, 136]) =
    slopes(q, k, v)
  entry decode(q: f32[2, 4, 1, 64], k: f32[2, 2, 300, 64], v: f32[2, 2, 300, 64], at: i32)
    -> (near: f32[2, 4, 1, 64], all: f32[2, 4, 1, 64]) {
    return attention(q, k, v, causal = true, offset = at, window = 100), attention(q, k, v)
  }
  entry narrow(q: f32[1, 2, 1, 32], k: f32[1, 1, 300, 32], v: f32[1, 1, 300, 4], at: i32)
    -> (y: f32[1, 2, 1, 4]) = attention(q, k, v, causal = true, offset = at)
  entry deep(q: f32[1, 1, 5, 2700], k: f32[1, 1, 5, 2700], v: f32[1, 1, 5, 8])
    -> (y: f32[1, 1, 5, 8]) = attention(q, k, v)
  entry alone(q: f32[1, 1, 1, 144], k: f32[1, 1, 40, 144], v: f32[1, 1, 40, 264])
    -> (y: f32[1, 1, 1, 264]) = attention(q, k, v)
}
"""
POSITION = 290


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("heads") / "heads.wg"
    path.write_text(NUMBERS)
    return compile_file(path)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads") / "bundle"
    compiled.write(folder)
    return folder


def given(compiled: Compiled, entry: str) -> dict[str, Array]:
    rng = np.random.default_rng(8)
    return {
        value.name: rng.normal(size=value.shape).astype(np.float32)
        if value.dtype == "f32"
        else np.int32(POSITION)
        for value in compiled.program.entries[entry].inputs
    }


def test_numbers(compiled: Compiled, bundle: Path, device: Any) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    session = Session(compiled.program, {}, {})
    for entry in compiled.program.entries:
        inputs = given(compiled, entry)
        found = model.call(entry, **inputs)
        for name, wanted in session.call(entry, inputs).items():
            error = np.abs(found[name] - wanted).max() / (1 + np.abs(wanted).max())
            assert error <= 1e-5, f"{entry}.{name} is off by {error:.1e}"


def test_decoding_gives_the_same_bits_again(compiled: Compiled, bundle: Path, device: Any) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    inputs = given(compiled, "decode")
    first, second = (model.decode(**inputs)["all"] for _ in range(2))
    assert np.array_equal(first, second)
