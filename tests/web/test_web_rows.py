"""Any number of rows in JavaScript: what Python gives, and refusals with the same codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from rows_model import SIZES, data, expected, write_model
from web_stacks import as_lists, build_web, run_job


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    return build_web(write_model(folder), folder / "bundle")


@pytest.fixture(scope="module", params=["node", "chrome"])
def seen(request: pytest.FixtureRequest, bundle: Path) -> Any:
    batches = [as_lists(data(rows)) for rows in SIZES]
    return run_job(request.param, bundle, "rows", {"batches": batches})


def test_outputs(bundle: Path, seen: Any) -> None:
    with wgcc_runtime.load(bundle, device="wasm") as model:
        wanted = [expected(model, data(rows)) for rows in SIZES]
    for rows, found, outputs in zip(SIZES, seen["found"], wanted, strict=True):
        for entry, values in outputs.items():
            for name, value in values.items():
                array = found[entry][name]
                kind = "Int32Array" if name in ("best", "right") else "Float32Array"
                assert (array["type"], array["shape"]) == (kind, list(np.shape(value)))
                flat = np.ravel(value)
                np.testing.assert_allclose(
                    array["values"], flat, 2e-5, 2e-5, err_msg=f"{rows} {name}"
                )


def test_refusals(seen: Any) -> None:
    refused = seen["refused"]
    assert {name: found[:2] for name, found in refused.items()} == {
        "mixed": ["shape", "mixed.x"],
        "train": ["shape", "train.x"],
        "fit": ["shape", "train"],
        "differ": ["shape", "eval.label"],
        "none": ["shape", "predict.x"],
        "shape": ["shape", "predict.x"],
        "width": ["shape", "predict.x"],
        "label": ["range", "eval.label"],
        "number": ["not-finite", "predict.x"],
        "lone": ["shape", "eval.x"],
        "scale": ["shape", "predict.scale"],
    }
    cannot = "has 5 rows, not 8, and mixed cannot run on other numbers of rows"
    why = "rows mix in `x - mean(x, axis = 0)` (net.wg:25)"
    advice = "Build it for 5: wgcc build MODEL --set B=5"
    assert refused["mixed"][2] == f"shape: `mixed.x` {cannot}: {why}. {advice}"
    assert "it trains" in refused["train"][2]
    # The number of rows is free, so it is not what is wrong.
    assert "has shape [3,2], not [3," in refused["width"][2]
    assert "fewer than the batch of 8" in refused["fit"][2] and "--set B=5" in refused["fit"][2]
    assert "has 2 rows, another input 5" in refused["differ"][2]
