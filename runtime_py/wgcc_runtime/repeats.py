"""Loops of a plan: in which order dispatches run, and how often each.

Ranges are nested or disjoint, and an outer one is listed before those inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wgcc_runtime.plan import Entry, Repeat

# The round (from 1 on) and the number of rounds of each loop around a dispatch, outermost first.
Rounds = tuple[tuple[int, int], ...]


def run_order(entry: Entry) -> Iterator[tuple[int, Rounds]]:
    """The number of each dispatch as one call runs them, and the rounds it is in."""
    return _in_order(0, len(entry.dispatches), entry.repeats, ())


def _in_order(
    start: int, end: int, repeats: Sequence[Repeat], around: Rounds
) -> Iterator[tuple[int, Rounds]]:
    at, waiting = start, list(repeats)
    while waiting:
        loop = waiting.pop(0)
        inner = [other for other in waiting if other.first < loop.end]
        del waiting[: len(inner)]
        yield from ((number, around) for number in range(at, loop.first))
        for done in range(loop.rounds):
            rounds = (*around, (done + 1, loop.rounds))
            yield from _in_order(loop.first, loop.end, inner, rounds)
        at = loop.end
    yield from ((number, around) for number in range(at, end))


def times_run(entry: Entry) -> list[int]:
    """How often one call runs each dispatch."""
    found = [1] * len(entry.dispatches)
    for loop in entry.repeats:
        for number in range(loop.first, loop.end):
            found[number] *= loop.rounds
    return found
