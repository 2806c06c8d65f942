"""People's data in JavaScript: the shared cases of files, and what a model does with them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from test_data_cases import CASES, EXPECTED, exact
from web_stacks import build_web, run_job, run_node
from wgcc_runtime.data.result import Data

READ = ("source", "model", "options")


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in EXPECTED]


def test_all_cases_are_read_as_in_python(cases: list[dict[str, Any]]) -> None:
    asked = [{key: case[key] for key in READ} for case in cases]
    seen = run_node("data_cases.mjs", str(CASES), data=asked)
    assert len(seen) == len(cases) > 40
    for case, found in zip(cases, seen, strict=True):
        wanted = exact({key: case[key] for key in case.keys() - set(READ)})
        assert found == wanted, case["source"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "bundle"
    return build_web(ROOT / "tests" / "golden" / "regression.wg", folder)


@pytest.fixture(scope="module")
def seen(bundle: Path) -> Any:
    return run_job("node", bundle, "prepared")


def test_a_preparation_scales_calls(seen: Any) -> None:
    assert seen["untouched"] == [None, None]
    assert seen["isSet"]
    plain = np.array(seen["plain"], np.float64)
    assert seen["read"] == (plain * 0.1 + 200).astype(np.float32).tolist()
    assert seen["readPrepared"] == seen["plain"]
    assert seen["shape"] == [2, 1]
    assert seen["losses"][0] == seen["losses"][1]
    assert seen["classes"] == ["a"]


def test_checkpoints_keep_the_preparation(seen: Any, bundle: Path, tmp_path: Path) -> None:
    assert seen["restored"] == seen["loaded"] == seen["preparation"]
    assert seen["emptied"] is None
    assert "has a damaged preparation" in seen["refused"]
    file = tmp_path / "python.safetensors"
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.preparation = seen["preparation"]
        model.save(file)
    assert base64.b64decode(seen["file"]) == file.read_bytes()


def test_the_same_rows_are_held_out_as_in_python(seen: Any) -> None:
    for found in seen["splits"]:
        arrays = {"x": np.arange(found["rows"]), "lr": np.float32(1)}
        data = Data(arrays, None, found["rows"], ("x",))
        train, held = data.split(found["share"], found["seed"])
        assert [train.arrays["x"].tolist(), held.arrays["x"].tolist()] == found["parts"]


def test_options_and_sources_are_checked(seen: Any) -> None:
    assert seen["wrong"] == [
        "data: `colour` is no option of readData",
        'data: `missing` is "drop" or "mean", not "keep"',
        "data: a source is a File, a list of Files, a Blob, bytes or text",
        "data: no file was given",
        "name: `fly` is no entry of the model; there are: train, predict",
    ]
