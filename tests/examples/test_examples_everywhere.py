"""Every example fits default limits and gives the same results on four stacks, two with Tint.

So does its twin.
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
STACKS = {"lavapipe": ["python", "deno"], "swiftshader": ["node", "chrome"]}


@pytest.fixture(scope="module", params=NAMES)
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "bundle"
    return build_web(ROOT / "examples" / request.param / "model.wg", folder)


@pytest.mark.parametrize("device", ["webgpu", "wasm"])
def test_four_stacks_compute_the_same(bundle: Path, device: str) -> None:
    counts = set()
    for driver, stacks in STACKS.items():
        options = ("--on", ",".join(stacks), "--device", device, "--json")
        done = verify(bundle, *options, drivers=[driver])
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)
        assert [result["stack"] for result in results] == stacks
        counts |= {len(result["outputs"]) for result in results}
    assert len(counts) == 1 and min(counts) >= 3


def test_it_fits_default_limits(bundle: Path) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    assert not plan.features
    assert {k: v for k, v in plan.limits.items() if v > DEFAULT_LIMITS[k]} == {}
