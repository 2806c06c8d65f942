"""BERT's own normalizer, pre-tokenizer and decoder, as the steps that the runtimes know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.tokens.patterns import Unsupported, literal
from wgcc.tokens.unicode_classes import in_brackets, unicode_class

Step = dict[str, Any]
Part = Mapping[str, Any]

# What a decoder with `cleanup` writes without the blank before it.
CLOSE = (" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're")


def bert_normalizer(part: Part) -> list[Step]:
    lowercase = part.get("lowercase", True)
    accents = part.get("strip_accents")
    steps: list[Step] = []
    if part.get("clean_text", True):
        steps += [replaced(_class("control"), ""), replaced(_class("blank"), " ")]
    if part.get("handle_chinese_chars", True):
        # A blank before each, then one behind each.
        steps += [replaced(f"(?={_class('cjk')})", " "), replaced(f"(?<={_class('cjk')})", " ")]
    if lowercase if accents is None else accents:
        steps += [{"type": "NFD"}, replaced(_class("accent"), "")]
    return [*steps, {"type": "Lowercase"}] if lowercase else steps


def bert_words(part: Part) -> list[Step]:
    """Words between white space; punctuation alone."""
    kinds = (("s", "Removed"), ("punctuation", "Isolated"))
    return [
        {"type": "Split", "pattern": _class(name), "behavior": behavior, "invert": False}
        for name, behavior in kinds
    ]


def word_piece_decoder(part: Part) -> list[Step]:
    prefix = part["prefix"]
    if not isinstance(prefix, str):
        raise Unsupported("a prefix that is no text")
    spaced: list[Step] = [{"type": "WordPiece", "prefix": prefix}]
    if not part.get("cleanup", True):
        return spaced
    return [*spaced, *(replaced(literal(close), close[1:]) for close in CLOSE)]


def replaced(pattern: str, text: str) -> Step:
    return {"type": "Replace", "pattern": pattern, "text": text}


def _class(name: str) -> str:
    return in_brackets(unicode_class(name) or ())
