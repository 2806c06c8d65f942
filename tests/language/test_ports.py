"""Eight programs of PyTorch users, each said shorter here, and trained to a stated result."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

PORTS = Path(__file__).parent / "ports"
PAGE = Path(__file__).parents[2] / "grammar" / "PORTS.md"

# What a port reaches, from and to; its PyTorch text reaches the same with the same data.
RESULTS = {
    "resnet": (0.95, 1.0),  # accuracy
    "seq2seq": (0.85, 1.0),  # part of words that are right, written without a teacher
    "lstm": (0.0, 0.3),  # loss; 2.8 is guessing
    "gan": (0.8, 1.2),  # radius of the points, which is 1
    "ddpm": (0.9, 1.1),
    "policy": (50.0, 200.0),  # steps that the pole stands; 20 is chance
    "clip": (0.9, 1.0),  # part of pictures with the right caption of 64
    "tabular": (0.85, 1.0),  # accuracy
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_port_learns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PORTS)
    monkeypatch.setenv("WGCC_DEVICE", "wasm")
    monkeypatch.setattr(sys, "path", [str(PORTS), *sys.path])
    low, high = RESULTS[name]
    assert low <= runpy.run_path(f"{name}.py")["result"] <= high


@pytest.mark.parametrize("name", RESULTS)
def test_a_port_is_shorter_than_its_pytorch_text(name: str) -> None:
    program, script = lines(PORTS / f"{name}.wg"), lines(PORTS / f"{name}.py")
    theirs = lines(PORTS / "pytorch" / f"{name}.py")
    assert program + script < theirs
    assert f"| {program} + {script} | {theirs} |" in row(name)


def test_no_port_is_forgotten() -> None:
    for folder, ending in ((PORTS, "wg"), (PORTS / "pytorch", "py")):
        assert {path.stem for path in folder.glob(f"*.{ending}")} == set(RESULTS)


def test_what_the_page_shows_is_in_the_ports() -> None:
    programs = "".join(path.read_text(encoding="utf-8") for path in PORTS.glob("*.wg"))
    parts = PAGE.read_text(encoding="utf-8").split("```wg\n")[1:]
    assert len(parts) == 3
    for part in parts:
        assert part.split("```")[0] in programs


def lines(path: Path) -> int:
    """Lines that are neither blank nor comments, as which the line that describes a file counts."""
    stripped = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith(("#", "//", '"""')) for line in stripped)


def row(name: str) -> str:
    """The row of the page with the figures of a port."""
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    return next(row for row in rows if f"ports/{name}.wg)" in row)
