"""The line that shows how a training goes on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pytest

import line_bundle
from wgcc.cli.progress import make_progress
from wgcc_runtime import Report
from wgcc_runtime.progress import Pace, line_parts


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return line_bundle.write_bundle(tmp_path / "line")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x.sum(axis=1))
    return tmp_path / "data.npz"


def test_the_pace_shown_is_the_one_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Regardless of the time between reports, which includes evaluating."""
    with make_progress(300) as progress:
        for step, ms in ((100, 50.0), (200, 2.0), (250, 8.0)):
            progress.show(Report(step, 0.5, {"loss": 0.5}, {}, ms))
            time.sleep(0.05)
    shown = [line.split("  ")[-2:] for line in capsys.readouterr().err.splitlines()]
    # 50 steps left, at the mean of 100 steps of 2 ms and 50 of 8 ms; the first report compiled.
    assert shown == [
        ["50.00 ms/step", "eta 00:10"],
        ["2.00 ms/step", "eta 00:00"],
        ["8.00 ms/step", "eta 00:00"],
    ]
    pace = Pace()
    for step, ms in ((1, 9.0), (2, 2000.0), (4, 8000.0)):
        pace.add(Report(step, 0.5, {}, {}, ms))
    assert pace.text(14) == "8000.00 ms/step  eta 01:00"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 200])
def test_the_line_of_progress_fits_the_terminal(width: int) -> None:
    """Bar, curve and speed give way first; step, loss, evaluation and time left never do."""
    report = Report(
        1999, 0.02971, {"loss": 0.02971, "acc": 0.9875}, {"loss": 0.098, "acc": 1}, 0.12
    )
    pace = Pace()
    pace.add(report)
    parts = dict(line_parts(report, 2000, [1.0, 0.5, 0.1] * 20, pace, width))
    always = {"step": "1999/2000  loss 0.02971", "eval": "eval loss 0.098  eval acc 1"}
    assert {**always, "eta": "eta 00:00"}.items() <= parts.items()
    kinds = ["numbers", "pace", "curve", "bar"]
    assert [kind for kind in kinds if kind in parts] == kinds[
        : sum(width >= w for w in (76, 90, 116, 134))
    ]
    assert width < 65 or len("  ".join(parts.values())) <= width


def test_the_line_of_progress_on_a_terminal_of_80_columns(
    bundle: Path, data: Path, tmp_path: Path
) -> None:
    """As a terminal shows it: the last line is whole."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = ["train", str(bundle), str(data), "--steps", "40", "--out", str(tmp_path / "o")]
    with subprocess.Popen(
        [sys.executable, "-m", "wgcc", *command], stderr=slave, stdout=slave
    ) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(master, 4096):
                shown += piece
    os.close(master)
    assert process.returncode == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    lines = [line for line in re.split(r"[\r\n]+", text) if "40/40" in line]
    assert lines and all(len(line) <= 80 for line in lines)
    assert re.search(r"40/40  loss \S+ .*eta 00:00$", lines[-1].rstrip())
