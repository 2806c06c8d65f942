"""How long each test file takes, so that several processes start the longest files first.

Files of a minute that start last leave the other processes waiting. tests/file_times.txt has what
`python3 dev.py test --record-times` measured, as seconds of a core, which are the same on a machine
that does other work, too; a file that is not in it takes less than a second, or is new: files not
listed keep their places after those that are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Mapping

import pytest

from adapters import ROOT

PATH = ROOT / "tests" / "file_times.txt"
HEAD = "# Seconds of a core that each test file takes: `python3 dev.py test --record-times`.\n"
CORE = "seconds of a core"


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests of one file stay together, in their order."""
    known = read()
    return sorted(items, key=lambda item: -known.get(file_of(item.nodeid), 0.0))


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def read() -> dict[str, float]:
    lines = PATH.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in pairs}


def text(seconds: Mapping[str, float]) -> str:
    """Longest first; files of less than a second would only make differences longer."""
    order = sorted(seconds.items(), key=lambda pair: (-round(pair[1]), pair[0]))
    return HEAD + "".join(f"{round(time):5} {name}\n" for name, time in order if round(time))


class Meter:
    """A pytest plugin of each process that runs tests: notes in reports what they took."""

    def __init__(self) -> None:
        self._before = _used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _used()
        report.user_properties.append((CORE, now - self._before))
        self._before = now
        return report


def _used() -> float:
    """Of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Recorder:
    """A pytest plugin of the process that gets all reports."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A process that crashed has noted nothing.
        noted = dict(report.user_properties)
        self.seconds[file_of(report.nodeid)] += noted.get(CORE, 0.0)  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        PATH.write_text(text(self.seconds), encoding="utf-8")
