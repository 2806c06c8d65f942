"""The shared cases of data files, read in Python: `tests/data_cases` holds what must be found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgcc_runtime.data.read import read_data
from wgcc_runtime.errors import WgccError

CASES = Path(__file__).parent / "data_cases"
EXPECTED = sorted(CASES.glob("*.expected.json"))
READING = {"notes", "rows", "dropped", "columns", "needs_scaling", "preparation", "arrays"}


def test_every_source_has_an_expected_reading() -> None:
    sources = {json.loads(path.read_text(encoding="utf-8"))["source"] for path in EXPECTED}
    there = {path.name for path in CASES.iterdir() if not path.name.endswith(".expected.json")}
    assert there == sources | {"models"}


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_cases_are_read_as_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)  # messages begin with the name of the file as it is given
    case = json.loads(path.read_text(encoding="utf-8"))
    wanted = {key: case[key] for key in case.keys() - {"source", "model", "options"}}
    assert wanted.keys() in ({"error"}, READING)
    model = json.loads((CASES / case["model"]).read_text(encoding="utf-8"))
    assert reading(case["source"], model, case["options"]) == exact(wanted)


def reading(source: str, model: Any, options: dict[str, Any]) -> dict[str, Any]:
    try:
        data = read_data(source, model, **options)
    except WgccError as error:
        assert error.code == "data"
        return {"error": error.message}
    found = {key: getattr(data, key) for key in READING - {"arrays"}}
    return {**found, "arrays": {name: array.tolist() for name, array in data.arrays.items()}}


def exact(wanted: dict[str, Any]) -> dict[str, Any]:
    """Floats of arrays are expected as the nearest f32."""
    arrays = {
        name: np.array(values, np.float32).tolist()
        for name, values in wanted.get("arrays", {}).items()
    }
    return {**wanted, "arrays": arrays} if "arrays" in wanted else wanted
