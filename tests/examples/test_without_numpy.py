"""Models compile without numpy, as they do in a page, to the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from adapters import ROOT
from without_numpy import digests

GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.wg"))


def test_what_is_compiled_without_numpy_is_the_same() -> None:
    """All files of golden models. Those of the examples are compared in `tests/workbench`."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "runtime_py")))
    program = str(ROOT / "tests" / "support" / "without_numpy.py")
    done = subprocess.run(
        [sys.executable, program, *map(str, GOLDEN)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == digests(GOLDEN)
