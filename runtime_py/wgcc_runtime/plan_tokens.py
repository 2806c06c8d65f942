"""`model.vocab` of a plan: characters, or a file of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wgcc_runtime.tokens.tokens import Tokens


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The file with a model's tokens; `size` is the highest id plus one.

    `open` reads the file, where the plan is that of a bundle which was opened.
    """

    file: str
    size: int
    sha256: str
    open: Callable[[], Tokens] | None = None


def characters(model: Mapping[str, Any]) -> str:
    """The character of each id, if ids are characters."""
    vocab = model.get("vocab")
    return vocab if isinstance(vocab, str) else ""


def token_record(model: Mapping[str, Any]) -> TokenRecord | None:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        return None
    return TokenRecord(vocab["tokens"], vocab["size"], vocab["sha256"])
