"""Patterns and steps of a foreign tokenizer file take neither exponential time nor all memory, and
both runtimes refuse the same ones."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest

from adapters import ROOT
from backtracking import TEXTS, attack, draw_pattern, steps_from
from web_stacks import run_node
from wgcc.tokens.patterns import Unsupported, portable
from wgcc_runtime.errors import WgccError
from wgcc_runtime.tokens.bundle_tokens import tokens_of_text
from wgcc_runtime.tokens.pattern_cost import CostlyPattern, check_pattern

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OTHER = r"[^\r\n\p{L}\p{N}]?"
SIGNS = r" ?[^\s\p{L}\p{N}]+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
# As the files of these models have them; Gemma, SmolLM and BERT split by plain texts and classes.
REAL = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k, llama3": rf"{CONTRACTIONS}|{OTHER}\p{{L}}+|\p{{N}}{{1,3}}|{SIGNS}[\r\n]*|{SPACES}",
    "qwen": rf"{CONTRACTIONS}|{OTHER}\p{{L}}+|\p{{N}}|{SIGNS}[\r\n]*|{SPACES}",
    "o200k": rf"{OTHER}{UPPER}*{LOWER}+{CONTRACTIONS}?|{OTHER}{UPPER}+{LOWER}*{CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}|{SIGNS}[\r\n/]*|{SPACES}",
    "tekken": rf"{OTHER}{UPPER}*{LOWER}+|{OTHER}{UPPER}+{LOWER}*|\p{{N}}|{SIGNS}[\r\n/]*"
    rf"|{SPACES}",
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}",
    "clip": rf"<\|endoftext\|>|{CONTRACTIONS}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "gemma": " ",
    "smollm": r"\p{N}",
    "bert": r"[\p{P}]|\s",
    "groups of three": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "numbers": r"\d+[.,]\d+",
}
COSTLY = {
    "(?:a|a)*b|[^\n]": "no fixed width",
    "(?:a+)+b|[^\n]": "no fixed width",
    "(?:a*)*b": "no fixed width",
    "(?:a?){30}a{30}": "no fixed width",
    "a?" * 30 + "a" * 30: "too many ways",
    "(?:a|b|c)" * 20 + "d": "too many ways",
    "a*a*b": "two repetitions",
    "a+(?!b*)": "two repetitions",
    "(?:(?:(?:a{100}){100}){100}){9}": "no fixed width",
    "(?<=a{1,9})b": "several widths",
    "(a)b": "a group of another kind",
    r"(?:a)\1": "`\\1`",
    "a**": "a quantifier of a quantifier",
    "(?:" * 50 + ")" * 50: "too deeply",
    "a{9,1}": "swapped",
    "[a": "without a `]`",
}


@pytest.mark.parametrize("name", REAL)
def test_patterns_of_real_tokenizers_are_accepted(name: str) -> None:
    check_pattern(portable(REAL[name]))


@pytest.mark.parametrize("pattern", COSTLY, ids=range(len(COSTLY)))
def test_costly_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(CostlyPattern, match=re.escape(COSTLY[pattern])):
        check_pattern(pattern)


def test_the_compiler_refuses_them_too() -> None:
    for pattern in ("(a|a)*b|.", "(?:a?){30}a{30}", "a*a*b"):
        with pytest.raises(Unsupported):
            portable(pattern)


def test_random_patterns_that_are_accepted_take_few_steps() -> None:
    draw = random.Random(11)
    outcomes = [attack(draw, 30) for _ in range(700)]
    assert [pattern for pattern, outcome in outcomes if outcome == "costly"] == []
    # The generator does find patterns that explode, and ones that do not.
    assert sum(outcome == "caught" for _, outcome in outcomes) > 5
    assert sum(outcome == "harmless" for _, outcome in outcomes) > 100


def test_steps_grow_with_the_length_of_a_text() -> None:
    """From one place: twice the length takes about twice the steps, so a whole text at most n²."""
    draw, ratios = random.Random(5), []
    while len(ratios) < 150:
        pattern = draw_pattern(draw)
        try:
            check_pattern(pattern)
        except CostlyPattern:
            continue
        for make in TEXTS[:3]:
            few, many = (steps_from(pattern, make(n), 10**6) for n in (100, 200))
            ratios.append(many / few)
    assert max(ratios) < 2.3


def test_javascript_refuses_the_same_patterns() -> None:
    draw = random.Random(2)
    patterns = [*map(portable, REAL.values()), *COSTLY, *(draw_pattern(draw) for _ in range(3000))]
    answers = run_node("pattern_cost.mjs", data=patterns)
    assert dict(zip(patterns, answers, strict=True)) == {p: _verdict(p) for p in patterns}


def _verdict(pattern: str) -> str:
    try:
        check_pattern(pattern)
        return "accepted"
    except CostlyPattern as error:
        return str(error)


def file_with(**steps: Any) -> str:
    """A sound `tokenizer.json` of a bundle with some other steps."""
    case = ROOT / "tests" / "token_cases" / "gpt2.tokenizer.json"
    file = json.loads(case.read_text(encoding="utf-8"))
    file["model"]["wgcc"] |= steps
    return json.dumps(file)


def replaced(pattern: str, text: str) -> dict[str, str]:
    return {"type": "Replace", "pattern": pattern, "text": text}


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
LOADED: dict[str, dict[str, Any]] = {
    "a split": {"pre_tokenizer": [SPLIT | {"pattern": "(?:a+)+b|[^\n]"}]},
    "a normalizer": {"normalizer": [replaced("(?:a|a)*b", "x")]},
    "a decoder": {"decoder": [replaced("(?:a|a)*b", "x")]},
    "white space of no width": {"spaces": ""},
    "white space that repeats": {"spaces": "(?:a+)+b"},
    "many steps": {"normalizer": [{"type": "ByteLevel"}] * 200},
}
BOMBS: dict[str, dict[str, Any]] = {
    "Replace": {"normalizer": [replaced("a", "a" * 1000)] * 6},
    "ByteLevel": {"normalizer": [{"type": "ByteLevel"}] * 60},
    "ByteLevel of pieces": {"pre_tokenizer": [{"type": "ByteLevel"}] * 60},
    "Prepend": {"normalizer": [{"type": "Prepend", "text": "a" * 10_000}] * 60},
}


@pytest.mark.parametrize("name", LOADED)
def test_python_refuses_foreign_files(name: str) -> None:
    with pytest.raises(WgccError) as caught:
        tokens_of_text(file_with(**LOADED[name]))
    assert caught.value.code == "bundle", caught.value


@pytest.mark.parametrize("name", BOMBS)
def test_texts_do_not_explode(name: str) -> None:
    tokens = tokens_of_text(file_with(**BOMBS[name]))
    started = time.process_time()
    with pytest.raises(WgccError, match="would make more than") as caught:
        tokens.encode("ä" if "Byte" in name else "a")
    assert caught.value.code == "bundle"
    assert time.process_time() - started < 5


def test_decoding_does_not_explode() -> None:
    tokens = tokens_of_text(file_with(decoder=[replaced("[^0]", "a" * 1000)] * 6))
    with pytest.raises(WgccError, match="would make more than"):
        tokens.decode(range(40))


def test_javascript_refuses_foreign_files_alike() -> None:
    bombs = [[file_with(**steps), "ä" if "Byte" in name else "a"] for name, steps in BOMBS.items()]
    files = [[file_with(), "a text"], *([file_with(**steps), ""] for steps in LOADED.values())]
    answers = run_node("hostile_tokens.mjs", data=[*files, *bombs])
    assert answers == ["encoded", *["bundle"] * (len(LOADED) + len(BOMBS))]


def test_long_words_take_little_time() -> None:
    """Merging takes n log n, and pieces of words are no longer than the longest token."""
    tokens = tokens_of_text(file_with())
    bert = ROOT / "tests" / "token_cases" / "bert.tokenizer.json"
    file = json.loads(bert.read_text(encoding="utf-8"))
    file["model"]["max_input_chars_per_word"] = 10**9
    for model, text in (
        (tokens, "abcab" * 20_000),
        (tokens_of_text(json.dumps(file)), "e" * 50_000),
    ):
        started = time.process_time()
        model.encode(text)
        assert time.process_time() - started < 20
