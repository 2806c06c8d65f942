"""Every wrong program of `filetests/diagnostics` gives exactly the expected text beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import golden
from adapters import ROOT
from wgcc.elaborate import check
from wgcc.errors import Diagnostics, render_run
from wgcc.passes.autograd import autograd

FOLDER = ROOT / "tests" / "filetests" / "diagnostics"
# Imported by one of the others.
PARTS = {"char_gpt.wg"}
PROGRAMS = sorted(path for path in FOLDER.glob("*.wg") if path.name not in PARTS)


@pytest.fixture(autouse=True)
def _in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages show paths as they are given: here the names of files."""
    monkeypatch.chdir(FOLDER)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_diagnostic(program: Path, bless: bool) -> None:
    diagnostics = Diagnostics()
    check(Path(program.name), diagnostics, prepare=autograd)
    golden.check_text(program.with_suffix(".txt"), render_run(diagnostics) + "\n", bless)


def test_every_text_belongs_to_a_program() -> None:
    stems = {program.stem for program in PROGRAMS}
    assert {path.stem for path in FOLDER.glob("*.txt")} == stems


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_diagnostic_says_where_and_what(program: Path) -> None:
    diagnostics = Diagnostics()
    check(Path(program.name), diagnostics)
    for item in diagnostics:
        assert item.code.startswith("WG") and item.message
        assert item.as_json()["file"] in (program.name, program.with_suffix(".wgsl").name)
