"""Failing GPUs in JavaScript: every failure is an error with a code, and nothing counts as done.

`WGCC_STRIDE=1` loses the device at every call of the run instead of at every 13th.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import line_bundle
from adapters import ROOT
from web_soak import soak
from web_stacks import add_web_files, build_web, run_job
from wgcc.cli.commands.verify.stacks import StackError
from wgcc_runtime.bundle_files import code_digest

STRIDE = int(os.environ.get("WGCC_STRIDE", "13"))


@pytest.mark.parametrize("stack", ["node", "deno", "chrome"])
def test_failing_calls_and_lost_devices(stack: str, tmp_path: Path) -> None:
    bundle = add_web_files(line_bundle.write_bundle(tmp_path / "line"))
    seen = run_job(stack, bundle, "faults", {"stride": STRIDE})
    calls, losses = seen["calls"], seen["losses"]
    # A model still trains if there is no memory to undo a step.
    assert set(calls.pop("memory")) == {"load: memory", "fit: memory", "fit: done"}
    # Entries are compiled at their first call, unless `load` is asked to; then they can run.
    # Where a device has subgroups, the first kernel only tries them.
    assert set(calls.pop("createComputePipelineAsync")) - {"fit: done"} == {"fit: gpu, then done"}
    assert set(calls.pop("compiling while loading")) - {"fit: done"} == {"load: gpu"}
    # The copy that `fit` ends with may fail: its steps were made.
    for kind, outcomes in calls.items():
        assert set(outcomes) - {"fit: done"} == {"load: gpu", "fit: gpu"}, kind
    assert losses["undisturbed"] == "done"
    assert losses["lost"] >= losses["points"] // STRIDE - 1 > 2
    assert losses["wrong"] == []
    # Far below the ten minutes after which a step times out, even on a busy machine.
    assert losses["slowest"] < 20_000


@pytest.mark.parametrize("stack", ["node", "deno", "chrome"])
def test_no_training_is_lost_with_the_device(stack: str, tmp_path: Path) -> None:
    """However a training ended: `recover` gives its last step, or says how many are lost."""
    bundle = add_web_files(line_bundle.write_bundle(tmp_path / "line"))
    seen = run_job(stack, bundle, "lost", {})
    kept = {"steps": 6, "lost": 0, "isSame": True}
    assert {name: seen[name] for name in ("finished", "left", "aborted", "failed")} == {
        "finished": kept,
        "left": kept,
        "aborted": kept,
        "failed": kept,
    }
    assert seen["twice"] == kept, "lost again before a step was made"
    assert seen["whileSaving"] == {**kept, "code": "device-lost"}
    assert seen["restored"] == {"steps": 6, "lost": 0, "isSame": True}
    assert seen["written"] == {"steps": 6, "lost": 0, "isSame": True}
    assert seen["byHand"] == {"steps": 6, "lost": 2, "isSame": False}
    assert seen["without"] == {"steps": 0, "lost": 6, "isSame": False}


def test_a_wrong_kernel_is_caught(tmp_path: Path) -> None:
    """Its digest is updated, so that only its results are wrong."""
    bundle = build_web(ROOT / "tests" / "golden" / "regression.wg", tmp_path / "bundle")
    assert run_job("node", bundle, "verified", {"verify": True}) == "sound"
    plan = json.loads((bundle / "plan.json").read_text())
    damaged = 0
    for kernel in plan["kernels"]:
        path = bundle / "kernels" / kernel["file"]
        text = path.read_text()
        damaged += "= wg_tanh(" in text
        text = text.replace("= wg_tanh(", "= -wg_tanh(")
        path.write_text(text)
        kernel["sha256"] = code_digest(text)
    assert damaged
    plan.pop("sha256", None)
    (bundle / "plan.json").write_text(json.dumps(plan))
    add_web_files(bundle)
    assert run_job("node", bundle, "verified", {}) == "sound"
    with pytest.raises(StackError, match=r"`\w+\.\w+` is off by .* on this GPU") as caught:
        run_job("node", bundle, "verified", {"verify": True})
    assert caught.value.code == "selftest"


def test_memory_is_flat() -> None:
    """tests/support/web_soak.py does the same for 10,000 steps."""
    first, *later = soak(300)
    for look in later:
        assert look["alive"] == first["alive"]
        assert look["heap"] < 1.1 * first["heap"]
        for kind in ("renderer", "GPU"):
            assert look["resident"][kind] < 1.05 * first["resident"][kind], kind
