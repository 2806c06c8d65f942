"""Captures: values that an entry stores beside its own outputs, for people to look at.

In a graph a capture is an output called `capture:NAME`; the language has no names with colons.
Statistics are two such outputs: `capture:NAME` has four floats, `capture:NAME:counts` the counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PREFIX, COUNTS = "capture:", ":counts"
# The word in front of a pattern that is for one entry alone ends with this.
OF_ENTRY = ":"


@dataclass(frozen=True, slots=True)
class Capture:
    """`shape` is that of the value, of which the output may be a reshaped form.

    `stats`: statistics alone are kept. `stored`: it is a parameter or state, which is read where it
    is stored.
    """

    shape: tuple[int, ...]
    stats: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A glob over names of values; `entry` is "" if it is for all entries."""

    glob: str
    stats: bool = False
    entry: str = ""

    @property
    def text(self) -> str:
        return f"{self.entry}{OF_ENTRY}{self.glob}" if self.entry else self.glob


def patterns_of(values: Iterable[str], stats: Iterable[str] = ()) -> tuple[Wanted, ...]:
    """`train:d.*.w` is the glob `d.*.w` for the entry `train`."""
    patterns = []
    for texts, is_stats in ((values, False), (stats, True)):
        for text in texts:
            entry, colon, glob = text.strip().rpartition(OF_ENTRY)
            patterns.append(Wanted(glob, is_stats, entry if colon else ""))
    return tuple(dict.fromkeys(patterns))


def capture_key(name: str) -> str:
    return PREFIX + name


def counts_key(name: str) -> str:
    return PREFIX + name + COUNTS


def is_capture(output: str) -> bool:
    return output.startswith(PREFIX)
