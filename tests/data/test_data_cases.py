"""The shared cases of data files, read in Python: `tests/data_cases` holds what must be found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from wgcc_runtime.data.problems import DataError
from wgcc_runtime.data.read import read_data
from wgcc_runtime.errors import WgccError

CASES = ROOT / "tests" / "data_cases"
EXPECTED = sorted(CASES.glob("*.expected.json"))
# What is read. `classes` are those that the model knows, by input and id.
ASKED = ("source", "model", "classes", "options", "held_out")
READING = {"notes", "rows", "dropped", "columns", "needs_scaling", "preparation", "arrays"}


def test_every_source_has_an_expected_reading() -> None:
    sources = {json.loads(path.read_text(encoding="utf-8"))["source"] for path in EXPECTED}
    there = {path.name for path in CASES.iterdir() if not path.name.endswith(".expected.json")}
    assert there == sources | {"models"}


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_cases_are_read_as_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)  # messages begin with the name of the file as it is given
    case = json.loads(path.read_text(encoding="utf-8"))
    share = case.get("held_out")
    wanted = {key: case[key] for key in case.keys() - set(ASKED)}
    assert wanted.keys() in ({"error"}, READING | ({"held"} if share else set()))
    model = json.loads((CASES / case["model"]).read_text(encoding="utf-8"))
    model["classes"] = case.get("classes", {})
    assert reading(case["source"], model, case["options"], share) == exact(wanted)


def reading(
    source: str, model: Any, options: dict[str, Any], share: float | None = None
) -> dict[str, Any]:
    """What was read; with a share of held-out rows, the rows to train with, and `held`."""
    try:
        data = read_data(source, model, **options)
    except DataError as error:
        assert error.code == "data"
        return {"error": {"problem": error.problem, "place": error.place, "values": error.values}}
    except WgccError as error:
        assert error.code == "data"
        return {"error": error.message}
    data, held = data.split(share) if share else (data, None)
    found = {key: getattr(data, key) for key in READING - {"arrays"}}
    found["arrays"] = {name: array.tolist() for name, array in data.arrays.items()}
    if held:
        found["held"] = {name: array.tolist() for name, array in held.arrays.items()}
    return found


def exact(wanted: dict[str, Any]) -> dict[str, Any]:
    """Floats of arrays are expected as the nearest f32."""
    rounded = {
        key: {name: np.array(values, np.float32).tolist() for name, values in wanted[key].items()}
        for key in ("arrays", "held")
        if key in wanted
    }
    return {**wanted, **rounded}
