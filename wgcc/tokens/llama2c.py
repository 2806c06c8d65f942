"""Reads `tokenizer.bin` of llama2.c: tokens with scores, of which the best pair is always merged.

Hugging Face's merges are pairs in an order; llama2.c merges any two neighbours whose text is a
token, the one with the best score first. So the runtimes get the rank of every token, too.
"""

from __future__ import annotations

import struct
from typing import Any

from wgcc.tokens.huggingface import LARGEST_SIZE
from wgcc.tokens.token_file import Unusable

BYTES_FROM = 3
# llama2.c never merges tokens with scores below this.
WORST_SCORE = -1e10


def from_llama2c(data: bytes) -> dict[str, Any]:
    """A `tokenizer.json` with the same tokens."""
    pieces, scores = _pieces(data)
    return from_pieces(_tokens(pieces), scores)


def from_pieces(tokens: list[str], scores: list[float]) -> dict[str, Any]:
    """The same of tokens and scores, as GGUF files have them, too."""
    if len(tokens) < BYTES_FROM + 256:
        raise Unusable(f"it has {len(tokens)} tokens, fewer than 3 special ones and 256 bytes")
    for byte in range(256):
        if tokens[BYTES_FROM + byte] != f"<0x{byte:02X}>":
            text = f"token {BYTES_FROM + byte} is not <0x{byte:02X}>"
            raise Unusable(f"{text}, as in files of llama2.c")
    vocab = {token: number for number, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        twice = next(token for number, token in enumerate(tokens) if vocab[token] != number)
        raise Unusable(f"it has the token {twice!r:.60} twice")
    ranks = _ranks(scores)
    return {
        "added_tokens": [_special(number, tokens[number]) for number in range(min(3, len(tokens)))],
        "normalizer": {"type": "Prepend", "prepend": " "},
        "pre_tokenizer": None,
        "post_processor": _first_token(tokens[1]),
        "decoder": _decoder(),
        "model": {
            "type": "BPE",
            "unk_token": tokens[0],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": _merges(tokens, ranks, vocab),
            "wgcc": {"ranks": ranks},
        },
    }


def _pieces(data: bytes) -> tuple[list[bytes], list[float]]:
    if len(data) < 4:
        raise Unusable("it is too short for a tokenizer of llama2.c")
    longest = struct.unpack_from("<i", data)[0]
    pieces: list[bytes] = []
    scores: list[float] = []
    at = 4
    while at < len(data):
        if at + 8 > len(data):
            raise Unusable(f"it ends inside token {len(pieces)}")
        score, length = struct.unpack_from("<fi", data, at)
        at += 8
        if not 0 <= length <= longest or at + length > len(data) or score != score:
            text = (
                "ends inside token"
                if length <= longest
                else "is no tokenizer of llama2.c: see token"
            )
            raise Unusable(f"it {text} {len(pieces)}")
        pieces.append(data[at : at + length])
        scores.append(score)
        at += length
        if len(pieces) > LARGEST_SIZE:
            raise Unusable(f"it has more than {LARGEST_SIZE} tokens")
    return pieces, scores


def _tokens(pieces: list[bytes]) -> list[str]:
    tokens = []
    for number, piece in enumerate(pieces):
        try:
            text = piece.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unusable(f"token {number} is not UTF-8 text") from error
        tokens.append(text.strip("\n") if number in (1, 2) else text)
    return tokens


def _ranks(scores: list[float]) -> list[int]:
    """Ranks begin at the best score; equal scores have equal ranks; -1: no merge makes it."""
    order = {score: rank for rank, score in enumerate(sorted(set(scores), reverse=True))}
    ranks = [order[score] if score > WORST_SCORE else -1 for score in scores]
    # Tokens 1 and 2 have line ends around their names there, so that no text is merged to them.
    return [ranks[0], -1, -1, *ranks[BYTES_FROM:]]


def _merges(tokens: list[str], ranks: list[int], vocab: dict[str, int]) -> list[list[str]]:
    """All pairs that make a token, the best first: what other tools need."""
    ordered = sorted((rank, number) for number, rank in enumerate(ranks) if rank >= 0)
    return [
        [token[:cut], token[cut:]]
        for _, number in ordered
        for token in (tokens[number],)
        if number >= BYTES_FROM + 256
        for cut in range(1, len(token))
        if token[:cut] in vocab and token[cut:] in vocab
    ]


def _special(number: int, content: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **flags}


def _first_token(content: str) -> dict[str, Any]:
    first = {"SpecialToken": {"id": content, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    other = {"Sequence": {"id": "B", "type_id": 1}}
    tokens = {content: {"id": content, "ids": [1], "tokens": [content]}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, first, other],
        "special_tokens": tokens,
    }


def _decoder() -> dict[str, Any]:
    steps = [
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    return {"type": "Sequence", "decoders": steps}
