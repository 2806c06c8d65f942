"""Byte-pair encoding: the characters of a piece, merged pair by pair, the lowest rank first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

# Rank and id of what two tokens merge to.
Merges = Callable[[int, int], tuple[int, int] | None]
# Pieces and runs whose ids are remembered; texts repeat their words.
MOST_REMEMBERED = 100_000


class Merging:
    """The ids of a piece, by the `model` of a `tokenizer.json`.

    `spell` is the last step before: it is done once for each word, not for each place.
    """

    def __init__(self, model: Mapping[str, Any], spell: Callable[[str], str] = str) -> None:
        self.spell = spell
        self.vocab: dict[str, int] = dict(model["vocab"])
        self.texts = {number: text for text, number in self.vocab.items()}
        self.whole = bool(model.get("ignore_merges"))
        self.fuse = bool(model.get("fuse_unk"))
        unknown = model.get("unk_token")
        self.unknown = None if unknown is None else self.vocab[unknown]
        self.bytes = _byte_tokens(self.vocab) if model.get("byte_fallback") else {}
        ranks = model["wgcc"].get("ranks")
        self.merges, self.joints = (
            _merges_of_list(model["merges"], self.vocab)
            if ranks is None
            else _merges_of_ranks(ranks, self.vocab, self.texts)
        )
        self._pieces: dict[str, list[int]] = {}
        self._runs: dict[tuple[int, ...], list[int]] = {}

    def ids(self, piece: str) -> list[int]:
        ids = self._pieces.get(piece)
        if ids is None:
            ids = self._merge(self.spell(piece))
            _remember(self._pieces, piece, ids)
        return ids

    def _merge(self, piece: str) -> list[int]:
        if self.whole and piece in self.vocab:
            return [self.vocab[piece]]
        return [number for run in self._cut(self._symbols(piece)) for number in self._run(run)]

    def _symbols(self, piece: str) -> list[int]:
        """The ids of single characters.

        As in the `tokenizers` package, an unknown character follows bytes of characters after it,
        if no known one is in between.
        """
        ids: list[int] = []
        unknown: list[int] = []
        for letter in piece:
            number = self.vocab.get(letter)
            if number is not None:
                ids += [*unknown, number]
                unknown = []
            elif (spelled := self._bytes_of(letter)) is not None:
                ids += spelled
            elif self.unknown is not None:
                if unknown and not self.fuse:
                    ids += unknown
                unknown = [self.unknown]
        return ids + unknown

    def _bytes_of(self, letter: str) -> list[int] | None:
        """Tokens of its bytes, if there are such."""
        tokens = [self.bytes[byte] for byte in letter.encode() if byte in self.bytes]
        return tokens if self.bytes and len(tokens) == len(letter.encode()) else None

    def _cut(self, ids: list[int]) -> list[tuple[int, ...]]:
        """Runs that no merge can join: their words repeat even where a piece is a whole text."""
        texts, joints = self.texts, self.joints
        starts = [0]
        for place, (left, right) in enumerate(pairwise(ids), 1):
            if (texts[left][-1:], texts[right][:1]) not in joints:
                starts.append(place)
        return [tuple(ids[low:high]) for low, high in pairwise([*starts, len(ids)])]

    def _run(self, ids: tuple[int, ...]) -> list[int]:
        if len(ids) < 2:
            return list(ids)
        merged = self._runs.get(ids)
        if merged is None:
            merged = merge(ids, self.merges)
            _remember(self._runs, ids, merged)
        return merged


def _remember(known: dict[Any, list[int]], key: Any, ids: list[int]) -> None:
    if len(known) < MOST_REMEMBERED and len(key) < 256:
        known[key] = ids


def merge(symbols: Sequence[int], merges: Merges) -> list[int]:
    """Merges pairs, the lowest rank first, the leftmost of equal ones; work n log n."""
    ids: list[int | None] = list(symbols)
    after = [*range(1, len(ids)), -1]
    before = list(range(-1, len(ids) - 1))
    queue: list[tuple[int, int, int, int]] = []

    def offer(left: int, right: int) -> None:
        rule = merges(ids[left], ids[right])  # type: ignore[arg-type]
        if rule is not None:
            heappush(queue, (rule[0], left, rule[1], right))

    for left, right in enumerate(after[:-1]):
        rule = merges(symbols[left], symbols[right])
        if rule is not None:
            queue.append((rule[0], left, rule[1], right))
    heapify(queue)
    while queue:
        _, left, merged, right = heappop(queue)
        if ids[left] is None or after[left] != right or _other(merges, ids, left, right, merged):
            continue
        ids[left], ids[right] = merged, None
        following = after[left] = after[right]
        if following >= 0:
            before[following] = left
            offer(left, following)
        if before[left] >= 0:
            offer(before[left], left)
    return [number for number in ids if number is not None]


def _other(merges: Merges, ids: list[int | None], left: int, right: int, merged: int) -> bool:
    """Whether the pair is no longer the one that was offered."""
    rule = merges(ids[left], ids[right])  # type: ignore[arg-type]
    return rule is None or rule[1] != merged


def _byte_tokens(vocab: Mapping[str, int]) -> dict[int, int]:
    names = ((byte, f"<0x{byte:02X}>") for byte in range(256))
    return {byte: vocab[name] for byte, name in names if name in vocab}


def _merges_of_list(
    merges: Sequence[Sequence[str]], vocab: Mapping[str, int]
) -> tuple[Merges, set[tuple[str, str]]]:
    """Merges of a list, by their places in it; the second result: which characters they join."""
    table: dict[tuple[int, int], tuple[int, int]] = {}
    joints = set()
    for rank, (left, right) in enumerate(merges):
        table[vocab[left], vocab[right]] = rank, vocab[left + right]
        joints.add((left[-1:], right[:1]))
    return lambda left, right: table.get((left, right)), joints


def _merges_of_ranks(
    ranks: Sequence[int], vocab: Mapping[str, int], texts: Mapping[int, str]
) -> tuple[Merges, set[tuple[str, str]]]:
    """llama2.c's: any two neighbours whose text is a token, by the rank of that token."""

    def merges(left: int, right: int) -> tuple[int, int] | None:
        number = vocab.get(texts[left] + texts[right])
        return None if number is None or ranks[number] < 0 else (ranks[number], number)

    return merges, {pair for text in vocab for pair in pairwise(text)}
