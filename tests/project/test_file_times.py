"""Processes that share the tests begin with the longest files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import file_times
from adapters import ROOT


def test_longest_files_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    recorder = file_times.Recorder()
    for name, seconds in (("a", 0.2), ("b", 2.0), ("b", 1.6), ("c", 90.4), ("d", 4.0)):
        noted = [(file_times.CORE, seconds)]
        report: Any = SimpleNamespace(nodeid=f"tests/{name}.py::test", user_properties=noted)
        recorder.pytest_runtest_logreport(report)
    monkeypatch.setattr(file_times, "PATH", tmp_path / "times.txt")
    recorder.pytest_sessionfinish()
    lines = file_times.PATH.read_text().splitlines()[1:]
    assert lines == ["   90 tests/c.py", "    4 tests/b.py", "    4 tests/d.py"]
    items: Any = [SimpleNamespace(nodeid=f"tests/{name}.py::t{i}") for name in "abcd" for i in "12"]
    order = [item.nodeid[6] + item.nodeid[-1] for item in file_times.longest_first(items)]
    assert order == ["c1", "c2", "b1", "b2", "d1", "d2", "a1", "a2"]


def test_recorded_files_exist() -> None:
    assert [name for name in file_times.read() if not (ROOT / name).is_file()] == []
