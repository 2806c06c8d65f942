"""Bundles that an adapter cannot run, missing adapters, work that never ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import line_bundle
import wgcc_runtime
from line_training import refused
from wgcc_runtime import device
from wgcc_runtime.bundle_files import code_digest


def test_unknown_adapter_and_profile(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    with refused("no-adapter", "no adapter's name contains `quantum`"):
        wgcc_runtime.load(bundle, device="quantum")
    with refused("name", "no profile `tpu`; there are: candidate_0, gpu"):
        wgcc_runtime.load(bundle, profile="tpu")


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", True])
def test_seeds_are_words(adapter: str, tmp_path: Path, seed: Any) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    text = "`seed` is a whole number from 0 to 4294967295, not "
    with refused("range", text):
        wgcc_runtime.load(bundle, device=adapter, seed=seed)
    with wgcc_runtime.load(bundle, device=adapter) as model:
        with refused("range", text):
            model.reset(seed)
        with refused("range", text):
            model.fit(lambda step: None, seed=seed)


def test_dispatches_of_guards_count_too(tmp_path: Path) -> None:
    plan = line_bundle.make_plan()
    plan["entries"]["train"]["guard"]["dispatches"] *= 10_000
    bundle = line_bundle.write_bundle(tmp_path / "bundle", **plan)
    with refused("plan", "more than 10000 dispatches in all"):
        wgcc_runtime.load_plan(bundle)


def test_kernel_that_does_not_compile_is_named(adapter: str, tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bad")
    plan = line_bundle.make_plan()
    text = line_bundle.PICK.replace("clamp", "klamp")
    plan["kernels"][3]["sha256"] = code_digest(text)
    (bundle / "kernels" / "pick.wgsl").write_text(text)
    line_bundle.write_plan(bundle, plan)
    with refused("gpu", "kernel `pick`"):
        wgcc_runtime.load(bundle, device=adapter, entries=["pick"])


def test_feature_and_limit_beyond_the_adapter(adapter: str, tmp_path: Path) -> None:
    needs = {"features": ["shader-f128"], "limits": {}}
    bundle = line_bundle.write_bundle(tmp_path / "feature", requires=needs)
    with refused("feature", "shader-f128"):
        wgcc_runtime.load(bundle, device=adapter)
    needs = {"features": [], "limits": {"maxStorageBuffersPerShaderStage": 1 << 30}}
    bundle = line_bundle.write_bundle(tmp_path / "limit", requires=needs)
    with refused("limit", "maxStorageBuffersPerShaderStage"):
        wgcc_runtime.load(bundle, device=adapter)


def test_endless_work_times_out() -> None:
    class Never:
        _thread_event = threading.Event()

    with refused("time-out", "within 0 s"):
        device.wait(Never(), "this", seconds=0.01)
