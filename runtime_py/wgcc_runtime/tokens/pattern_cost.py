"""Whether a pattern can take long: `re` and `RegExp` try one way after the other to match a text,
and a pattern of a foreign file may have exponentially many.

Accepted are patterns that take at most `MOST_WAYS` × n steps from each place of a text of n
characters: a repetition without a limit is of one character, or of a group of fixed width, and at
most one of them is followed by something that can fail, which would make it try all its lengths.
The patterns of GPT-2, Llama, Qwen, cl100k, o200k, BERT and others are of that kind. JavaScript has
the same rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

LONGEST = 1_000_000
DEEPEST = 40
# The ways in which optional parts, alternatives and counts can be combined.
MOST_WAYS = 1000
# A quantifier with a higher limit is one without a limit.
FEW = 100
WIDEST = 10_000
_CLASS = re.compile(r"\[\^?(?:\\.|[^\]\\])*\]", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{0,4}))?\})(\??)")
_GROUP = re.compile(r"\((\?:|\?=|\?!|\?<=|\?<!)")


class CostlyPattern(ValueError):
    """The text says what of a pattern may take long, or is no pattern of a bundle."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A character or a group, `low` to `high` times (None: no limit); `kind` is how it begins."""

    kind: str
    branches: list[list[_Item]]
    low: int = 1
    high: int | None = 1

    @property
    def can_fail(self) -> bool:
        if not self.low:
            return False
        inner = (any(item.can_fail for item in branch) for branch in self.branches)
        return self.kind != "?:" or all(inner)

    @property
    def is_unlimited(self) -> bool:
        return self.high is None or self.high > FEW


def check_pattern(pattern: str) -> None:
    """Raises `CostlyPattern`."""
    if len(pattern) > LONGEST:
        _refuse(f"a pattern of more than {LONGEST} characters")
    for branch in _Parser(pattern).whole():
        _check_sequence(branch, False, False)


def check_class(pattern: str) -> None:
    """Refuses a pattern that does not match single characters, one after the other."""
    if not _CLASS.fullmatch(pattern):
        _refuse("white space that is no class of characters")


def _check_sequence(items: list[_Item], fails: bool, is_behind: bool) -> tuple[int, int]:
    """The ways to match it, and how many repetitions try all their lengths.

    `fails`: whether what follows can fail; `is_behind`: whether it is inside a look-behind.
    """
    ways, tried = 1, 0
    for item in reversed(items):
        more, longer = _check_item(item, fails, is_behind)
        ways, tried = ways * more, tried + longer
        if ways > MOST_WAYS:
            _refuse("optional parts that can be combined in too many ways")
        if tried > 1:
            _refuse("two repetitions before something that can fail")
        fails = fails or item.can_fail
    return ways, tried


def _check_item(item: _Item, fails: bool, is_behind: bool) -> tuple[int, int]:
    is_repeated = item.high is None or item.high > 1
    if is_behind and item.low != item.high:
        _refuse("a look-behind of several widths")
    if item.kind and is_repeated:
        _width(item)
    if item.is_unlimited:
        return 1, int(fails)
    assert item.high is not None
    if not item.kind or is_repeated:
        return item.high - item.low + 1 if fails else 1, 0
    # What is inside a look-ahead is matched again for each length of a repetition before it.
    is_look = item.kind != "?:"
    behind = is_behind or item.kind.startswith("?<")
    costs = [_check_sequence(branch, fails or is_look, behind) for branch in item.branches]
    ways = sum(ways for ways, _ in costs) + (item.low == 0)
    return ways, max((tried for _, tried in costs), default=0)


def _width(item: _Item) -> int:
    """The characters of one repetition of a group."""
    width = 0
    for part in item.branches[0]:
        if part.low != part.high or part.kind not in ("", "?:") or len(item.branches) > 1:
            _refuse("a repetition of a group that has no fixed width")
        width += part.low * (_width(part) if part.kind else 1)
    if not 0 < width <= WIDEST or len(item.branches) > 1 or item.kind != "?:":
        _refuse("a repetition of a group that has no fixed width")
    return width


class _Parser:
    """Reads what the compiler writes: characters, classes, groups, quantifiers."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._at, self._depth = pattern, 0, 0

    def whole(self) -> list[list[_Item]]:
        branches = self._branches()
        if self._at < len(self._pattern):
            _refuse("a `)` without a `(`")
        return branches

    def _branches(self) -> list[list[_Item]]:
        branches: list[list[_Item]] = [[]]
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            if self._pattern[self._at] == "|":
                self._at += 1
                branches.append([])
            else:
                branches[-1].append(self._item())
        return branches

    def _item(self) -> _Item:
        letter = self._pattern[self._at]
        if letter == "(":
            kind, branches = self._group()
        else:
            kind, branches = "", []
            self._character(letter)
        low, high = self._quantifier()
        return _Item(kind, branches, low, high)

    def _group(self) -> tuple[str, list[list[_Item]]]:
        opened = _GROUP.match(self._pattern, self._at)
        if opened is None or self._depth == DEEPEST:
            _refuse("a group of another kind, or groups inside each other too deeply")
        self._at, self._depth = opened.end(), self._depth + 1
        branches = self._branches()
        if self._at == len(self._pattern):
            _refuse("a `(` without a `)`")
        self._at, self._depth = self._at + 1, self._depth - 1
        return opened[1], branches

    def _character(self, letter: str) -> None:
        if letter == "[":
            match = _CLASS.match(self._pattern, self._at)
            if match is None:
                _refuse("a `[` without a `]`")
            self._at = match.end()
        elif letter == "\\":
            if self._pattern[self._at + 1 : self._at + 2].isalnum():
                _refuse(f"`{self._pattern[self._at : self._at + 2]}`")
            self._at += 2
        elif letter in "*+?{}^$.":
            _refuse(f"`{letter}` without a backslash")
        else:
            self._at += 1

    def _quantifier(self) -> tuple[int, int | None]:
        match = _QUANTIFIER.match(self._pattern, self._at)
        if match is None:
            return 1, 1
        self._at = match.end()
        if self._pattern[self._at : self._at + 1] in ("*", "+", "?", "{"):
            _refuse("a quantifier of a quantifier")
        if match[1]:
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[1]]
        low = int(match[2])
        if not match[3]:
            return low, low
        high = int(match[4]) if match[4] else None
        if high is not None and high < low:
            _refuse("a quantifier whose limits are swapped")
        return low, high


def _refuse(what: str) -> NoReturn:
    raise CostlyPattern(what)
