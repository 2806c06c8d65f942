"""Models compile without numpy, as they do in a page, to the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import ROOT
from without_numpy import digests

EXAMPLES = sorted((ROOT / "examples").rglob("*.wg"))
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.wg"))


@pytest.mark.parametrize(
    ("models", "part"),
    [
        pytest.param(GOLDEN, "whole", id="all files of golden models"),
        pytest.param(EXAMPLES, "graphs", id="graphs of all examples"),
    ],
)
def test_what_is_compiled_without_numpy_is_the_same(models: list[Path], part: str) -> None:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "runtime_py")))
    program = str(ROOT / "tests" / "support" / "without_numpy.py")
    done = subprocess.run(
        [sys.executable, program, part, *map(str, models)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests(models, part == "whole")
