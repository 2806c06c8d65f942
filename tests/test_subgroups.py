"""Kernels whose threads share loads: which adapters use them, and that they give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wgpu

import adapters
import wgcc_runtime
from line_training import refused
from web_stacks import as_lists, build_web, run_job
from wgcc.cli.stacks import StackError
from wgcc.compiler import compile_file
from wgcc_runtime.device import Device

# Products of all three kinds, at sizes that are not multiples of a tile, a gradient with sums of
# columns, and one product with too few rows to share.
MODEL = """
model M {
  seed = 3
  a: Linear[45, 139]
  b: Linear[139, 9]
  optimizer opt: adam { lr = 1e-2 }
  entry train(x: f32[67, 45], y: i32[67]) -> (loss: f32) {
    loss = cross_entropy(x |> a |> tanh |> b, y)
    minimize loss with opt
    return loss
  }
  entry one(x: f32[2, 45]) -> (y: f32[2, 9]) = x |> a |> tanh |> b
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "m.wg").write_text(MODEL, encoding="utf-8")
    compile_file(folder / "m.wg").write(folder / "bundle")
    return folder / "bundle"


def losses(bundle: Path, device: Any, profile: str) -> tuple[list[bytes], bytes]:
    draw = np.random.default_rng(5)
    x, y = draw.normal(size=(67, 45)).astype(np.float32), draw.integers(0, 9, 67).astype(np.int32)
    with wgcc_runtime.load(bundle, device=device, profile=profile) as model:
        found = [model.train(x=x, y=y)["loss"].tobytes() for _ in range(5)]
        return found, model.one(x=x[:2])["y"].tobytes()


def test_each_adapter_uses_its_own(bundle: Path, adapter: str, device: Any) -> None:
    with wgcc_runtime.load(bundle, device=device) as model:
        assert model.profile_name == adapter


def test_the_bits_are_those_of_the_cpu_kernels(bundle: Path, adapter: str, device: Any) -> None:
    assert losses(bundle, device, adapter) == losses(bundle, device, "cpu")


def test_a_device_without_subgroups_uses_the_cpu_kernels(bundle: Path, adapter: str) -> None:
    device = adapters.request_device(adapter, features=[])
    with wgcc_runtime.load(bundle, device=device) as model:
        assert model.profile_name == "cpu"
    with refused("feature", f"the {adapter} kernels need"):
        wgcc_runtime.load(bundle, device=device, profile=adapter)


@pytest.mark.parametrize("stack", ["node", "chrome"])
def test_in_javascript(bundle: Path, stack: str, tmp_path: Path) -> None:
    bundle = build_web(bundle.parent / "m.wg", tmp_path / "web")
    draw = np.random.default_rng(5)
    x, y = draw.normal(size=(67, 45)).astype(np.float32), draw.integers(0, 9, 67).astype(np.int32)
    given = {"batches": [as_lists({"x": x, "y": y})] * 3}
    own, plain = (
        run_job(stack, bundle, "training", {**given, **choice})
        for choice in ({}, {"profile": "cpu"})
    )
    assert (own["adapter"]["profile"], plain["adapter"]["profile"]) == ("swiftshader", "cpu")
    assert own["losses"] == plain["losses"]
    with pytest.raises(StackError, match="larger subgroups") as caught:
        run_job(stack, bundle, "training", {**given, "profile": "lavapipe"})
    assert caught.value.code == "feature"


def test_too_small_a_subgroup_is_refused(bundle: Path) -> None:
    with refused("feature", "the lavapipe kernels need subgroups of 8 threads; SwiftShader"):
        wgcc_runtime.load(bundle, device="SwiftShader", profile="lavapipe")


@pytest.mark.parametrize(("name", "threads"), [("llvmpipe (LLVM 15, 128 bits)", 4), ("x", 4)])
def test_what_is_known_of_other_adapters(name: str, threads: int, device: wgpu.GPUDevice) -> None:
    assert Device(device, name, "CPU").subgroup == threads
