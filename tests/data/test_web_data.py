"""People's data in JavaScript: the shared cases of files, and what a model does with them."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from test_data_cases import ASKED, CASES, EXPECTED, exact
from test_data_fuzz import damage
from web_stacks import build_web, run_job, run_node
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.weights import save_arrays


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in EXPECTED]


def test_all_cases_are_read_as_in_python(cases: list[dict[str, Any]]) -> None:
    asked = [{key: case[key] for key in ASKED if key in case} for case in cases]
    seen = run_node("data_cases.mjs", str(CASES), data=asked)
    assert len(seen) == len(cases) > 40
    for case, found in zip(cases, seen, strict=True):
        wanted = exact({key: case[key] for key in case.keys() - set(ASKED)})
        assert found == wanted, case["source"]


def test_files_of_arrays_are_read_as_numpy_reads_them(tmp_path: Path) -> None:
    x = np.linspace(-2, 2, 8).reshape(4, 2)
    y = np.array([0, 2, 1, 2])
    stored = {
        "plain": (np.savez, x.astype(np.float32), y.astype(np.int32)),
        "packed": (np.savez_compressed, x, y.astype(np.int64)),
        "columns": (np.savez, np.asfortranarray(x), y.astype(np.uint8)),
        "big": (np.savez, x.astype(">f4"), y.astype(">i2")),
        "half": (np.savez, x.astype(np.float16), y.astype(np.int8)),
    }
    for name, (save, *arrays) in stored.items():
        save(tmp_path / f"{name}.npz", **dict(zip("xy", arrays, strict=True)))
    save_arrays(tmp_path / "tensors.safetensors", {"x": x.astype(np.float32), "y": y})
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "x.npy", x)
    np.save(tmp_path / "folder" / "y.npy", y)
    names = [*(f"{name}.npz" for name in stored), "tensors.safetensors", "folder"]
    seen = run_node("data_cases.mjs", str(tmp_path), data=[asked(name) for name in names])
    for name, found in zip(names, seen, strict=True):
        assert "error" not in found, (name, found)
        rounded = x.astype(np.float16 if name == "half.npz" else np.float32)
        assert np.array(found["arrays"]["x"], np.float32).tolist() == rounded.tolist(), name
        assert found["arrays"]["y"] == y.tolist(), name
        assert (found["rows"], found["preparation"]) == (4, None)


def asked(source: str) -> dict[str, Any]:
    return {"source": source, "model": str(CASES / "models" / "class3.json"), "options": {}}


def test_damaged_files_of_arrays_are_refused_in_words(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", x=np.zeros((4, 2)), y=np.zeros(4, np.int32))
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    save_arrays(tmp_path / "whole.safetensors", {"x": np.zeros((4, 2)), "y": np.zeros(4)})
    draw, names = random.Random(0), ["objects.npy"]
    for name in ("whole.npz", "x.npy", "whole.safetensors"):
        for number in range(12):
            names.append(f"{number}-{name}")
            (tmp_path / names[-1]).write_bytes(damage(draw, (tmp_path / name).read_bytes()))
    seen = run_node("data_cases.mjs", str(tmp_path), data=[asked(name) for name in names])
    assert "cannot read objects.npy: its elements are no numbers" in seen[0]["error"]
    assert sum("error" in found for found in seen) > len(seen) / 2
    for name, found in zip(names, seen, strict=True):
        text = found.get("error", "")
        assert "    at " not in text, f"{name}: a stack instead of words: {text}"


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
    assert "prepared in another way" in seen["resumed"][0]
    assert seen["resumed"][1] is None
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
        "data: 2 files: one table or text can be read at a time",
    ]
