"""`load` in JavaScript: progress in bytes, weights of every kind, options, the end of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import build_web, run_job


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("load") / "bundle"
    return build_web(ROOT / "tests" / "golden" / "regression.wg", folder)


@pytest.mark.parametrize("stack", ["node", "chrome"])
def test_loading(bundle: Path, stack: str) -> None:
    seen = run_job(stack, bundle, "opening", {"device": "wasm"})
    size = (bundle / "weights.safetensors").stat().st_size
    assert seen["events"][-1] == [size, size]
    assert all(done <= total == size for done, total in seen["events"])
    assert seen["from"] == [True] * 5
    assert seen["options"] == (
        "name sed: name: `sed` is not an option of load; did you mean `seed`?"
    )
    assert seen["are"] == [True, True, False, False, False]
    assert seen["closed"].startswith("closed")
