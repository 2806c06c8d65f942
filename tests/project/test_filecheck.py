"""The checkers of the other tests do fail when they should."""

from __future__ import annotations

from pathlib import Path

import pytest

import golden
from filecheck import filecheck

OUTPUT = """\
%x   = input f32[2, 3]
%y = tanh(%x)
%z = add(%y, %y)
"""


@pytest.mark.parametrize(
    "source",
    [
        "// check: %x = input",
        "// check: tanh\n// next: add",
        "// check: [[v:%y]] = tanh\n// next: add([[v]], [[v]])",
        "// check: input\n// same: f32\n// not: exp\n// check: add\n// not: exp",
        "// check: f32[{{\\d+}}, 3]\n// count 2: %y",
    ],
)
def test_matching_output_passes(source: str) -> None:
    filecheck(source, OUTPUT)


@pytest.mark.parametrize(
    "source",
    [
        "no directive",
        "// check: exp",
        "// check: add\n// check: tanh",
        "// check: %x\n// next: add",
        "// check: f32\n// same: input",
        "// check: %x\n// not: tanh\n// check: add",
        "// check: add\n// not: %y\n// count 1: %y",
        "// check: [[v:%x]]\n// next: [[v]] =",
        "// check: [[unnamed]]",
    ],
)
def test_other_output_fails(source: str) -> None:
    with pytest.raises(AssertionError):
        filecheck(source, OUTPUT)


def test_golden_folder_must_match_to_the_byte(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    produced = {"plan.json": "{}\n", "kernels/a.wgsl": "fn main() {}\n", "weights": b"\xff\x00"}
    golden.check(folder, produced, bless=True)
    golden.check(folder, produced, bless=False)
    for wrong in (
        produced | {"plan.json": "{} \n"},
        produced | {"new": ""},
        produced | {"weights": b"\xff\x01"},
        {name: text for name, text in produced.items() if name != "kernels/a.wgsl"},
    ):
        with pytest.raises(pytest.fail.Exception, match=r"python3 dev\.py bless -k case"):
            golden.check(folder, wrong, bless=False)


def test_blessing_removes_stale_files(tmp_path: Path) -> None:
    golden.check(tmp_path / "case", {"old": "", "kept": "1"}, bless=True)
    golden.check(tmp_path / "case", {"kept": "2"}, bless=True)
    assert {path.name for path in (tmp_path / "case").iterdir()} == {"kept"}
    golden.check_text(tmp_path / "one.txt", "text", bless=True)
    golden.check_text(tmp_path / "one.txt", "text", bless=False)
    with pytest.raises(pytest.fail.Exception, match=r"expected/one\.txt"):
        golden.check_text(tmp_path / "one.txt", "other", bless=False)
