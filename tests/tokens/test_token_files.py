"""Files of tokens: patterns of models in use, forms that are refused, hostile files."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, pre_tokenizers

from adapters import ROOT
from token_makers import LLAMA3, llama2c_file, random_texts
from wgcc.tokens.patterns import Unsupported, portable
from wgcc.tokens.read import WrongFile, read_tokens
from wgcc_runtime.tokens.bundle_tokens import tokens_of_text
from wgcc_runtime.tokens.patterns import finder

CASES = sorted((ROOT / "tests" / "token_cases").glob("*.tokenizer.json"))
# Of GPT-2, Qwen, GPT-4o, DeepSeek, Bloom, Falcon; then single rules.
PATTERNS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    LLAMA3.replace("{1,3}", ""),
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve"
    r"|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+|[一-龥぀-ゟ゠-ヿ]+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"[0-9][0-9][0-9]",
    r"(?=(\d{3})+(?!\d))",
    *(r"\w+|[^\w\s]+", r"^.*$", r"(?i)foo|[a-c]x?", r"\x{1F642}|\u00e9|\x41", r"(?<=a)b|(?<!a)c"),
    *(
        r"a[\s\S]",
        r"[^\w\W]|[\d\D]b",
        r"[^\P{L}a-z]+?",
        r"\d{2,}|\D{,3}x",
        r"\S+\s?",
        r"\A.|.\z",
        r"[]a]|[a-]|\p{^L}",
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_as_in_the_tokenizers_package(pattern: str) -> None:
    theirs = pre_tokenizers.Split(Regex(pattern), "isolated")
    find = finder(portable(pattern))
    for text in random_texts(400, 11):
        ends = {0, len(text), *(end for found in find(text) for end in found.span())}
        pieces = [place for _, place in theirs.pre_tokenize_str(text)]
        assert sorted(ends) == sorted({0, len(text), *(e for p in pieces for e in p)}), repr(text)


WRONG = {
    "a++": "the possessive quantifier `++`",
    "a{2}+": "the possessive quantifier",
    "(?>a)": "the group `(?>a",
    "[a&&b]": "`&&` in a class",
    r"\bx": "`\\b`",
    r"(\w)\1": "`\\1`",
    "(a": "a `(` without a `)`",
    "a)": "a `)` without a `(`",
    "[a": "an unfinished pattern",
    "a\\": "an unfinished pattern",
    "*a": "`*` without anything before it",
    r"\p{Han}": "the class `\\p{Han}`",
    "[b-a]": "a range in a class without an order",
    "(?i:é)": "letters beyond ASCII of either case",
    "(" * 40 + ")" * 40: "more than 30 groups",
    "(?<=a+)b": "look-behind requires fixed-width",
    "[" * 5000: "more than 30 classes",
    "(a+)+c": "a repetition inside a repetition: `(a+)+`",
    "(?:x|(b{2,}|c))*": "a repetition inside a repetition",
    "(?:a{1,9999}){1,9999}": "a repetition inside a repetition",
    r"\w" * 3000: "too many classes of characters",
    "a" * 10_001: "more than 10000 characters",
    "(?=a)*b": "a quantifier of what has no width: `(?=a)*`",
    "a^?b": "a quantifier of what has no width",
}


@pytest.mark.parametrize("pattern", WRONG)
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(WRONG[pattern])):
        portable(pattern)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_the_form_of_bundles_stays_as_it_is(path: Path) -> None:
    assert read_tokens([path]).text == path.read_text(encoding="utf-8")


FILES: dict[str, tuple[Any, str]] = {
    "a list": ([], "it has no `model`"),
    "no vocabulary": ({"model": {"type": "BPE"}}, "it has no vocabulary"),
    "an id twice": ({"model": {"vocab": {"a": 0, "b": 0}, "merges": []}}, "have the same id"),
    "a negative id": ({"model": {"vocab": {"a": -1}, "merges": []}}, "the id of 'a' is -1"),
    "a large id": ({"model": {"vocab": {"a": 1 << 30}, "merges": []}}, "no number from 0 to"),
    "an id of truth": ({"model": {"vocab": {"a": True}, "merges": []}}, "the id of 'a' is True"),
    "no merges": ({"model": {"type": "BPE", "vocab": {"a": 0}}}, "no list of merges"),
    "half a pair": ({"model": {"vocab": {"\ud800": 0}, "merges": []}}, "half of a surrogate pair"),
    "three parts": ({"model": {"vocab": {"a": 0}, "merges": ["a b c"]}}, "merge 0 is no pair"),
    "unknown": (
        {"model": {"vocab": {"a": 0}, "merges": [], "unk_token": "b"}},
        "`unk_token` 'b' is not in its vocabulary",
    ),
    "a list as unknown": (
        {"model": {"vocab": {"a": 0}, "merges": [], "unk_token": []}},
        "`unk_token` [] is not",
    ),
    "dropout and a suffix": (
        {"model": {"vocab": {"a": 0}, "merges": [], "dropout": 0.1, "end_of_word_suffix": "</w>"}},
        "not supported: model BPE with end_of_word_suffix; model BPE with dropout",
    ),
    "long tokens": ({"model": {"vocab": {"a" * 999: "b" * 999}, "merges": []}}, "the id of 'aaa"),
    "another id": (
        {"model": {"vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": 1, "content": "a"}]},
        "differ about its id",
    ),
    "single words": (
        {
            "model": {"vocab": {"a": 0}, "merges": []},
            "added_tokens": [{"id": 1, "content": "b", "single_word": True}],
        },
        "added tokens with single_word",
    ),
    "a special id": (
        {
            "model": {"vocab": {"a": 0}, "merges": []},
            "post_processor": {"type": "BertProcessing", "cls": ["x", 7], "sep": ["y", 8]},
        },
        "adds 7, which is no id",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_wrong_files_are_refused(name: str, tmp_path: Path) -> None:
    file, message = FILES[name]
    with pytest.raises(WrongFile, match=re.escape(message)) as caught:
        read(tmp_path, json.dumps(file).encode())
    assert len(str(caught.value)) < 300


def test_files_of_sentencepiece_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"\n\x0e\n\x05<unk>\x15")
    with pytest.raises(WrongFile, match="files of SentencePiece are not read"):
        read_tokens([path])


def test_wrong_binary_files_are_refused(tmp_path: Path) -> None:
    data = llama2c_file()
    for wrong, message in {
        b"": "too short",
        data[:-1]: "it ends inside token 899",
        data[:14]: "it ends inside token 0",
        data[:2000]: "fewer than llama2.c's 3 special ones and 256 bytes|ends inside token",
        data.replace(b"<0x0A>", b"<0x0B>"): "token 13 is not <0x0A>",
        data[:4] + b"\xff" * 8 + data[12:]: "ends inside token 0",
        b"\x89PNG\r\n\x1a\n" * 40: "llama2.c|ends inside",
    }.items():
        with pytest.raises(WrongFile, match=message):
            read(tmp_path, wrong)


def plain_file(**parts: Any) -> Any:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}
    return {"added_tokens": [], "model": model, **parts}


def replace(pattern: Any, content: str) -> Any:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize("pattern", ["a*", "a|", "(?=a)", "(?:b?a{0,2})", "^", "(?<=a)b?|c"])
def test_empty_matches_are_not_replaced(pattern: str, tmp_path: Path) -> None:
    """Oniguruma finds others than `re` and `RegExp`."""
    for part in ("normalizer", "decoder"):
        file = plain_file(**{part: replace({"Regex": pattern}, "x")})
        with pytest.raises(WrongFile, match="Replace: a pattern that matches the empty text"):
            read(tmp_path, json.dumps(file).encode())
    assert portable(pattern)


def test_a_first_metaspace_after_removed_text_is_refused(tmp_path: Path) -> None:
    first = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    left, right = (
        {"type": "Strip", "strip_left": on, "strip_right": not on} for on in (True, False)
    )
    for normalizer in (left, replace({"String": "a"}, ""), {"type": "BertNormalizer"}):
        file = plain_file(normalizer=normalizer, pre_tokenizer=first)
        with pytest.raises(WrongFile, match="Metaspace with `first` after a normalizer that"):
            read(tmp_path, json.dumps(file).encode())
    for normalizer in (right, replace({"String": "a"}, "b"), None):
        file = plain_file(normalizer=normalizer, pre_tokenizer=first)
        assert read(tmp_path, json.dumps(file).encode())


# Ids of added tokens after the vocabulary "a", "b", "c", and the one that is refused.
ORDERS = {((3, "<x>"), (4, "<y>")): None, ((10, "<x>"),): 10, ((4, "<x>"), (3, "<y>")): 4}


@pytest.mark.parametrize("order", ORDERS)
def test_ids_of_added_tokens_are_those_of_the_tokenizers_package(
    order: tuple[tuple[int, str], ...], tmp_path: Path
) -> None:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    added = [{"id": number, "content": content, **flags} for number, content in order]
    data = json.dumps({"version": "1.0", **plain_file(added_tokens=added)})
    theirs, wrong = Tokenizer.from_str(data), ORDERS[order]
    if wrong is None:
        assert tokens_of_text(read(tmp_path, data.encode())).encode("a<y>") == [0, 4]
        assert theirs.encode("a<y>").ids == [0, 4]
        return
    given = theirs.token_to_id(order[0][1])
    with pytest.raises(WrongFile, match=f"has id {wrong}, but .* gives it {given}: "):
        read(tmp_path, data.encode())


@pytest.mark.parametrize(
    "names, message",
    [
        (("Foo", "foo"), "equal: 'Foo', 'foo'"),
        (("x", "  "), "leaves nothing of the added token '  '"),
    ],
)
def test_added_tokens_differ_in_normalized_text(
    names: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    lower = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Strip"}]}
    for flag in (True, False):
        added = [{"id": n, "content": c, "normalized": flag} for n, c in enumerate(names, 3)]
        data = json.dumps(plain_file(added_tokens=added, normalizer=lower)).encode()
        if not flag:
            assert read(tmp_path, data)
            continue
        with pytest.raises(WrongFile, match=re.escape(message)):
            read(tmp_path, data)


def test_an_empty_unknown_token_is_none(tmp_path: Path) -> None:
    model = {**plain_file()["model"], "unk_token": ""}
    text = read(tmp_path, json.dumps(plain_file(model=model)).encode())
    assert tokens_of_text(text).encode("axb") == [0, 1]


def test_a_wrong_merge_is_reported_at_its_file(tmp_path: Path) -> None:
    paths = [tmp_path / "vocab.json", tmp_path / "merges.txt"]
    paths[0].write_text('{"a": 0, "b": 1}', "utf-8")
    paths[1].write_text("a b\n", "utf-8")
    with pytest.raises(WrongFile, match="merge 0 uses 'ab'") as caught:
        read_tokens(paths)
    assert caught.value.place == 1


@pytest.mark.parametrize("wrong", ["\ud800", float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["content", "unread"])
def test_what_no_bundle_can_hold_is_refused(wrong: Any, place: str, tmp_path: Path) -> None:
    file = plain_file(normalizer={**replace({"String": "a"}, "b"), place: wrong})
    with pytest.raises(WrongFile, match=r"surrogate pair|Out of range float"):
        read(tmp_path, json.dumps(file).encode())


def read(folder: Path, data: bytes) -> str:
    path = folder / "file"
    path.write_bytes(data)
    return read_tokens([path]).text


JUNK = (
    None,
    True,
    -1,
    1e300,
    "",
    "\\p{",
    [],
    {},
    [[]],
    {"type": "Sequence"},
    {"type": 3},
    "x" * 99,
    "\ud800",
    float("nan"),
    "[" * 5000,
)


def damaged(file: Any, draw: random.Random) -> Any:
    """The file with one value, anywhere in it, replaced or taken away."""
    copied = copy.deepcopy(file)
    places = [place for place in _places(copied) if draw.random() < 0.02 or place[2]]
    holder, key, _ = draw.choice(places)
    if draw.random() < 0.2:
        del holder[key]
    else:
        holder[key] = draw.choice(JUNK)
    return copied


def _places(value: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Every place of a value, with whether it is outside of large tables."""
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in list(items):
        yield value, key, len(value) < 50
        yield from _places(inner)


@pytest.mark.parametrize("name", ["llama3", "metaspace", "mixed", "bert"])
def test_damaged_files_are_refused_or_used(name: str, tmp_path: Path) -> None:
    """Nothing but the reader's own error comes out, and what it accepts works."""
    draw, refused = random.Random(name), 0
    path = next(path for path in CASES if path.name == f"{name}.tokenizer.json")
    file = json.loads(path.read_text(encoding="utf-8"))
    del file["model"]["wgcc"]
    for _ in range(250):
        try:
            text = read(tmp_path, json.dumps(damaged(file, draw)).encode())
        except WrongFile as error:
            refused += 1
            assert 5 < len(str(error)) < 600, error
        else:
            tokens = tokens_of_text(text)
            assert isinstance(tokens.decode(tokens.encode("Hello wörld 12 🙂")), str)
    assert refused > 50


def test_damaged_binary_files_are_refused_or_used(tmp_path: Path) -> None:
    draw, data = random.Random(5), llama2c_file()
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(3):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        try:
            text = read(tmp_path, bytes(changed))
        except WrongFile:
            continue
        tokens = tokens_of_text(text)
        assert isinstance(tokens.decode(tokens.encode("Hello wörld 12 🙂")), str)
