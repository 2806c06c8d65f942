"""Classes of characters (`\\p{L}`, `\\s`, …) as ranges, the same in every runtime.

Python and browsers have tables of different Unicode versions; a bundle carries those of the
`tokenizers` package, so that patterns match the same everywhere. (Normal forms and lower case are
still those of Python's or the browser's version.)
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
# Characters that mean something inside brackets, of one of the two kinds of regular expressions.
SPECIAL = frozenset("\\]^-[")
GROUPS = ("L", "M", "N", "P", "S", "Z")
NAMES = {"Letter": "L", "Number": "N", "Punctuation": "P", "Symbol": "S", "Mark": "M"}


@cache
def _classes() -> dict[str, Ranges]:
    classes = {}
    path = Path(__file__).with_name("unicode_classes.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, *numbers = line.split(" ")
            classes[name] = _decoded([int(number) for number in numbers])
    return classes


def _decoded(numbers: list[int]) -> Ranges:
    ranges, end = [], 0
    for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
        ranges.append((end + gap, end + gap + length - 1))
        end += gap + length
    return tuple(ranges)


@cache
def unicode_class(name: str) -> Ranges | None:
    """The ranges of a general category (`Lu`, `L`, `Letter`), of `w`, `s`, `d`, or of `digits`,
    `punctuation`, `word` (of the pre-tokenizers Digits, Punctuation, Whitespace); None if there is
    no such class."""
    name = NAMES.get(name, name)
    if name in GROUPS:
        return union(*(ranges for key, ranges in _classes().items() if key[:1] == name))
    return _classes().get(name)


def union(*parts: Ranges) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(pair for part in parts for pair in part):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def without(ranges: Ranges) -> Ranges:
    """All other characters."""
    ends = [(-1, -1), *ranges, (LAST + 1, LAST + 1)]
    gaps = ((before[1] + 1, after[0] - 1) for before, after in pairwise(ends))
    return tuple((low, high) for low, high in gaps if low <= high)


def in_brackets(ranges: Ranges, negated: bool = False) -> str:
    """A class of a regular expression, which Python and JavaScript read alike.

    A class with more than half of all characters is written by what it leaves out.
    """
    if not negated and sum(high - low + 1 for low, high in ranges) > LAST // 2:
        return in_brackets(without(ranges), True)
    if not ranges:
        # Python does not read `[^]` and `[]`.
        return "[\\s\\S]" if negated else "[^\\s\\S]"
    parts = (_range(low, high) for low, high in ranges)
    return f"[{'^' if negated else ''}{''.join(parts)}]"


def _range(low: int, high: int) -> str:
    # No text holds halves of surrogate pairs, and no file could hold them either.
    low, high = (
        max(low, 0xE000) if low > 0xD7FF else low,
        min(high, 0xD7FF) if high < 0xE000 else high,
    )
    if low > high:
        return ""
    return _letter(low) + ("" if low == high else ("-" if high > low + 1 else "") + _letter(high))


def _letter(code: int) -> str:
    letter = chr(code)
    return f"\\{letter}" if letter in SPECIAL else letter
