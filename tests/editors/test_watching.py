"""`--watch`: a check or build whenever a file is saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from adapters import ROOT
from cli_runs import MODEL

PATHS = os.pathsep.join((str(ROOT), str(ROOT / "runtime_py")))


@pytest.mark.parametrize("command", ["check", "build"])
def test_a_saved_file_is_handled_again(command: str, tmp_path: Path) -> None:
    file = tmp_path / "m.wg"
    file.write_text(MODEL.replace("Linear[2", "Liner[2"))
    output = ["-o", str(tmp_path / "bundle"), "--no-twin"] if command == "build" else []
    process = subprocess.Popen(
        [sys.executable, "-m", "wgcc", command, str(file), "--watch", *output],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS},
    )
    assert process.stderr is not None
    try:
        assert "did you mean `Linear`?" in until_watching(process.stderr)
        file.write_text(MODEL)
        os.utime(file, ns=(1, 1))  # a time of its own, however coarse those of the disk are
        assert "error" not in until_watching(process.stderr)
    finally:
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        process.stderr.close()
    assert process.wait() == 130


def until_watching(stream: IO[str]) -> str:
    text = ""
    for line in stream:
        text += line
        if line.startswith("watching"):
            return text
    raise AssertionError(f"it ended: {text}")
