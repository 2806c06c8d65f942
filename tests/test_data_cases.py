"""The shared cases of data files: every file has an expected reading, every reading a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "data_cases"
EXPECTED = sorted(CASES.glob("*.expected.json"))
READING = {"notes", "rows", "dropped", "columns", "needs_scaling", "preparation", "arrays"}


def test_every_source_has_an_expected_reading() -> None:
    sources = {json.loads(path.read_text(encoding="utf-8"))["source"] for path in EXPECTED}
    there = {path.name for path in CASES.iterdir() if not path.name.endswith(".expected.json")}
    assert there == sources | {"models"}


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_expected_readings_are_complete(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    assert (CASES / case["model"]).is_file()
    found = case.keys() - {"source", "model", "options"}
    assert found in ({"error"}, READING)
