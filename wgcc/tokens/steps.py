"""The parts of a tokenizer file (normalizer, pre-tokenizer, post-processor, decoder) as the few
kinds of steps that the runtimes know. The rest is collected, to be reported all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.tokens.patterns import (
    END,
    Unsupported,
    in_brackets,
    literal,
    portable,
    unicode_class,
    union,
    without,
)

Step = dict[str, Any]
Part = Mapping[str, Any]

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
PREPENDS = ("first", "always", "never")
# Sequences inside sequences deeper than this are no real file.
DEEPEST = 20


@dataclass
class Steps:
    """Translates parts; `unsupported` grows by what cannot be translated."""

    unsupported: list[str] = field(default_factory=list)

    def normalizer(self, part: Any) -> list[Step]:
        return self._all("normalizer", part, "normalizers", self._normalizers())

    def pre_tokenizer(self, part: Any) -> list[Step]:
        return self._all("pre-tokenizer", part, "pretokenizers", self._pre_tokenizers())

    def decoder(self, part: Any) -> list[Step]:
        if part is None:
            return [{"type": "Spaces"}]
        return self._all("decoder", part, "decoders", self._decoders())

    def special(self, part: Any) -> dict[str, list[int]]:
        """Ids that a post-processor puts before and behind a text."""
        kinds: dict[str, Callable[[Part], list[Step]]] = {
            "ByteLevel": lambda part: [],
            "TemplateProcessing": self._template,
            "BertProcessing": _around,
            "RobertaProcessing": _around,
        }
        before: list[int] = []
        after: list[int] = []
        for step in self._all("post-processor", part, "processors", kinds):
            before, after = step["before"] + before, after + step["after"]
        return {"before": before, "after": after}

    def _all(
        self,
        what: str,
        part: Any,
        inner: str,
        kinds: Mapping[str, Callable[[Part], list[Step]]],
        depth: int = 0,
    ) -> list[Step]:
        if part is None:
            return []
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "Sequence" and isinstance(part.get(inner), list) and depth < DEEPEST:
            below = [self._all(what, one, inner, kinds, depth + 1) for one in part[inner]]
            return [step for steps in below for step in steps]
        make = kinds.get(kind) if isinstance(kind, str) else None
        if make is None:
            self.unsupported.append(f"{what} {kind if isinstance(kind, str) else '?'}")
            return []
        try:
            return make(part)
        except Unsupported as error:
            self.unsupported.append(f"{what} {kind}: {error}")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            self.unsupported.append(f"{what} {kind} in this form")
        return []

    def _normalizers(self) -> Mapping[str, Callable[[Part], list[Step]]]:
        same = {kind: _same(kind) for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")}
        others = {"Strip": _strip_spaces, "Replace": _replace, "Prepend": _prepend}
        accents = {
            "StripAccents": lambda part: [
                replace_step(in_brackets(unicode_class("combining") or ()), "")
            ]
        }
        return {
            **same,
            **others,
            **accents,
            "ByteLevel": _same("ByteLevel"),
            "BertNormalizer": bert_normalizer,
        }

    def _pre_tokenizers(self) -> Mapping[str, Callable[[Part], list[Step]]]:
        return {
            "ByteLevel": _byte_level,
            "Split": _split,
            "Whitespace": _words,
            "WhitespaceSplit": lambda part: [_split_step(r"\s", "Removed")],
            "Digits": _digits,
            "Punctuation": _punctuation,
            "BertPreTokenizer": bert_words,
            "Metaspace": lambda part: [_metaspace(part) | {"split": _flag(part, "split", True)}],
        }

    def _decoders(self) -> Mapping[str, Callable[[Part], list[Step]]]:
        same = {kind: _same(kind) for kind in ("ByteLevel", "ByteFallback", "Fuse")}
        return {
            **same,
            "Replace": _replace,
            "Strip": _strip_ends,
            "Metaspace": lambda part: [_metaspace(part)],
            "WordPiece": word_piece_decoder,
        }

    def _template(self, part: Part) -> list[Step]:
        sides: list[list[int]] = [[], []]
        sequences = 0
        for piece in part["single"]:
            if "Sequence" in piece:
                sequences += 1
            else:
                sides[min(sequences, 1)] += part["special_tokens"][piece["SpecialToken"]["id"]][
                    "ids"
                ]
        if sequences != 1:
            raise Unsupported("a template without exactly one text")
        return [{"before": sides[0], "after": sides[1]}]


def removes_a_beginning(steps: list[Step]) -> bool:
    """Whether normalizers may take away the first characters of a text."""
    return any(step.get("text") == "" and not step["pattern"].endswith(END) for step in steps)


def spaces() -> str:
    """White space as a class of a regular expression."""
    return in_brackets(unicode_class("s") or ())


def _same(kind: str) -> Callable[[Part], list[Step]]:
    return lambda part: [{"type": kind}]


def _flag(part: Part, name: str, otherwise: bool) -> bool:
    value = part.get(name, otherwise)
    if not isinstance(value, bool):
        raise TypeError(name)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _pattern(part: Part, may_be_empty: bool = True) -> str:
    pattern = part["pattern"]
    if "String" in pattern:
        return literal(_text(pattern["String"]))
    return portable(_text(pattern["Regex"]), may_be_empty)


def _replace(part: Part) -> list[Step]:
    pattern = _pattern(part, False)
    return (
        [{"type": "Replace", "pattern": pattern, "text": _text(part["content"])}] if pattern else []
    )


def _prepend(part: Part) -> list[Step]:
    return [{"type": "Prepend", "text": _text(part["prepend"])}]


def _strip_spaces(part: Part) -> list[Step]:
    sides = (
        ("strip_left", f"(?<![\\s\\S]){spaces()}+"),
        # Only from the first blank of a run: else each blank of it would look for its end.
        ("strip_right", f"(?<!{spaces()}){spaces()}+{END}"),
    )
    return [
        {"type": "Replace", "pattern": pattern, "text": ""}
        for name, pattern in sides
        if _flag(part, name, True)
    ]


def _split_step(pattern: str, behavior: str, invert: bool = False) -> Step:
    return {"type": "Split", "pattern": portable(pattern), "behavior": behavior, "invert": invert}


def _split(part: Part) -> list[Step]:
    behavior = part["behavior"]
    if behavior not in BEHAVIORS:
        raise ValueError
    invert = _flag(part, "invert", False)
    return [{"type": "Split", "pattern": _pattern(part), "behavior": behavior, "invert": invert}]


def _byte_level(part: Part) -> list[Step]:
    prefix = [{"type": "Prefix"}] if _flag(part, "add_prefix_space", True) else []
    words = [_split_step(GPT2_PATTERN, "Isolated")] if _flag(part, "use_regex", True) else []
    return [*prefix, *words, {"type": "ByteLevel"}]


def _words(part: Part) -> list[Step]:
    word, space = unicode_class("word") or (), unicode_class("s") or ()
    pattern = f"{in_brackets(word)}+|{in_brackets(without(union(word, space)))}+"
    return [{"type": "Split", "pattern": pattern, "behavior": "Removed", "invert": True}]


def _digits(part: Part) -> list[Step]:
    behavior = "Isolated" if _flag(part, "individual_digits", False) else "Contiguous"
    return [_class_step("digits", behavior)]


def _punctuation(part: Part) -> list[Step]:
    behavior = part.get("behavior", "Isolated")
    if behavior not in BEHAVIORS:
        raise ValueError
    return [_class_step("punctuation", behavior)]


def _class_step(name: str, behavior: str) -> Step:
    pattern = in_brackets(unicode_class(name) or ())
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def _metaspace(part: Part) -> Step:
    replacement = _text(part.get("replacement", "▁"))
    old = "always" if _flag(part, "add_prefix_space", True) else "never"
    prepend = part.get("prepend_scheme", old)
    if prepend not in PREPENDS or len(replacement) != 1:
        raise ValueError
    return {"type": "Metaspace", "replacement": replacement, "prepend": prepend}


def _strip_ends(part: Part) -> list[Step]:
    text, start, stop = _text(part["content"]), part["start"], part["stop"]
    if len(text) != 1 or not all(isinstance(n, int) and n >= 0 for n in (start, stop)):
        raise ValueError
    return [{"type": "Strip", "text": text, "start": start, "stop": stop}]


def _around(part: Part) -> list[Step]:
    return [{"before": [part["cls"][1]], "after": [part["sep"][1]]}]


# What a decoder with `cleanup` writes without the blank before it.
CLOSE = (" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're")


def bert_normalizer(part: Part) -> list[Step]:
    lowercase = part.get("lowercase", True)
    accents = part.get("strip_accents")
    steps: list[Step] = []
    if part.get("clean_text", True):
        steps += [replace_step(_class("control"), ""), replace_step(_class("blank"), " ")]
    if part.get("handle_chinese_chars", True):
        # A blank before each, then one behind each.
        steps += [
            replace_step(f"(?={_class('cjk')})", " "),
            replace_step(f"(?<={_class('cjk')})", " "),
        ]
    if lowercase if accents is None else accents:
        steps += [{"type": "NFD"}, replace_step(_class("accent"), "")]
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
    return [*spaced, *(replace_step(literal(close), close[1:]) for close in CLOSE)]


def replace_step(pattern: str, text: str) -> Step:
    return {"type": "Replace", "pattern": pattern, "text": text}


def _class(name: str) -> str:
    return in_brackets(unicode_class(name) or ())
