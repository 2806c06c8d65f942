"""Counts executed lines of the compiler: how work grows with the size of a program."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from math import log
from types import FrameType
from typing import Any

from adapters import ROOT


def executed_lines(run: Callable[[], Any], most: float = float("inf")) -> Counter[str]:
    """How many lines of each file of the compiler are executed; loops on one line count, too.

    Fails if there are more than `most`, because a fault may be an endless loop.
    """
    # Python calls the inner function for each line: it does little else than count.
    counts: dict[str, list[int]] = {}

    def tracer(name: str) -> Any:
        lines = counts[name] = [0]

        def on_line(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                lines[0] += 1
                assert lines[0] <= most, f"too much: {name}"
            return on_line

        return on_line

    tracers: dict[str, Any] = {}

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in tracers:
            tracers[name] = tracer(name) if f"{ROOT}/wgcc/" in name else None
        return tracers[name]

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run()
    finally:
        sys.settrace(before)
    return Counter({name: lines for name, (lines,) in counts.items()})


def growth(few: int, many: int, times: float) -> float:
    """The power of the size with which something grows; it is `times` as large."""
    return log(many / few) / log(times)
