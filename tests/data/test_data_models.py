"""Models keep how their data was prepared, use it in calls, and save it with their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from test_data_cases import CASES
from wgcc_runtime.data.preparation import parse_preparation, preparation_text
from wgcc_runtime.errors import WgccError
from wgcc_runtime.model import Model
from wgcc_runtime.strict_json import number_text
from wgcc_runtime.weights import load_weights


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "bundle"
    build(ROOT / "tests" / "golden" / "regression.wg", folder)
    return folder


@pytest.fixture
def model(bundle: Path) -> Model:
    return wgcc_runtime.load(bundle, device="wasm")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(24, 3)) * [1, 100, 0.01] + [0, 1000, 5]
    lines = [f"{a!r},{b!r},{c!r},{300 + 2 * b!r}" for a, b, c in rows.tolist()]
    (tmp_path / "houses.csv").write_text("a,b,c,price\n" + "\n".join(lines))
    return tmp_path / "houses.csv"


def test_predictions_are_in_the_units_of_the_file(model: Model, table: Path) -> None:
    data = wgcc_runtime.read_data(table, model, scale=True)
    assert data.needs_scaling == ["b", "c", "price"]
    model.fit(data, steps=3, every=3)
    raw = np.genfromtxt(table, delimiter=",", skip_header=1)
    found = model.predict(x=raw[:, :3])["y"]
    scaled = model.call_prepared("predict", x=data.arrays["x"])["y"]
    spec = data.preparation["inputs"]["y"] if data.preparation else {}
    expected = scaled.astype(np.float64) * spec["deviation"][0] + spec["mean"][0]
    assert np.array_equal(found, expected.astype(np.float32))
    assert np.array_equal(model.map("predict", x=raw[:, :3])["y"], found)


def test_few_rows_fill_a_batch(model: Model, tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("a,b,c,price\n" + "1,2,3,6\n0,1,1,2\n1,0,0,1\n")
    data = wgcc_runtime.read_data(tmp_path / "few.csv", model)
    batch = model.entry("train").inputs["x"].shape[0]
    assert data.notes[-1] == f"3 rows are fewer than the {batch} of a batch: rows are repeated."
    filled = data.repeat_rows(batch)
    assert batch <= len(filled["x"]) < batch + 3
    assert np.array_equal(filled["x"], np.resize(data.arrays["x"], filled["x"].shape))
    history = model.fit(data, steps=30, every=1)
    assert history.reports[-1].loss < history.reports[0].loss


def test_the_preparation_is_saved_and_restored(
    bundle: Path, model: Model, table: Path, tmp_path: Path
) -> None:
    data = wgcc_runtime.read_data(table, model, scale=True)
    model.fit(data, steps=2, checkpoint=tmp_path / "w.safetensors")
    raw = np.genfromtxt(table, delimiter=",", skip_header=1)[:2, :3]
    found = model.predict(x=raw)["y"]
    other = wgcc_runtime.load(bundle, device="wasm", weights=tmp_path / "w.safetensors")
    assert other.preparation == data.preparation
    assert np.array_equal(other.predict(x=raw)["y"], found)
    other.preparation = None
    other.save(tmp_path / "plain.safetensors")
    model.load(tmp_path / "plain.safetensors")
    assert model.preparation is None
    model.load(tmp_path / "w.safetensors")
    assert model.preparation == data.preparation
    header = (tmp_path / "w.safetensors").read_bytes()[8:]
    assert header.startswith(b'{"__metadata__":{"preparation":"{\\"inputs\\":{\\"x\\":{\\"columns')


def test_resuming_with_other_data_is_refused(model: Model, table: Path, tmp_path: Path) -> None:
    place = tmp_path / "w.safetensors"
    data = wgcc_runtime.read_data(table, model, scale=True)
    model.fit(data, steps=2, checkpoint=place)
    model.fit(data, steps=4, checkpoint=place, resume=True)
    plain = wgcc_runtime.read_data(table, model)
    with pytest.raises(WgccError, match="prepared in another way"):
        model.fit(plain, steps=6, checkpoint=place, resume=True)


def test_reading_for_a_trained_model_uses_its_preparation(
    model: Model, table: Path, tmp_path: Path
) -> None:
    data = wgcc_runtime.read_data(table, model, scale=True)
    new = tmp_path / "new.csv"
    new.write_text("c,note,a,b\n5,x,1,1000\n5.5,y,0,900\n")
    found = wgcc_runtime.read_data(new, model, entry="predict", preparation=data.preparation)
    assert found.arrays["x"].tolist() == [[1, 1000, 5], [0, 900, 5.5]]
    again = wgcc_runtime.read_data(table, model, preparation=data.preparation)
    assert np.array_equal(again.arrays["y"], data.arrays["y"])
    new.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(WgccError, match="no column `c`, which the model was trained with"):
        wgcc_runtime.read_data(new, model, entry="predict", preparation=data.preparation)


def test_a_part_of_the_rows_is_held_out(model: Model, table: Path) -> None:
    data = wgcc_runtime.read_data(table, model)
    train, held = data.split(0.25, seed=3)
    assert (train.rows, held.rows) == (18, 6)
    both = np.concatenate([train.arrays["y"], held.arrays["y"]])
    assert sorted(both.ravel()) == sorted(data.arrays["y"].ravel())
    again = data.split(0.25, seed=3)[1]
    assert np.array_equal(again.arrays["x"], held.arrays["x"])
    assert not np.array_equal(data.split(0.25, seed=4)[1].arrays["x"], held.arrays["x"])
    with pytest.raises(WgccError, match="between 0 and 1"):
        data.split(1.5)


# Written by `String(x)` in Node.
NUMBERS = {
    5.0: "5", -0.1: "-0.1", 1e-7: "1e-7", 0.000001: "0.000001", 1.5e-7: "1.5e-7", 1e21: "1e+21",
    123456789012345680000.0: "123456789012345680000", 0.1 + 0.2: "0.30000000000000004",
    1e16: "10000000000000000", -2.5e300: "-2.5e+300", 0.0: "0", 120.0: "120", 0.05: "0.05",
}  # fmt: skip


def test_numbers_are_written_as_in_javascript() -> None:
    assert {number: number_text(number) for number in NUMBERS} == NUMBERS


BROKEN: dict[str, Any] = {
    "no object": [],
    "kind": {"version": 1, "inputs": {"x": {"kind": "magic"}}, "target": None},
    "names": {"version": 1, "inputs": {"x": {"kind": "columns", "columns": [1]}}, "target": None},
    "lengths": {
        "version": 1,
        "inputs": {"x": {"kind": "columns", "columns": ["a"], "mean": [1, 2], "deviation": [1]}},
        "target": None,
    },
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_preparations_are_refused(name: str) -> None:
    with pytest.raises(WgccError, match="has a preparation this runtime does not know"):
        parse_preparation(preparation_text(BROKEN[name]), "w.st")


def test_a_preparation_of_a_later_version_is_refused() -> None:
    with pytest.raises(WgccError, match="of version 2, not 1"):
        parse_preparation('{"version": 2}', "w.st")


def test_a_weights_file_keeps_its_other_facts(model: Model, table: Path, tmp_path: Path) -> None:
    data = wgcc_runtime.read_data(table, model)
    model.fit(data, steps=2, checkpoint=tmp_path / "w.safetensors")
    facts = load_weights(tmp_path / "w.safetensors")[1]
    assert facts["steps"] == {"train": 2}
    assert facts["preparation"] == data.preparation


def test_several_picture_files_are_read_in_their_order() -> None:
    form = json.loads((CASES / "models" / "pictures.json").read_text(encoding="utf-8"))
    folder = CASES / "picture_folders"
    files = [folder / "dog" / "2.png", folder / "cat" / "a.png"]
    data = wgcc_runtime.read_data(files, form, entry="predict")
    whole = wgcc_runtime.read_data(folder, form, entry="predict")
    assert np.array_equal(data.arrays["image"], whole.arrays["image"][[0, 2]])
    with pytest.raises(WgccError, match="no pictures"):
        wgcc_runtime.read_data(CASES / "models", form, entry="predict")
