"""Loops whose body is written several times: software adapters end loops after 65,535 iterations.

A template repeats the body for each of `copies`, between its `opening` and its `closing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

REASON = "because software adapters end loops after 65,535 iterations."


@dataclass(frozen=True, slots=True)
class Copy:
    opening: str
    closing: str


@dataclass(frozen=True, slots=True)
class Body:
    """`begin` and `end` are around all copies."""

    begin: str
    copies: tuple[Copy, ...]
    end: str


def each(variable: str, extent: str, times: int) -> Body:
    """A loop over `extent` numbers that takes `times` of them, if so many are left, at once."""
    if times == 1:
        head = f"for (var {variable} = 0u; {variable} < {extent}; {variable}++) {{"
        return Body(head, (Copy("", ""),), "}")
    first = f"{variable}_first"
    head = f"for (var {first} = 0u; {first} < {extent}; {first} += UNROLLED) {{"
    places = ((f"{first} + {n}u", extent) for n in range(times))
    copies = tuple(_if_below(variable, *place) for place in places)
    return Body(f"// Several per iteration, {REASON}\n{head}", copies, "}")


def each_step(steps: Iterable[int]) -> Body:
    """The steps of a chunk of time, without a loop."""
    copies = tuple(_if_below("t", f"k * CHUNK + {step}u", "TIMES") for step in steps)
    return Body(f"// Without a loop, {REASON}", copies, "")


def _if_below(variable: str, place: str, extent: str) -> Copy:
    return Copy(f"if ({place} < {extent}) {{\nlet {variable} = {place};", "}")
