"""WordPiece, as BERT has it: a word is cut into the longest pieces of the vocabulary, from left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Words whose ids are remembered.
MOST_REMEMBERED = 100_000


class WordPieces:
    """The ids of a word, by the `model` of a `tokenizer.json`."""

    def __init__(self, model: Mapping[str, Any], spell: Callable[[str], str] = str) -> None:
        self.vocab: dict[str, int] = dict(model["vocab"])
        self.texts = {number: text for text, number in self.vocab.items()}
        self._spell = spell
        self._unknown = self.vocab[model["unk_token"]]
        self._prefix = str(model["continuing_subword_prefix"])
        self._longest = int(model["max_input_chars_per_word"])
        # No piece of a word can be longer.
        self._longest_token = max(map(len, self.vocab), default=0)
        self._known: dict[str, list[int]] = {}

    def ids(self, word: str) -> list[int]:
        ids = self._known.get(word)
        if ids is None:
            ids = self._cut(self._spell(word))
            if len(self._known) < MOST_REMEMBERED and len(word) < 256:
                self._known[word] = ids
        return ids

    def _cut(self, word: str) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(word) <= self._longest:
            prefix = self._prefix if start else ""
            ends = range(min(len(word), start + self._longest_token), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.vocab), start)
            if end == start:
                break
            ids.append(self.vocab[prefix + word[start:end]])
            start = end
        return ids if start == len(word) else [self._unknown]
