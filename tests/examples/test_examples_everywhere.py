"""Every example fits default limits and gives the same results on four stacks, two with Tint.

So does its twin. Each stack runs every example once, with its kernels or its twin, and both of them
with half of the examples; each example runs on both adapters, by naga and by Tint.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wgcc_runtime
from adapters import ROOT
from web_stacks import build_web, verify
from wgcc_runtime.plan_parts import DEFAULT_LIMITS

NAMES = ("cnn", "chargpt", "mamba", "lora", "names", "gqa_decode")
# naga compiles for lavapipe, Tint, which refuses it, for SwiftShader.
STACKS = [
    {"lavapipe": "python", "swiftshader": "chrome"},
    {"lavapipe": "deno", "swiftshader": "node"},
]


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bundle(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(name) / "bundle"
    return build_web(ROOT / "examples" / name / "model.wg", folder)


@pytest.mark.parametrize("device", ["webgpu", "wasm"])
def test_stacks_compute_the_same(name: str, bundle: Path, device: str) -> None:
    counts = set()
    for driver, stack in STACKS[(NAMES.index(name) + (device == "wasm")) % 2].items():
        done = verify(bundle, "--on", stack, "--device", device, "--json", drivers=[driver])
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)
        assert result["stack"] == stack
        counts.add(len(result["outputs"]))
    assert len(counts) == 1 and min(counts) >= 3


def test_it_fits_default_limits(bundle: Path) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    assert not plan.features
    assert {k: v for k, v in plan.limits.items() if v > DEFAULT_LIMITS[k]} == {}
