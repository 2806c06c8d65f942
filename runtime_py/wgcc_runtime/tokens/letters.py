"""Models whose ids are characters, or bytes of UTF-8: the same methods as those of `Tokens`."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol

from wgcc_runtime.errors import WgccError
from wgcc_runtime.tokens.checks import Special, check_text, whole_ids


class Stream(Protocol):
    def push(self, id_: int) -> str: ...

    def end(self) -> str: ...


class Alphabet(Protocol):
    """How text becomes ids, and ids text."""

    def encode(self, text: str, special: Special = True) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def stream(self, before: Sequence[int] = ()) -> Stream: ...


class Letters:
    """An id is the place of a character in the model's `vocab`."""

    def __init__(self, vocab: str) -> None:
        self._vocab = vocab
        self._numbers = {letter: number for number, letter in enumerate(vocab)}

    def encode(self, text: str, special: Special = True) -> list[int]:
        check_text(text)
        unknown = list(dict.fromkeys(letter for letter in text if letter not in self._numbers))
        if unknown:
            are = "which is" if len(unknown) == 1 else "which are"
            letters = ", ".join(map(repr, unknown[:9]))
            problem = f"the prompt holds {letters}, {are} not in the model's vocabulary"
            raise WgccError("text", problem, "prompt")
        return [self._numbers[letter] for letter in text]

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        return "".join(map(self.push, whole_ids(ids)))

    def stream(self, before: Sequence[int] = ()) -> Letters:
        return self

    def push(self, id_: int) -> str:
        return self._vocab[max(id_, 0) : id_ + 1] or "\ufffd"

    def end(self) -> str:
        return ""


class Utf8:
    """256 ids: bytes."""

    def encode(self, text: str, special: Special = True) -> list[int]:
        check_text(text)
        return list(text.encode())

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def stream(self, before: Sequence[int] = ()) -> Utf8Stream:
        return Utf8Stream()


class Utf8Stream:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, id_: int) -> str:
        return self._decoder.decode(bytes([id_]))

    def end(self) -> str:
        return ""
