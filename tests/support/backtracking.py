"""Random patterns, and how many steps an engine that tries one way after the other takes for them.

`python tests/support/backtracking.py COUNT [SEED]` attacks the check of tokenizer patterns with
more of them than a test run does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from wgcc_runtime.tokens.pattern_cost import MOST_WAYS, CostlyPattern, _Item, _Parser, check_pattern

TEXTS: list[Callable[[int], str]] = [
    lambda n: "a" * n,
    lambda n: "a" * n + "b",
    lambda n: "a" * n + "c",
    lambda n: "ab" * (n // 2) + "c",
    lambda n: "b" * (n // 2) + "a" * (n // 2) + "c",
]
QUANTIFIERS = ("", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{0,9}", "{2,}", "{1,200}")
GROUPS = ("?:", "?:", "?:", "?=", "?!", "?<=", "?<!")


def draw_pattern(draw: random.Random, depth: int = 3) -> str:
    return "|".join(
        "".join(_draw_item(draw, depth) for _ in range(draw.randint(1, 4)))
        for _ in range(draw.choice((1, 1, 1, 2, 3)))
    )


def _draw_item(draw: random.Random, depth: int) -> str:
    if depth and draw.random() < 0.35:
        kind = draw.choice(GROUPS)
        quantifier = draw.choice(QUANTIFIERS) if kind == "?:" else ""
        return f"({kind}{draw_pattern(draw, depth - 1)}){quantifier}"
    return draw.choice(("a", "b", "[ab]", "[^c]", "c")) + draw.choice(QUANTIFIERS)


class TooMany(Exception):
    """The steps are more than were allowed."""


def steps_from(pattern: str, text: str, most: int) -> int:  # noqa: C901
    """Steps of a search at the start of `text`; more than `most` raise `TooMany`."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count > most:
            raise TooMany

    def branches(all_: list[list[_Item]], at: int, then: Callable[[int], bool]) -> bool:
        return any(sequence(items, 0, at, then) for items in all_)

    def sequence(items: list[_Item], i: int, at: int, then: Callable[[int], bool]) -> bool:
        step()
        if i == len(items):
            return then(at)
        return repeat(items[i], 0, at, lambda end: sequence(items, i + 1, end, then))

    def repeat(item: _Item, done: int, at: int, then: Callable[[int], bool]) -> bool:
        step()
        if item.high is None or done < item.high:
            last = at

            def again(end: int) -> bool:
                # As in real engines, a round without width ends the repetition.
                return (end > last or done < item.low) and repeat(item, done + 1, end, then)

            if once(item, at, again):
                return True
        return done >= item.low and then(at)

    def once(item: _Item, at: int, then: Callable[[int], bool]) -> bool:
        if item.kind == "?:":
            return branches(item.branches, at, then)
        if item.kind in ("?=", "?!"):
            return branches(item.branches, at, lambda _: True) == (item.kind == "?=") and then(at)
        if item.kind:
            return then(at)
        # Every character matches but the last, if that is a `c`: the worst case for an engine.
        return at < len(text) and text[at] != "c" and then(at + 1)

    branches(_Parser(pattern).whole(), 0, lambda _: True)
    return count


def attack(draw: random.Random, length: int) -> tuple[str, str]:
    """A pattern, and what became of it: refused, harmless, or `costly` although it was accepted.

    A refused one that takes many steps is `caught`.
    """
    pattern = draw_pattern(draw)
    try:
        check_pattern(pattern)
        outcome = "harmless"
    except CostlyPattern:
        outcome = "refused"
    most = MOST_WAYS * (length + 1) * 4 if outcome == "harmless" else 20_000
    for make in TEXTS:
        try:
            steps_from(pattern, make(length), most)
        except TooMany:
            return pattern, "costly" if outcome == "harmless" else "caught"
    return pattern, outcome


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    source = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    tally: dict[str, int] = {}
    for _ in range(int(sys.argv[1])):
        drawn, result = attack(source, 30)
        tally[result] = tally.get(result, 0) + 1
        if result == "costly":
            print(drawn)
    print(tally)
