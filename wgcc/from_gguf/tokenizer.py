"""The vocabulary of a GGUF file as a `tokenizer.json`, which bundles and other tools read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.errors import WgError
from wgcc.tokens.llama2c import from_pieces

Json = dict[str, Any]

PREFIX = "tokenizer.ggml."
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5

# How text is cut before merging, by the name that a file has for it: regular expressions of the
# models' own tokenizers.
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2: Json = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
BYTES: Json = {**GPT2, "use_regex": False}
DIGITS: Json = {"type": "Digits", "individual_digits": True}


def _split(digits: str) -> Json:
    pattern = (
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return {"type": "Sequence", "pretokenizers": [{**split, "invert": False}, BYTES]}


PRE_TOKENIZERS: dict[str, Json] = {
    "default": GPT2,
    "gpt-2": GPT2,
    "smollm": {"type": "Sequence", "pretokenizers": [DIGITS, GPT2]},
    "llama-bpe": _split("{1,3}"),
    "qwen2": _split(""),
}


def tokenizer_json(metadata: Mapping[str, Any]) -> tuple[Json | None, str]:
    """The vocabulary, or None and why it cannot be used."""
    kind = metadata.get(f"{PREFIX}model")
    tokens = metadata.get(f"{PREFIX}tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return None, "the file has no vocabulary"
    if kind == "llama":
        return _sentence_pieces(metadata, tokens), ""
    if kind != "gpt2":
        return None, f"vocabularies of kind `{kind}` are not supported"
    cut = metadata.get(f"{PREFIX}pre", "default")
    if cut not in PRE_TOKENIZERS:
        return None, f"how `{cut}` cuts text is not known"
    return _byte_pairs(metadata, tokens, PRE_TOKENIZERS[cut]), ""


def _byte_pairs(metadata: Mapping[str, Any], tokens: list[str], cut: Json) -> Json:
    """Byte-level BPE: the order of merges is in the file."""
    merges = metadata.get(f"{PREFIX}merges")
    if not isinstance(merges, list) or not all(isinstance(merge, str) for merge in merges):
        raise WgError("the file's vocabulary has no merges (tokenizer.ggml.merges)")
    kinds = _kinds(metadata, tokens)
    added = [
        _added_token(number, token, kinds[number])
        for number, token in enumerate(tokens)
        if kinds[number] in (CONTROL, USER_DEFINED)
    ]
    return {
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": cut,
        "post_processor": _first_token(metadata, tokens) or GPT2,
        "decoder": GPT2,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    }


def _sentence_pieces(metadata: Mapping[str, Any], tokens: list[str]) -> Json:
    """SentencePiece: the neighbours whose join has the best score are merged first."""
    scores = metadata.get(f"{PREFIX}scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise WgError("the file's vocabulary has no scores (tokenizer.ggml.scores)")
    kinds = _kinds(metadata, tokens)
    pieces = [
        token if kinds[number] in (CONTROL, USER_DEFINED) else token.replace("\u2581", " ")
        for number, token in enumerate(tokens)
    ]
    return from_pieces(pieces, [float(score) for score in scores])


def _kinds(metadata: Mapping[str, Any], tokens: list[str]) -> list[int]:
    kinds = metadata.get(f"{PREFIX}token_type")
    if kinds is None:
        return [1] * len(tokens)
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise WgError("the file's vocabulary has another number of kinds than of tokens")
    return kinds


def _added_token(number: int, token: str, kind: int) -> Json:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, "special": kind == CONTROL, **flags}


def _first_token(metadata: Mapping[str, Any], tokens: list[str]) -> Json | None:
    """A token that begins every text, if the model was trained so."""
    number = metadata.get(f"{PREFIX}bos_token_id")
    if not metadata.get(f"{PREFIX}add_bos_token", False) or not isinstance(number, int):
        return None
    if not 0 <= number < len(tokens):
        raise WgError(f"the first token of a text has id {number}, which is no id of a token")
    content = tokens[number]
    first = {"SpecialToken": {"id": content, "type_id": 0}}
    text, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    special = {content: {"id": content, "ids": [number], "tokens": [content]}}
    pair = [first, text, first, other]
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": pair,
        "special_tokens": special,
    }
