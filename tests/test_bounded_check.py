"""`wgcc check` answers within bounds, whatever text or file it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elaborated import problems
from fuzzing.hostile import TEXTS
from trials.texts import measure
from wgcc.reading import LARGEST_TEXT

# All of them: `python tests/reliability.py texts`.
SOME = ("blank lines", "unclosed strings", "open brackets", "members", "digits", "numbers")


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
