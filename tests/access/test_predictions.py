"""`wgcc bench` shows what the access model predicts, beside what real GPUs measure."""

from __future__ import annotations

from adapters import ROOT
from wgcc.access.devices import DEVICES, seconds
from wgcc.cli.commands.bench.text import bench_text
from wgcc.cli.dispatch_models import accesses
from wgcc_runtime import load_plan

BUNDLE = ROOT / "tests" / "golden" / "regression"


def test_every_dispatch_has_a_prediction() -> None:
    plan = load_plan(BUNDLE)
    dispatches = plan.dispatches("train", "gpu")
    models = [access for access in accesses(BUNDLE, plan, dispatches) if access]
    fast, slow = ([seconds(access, device) for access in models] for device in DEVICES[:2])
    assert len(fast) == len(dispatches) and all(0 < a < b for a, b in zip(fast, slow, strict=True))


def test_predictions_stand_beside_measurements() -> None:
    row = {
        "ms": 2.0,
        "share": 1.0,
        "gflops": None,
        "gbytes_per_s": None,
        "kernel": "k",
        "at": "m:1",
        "place": "blocks.1.attn",
        "verdict": None,
    }
    profile = {"entry": "train", "ms": 2.0, "method": "timestamps", "rows": [row],
               "judged_for": "Apple M2"}  # fmt: skip
    facts = {"path": "b", "device": "d", "profile": "gpu", "load_ms": 1.0, "compile_ms": 1.0,
             "bytes": 1, "temporary_bytes": 1, "entries": []}  # fmt: skip
    assert "least ms" not in bench_text({**facts, "kernels": [profile]})
    predicted = {**profile, "rows": [{**row, "predicted_ms": 0.5}], "predicted_for": "Apple M2"}
    text = bench_text({**facts, "kernels": [predicted]})
    assert "least ms" in text and "2.0000" in text and "0.5000" in text
