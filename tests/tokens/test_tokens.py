"""Tokens of Python's runtime are those of the `tokenizers` package and of llama2.c."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from adapters import ROOT
from llama2c_encoding import Llama2cFile
from token_makers import MAKERS, corpus, llama2c_file, random_texts
from token_texts import hard_texts
from wgcc.tokens.read import read_tokens
from wgcc_runtime.tokens.tokens import Tokens

CASES = sorted((ROOT / "tests" / "token_cases").glob("*.tokenizer.json"))
# The kinds that models in use have; the others are combinations of steps.
COUNTS = {"gpt2": 10_000, "llama3": 10_000, "llama2": 10_000}


def tokens_of(tmp_path: Path, data: bytes) -> Tokens:
    path = tmp_path / "file"
    path.write_bytes(data)
    return Tokens(json.loads(read_tokens([path]).text))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name.split(".")[0])
def test_recorded_cases(path: Path) -> None:
    tokens = Tokens(json.loads(path.read_text(encoding="utf-8")))
    cases = json.loads(path.with_name(path.name.replace(".tokenizer", "")).read_text("utf-8"))
    assert len(cases["cases"]) > 40
    for case in cases["cases"]:
        assert tokens.encode(case["text"]) == case["ids"], case
        assert tokens.encode(case["text"], special=False) == case["plain"], case
        assert tokens.decode(case["ids"]) == case["decoded"], case


@pytest.mark.parametrize("name", MAKERS)
def test_ids_and_texts_are_those_of_the_tokenizers_package(name: str, tmp_path: Path) -> None:
    theirs = MAKERS[name]()
    tokens = tokens_of(tmp_path, theirs.to_str().encode())
    half = COUNTS.get(name, 1000) // 2
    texts = [*random_texts(half, 3), *hard_texts(half, 4), *(text[:5000] for text in corpus())]
    for text, found in zip(texts, theirs.encode_batch(texts), strict=True):
        assert tokens.encode(text) == found.ids, repr(text)
        assert tokens.decode(found.ids) == theirs.decode(found.ids), repr(text)
        whole = theirs.decode(found.ids, skip_special_tokens=False)
        assert tokens.decode(found.ids, skip_special=False) == whole, repr(text)


def test_a_file_of_llama2c_gives_the_same_ids_as_its_merging(tmp_path: Path) -> None:
    data = llama2c_file()
    theirs, tokens = Llama2cFile(data), tokens_of(tmp_path, data)
    for text in random_texts(2000, 5):
        assert tokens.encode(text) == theirs.encode(text, True), repr(text)
        assert tokens.decode(tokens.encode(text)) == theirs.decode(theirs.encode(text, True))


def test_the_form_of_bundles_is_read_by_the_tokenizers_package() -> None:
    for path in CASES:
        text = "Hello world, 123!"
        tokens = Tokens(json.loads(path.read_text(encoding="utf-8")))
        assert Tokenizer.from_file(str(path)).encode(text).ids == tokens.encode(text), path


def test_a_stream_is_the_decoded_text_in_whole_characters() -> None:
    for path in CASES:
        tokens = Tokens(json.loads(path.read_text(encoding="utf-8")))
        for text in random_texts(200, 9):
            ids = tokens.encode(text)
            stream = tokens.stream()
            parts = [stream.push(id_) for id_ in ids]
            assert "".join([*parts, stream.end()]) == tokens.decode(ids), (path, text)
            if "\ufffd" not in text:
                assert not any("\ufffd" in part for part in parts), (path, text)


def test_long_texts_take_work_in_proportion() -> None:
    """A text without spaces is one piece; each merge must not look at all of it."""
    path = next(path for path in CASES if path.name.startswith("gpt2."))
    tokens = Tokens(json.loads(path.read_text(encoding="utf-8")))
    assert tokens.decode(tokens.encode("ab" * 100_000)) == "ab" * 100_000
