"""Files of tokens as the one form that bundles hold: `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wgcc.files import Unreadable, read_bytes
from wgcc.tokens.huggingface import from_huggingface, size_of
from wgcc.tokens.llama2c import from_llama2c
from wgcc.tokens.token_file import TokenFile, Unusable, UnusableMerge

# The largest vocabularies in use have 35 MB.
LARGEST_FILE = 64_000_000


class WrongFile(Exception):
    """One of the files cannot be used; `place` is its place among the names."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def read_tokens(paths: Sequence[Path]) -> TokenFile:
    """Reads `tokenizer.json`, `vocab.json` and `merges.txt`, or llama2.c's `tokenizer.bin`."""
    contents = [_contents(place, path) for place, path in enumerate(paths)]
    try:
        file = from_huggingface(_raw(contents, paths[0].suffix.lower()))
    except Unusable as error:
        place = len(contents) - 1 if isinstance(error, UnusableMerge) else 0
        raise WrongFile(place, str(error)) from error
    text = json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n"
    return TokenFile(text, size_of(file))


def _contents(place: int, path: Path) -> bytes:
    try:
        return read_bytes(path, LARGEST_FILE, "a vocabulary")
    except Unreadable as error:
        raise WrongFile(place, error.reason) from error


def _raw(contents: list[bytes], suffix: str) -> Any:
    if len(contents) == 2:
        return _gpt2(_json(contents[0], 0), _text(contents[1], 1))
    if suffix == ".json" or contents[0][:16].lstrip()[:1] in (b"{", b"["):
        return _json(contents[0], 0)
    if suffix == ".model":
        raise Unusable("files of SentencePiece are not read; give the model's tokenizer.json")
    return from_llama2c(contents[0])


def _text(data: bytes, place: int) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongFile(place, "it is not UTF-8 text") from error


def _json(data: bytes, place: int) -> Any:
    try:
        value = json.loads(_text(data, place))
        # NaN, infinite numbers and halves of surrogate pairs could not be written to the bundle.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise WrongFile(place, "it holds half of a surrogate pair, which is no text") from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "lists in lists in lists"
        raise WrongFile(place, f"it is not JSON: {reason}") from error


def _gpt2(vocab: Any, merges: str) -> dict[str, Any]:
    """GPT-2's form: bytes as characters, words by its pattern."""
    lines = [line for line in merges.splitlines() if line and not line.startswith("#version")]
    wrong = next((line for line in lines if len(line.split(" ")) != 2), None)
    if wrong is not None:
        raise WrongFile(1, f"this line is no pair of tokens: {wrong!r:.60}")
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    end = "<|endoftext|>"
    ends = vocab.get(end) if isinstance(vocab, dict) else None
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [] if ends is None else [{"id": ends, "content": end, "special": True, **flags}]
    model = {"type": "BPE", "vocab": vocab, "merges": lines}
    parts = {"pre_tokenizer": byte_level, "decoder": byte_level, "post_processor": None}
    return {"added_tokens": added, "normalizer": None, **parts, "model": model}
