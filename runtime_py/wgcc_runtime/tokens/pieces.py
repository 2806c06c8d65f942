"""Steps from a text to the pieces that merges work on: normalizers and pre-tokenizers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from wgcc_runtime.tokens.byte_characters import to_characters
from wgcc_runtime.tokens.growth import (
    check_growth,
    checked_steps,
    longest_from,
    refuse_growth,
)
from wgcc_runtime.tokens.pattern_cost import check_pattern
from wgcc_runtime.tokens.patterns import finder

Step = Mapping[str, Any]


class Piece(NamedTuple):
    """A stretch of text; `first`: the whole text begins with it."""

    text: str
    first: bool


Normalize = Callable[[str], str]
Cut = Callable[[Piece], Iterator[Piece]]


def normalizer(steps: Sequence[Step]) -> Normalize:
    functions = [_normalizer(step) for step in checked_steps(steps)]

    def normalize(text: str) -> str:
        most = longest_from(len(text))
        for function in functions:
            text = function(text)
            check_growth((text,), most)
        return text

    return normalize


def _normalizer(step: Step) -> Normalize:
    kind = step["type"]
    if kind in ("NFC", "NFD", "NFKC", "NFKD"):
        return lambda text: unicodedata.normalize(kind, text)
    if kind == "Lowercase":
        # Character by character: no rule about the end of a word applies.
        return lambda text: "".join(map(str.lower, text))
    if kind == "Prepend":
        return lambda text: step["text"] + text if text else text
    if kind == "Replace":
        return replacement(step)
    if kind == "ByteLevel":
        return to_characters
    raise ValueError(f"unknown normalizer {kind!r}")


def replacement(step: Step) -> Normalize:
    check_pattern(step["pattern"])
    pattern, text = re.compile(step["pattern"]), str(step["text"])

    def replace(whole: str) -> str:
        most = longest_from(len(whole))
        left = most

        def take(_: re.Match[str]) -> str:
            nonlocal left
            left -= len(text)
            # Before the texts are put together, which would need the memory.
            if left < 0:
                refuse_growth(most)
            return text

        return pattern.sub(take, whole)

    return replace


def pre_tokenizer(steps: Sequence[Step]) -> Callable[[list[Piece]], list[Piece]]:
    functions = [_cut(step) for step in checked_steps(steps)]

    def cut(pieces: list[Piece]) -> list[Piece]:
        most = longest_from(sum(len(piece.text) for piece in pieces))
        for function in functions:
            pieces = [part for piece in pieces for part in function(piece) if part.text]
            check_growth((piece.text for piece in pieces), most)
        return pieces

    return cut


def _cut(step: Step) -> Cut:
    kind = step["type"]
    if kind == "Split":
        return _split(step)
    if kind == "Metaspace":
        return _metaspace(step)
    if kind == "Prefix":
        return _prefix
    if kind == "ByteLevel":
        return _byte_level
    raise ValueError(f"unknown pre-tokenizer {kind!r}")


def _byte_level(piece: Piece) -> Iterator[Piece]:
    yield Piece(to_characters(piece.text), piece.first)


def _prefix(piece: Piece) -> Iterator[Piece]:
    yield piece if piece.text.startswith(" ") else Piece(" " + piece.text, piece.first)


def _metaspace(step: Step) -> Cut:
    sign, prepend = step["replacement"], step["prepend"]
    cut = _split({"pattern": re.escape(sign), "behavior": "MergedWithNext", "invert": False})

    def metaspace(piece: Piece) -> Iterator[Piece]:
        text = piece.text.replace(" ", sign)
        wanted = prepend == "always" or (prepend == "first" and piece.first)
        if wanted and not text.startswith(sign):
            text = sign + text
        whole = Piece(text, piece.first)
        return cut(whole) if step["split"] else iter((whole,))

    return metaspace


Parts = list[tuple[str, bool]]
Find = Callable[[str], Iterable[re.Match[str]]]


def _split(step: Step) -> Cut:
    find, invert = finder(step["pattern"]), bool(step["invert"])
    arrange = BEHAVIORS[step["behavior"]]

    def split(piece: Piece) -> Iterator[Piece]:
        parts = arrange(_matches(find, piece.text, invert))
        for number, (text, _) in enumerate(parts):
            yield Piece(text, piece.first and number == 0)

    return split


def _matches(find: Find, text: str, invert: bool) -> Parts:
    """The text in parts, each with whether it was looked for."""
    parts, end = [], 0
    for match in find(text):
        start, stop = match.span()
        if start > end:
            parts.append((text[end:start], invert))
        parts.append((text[start:stop], not invert))
        end = stop
    if end < len(text):
        parts.append((text[end:], invert))
    return parts


def _isolate(parts: Parts) -> Parts:
    return parts


def _remove(parts: Parts) -> Parts:
    # What was removed at the start stays as an empty part: the next one is not the first.
    return [("" if is_match else text, is_match) for text, is_match in parts]


def _merge_with_previous(parts: Parts) -> Parts:
    merged: Parts = []
    previous = False
    for text, is_match in parts:
        if is_match and not previous and merged:
            merged[-1] = (merged[-1][0] + text, True)
        else:
            merged.append((text, is_match))
        previous = is_match
    return merged


def _merge_with_next(parts: Parts) -> Parts:
    merged: Parts = []
    previous = False
    for text, is_match in reversed(parts):
        if is_match and not previous and merged:
            merged[-1] = (text + merged[-1][0], True)
        else:
            merged.append((text, is_match))
        previous = is_match
    return merged[::-1]


def _contiguous(parts: Parts) -> Parts:
    runs = groupby(parts, key=lambda part: part[1])
    return [("".join(text for text, _ in run), is_match) for is_match, run in runs]


BEHAVIORS: Mapping[str, Callable[[Parts], Parts]] = {
    "Isolated": _isolate,
    "Removed": _remove,
    "MergedWithPrevious": _merge_with_previous,
    "MergedWithNext": _merge_with_next,
    "Contiguous": _contiguous,
}
