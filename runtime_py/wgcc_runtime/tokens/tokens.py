"""The tokens of a text and the text of tokens, as the bundle's `tokenizer.json` says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wgcc_runtime.tokens.byte_characters import to_characters
from wgcc_runtime.tokens.checks import Special, check_text, whole_ids
from wgcc_runtime.tokens.decoding import decoder
from wgcc_runtime.tokens.merging import Merging
from wgcc_runtime.tokens.pattern_cost import check_class
from wgcc_runtime.tokens.pieces import Piece, normalizer, pre_tokenizer
from wgcc_runtime.tokens.word_pieces import WordPieces

Token = Mapping[str, Any]
# A stretch of text, or the id of a token that was added to the vocabulary.
Stretch = Piece | int


class Tokens:
    """`encode` and `decode` of a vocabulary.

    Results are those of Hugging Face's `tokenizers`, whose file format this is; the steps to take
    are written by the compiler, in `model.wgcc`.
    """

    def __init__(self, file: Mapping[str, Any]) -> None:
        model, added = file["model"], list(file["added_tokens"])
        steps = model["wgcc"]
        self._normalize = normalizer(steps["normalizer"])
        cuts = list(steps["pre_tokenizer"])
        ends_in_bytes = bool(cuts) and cuts[-1]["type"] == "ByteLevel"
        self._cut = pre_tokenizer(cuts[:-1] if ends_in_bytes else cuts)
        kind = WordPieces if model["type"] == "WordPiece" else Merging
        self._words = kind(model, to_characters if ends_in_bytes else str)
        self._decode = decoder(steps["decoder"])
        self._before = [int(number) for number in steps["special"]["before"]]
        self._after = [int(number) for number in steps["special"]["after"]]
        texts = [self._added_text(token) for token in added]
        self._texts = {**self._words.texts}
        self._texts |= {token["id"]: text for token, text in zip(added, texts, strict=True)}
        # As in the `tokenizers` package, what a token is shown as decides whether it is special.
        special = {token["content"] for token in added if token["special"]}
        self._special = {number for number, text in self._texts.items() if text in special}
        spaces, pairs = steps.get("spaces", "[ ]"), list(zip(texts, added, strict=True))
        if "ranks" in steps:
            # llama2.c finds no special tokens in a text.
            pairs = []
        self._find_raw = _finder([pair for pair in pairs if not pair[1]["normalized"]], spaces)
        self._find_normalized = _finder([pair for pair in pairs if pair[1]["normalized"]], spaces)
        self.size = max(self._texts) + 1

    def encode(self, text: str, special: Special = True) -> list[int]:
        """The ids of a text; `special`: with the tokens that begin and end a text, if any do, or
        with those that begin it (`"before"`), as for a text that is to be continued."""
        check_text(text)
        ids: list[int] = []
        for stretch in self._stretches(text):
            if isinstance(stretch, int):
                ids.append(stretch)
            else:
                for piece in self._cut([stretch]):
                    ids += self._words.ids(piece.text)
        before = self._before if special else []
        return [*before, *ids, *(self._after if special is True else [])]

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of ids, without special tokens and ids that no token has."""
        shown = (id_ for id_ in whole_ids(ids) if not (skip_special and id_ in self._special))
        return self._decode([self._texts[id_] for id_ in shown if id_ in self._texts])

    def stream(self, before: Sequence[int] = ()) -> TokenStream:
        """Decodes one id after the other, to whole characters; `before` are those of a prompt."""
        return TokenStream(self.decode, before)

    def _added_text(self, token: Token) -> str:
        text = str(token["content"])
        return self._normalize(text) if token["normalized"] else text

    def _stretches(self, text: str) -> Iterator[Stretch]:
        for raw in self._find_raw(Piece(text, True)):
            if isinstance(raw, int):
                yield raw
            else:
                yield from self._find_normalized(Piece(self._normalize(raw.text), raw.first))


class TokenStream:
    """Text of ids as they come. A token may end inside a character, which then has to wait."""

    def __init__(self, decode: Callable[[list[int]], str], before: Sequence[int]) -> None:
        self._decode = decode
        self._ids = list(before)
        # The text of the first ids, which was returned before; they decide how the next begin.
        self._shown, self._known = decode(self._ids), len(self._ids)

    def push(self, id_: int) -> str:
        """Adds an id; returns the text that is new."""
        self._ids.append(id_)
        text = self._decode(self._ids)
        if len(text) <= len(self._shown) or text.endswith("\ufffd"):
            return ""
        new = text[len(self._shown) :]
        self._ids = self._ids[self._known :]
        self._shown, self._known = self._decode(self._ids), len(self._ids)
        return new

    def end(self) -> str:
        """The rest of the text, where half a character is shown as U+FFFD."""
        return self._decode(self._ids)[len(self._shown) :]


def _finder(tokens: list[tuple[str, Token]], spaces: str) -> Callable[[Piece], Iterable[Stretch]]:
    """Cuts a text at added tokens: the leftmost, the longest of those that begin together."""
    if not tokens:
        return lambda piece: (piece,) if piece.text else ()
    by_text = dict(reversed(tokens))
    longest = sorted((text for text in by_text if text), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest)))
    check_class(spaces)
    space = re.compile(spaces)

    def find(piece: Piece) -> Iterator[Stretch]:
        text, end = piece.text, 0
        for match in pattern.finditer(text):
            token = by_text[match[0]]
            start, stop = match.span()
            if token["lstrip"]:
                start = _spaces_before(text, start, end, space)
            if token["rstrip"]:
                stop = _spaces_after(text, stop, space)
            if start > end:
                yield Piece(text[end:start], piece.first and end == 0)
            yield token["id"]
            end = stop
        if end < len(text):
            yield Piece(text[end:], piece.first and end == 0)

    return find


def _spaces_before(text: str, start: int, end: int, space: re.Pattern[str]) -> int:
    """The position where the white space before `start` begins, at least `end`."""
    while start > end and space.match(text, start - 1):
        start -= 1
    return start


def _spaces_after(text: str, stop: int, space: re.Pattern[str]) -> int:
    """The position where the white space from `stop` on ends."""
    while space.match(text, stop):
        stop += 1
    return stop
