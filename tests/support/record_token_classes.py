"""Records wgcc/tokens/unicode_classes.txt: what the `tokenizers` package takes for letters, …

Run `python tests/support/record_token_classes.py` after a change of that package: a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tokenizers import Regex, normalizers, pre_tokenizers

from adapters import ROOT

PATH = ROOT / "wgcc" / "tokens" / "unicode_classes.txt"
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
)
ALL = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
HEADER = """\
# Classes of characters as tokenizers 0.23.3 has them: gap and length of each range, in turn.
# Written by tests/support/record_token_classes.py.
"""


def matching(pattern: str) -> set[int]:
    """The characters that a pattern of one character matches."""
    split = pre_tokenizers.Split(Regex(f"{pattern}+"), "removed", invert=True)
    return {ord(letter) for piece, _ in split.pre_tokenize_str(ALL) for letter in piece}


def every_second(found: list[tuple[str, tuple[int, int]]]) -> set[int]:
    """Pieces in a class and outside it alternate; the first, of control characters, is outside."""
    return {ord(letter) for piece, _ in found[1::2] for letter in piece}


def bert_classes() -> dict[str, set[int]]:
    """Characters that BERT's normalizer removes, takes for blanks or sets apart, and accents."""
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False}
    clean = normalizers.BertNormalizer(**{**off, "clean_text": True}, lowercase=False)
    apart = normalizers.BertNormalizer(**{**off, "handle_chinese_chars": True}, lowercase=False)
    plain = normalizers.BertNormalizer(**{**off, "strip_accents": True}, lowercase=False)
    strip = normalizers.StripAccents()
    return {
        "control": {ord(letter) for letter in ALL if not clean.normalize_str(letter)},
        "blank": {ord(letter) for letter in ALL if clean.normalize_str(letter) == " "},
        "cjk": {ord(letter) for letter in ALL if apart.normalize_str(letter) == f" {letter} "},
        "accent": {ord(letter) for letter in ALL if not plain.normalize_str(letter)},
        "combining": {ord(letter) for letter in ALL if not strip.normalize_str(letter)},
    }


def coded(codes: Iterable[int]) -> str:
    numbers: list[int] = []
    start = end = 0
    for code in sorted(codes):
        if code != end or not numbers:
            numbers += [code - end, 0]
            start = code
        end = code + 1
        numbers[-1] = end - start
    return " ".join(map(str, numbers))


def main() -> None:
    classes = {name: matching(rf"\p{{{name}}}") for name in CATEGORIES.split()}
    classes |= {name: matching(rf"\{name}") for name in "wsd"}
    digits = pre_tokenizers.Digits(individual_digits=False)
    classes["digits"] = every_second(digits.pre_tokenize_str(ALL))
    punctuation = pre_tokenizers.Punctuation("contiguous")
    classes["punctuation"] = every_second(punctuation.pre_tokenize_str(ALL))
    whitespace = pre_tokenizers.Whitespace()
    classes["word"] = {
        ord(letter)
        for letter in ALL
        if whitespace.pre_tokenize_str(f"a{letter}")[0][0] == f"a{letter}"
    }
    classes |= bert_classes()
    lines = [f"{name} {coded(codes)}\n" for name, codes in classes.items()]
    PATH.write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
