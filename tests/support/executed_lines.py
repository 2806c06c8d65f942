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
    found: Counter[str] = Counter()

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found[frame.f_code.co_filename] += 1
            assert found[frame.f_code.co_filename] <= most, f"too much: {frame.f_code.co_filename}"
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if f"{ROOT}/wgcc/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


def growth(few: int, many: int, times: float) -> float:
    """The power of the size with which something grows; it is `times` as large."""
    return log(many / few) / log(times)
