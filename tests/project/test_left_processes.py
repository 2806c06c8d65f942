"""What the whole run ends with: no process of a test goes on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from left_processes import left_behind, still_there

MARK = "WGCC_LEFT_PROCESS_OF_A_TEST"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_goes_on_is_reported() -> None:
    command = [sys.executable, "-c", "input('waits')"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, MARK: "1"}
    )
    assert child.stdout is not None and child.stdout.read(5) == b"waits"
    assert [line.endswith("input('waits')") for line in still_there(MARK, 0)] == [True]
    child.communicate(b"\n")
    assert left_behind(MARK) == []
