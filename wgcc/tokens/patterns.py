"""Regular expressions of tokenizer files (Oniguruma's), rewritten so that Python and JavaScript
match the same: classes are written out as ranges, letters of either case as both.

Python and browsers have tables of different Unicode versions; a bundle carries those of the
`tokenizers` package, so that patterns match the same everywhere. (Normal forms and lower case are
still those of Python's or the browser's version.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from wgcc_runtime.tokens.pattern_cost import CostlyPattern, check_pattern

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
# Characters that mean something inside brackets, of one of the two kinds of regular expressions.
SPECIAL = frozenset("\\]^-[")
CATEGORIES = ("L", "M", "N", "P", "S", "Z")
NAMES = {"Letter": "L", "Number": "N", "Punctuation": "P", "Symbol": "S", "Mark": "M"}


@cache
def _classes() -> dict[str, Ranges]:
    classes = {}
    path = Path(__file__).with_name("unicode_classes.txt")
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, *numbers = line.split(" ")
            classes[name] = _decode([int(number) for number in numbers])
    return classes


def _decode(numbers: list[int]) -> Ranges:
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
    if name in CATEGORIES:
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


# As Oniguruma folds case.
OTHER_CASES = {"s": "sSſ", "k": "kK\u212a"}
CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27, "0": 0}
LINE_START, LINE_END = "(?<![^\n])", "(?![^\n])"
END = "(?![\\s\\S])"
GROUPS = ("?:", "?=", "?!", "?<=", "?<!")
DEEPEST = 30
LONGEST = 10_000
# Of what is written to the bundle, where `\\w` is 2,000 characters.
LONGEST_WRITTEN = 1_000_000
# A quantifier with a higher limit is one without a limit.
FEW = 100


class Unsupported(Exception):
    """The text says what of a pattern is not supported: "possessive `++`"."""


def literal(text: str) -> str:
    """A pattern for exactly this text."""
    return re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\1", text)


def portable(pattern: str, may_be_empty: bool = True) -> str:
    """The pattern for both runtimes; raises `Unsupported`."""
    if len(pattern) > LONGEST:
        raise Unsupported(f"a pattern of more than {LONGEST} characters")
    rewriter = _Rewriter(pattern)
    rewritten = rewriter.whole()
    if rewriter.is_empty and not may_be_empty:
        raise Unsupported("a pattern that matches the empty text")
    try:
        re.compile(rewritten)
        check_pattern(rewritten)
    except (re.error, RecursionError, OverflowError, CostlyPattern) as error:
        raise Unsupported(str(error)) from error
    return rewritten


@dataclass
class _Rewriter:
    source: str
    at: int = 0
    depth: int = 0
    written: int = 0
    # Of the group or item that was read last: whether it may match the empty text, and whether it
    # holds a quantifier without a limit.
    is_empty: bool = False
    repeats: bool = False

    def whole(self) -> str:
        text = self.alternatives(False)
        if self.at < len(self.source):
            raise Unsupported("a `)` without a `(`")
        return text

    def alternatives(self, fold: bool) -> str:
        """Reads up to the next `)` of this depth; with `fold`, letters match in either case."""
        parts: list[str] = []
        empty, repeats = [True], False
        while self.at < len(self.source) and self.source[self.at] != ")":
            if self.take("(?i)"):
                fold = True
            elif self.take("|"):
                parts.append("|")
                empty.append(True)
            else:
                parts.append(self.repetition(fold))
                empty[-1] &= self.is_empty
                repeats |= self.repeats
        self.is_empty, self.repeats = any(empty), repeats
        return "".join(parts)

    def repetition(self, fold: bool) -> str:
        """An item with its quantifier."""
        start, self.is_empty, self.repeats = self.at, False, False
        item = self.item(fold)
        has_no_width = item.startswith(("(?=", "(?!", "(?<"))
        quantifier = self.quantifier()
        source = self.source[start : self.at]
        if quantifier and has_no_width:
            raise Unsupported(f"a quantifier of what has no width: `{source:.40}`")
        if self.repeats and _is_unlimited(quantifier):
            raise Unsupported(f"a repetition inside a repetition: `{source:.40}`")
        self.is_empty |= has_no_width or quantifier.startswith(("*", "?", "{0"))
        self.repeats |= _is_unlimited(quantifier)
        return item + quantifier

    def take(self, text: str) -> bool:
        follows = self.source.startswith(text, self.at)
        self.at += len(text) if follows else 0
        return follows

    def next(self) -> str:
        if self.at >= len(self.source):
            raise Unsupported("an unfinished pattern")
        self.at += 1
        return self.source[self.at - 1]

    def item(self, fold: bool) -> str:
        letter = self.next()
        if letter == "(":
            return self.group(fold)
        item = self.single(letter, fold)
        self.written += len(item)
        if self.written > LONGEST_WRITTEN:
            raise Unsupported("a pattern with too many classes of characters")
        return item

    def single(self, letter: str, fold: bool) -> str:
        """Translates an item that begins with this letter and is no group."""
        if letter == "[":
            return in_brackets(self.bracket(fold))
        if letter == "\\":
            return self.escape(fold)
        if letter in "*+?":
            raise Unsupported(f"`{letter}` without anything before it")
        fixed = {".": "[^\n]", "^": LINE_START, "$": LINE_END}.get(letter)
        return fixed or _cases(letter, fold)

    def group(self, fold: bool) -> str:
        kind = self._group_kind()
        if kind in ("?i:", "?-i:"):
            kind, fold = "?:", kind == "?i:"
        self.deeper("groups")
        inside = self.alternatives(fold)
        self.depth -= 1
        if not self.take(")"):
            raise Unsupported("a `(` without a `)`")
        return f"({kind}{inside})"

    def deeper(self, what: str) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unsupported(f"more than {DEEPEST} {what} inside each other")

    def _group_kind(self) -> str:
        if not self.source.startswith("?", self.at):
            return "?:"
        for kind in (*GROUPS, "?i:", "?-i:"):
            if self.take(kind):
                return kind
        raise Unsupported(f"the group `({self.source[self.at : self.at + 3]}…`")

    def quantifier(self) -> str:
        match = re.compile(r"[*+?]|\{(\d{0,4})(,?)(\d{0,4})\}").match(self.source, self.at)
        if match is None or match[0] in ("{}", "{,}"):
            return ""
        self.at = match.end()
        if self.source[self.at : self.at + 1] in ("+", "*"):
            raise Unsupported(f"the possessive quantifier `{match[0]}{self.source[self.at]}`")
        lazy = "?" if self.take("?") else ""
        if lazy and match[0][0] == "{" and not match[2]:
            raise Unsupported(f"the quantifier `{match[0]}?`")
        return re.sub(r"^\{,", "{0,", match[0]) + lazy

    def escape(self, fold: bool) -> str:
        letter = self.source[self.at : self.at + 1]
        anchor = {"A": "(?<![\\s\\S])", "z": END}.get(letter)
        if anchor is not None:
            self.at += 1
            return anchor
        ranges = self.escape_class()
        single = ranges[0] if len(ranges) == 1 else (0, 1)
        return _cases(chr(single[0]), fold) if single[0] == single[1] else in_brackets(ranges)

    def escape_class(self) -> Ranges:
        """The characters of what follows a backslash."""
        letter = self.next()
        if letter in "pP":
            return self.property(letter == "P")
        if letter in "sdw":
            return unicode_class(letter) or ()
        if letter in "SDW":
            return without(unicode_class(letter.lower()) or ())
        if letter in CONTROLS:
            return _one(CONTROLS[letter])
        if letter in "xu":
            return self.code(letter)
        if letter.isalnum():
            raise Unsupported(f"`\\{letter}`")
        return _one(ord(letter))

    def property(self, negated: bool) -> Ranges:
        match = re.compile(r"\{(\^?)(\w+)\}").match(self.source, self.at)
        ranges = unicode_class(match[2]) if match and match[2][:1].isupper() else None
        if match is None or ranges is None:
            raise Unsupported(f"the class `\\p{self.source[self.at : self.at + 12]}`")
        self.at = match.end()
        return without(ranges) if negated != bool(match[1]) else ranges

    def code(self, kind: str) -> Ranges:
        form = r"([0-9a-fA-F]{4})" if kind == "u" else r"\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2})"
        match = re.compile(form).match(self.source, self.at)
        code = int(next(text for text in match.groups() if text), 16) if match else -1
        if match is None or not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
            raise Unsupported(f"`\\{kind}{self.source[self.at : self.at + 6]}`")
        self.at = match.end()
        return _one(code)

    def bracket(self, fold: bool) -> Ranges:
        """The characters of a class, after its `[`."""
        self.deeper("classes")
        negated = self.take("^")
        members: list[Ranges] = []
        while not members or not self.take("]"):
            if self.source.startswith("&&", self.at) or self.source.startswith("[:", self.at):
                raise Unsupported(f"`{self.source[self.at : self.at + 2]}` in a class")
            members.append(self.member(fold))
        self.depth -= 1
        ranges = union(*members)
        return without(ranges) if negated else ranges

    def member(self, fold: bool) -> Ranges:
        letter = self.next()
        if letter == "[":
            return self.bracket(fold)
        ranges = self.escape_class() if letter == "\\" else _one(ord(letter))
        if ranges and ranges[0][0] != ranges[-1][1]:
            return ranges
        low = high = ranges[0][0]
        after = self.source[self.at + 1 : self.at + 2]
        if after != "]" and self.take("-"):
            ends = self.escape_class() if self.take("\\") else _one(ord(self.next()))
            if len(ends) != 1 or ends[0][0] != ends[0][1] or ends[0][0] < low:
                raise Unsupported("a range in a class without an order")
            high = ends[0][0]
        return _both_cases(low, high) if fold else ((low, high),)


def _is_unlimited(quantifier: str) -> bool:
    if quantifier[:1] != "{":
        return quantifier[:1] in ("*", "+")
    last = quantifier.rstrip("?").strip("{}").split(",")[-1]
    return not last or int(last) > FEW


def _one(code: int) -> Ranges:
    return ((code, code),)


def _both_cases(low: int, high: int) -> Ranges:
    if high > 127:
        raise Unsupported("letters beyond ASCII of either case")
    letters = {other for code in range(low, high + 1) for other in _other_cases(chr(code))}
    return union(*(_one(ord(letter)) for letter in letters))


def _other_cases(letter: str) -> str:
    return OTHER_CASES.get(letter.lower(), letter.lower() + letter.upper())


def _cases(letter: str, fold: bool) -> str:
    if not fold or not letter.isalpha():
        return literal(letter)
    return in_brackets(_both_cases(ord(letter), ord(letter)))
