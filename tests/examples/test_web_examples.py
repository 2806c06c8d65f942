"""The example pages work, opened from disk in headless Chromium."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import run_node

NAMES = ("sin", "digits", "playground", "pictures", "chargpt", "inside")


def test_example_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = runpy.run_path(str(ROOT / "examples" / "pages.py"))
    assert pages["main"]([*NAMES, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(".html") == len(NAMES)
    seen = run_node("examples.mjs", str(tmp_path))
    check_lost(seen.pop("lost"))
    for name, page in seen.items():
        assert page["problems"] == [], name
        assert not page["longest"]["isFelt"], f"{name}: the page is blocked: {page['longest']}"
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    sin = seen["sin"]
    assert sin["last"] < sin["first"] / 3
    assert sin["drawn"] > sin["last"], "another target, another loss"
    assert (sin["noise"], sin["wide"]) == ("0.3", False)
    digits = seen["digits"]
    assert digits["learned"] > 93
    assert (digits["one"], digits["now"]) == ("1", "4")
    before, after = (float(text.split()[0]) for text in digits["effect"][1:3])
    assert before < after, "it learned from the correction"
    assert float(digits["effect"][5].split()[0]) > 90, "and did not forget the others"
    playground = seen["playground"]
    assert playground["csv"].startswith("30 points from mine.csv.")
    assert playground["empty"] == [False, True], "nothing to learn from, and it says so"
    assert playground["last"] < playground["first"] / 3
    assert playground["acc"] > 90 and playground["wide"] is False
    for page in (sin, playground):
        assert re.fullmatch(r"[\d,]+(\.\d+)?", page["speed"]), page["speed"]
    chargpt = seen["chargpt"]
    assert chargpt["untrained"].startswith("And God said, ")
    assert chargpt["last"] < chargpt["first"] - 0.5
    assert chargpt["written"].startswith("In th beginning") and len(chargpt["written"]) > 60
    assert "does not know é" in chargpt["unknown"]
    assert chargpt["wide"] is False
    pictures = seen["pictures"]
    assert pictures["ready"] == [False, True], "trains once each kind has an example"
    assert pictures["right"] > 90 and pictures["examples"] == 10
    check_next_visit(pictures["again"])
    inside = seen["inside"]
    assert (inside["nameless"], inside["asked"]) == (0, True)
    assert (sin["asked"], digits["asked"]) == ([False, True], [False, True, False])
    assert playground["asked"] and chargpt["asked"]
    assert inside["text"].startswith("And Gd said") and len(inside["text"]) >= 60
    assert inside["bars"] == 8 and inside["shaded"] > 0 and inside["wide"] is False


def check_lost(lost: dict[str, Any]) -> None:
    """The GPU was lost after a training of some steps."""
    said = re.fullmatch(
        r"The GPU was lost and is back\. The training of (\d+) steps is all there\.", lost["said"]
    )
    # Some steps may have been made after the last report.
    assert said and lost["step"] <= int(said[1])
    assert (lost["adapter"], lost["problems"]) == (2, [])


def check_next_visit(again: dict[str, Any]) -> None:
    """Examples and model are there again, until they are forgotten."""
    assert re.fullmatch(
        r"The examples of your last visit are back, and what it learned from them in \d+ steps\.",
        again["back"],
    )
    assert (again["count"], again["name"], again["forgotten"]) == (10, "Bar", 0)


def test_unknown_page_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    pages = runpy.run_path(str(ROOT / "examples" / "pages.py"))
    with pytest.raises(SystemExit) as caught:
        pages["main"](["nothing"])
    assert caught.value.code == 2
    names = ", ".join(pages["PAGES"])
    assert f"there are: {names}" in capsys.readouterr().err
