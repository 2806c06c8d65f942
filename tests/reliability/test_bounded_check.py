"""`wgcc check` answers within bounds, whatever text or file it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wgcc.elaborate.index_ranges.input_ranges as input_ranges
from elaborated import problems, program
from executed_lines import executed_lines, growth
from fuzzing.hostile import TEXTS
from trials.texts import measure
from wgcc.evaluate import OutOfRangeError, Session
from wgcc.files import LARGEST_TEXT

# All of them: `python tests/reliability texts`.
SOME = (
    "blank lines", "unclosed strings", "open brackets", "members", "digits", "numbers",
    "long einsum", "wrong selectors",
)  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_hostile_texts_get_an_answer(name: str) -> None:
    result = measure(TEXTS[name]())
    assert result.is_good, result


def check(path: Path) -> tuple[int, str]:
    """With a time limit, because a fault could be to wait for ever."""
    command = [sys.executable, "-m", "wgcc", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_files_are_at_most_4_mb(tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text("//" + "x" * LARGEST_TEXT, encoding="utf-8")
    code, said = check(path)
    assert code == 1
    assert "a program has at most 4 MB" in said


def test_a_pipe_is_refused_as_model_and_as_import(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wg")
    assert check(tmp_path / "pipe.wg")[0] == 1
    path = tmp_path / "model.wg"
    path.write_text('import F from "pipe.wg"\n', encoding="utf-8")
    code, said = check(path)
    assert code == 1
    assert "no regular file" in said


def test_work_of_tests_is_bounded() -> None:
    line = "  x = x @ x\n"
    found = problems(
        'test "work" {\n  x = ones(f32[4000, 4000])\n' + line * 400 + "  assert all(x > 0.0)\n}\n"
    )
    assert len(found) == 1


LOOKUPS = """
model M {{
  param e: f32[9, 4] = 0.5
  state s: f32[9] = 0.0
  state t: f32[9] = 0.0
  entry f(i: i32, v: i32[4], z: f32) -> (y: f32) {{
    c = i > 0; r = arange(4); j = i32(e[0, 0]); p = i32(z); y = z; q = s
    for k in 0..{rounds} {{
      {body}
    }}
    s := q; t := q
    return y + e[i, 0] + sum(gather(e, v)) + e[j, 0]
  }}
}}
"""
# What each iteration does with numbers that are indices after it.
CHAINS = {
    "sums": "i = i + 1; y = y + e[i, 0]",
    "quotients": "i = i / 2; y = y + e[i, 0]",
    "views": "v = v[new]; v = v[0]; y = y + sum(gather(e, v))",
    "joined views": "v = concat([v[0:2] + 1, v[2:4]], axis = 0)",
    "rows": "r = r + 1; y = y + sum(gather(e, i + r))",
    "conversions": "v = i32(u32(v)); y = y + cross_entropy(e[0:4], v, ignore = 3)",
    "ignored labels": "y = y + cross_entropy(e[0:4], v, ignore = k + 5)",
    "ignored labels of parts": "y = y + cross_entropy(e[0:2], v[0:2], ignore = k + 5)",
    "conditions": "c = c and i < k; i = where(c, i, 0)",
    "one condition": "c = c and c; i = where(c, i, 0)",
    "checks on the GPU": "j = j + i; y = y + e[j, 0]",
    "windows": "q[p +: 1] := e[0, 0:1]",
}


@pytest.mark.parametrize("body", CHAINS.values(), ids=CHAINS)
def test_checking_indices_takes_work_in_proportion_to_the_program(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few that small programs reach the limit, too.
    monkeypatch.setattr(input_ranges, "STEPS", 1000)
    monkeypatch.setattr(input_ranges, "STEPS_PER_NODE", 4)

    def lines(rounds: int) -> int:
        text = LOOKUPS.format(rounds=rounds, body=body)
        found = executed_lines(lambda: problems(text), most=2_000_000)
        return sum(count for name, count in found.items() if "index_ranges" in name)

    assert growth(lines(80), lines(320), 4) < 1.2


def test_the_range_guard_checks_what_takes_too_long_to_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "model M {{ param e: f32[9] = 0.5\n entry f(i: i32) -> (y: f32) = e[i + 1 + 1] }}"
    exact = program(text.format()).entries["f"]
    assert exact.entry.range_guard is None and exact.entry.ranges["i"][:2] == (-2, 6)
    monkeypatch.setattr(input_ranges, "STEPS", 1)
    monkeypatch.setattr(input_ranges, "STEPS_PER_NODE", 0)
    found = program(text.format())
    assert not found.entries["f"].entry.ranges
    session = Session(found, {})
    assert session.call("f", {"i": np.array(6)})["y"] == 0.5
    with pytest.raises(OutOfRangeError):
        session.call("f", {"i": np.array(7)})


def test_each_of_many_ignored_labels_is_ignored_by_its_loss_alone() -> None:
    losses = " + ".join(f"cross_entropy(z, y, ignore = {100 + k})" for k in range(20))
    found = program(f"model M {{ entry f(z: f32[2, 9], y: i32[2]) -> (l: f32) = {losses} }}")
    session, z = Session(found, {}), np.zeros((2, 9))
    session.call("f", {"z": z, "y": np.array([0, 8])})
    for label in (9, 100, 119, -1):
        with pytest.raises(OutOfRangeError):
            session.call("f", {"z": z, "y": np.array([0, label])})
