"""How many threads the twin of a bundle gets, and which of its entries use them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry, Plan, Twin
from wgcc_runtime.repeats import times_run

MOST_THREADS = 64
DEFAULT_THREADS = 4
# An entry with fewer operations ends before other threads have woken up (0.1 ms): one token of a
# decoder, for example.
THREADED_FLOPS = 20_000_000
# The same for one dispatch of a loop: threads wait for each other after each.
THREADED_ROUND = 2_000_000


@dataclass(frozen=True, slots=True)
class Threads:
    """`entries` run in `count` threads, all others in the caller's alone: with the same results."""

    count: int
    entries: frozenset[str]


def choose_threads(threads: int | None, plan: Plan, twin: Twin) -> Threads:
    """As requested, by $WGCC_THREADS, or as many as are useful."""
    given = _given(threads)
    if given is not None:
        return Threads(given, frozenset(plan.entries))
    large = frozenset(name for name, entry in plan.entries.items() if _is_large(entry))
    count = min(_cores(), DEFAULT_THREADS) if large else 1
    return Threads(count if twin.memory_bytes(count) <= 1 << 32 else 1, large)


def _given(threads: int | None) -> int | None:
    name, given = "threads", threads
    if threads is None:
        name, text = "WGCC_THREADS", os.environ.get("WGCC_THREADS", "")
        if not text:
            return None
        given = _number(text)
    if type(given) is not int or not 1 <= given <= MOST_THREADS:
        text = f"{name} is {given!r}, not a number of threads from 1 to {MOST_THREADS}"
        raise WgccError("range", text, name)
    return given


def _number(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() else text


def _is_large(entry: Entry) -> bool:
    counted = (
        dispatch.flops * times
        for dispatch, times in zip(entry.dispatches, times_run(entry), strict=True)
        if times == 1 or dispatch.flops >= THREADED_ROUND
    )
    return sum(counted) >= THREADED_FLOPS


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
