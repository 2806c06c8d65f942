"""Regular expressions of a `tokenizer.json`, quick for most texts.

`re` looks through all ranges of a class above U+FFFF, one by one, before it rejects a character.
Most texts have no such characters: for them those ranges are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from wgcc_runtime.tokens.pattern_cost import check_pattern

ABOVE = "\U00010000"
_CLASS = re.compile(r"\\.|\[(\^?)((?:\\.|[^\]\\])*)\]", re.DOTALL)
_RANGE = re.compile("(?<!-)[\U00010000-\U0010ffff](?:-[\U00010000-\U0010ffff])?")


def finder(pattern: str) -> Callable[[str], Iterator[re.Match[str]]]:
    """All matches in a text."""
    check_pattern(pattern)
    full = re.compile(pattern)
    short = re.compile(without_high_ranges(pattern))

    def find(text: str) -> Iterator[re.Match[str]]:
        is_low = text.isascii() or max(text, default="") < ABOVE
        return (short if is_low else full).finditer(text)

    return find


@lru_cache(maxsize=64)
def without_high_ranges(pattern: str) -> str:
    """The same for texts without characters above U+FFFF."""
    return _CLASS.sub(_shorten, pattern)


def _shorten(match: re.Match[str]) -> str:
    if match[0].startswith("\\"):
        return match[0]
    ranges = _RANGE.sub("", match[2])
    if ranges or not match[2]:
        return f"[{match[1]}{ranges}]"
    return r"[\s\S]" if match[1] else "(?!)"
