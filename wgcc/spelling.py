"""Suggests the known word that a misspelt one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 64


def did_you_mean(word: str, options: Iterable[str]) -> list[str]:
    """At most two of `options`, the closest first; empty when nothing is close."""
    wanted = _letters(word)
    candidates = [option for option in dict.fromkeys(options) if option != word]
    same = [option for option in candidates if _letters(option) == wanted]
    if same:
        return same[:1]
    scored = [
        (distance, abs(len(option) - len(word)), option)
        for option in candidates
        if (distance := _close(wanted, _letters(option))) is not None
    ]
    scored.sort(key=lambda entry: entry[:2])
    return [option for _, _, option in scored[:2]]


def _letters(word: str) -> str:
    return word.lower().replace("_", "")


def _close(a: str, b: str) -> int | None:
    """The number of typing mistakes between two words; None if there are too many."""
    shorter = min(len(a), len(b))
    allowed = max(1, shorter // 3)
    # Words of one or two letters are all similar; a long word that begins with a whole short one is
    # a compound, not a mistake. Comparing takes time in proportion to the product of the lengths.
    if not 3 <= shorter <= LONGEST or abs(len(a) - len(b)) > allowed:
        return None
    distance = _mistakes(a, b)
    return distance if distance <= allowed else None


def _mistakes(a: str, b: str) -> int:
    """Letters inserted, dropped, changed, or swapped (the Damerau-Levenshtein distance)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        previous, row = row, [i]
        for j, other in enumerate(b, 1):
            best = min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before = previous
    return row[-1]
