"""Hostile texts of 4 MB for `wgcc check`: an answer within 10 s and 500 MB, and no traceback."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuzzing.hostile import TEXTS

# CPU time, so that a busy machine does not matter.
SECONDS, MEGABYTES = 10, 500
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
        path = Path(folder) / "model.wg"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        process = subprocess.Popen(
            [*COMMAND, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=_limit, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        assert process.stdout is not None
        with process.stdout as stream:
            said = stream.read().decode("utf-8", "replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return Result(process.returncode, said, seconds, megabytes)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (8 * SECONDS, 8 * SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEGABYTES << 20, 4 * MEGABYTES << 20))
