"""Damaged programs give errors, never exceptions: nothing a user types may show a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.elaborate import check
from wgcc.errors import Diagnostics, Source, render_run

FOLDER = ROOT / "tests" / "filetests" / "programs"
PROGRAMS = [FOLDER / name for name in ("sin_mlp.wg", "tour.wg", "gqa_decode.wg", "cnn.wg")]
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d+\.\d+|\d+|\S')
STRANGE = ["0", "-1", "99999999999", "1e40", '""', "none", "x", "{", ")", "[0]", "fn", ".."]
EACH = 12


def mutant(path: Path, seed: int) -> str:
    """The program with one to three words removed, doubled, or replaced by others."""
    draw = random.Random(f"{path.name} {seed}")
    text = path.read_text(encoding="utf-8")
    words = TOKEN.findall(text)
    for _ in range(draw.choice([1, 1, 2, 3])):
        place = draw.choice(list(TOKEN.finditer(text)))
        new = draw.choice(
            ["", draw.choice(words), f"{place.group()} {draw.choice(words)}", draw.choice(STRANGE)]
        )
        text = text[: place.start()] + new + text[place.end() :]
    return text


@pytest.mark.parametrize("seed", range(EACH))
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_damage_is_explained(path: Path, seed: int) -> None:
    diagnostics = Diagnostics()
    programs = check(Source(str(path), mutant(path, seed)), diagnostics)
    render_run(diagnostics)
    assert programs or diagnostics.items
