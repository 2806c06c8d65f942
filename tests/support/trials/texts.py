"""Hostile texts of 4 MB for `wgcc check`: an answer within 10 s and 500 MB, and no traceback."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuzzing.hostile import TEXTS

# CPU time, so that a busy machine does not matter.
SECONDS, MEGABYTES = 10, 500
MEASURED = Path(__file__).parent.parent / "measured_process.py"
COMMAND = (sys.executable, "-m", "wgcc", "check")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="some of the texts; all, if none are named")


def run(options: argparse.Namespace) -> int:
    names = options.names or list(TEXTS)
    found: list[Result] = []
    for name in names:
        result = measure(TEXTS[name]())
        found.append(result)
        mark = "" if result.is_good else "  <-- " + result.said[-300:].replace("\n", " ")
        print(f"{name:32} {result.seconds:6.2f} s {result.megabytes:5.0f} MB{mark}", flush=True)
    slowest = max(result.seconds for result in found)
    largest = max(result.megabytes for result in found)
    bad = sum(not result.is_good for result in found)
    print(f"{len(found)} texts, {bad} problems: at most {slowest:.1f} s and {largest:.0f} MB")
    return 1 if bad else 0


@dataclass(frozen=True)
class Result:
    code: int
    said: str
    seconds: float
    megabytes: float

    @property
    def is_good(self) -> bool:
        answered = self.code in (0, 1) and "Traceback" not in self.said
        words = "internal error" not in self.said and (self.code == 0 or "error" in self.said)
        return answered and words and self.seconds <= SECONDS and self.megabytes <= MEGABYTES


def measure(text: str) -> Result:
    """Checks a text in a separate process, with limits slightly above the allowed ones."""
    with tempfile.TemporaryDirectory() as folder:
        path, figures = Path(folder) / "model.wg", Path(folder) / "figures.json"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        limits = (str(8 * SECONDS), str(4 * MEGABYTES))
        done = subprocess.run(
            [sys.executable, str(MEASURED), str(figures), *limits, *COMMAND, str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        used = json.loads(figures.read_text(encoding="utf-8"))
    said = done.stdout.decode("utf-8", "replace")
    return Result(used["code"], said, used["seconds"], used["megabytes"])
