"""Pages for tables as people have them: their fields, and what the model learned."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from public_tables import rows_of
from web_stacks import run_node
from wgcc.cli import main

CITIES = ("Bonn", "Cork", "Oslo")
FLATS = [
    [
        CITIES[n % 3],
        f"{30 + (7 * n) % 60} m²",
        "yes" if n % 4 else "no",
        f"{1 + n % 28:02}.{1 + n % 12:02}.{2020 + n % 3}",
        f"€{800 + 20 * ((7 * n) % 60) + 400 * (n % 3) + (n * n) % 90:,}",
    ]
    for n in range(90)
]
HEADER = ["city", "area", "lift", "sold", "rent"]


def write(path: Path, rows: list[list[str]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    files, pages = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("pages")
    tables = {
        "flats": write(files / "flats.csv", [HEADER, *FLATS]),
        "penguins": write(files / "penguins.csv", rows_of("penguins")),
    }
    write(files / "more.csv", [HEADER, *FLATS[:40]])
    for name, table in tables.items():
        assert main(["new", str(files / name), "--from", str(table)]) == 0
        (files / name / "page").rename(pages / name)
    found = run_node("table_page.mjs", str(pages), str(files))
    for name in tables:
        assert all((files / f"{name}-{look}.png").is_file() for look in ("light", "dark", "phone"))
    return found


def test_the_pages_are_accessible_and_fit_their_screens(seen: Any) -> None:
    assert [seen["numbers"]["problems"], seen["classes"]["problems"]] == [[], []]
    assert [problem for page in seen["problems"] for problem in page] == []


def test_fields_take_columns_as_the_file_has_them(seen: Any) -> None:
    found = seen["numbers"]
    assert found["labels"] == ["city", "area (m²)", "lift", "sold"]
    assert found["pasted"][:4] == ["Cork", "44", "no", "3.4.2021"]
    assert 600 < float(found["pasted"][4].replace(",", "")) < 2500
    assert "`city` is 'Riga', a name that the model does not know" in found["unknown"]
    assert found["more"] == [40, 9], "another file with the same columns is read the same way"


def test_errors_are_in_the_units_of_the_column(seen: Any) -> None:
    learned = seen["numbers"]["learned"]
    judged = learned["judged"]
    scale, mean = judged["spec"]["deviation"][0], judged["spec"]["mean"][0]
    truth, said = (np.array(judged[key]) * scale + mean for key in ("truth", "said"))
    wrong_by, _, r2 = learned["figures"]
    assert wrong_by.split()[1] == "€"
    expected = float(np.mean(np.abs(truth - said)))
    assert float(wrong_by.split()[0].replace(",", "")) == pytest.approx(expected, rel=1e-3)
    explained = 1 - np.sum((truth - said) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert float(r2.split()[0]) == pytest.approx(explained, abs=6e-4)
    assert set(learned["columns"]) == {"city", "area", "lift", "sold"}
    assert set(learned["columns"][:2]) == {"city", "area"}, "what the rent depends on"
    assert learned["wrong"] == ["it is", "the model says", "city", "area", "lift", "sold"]


def test_classes_have_a_table_of_what_is_taken_for_what(seen: Any) -> None:
    learned = seen["classes"]["learned"]
    truth = np.array(learned["judged"]["truth"])
    said = np.reshape(learned["judged"]["said"], (-1, 3)).argmax(1)
    table = [int(cell.replace("·", "0")) for cell in learned["table"]]
    expected = [[int(np.sum((truth == i) & (said == j))) for j in range(3)] for i in range(3)]
    assert np.reshape(table, (3, 3)).tolist() == expected
    right, rows = int(np.sum(truth == said)), len(truth)
    share, z = right / rows, 1.96
    root = np.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    ends = (share + z * z / (2 * rows) + np.array([-1, 1]) * z * root) / (1 + z * z / rows)
    low, high = (f"{100 * end:.0f} %" for end in ends)
    assert learned["figures"][0].startswith(f"{100 * share:.1f} % {low} to {high}")


def test_a_report_is_one_file(seen: Any) -> None:
    report = seen["numbers"]["report"]
    assert report["name"].endswith("-report.html")
    html = report["html"]
    assert html.startswith("<!doctype html>") and html.count('src="data:image/png') == 2
    assert "The rows that it gets most wrong" in html and "<button" not in html


def test_what_was_learned_is_shown_of_trained_models_alone(seen: Any) -> None:
    assert seen["numbers"]["isHidden"] and seen["numbers"]["isGone"]
