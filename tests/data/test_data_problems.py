"""Problems and notes of data are tables, which both languages use; front ends add advice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.cli.data import ADVICE, message_of
from wgcc_runtime.data.problems import DataError, fill_words, problems
from wgcc_runtime.strict_json import table

PYTHON = ROOT / "runtime_py" / "wgcc_runtime" / "data"
JAVASCRIPT = ROOT / "runtime_js" / "data"
# Several files at once, and text that is pasted into a field, are of pages only.
ONLY_IN_PAGES = {"several-files", "needed-columns", "no-number", "missing-number", "no-name"}


def named_in(names: Iterable[str], folder: Path, suffix: str) -> set[str]:
    texts = [path.read_text("utf-8") for path in folder.glob(f"*{suffix}")]
    return {name for name in names if any(re.search(f"['\"]{name}['\"]", t) for t in texts)}


def test_each_problem_is_raised_in_both_languages() -> None:
    assert named_in(problems(), PYTHON, ".py") == problems().keys() - ONLY_IN_PAGES
    assert named_in(problems(), JAVASCRIPT, ".js") == problems().keys()


def test_each_note_is_made_in_both_languages() -> None:
    notes = table("data_notes")
    assert named_in(notes, PYTHON, ".py") == named_in(notes, JAVASCRIPT, ".js") == notes.keys()


def test_front_ends_advise_on_problems_that_exist() -> None:
    page = (ROOT / "runtime_js" / "page" / "data_words.js").read_text("utf-8")
    advised = re.findall(r"^  '?([\w-]+)'?:\s", page.partition("ADVICE = {")[2], re.MULTILINE)
    assert len(advised) > 8 and set(advised) <= problems().keys()
    assert ADVICE.keys() <= problems().keys()
    # What one option decides is advised upon by all.
    deciding = {name for name, row in problems().items() if row.get("option") and "advice" in row}
    assert deciding <= set(advised) and deciding <= ADVICE.keys()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{count:row|rows} of {names}", "1 row of a, b"),
        ("{two:row|rows}[none: and {none}][names: with {names}]", "2 rows with a, b"),
        ("{many}", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"),
        ("rows of shape [H, W]", "rows of shape [H, W]"),
    ],
)
def test_templates(template: str, text: str) -> None:
    values = {"count": 1, "two": 2, "names": ["a", "b"], "none": [], "many": [*map(str, range(13))]}
    assert fill_words(template, values) == text


def test_front_ends_say_the_same_in_their_own_words() -> None:
    case = json.loads((ROOT / "tests/data_cases/which_target.expected.json").read_text("utf-8"))
    fields = case["error"]
    error = DataError(fields["problem"], fields["values"], case["source"], fields["place"])
    start = "which_target.csv: which column is `y`?"
    assert error.message == f"{start} Give `target`; there are: kind, a, group"
    assert message_of(error) == f"{start} Give --target NAME; there are: kind, a, group"
    assert (error.code, error.option, error.field) == ("data", "target", "which_target.csv")
