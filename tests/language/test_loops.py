"""What `for` iterates over, and in which order."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from adapters import ROOT
from elaborated import problems, program
from wgcc.elaborate.builtins import BUILTINS
from wgcc.evaluate import Session
from wgcc.syntax.grammar import grammar

PROGRAM = """
dim T = 6
layer Scale {{
  param w: f32 = 1.0
  fn forward(x: f32) -> f32 = x * w
}}
model M {{
  parts[3]: Scale
  entry run(step: f32) -> (y: f32) {{
    y = step
    for {loop} {{ y = 10.0 * y + {value} }}
    return y
  }}
}}
"""

# The digits that the loop visits.
LOOPS = {
    "t in 0..T": "012345",
    "t in 2..T": "2345",
    "t in T..T": "",
    "t in T - T": "",
    "t in reversed(0..T)": "543210",
    "t in reversed(2..T)": "5432",
    "t in reversed(T)": "543210",
    "t in reversed(reversed(0..3))": "012",
    "t in 0..T step -1": "543210",
    "t in 0..T step 1": "012345",
    "t in 0..T step 2": "024",
    "t in 1..T step 2": "135",
    "t in 0..T step -2": "531",
    "t in 0..T step 4 - 1": "03",
    "t in 0..T step 100": "0",
    "t in 0..T step -100": "5",
    "t in reversed(0..T step 2)": "420",
    "t in reversed((3, 1, 2))": "213",
    "step in 0..T step 2": "024",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_numbers_of_a_loop(loop: str) -> None:
    text = PROGRAM.format(loop=loop, value=f"f32({loop.split()[0]})")
    session = Session(program(text), {f"parts.{i}.w": np.float32(1) for i in range(3)})
    result = session.call("run", {"step": np.float32(0)})["y"]
    assert int(result) == int(LOOPS[loop] or 0)


def test_layers_in_reverse() -> None:
    found = program(PROGRAM.format(loop="i, part in reversed(parts)", value="part(f32(i))"))
    used = [value.name for node in found.entries["run"].nodes for value in node.inputs]
    assert [name for name in used if name.endswith(".w")] == ["parts.2.w", "parts.1.w", "parts.0.w"]


def test_a_layer_that_nobody_uses_may_count_down() -> None:
    text = """
layer Unused[T] {
  fn forward(x: f32[T]) -> f32 {
    y = x[0]
    for t in reversed(0..T) { y = y + x[t] }
    for t in 0..T step -2 { y = y + nothing }
    return y
  }
}
"""
    assert problems(text) == ["WG0201 6 unknown name `nothing`"]


@pytest.mark.parametrize(
    ("over", "code"),
    [
        ("(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)", "WG0804"),
        ("0..10", "WG0804"),
        ("0..9999", "WG0308"),
        ("-4611686018427387904..4611686018427387904", "WG0308"),
    ],
)
def test_loops_are_bounded(over: str, code: str) -> None:
    """Ten iterations, nested six times, are a million."""
    nested = "a in T - 5 " + "".join(f"{{ for {name} in {over} " for name in "bcdefg")
    text = PROGRAM.format(loop=nested, value="1.0" + " }" * 6)
    assert {problem.split()[0] for problem in problems(text)} == {code}


def test_editors_know_every_word() -> None:
    """The colours of editors cover all keywords and built-in functions."""
    text = (ROOT / "grammar/editors/vscode/wg.tmLanguage.json").read_text(encoding="utf-8")
    patterns = " ".join(pattern.get("match", "") for pattern in json.loads(text)["patterns"])
    words = set(re.findall(r"\w+", patterns))
    assert not {*grammar().keywords, *BUILTINS} - words
