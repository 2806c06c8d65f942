"""Steps in a Python process: requests come as lines of JSON on stdin, answers go to stdout.

Needs the standard library only, because PyTorch runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def task() -> dict[str, Any]:
    """What run.py asks for: the first line."""
    found: dict[str, Any] = json.loads(sys.stdin.readline())
    return found


def serve(step: Callable[[], float]) -> None:
    """Makes the first step, then a block of steps for each further line."""
    losses = [step()]
    _reply({"firstStep": 1000 * time.perf_counter()})
    for line in sys.stdin:
        request = json.loads(line)
        began = time.process_time()
        ms = _block(step, losses, request["seconds"], request["most"])
        cpu = 1000 * (time.process_time() - began)
        _reply({"ms": ms, "steps": len(ms), "cpu": cpu, "losses": losses[:3]})


def _block(
    step: Callable[[], float], losses: list[float], seconds: float, most: int
) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or (len(times) < most and time.perf_counter() < end):
        started = time.perf_counter()
        losses.append(step())
        times.append(1000 * (time.perf_counter() - started))
    return times


def _reply(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)
