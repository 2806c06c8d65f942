"""Edge cases of a loaded model, in Node, Deno and Chromium alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import line_bundle
from adapters import ROOT
from web_stacks import add_web_files, build_web, run_job
from wgcc.cli.commands.verify.stacks import StackError

EXPECTED: dict[str, Any] = {
    "stages": ["weights", "kernels", "loaded", "predicted", "kernels"],
    "wrongEntries": ["name", "name"],
    "meta": ["Regression", [6, 3], "f32"],
    "inputs": {
        "shape": "shape",
        "wrongShape": "shape",
        "rightShape": "number",
        "missing": "name",
        "unknown": "name",
        "notFinite": "not-finite",
        "tooLarge": "not-finite",
        "text": "dtype",
        "entry": "name",
        "inherited": "name",
        "noBatch": "data",
    },
    "fit": {
        "reports": [10, 20, 25],
        "more": [30],
        "ends": [31, 32, 33],
        "asyncData": [34, 35],
        "left": [40, 45],
        "nothing": [],
        "ended": "data",
        "badSeeds": ["range"] * 3,
        "noSteps": "data",
        "badSteps": "range",
        "badEntry": "name",
        "rows": "shape",
        "few": "shape",
        "data": "shape",
        "aborted": "AbortError",
        "abortedBefore": "AbortError",
        "loadAborted": "AbortError",
    },
    "saved": {"steps": 7, "same": True, "damaged": "weights", "cut": "weights"},
    "params": {
        "names": ["l1.w", "l1.b", "l2.w", "l2.b"],
        "shape": [3, 5],
        "missing": "weights",
        "some": "fine: undefined",
        "unknown": "weights",
        "shaped": "weights",
    },
    "during": True,
    "together": True,
    "seeds": [True, True, False],
    "badSeeds": ["range"] * 4,
    "weights": "weights",
    "profileName": "name",
    "memory": "memory",
    "profile": [True, True, True, True],
    "lost": {
        "train": "device-lost",
        "fit": "device-lost",
        "save": "device-lost",
        "write": "device-lost",
        "reason": "destroyed",
    },
    "recovered": {"steps": [4, 4, 3], "same": True, "trains": "number"},
    "closed": ["closed", "closed", "closed"],
    "error": [True, "closed"],
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "bundle"
    return build_web(ROOT / "tests" / "golden" / "regression.wg", folder)


@pytest.mark.parametrize("stack", ["node", "deno", "chrome"])
def test_behaviour(bundle: Path, stack: str) -> None:
    seen = run_job(stack, bundle, "behaviour")
    nan = seen.pop("nan")
    assert seen == EXPECTED
    assert (nan["code"], nan["steps"], nan["unchecked"]) == ("nan", 12, False)
    assert nan["text"].startswith("nan: `train` step 13: `loss` is not finite; it first appears in")
    assert "regression.wg:" in nan["text"]


@pytest.mark.parametrize("stack", ["node", "deno", "chrome"])
def test_every_call_waits_for_its_work(tmp_path: Path, stack: str) -> None:
    """Also one that returns nothing, or only writes."""
    bundle = build_web(ROOT / "tests" / "golden" / "memory.wg", tmp_path / "memory")
    seen = run_job(stack, bundle, "waits")
    assert seen["early"] == 0
    assert seen["waited"] >= 6


def test_changed_and_missing_files_are_refused(tmp_path: Path) -> None:
    bundle = add_web_files(line_bundle.write_bundle(tmp_path / "line"))
    kernels = bundle / "kernels.js"
    changed = kernels.read_text().replace("0.9 * m[id.x]", "0.8 * m[id.x]")
    assert changed != kernels.read_text()
    kernels.write_text(changed)
    with pytest.raises(StackError, match="was changed") as caught:
        run_job("node", bundle, "memory")
    assert caught.value.code == "bundle"
    kernels.unlink()
    with pytest.raises(StackError, match="a part is missing") as caught:
        run_job("node", bundle, "memory")
    assert caught.value.code == "bundle"


def test_bundle_without_weights_draws_them(tmp_path: Path) -> None:
    bundle = add_web_files(line_bundle.write_bundle(tmp_path / "line"))
    assert run_job("node", bundle, "start") == {
        "w": line_bundle.Reference().w.tolist(),
        "ema": line_bundle.Reference().w.tolist(),
        "picked": [line_bundle.Reference().w[2], 0.0, line_bundle.Reference().w[0]],
        "range": "range",
        "dtype": "dtype",
        "fraction": "dtype",
        "nothing": {},
        "store": "storage",
    }
