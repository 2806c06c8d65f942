"""Calls of `encode` and `decode`, in Python and JavaScript: long texts, empty ones, wrong types."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre

from adapters import ROOT
from token_makers import bert, metaspace, roberta
from web_stacks import run_node
from wgcc.tokens.read import read_tokens
from wgcc_runtime.errors import WgccError
from wgcc_runtime.tokens.letters import Letters
from wgcc_runtime.tokens.tokens import Tokens
from wgcc_runtime.writing import prompt_ids

SMALL, LARGE = 8_000, 128_000
# In seconds; shorter times say nothing.
TICK = 0.005
CASES = ROOT / "tests" / "token_cases"


def canonical(tmp_path: Path, tokenizer: Tokenizer) -> Any:
    (tmp_path / "file").write_text(tokenizer.to_str(), "utf-8")
    return json.loads(read_tokens([tmp_path / "file"]).text)


def plain(**options: Any) -> Tokenizer:
    vocab = {"x": 0, " ": 1, "a": 2, "b": 3, "ab": 4, "▁": 5}
    return Tokenizer(models.BPE(vocab, [], **options))


def grown(tmp_path: Path) -> list[tuple[Any, str]]:
    """Vocabularies, each with a text whose {} is a run of blanks."""
    stripped, marked = plain(), plain()
    stripped.normalizer = normalizers.Strip()
    marked.add_tokens([AddedToken("<m>", lstrip=True, rstrip=True)])
    files = [canonical(tmp_path, one) for one in (stripped, marked, marked)]
    return list(zip(files, ("x{}x", "{}x<m>", "<m>{}x"), strict=True))


def seconds(tokens: Tokens, text: str) -> float:
    start = perf_counter()
    tokens.encode(text)
    return perf_counter() - start


def test_runs_of_blanks_take_work_in_proportion(tmp_path: Path) -> None:
    """16 times the text: in proportion 16 times the work, else up to 256 times."""
    for file, form in grown(tmp_path):
        tokens = Tokens(file)
        small, large = (form.format(" " * count) for count in (SMALL, LARGE))
        base = max(seconds(tokens, small) for _ in range(3))
        assert seconds(tokens, large) < 80 * max(base, TICK), form


def test_nothing_has_no_tokens(tmp_path: Path) -> None:
    stripped = plain()
    stripped.normalizer, stripped.pre_tokenizer = normalizers.Strip(), pre.Metaspace()
    for theirs in (stripped, roberta(), metaspace()):
        tokens = Tokens(canonical(tmp_path, theirs))
        for text in ("", "   ", "x"):
            assert tokens.encode(text) == theirs.encode(text).ids, (theirs, text)


# Arguments of decode, and what is said of them.
WRONG_IDS = {
    "no ids": (None, "a list of whole numbers, not NoneType"),
    "one id": (3, "a list of whole numbers, not int"),
    "text": (["a"], "are whole numbers"),
    "a fraction": ([1.5], "are whole numbers"),
    "numpy's fractions": (np.ones(2), "are whole numbers"),
}


@pytest.mark.parametrize("name", WRONG_IDS)
def test_other_ids_are_refused(name: str, tmp_path: Path) -> None:
    ids, message = WRONG_IDS[name]
    for tokens in (Tokens(canonical(tmp_path, plain())), Letters("abc")):
        with pytest.raises(WgccError, match=message) as caught:
            tokens.decode(ids)  # type: ignore[arg-type]
        assert caught.value.code == "text"
        with pytest.raises(WgccError, match="is a str, not int"):
            tokens.encode(5)  # type: ignore[arg-type]
        assert tokens.decode(np.array([2, -2], np.int16)).startswith(("a", "c"))


def test_a_prompt_goes_on(tmp_path: Path) -> None:
    """It has the tokens that begin a text, not those that end it."""
    tokens = Tokens(canonical(tmp_path, bert()))
    whole = tokens.encode("the model")
    assert prompt_ids(tokens, "the model") == whole[:-1] == tokens.encode("the model", "before")
    assert tokens.encode("the model", special=False) == whole[1:-1]
    assert prompt_ids(tokens, "") == whole[:1]
    without = Tokens(canonical(tmp_path, plain()))
    for text, message in {"": "at least one character", "é": "nothing of the model's"}.items():
        with pytest.raises(WgccError, match=message):
            prompt_ids(without, text)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("calls")
    texts = [
        {"file": file, "small": form.format(" " * SMALL), "large": form.format(" " * LARGE)}
        for file, form in grown(folder)
    ]
    llama = json.loads((CASES / "llama2c.tokenizer.json").read_text("utf-8"))
    wide = canonical(folder, plain())
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "special"), False)
    wide["added_tokens"] = [
        {"id": number, "content": f"<{number}>", **flags} for number in range(6, 150_000)
    ]
    given = {"grown": texts, "bytes": {"file": llama, "id": 3 + 255, "count": 300_000}}
    ended = json.loads((CASES / "bert.tokenizer.json").read_text("utf-8"))
    return run_node("token_calls.mjs", data={**given, "wide": wide, "bert": ended})


def test_javascript_takes_work_in_proportion(seen: Any) -> None:
    assert len(seen["times"]) == 3
    for small, large in seen["times"]:
        assert large < 80 * max(small, TICK), seen["times"]


def test_javascript_takes_long_lists(seen: Any) -> None:
    assert (seen["shown"], seen["length"], seen["size"]) == (["\ufffd"], 300_000, 150_000)


def test_prompts_of_javascript_go_on(seen: Any) -> None:
    whole = Tokenizer.from_file(str(CASES / "bert.tokenizer.json")).encode("the model").ids
    assert seen["prompts"] == [
        whole[:-1],
        whole[:1],
        ["text", "text: `prompt` needs at least one character"],
        ["text", "text: `prompt` holds nothing of the model's vocabulary"],
        ["text", "text: `prompt` is a string, not number"],
    ]


def test_text_of_javascript_ends_before_a_special_token(seen: Any) -> None:
    assert seen["until"] == ["model model", "model", "model", "model", ""]


def test_javascript_refuses_other_types(seen: Any) -> None:
    kinds = ("number", "undefined", "symbol")
    texts = [f"text: `text` is a string, not {kind}" for kind in kinds]
    ids = [f"text: `ids` are whole numbers, not {id_}" for id_ in ("a", "1.5")]
    none = "text: `ids` are a list of ids"
    expected = [*texts, none, none, *ids, none]
    assert seen["wrong"] == [["WgccError", "text", message] for message in expected]


def test_parts_of_long_pieces_are_merged(tmp_path: Path) -> None:
    """`ignore_merges` is about whole pieces: no merge makes `ab`."""
    theirs = plain(ignore_merges=True)
    theirs.decoder = decoders.Fuse()
    assert in_javascript(tmp_path, theirs, ["ab", "ab " * 40, "xab" * 40, "ab"]) == []


def test_pieces_of_words_are_joined_one_by_one(tmp_path: Path) -> None:
    """A blank is left out before tokens of punctuation, not before what several tokens become."""
    words = ["[UNK]", "do", "n", "##'t", "n't", ".", "##.", "'s"]
    vocab = {word: number for number, word in enumerate(words)}
    theirs = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    theirs.pre_tokenizer, theirs.decoder = pre.WhitespaceSplit(), decoders.WordPiece()
    del vocab["n't"]
    tokens = Tokens(canonical(tmp_path, theirs))
    for ids in ([1, 2, 3], [1, 4, 5], [5, 5, 1, 6], [3, 1, 7], []):
        assert tokens.decode(ids) == theirs.decode(ids), ids
    assert tokens.decode([1, 2, 3]) == "do n't" and tokens.decode([1, 4]) == "don't"
    apart = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    apart.pre_tokenizer, apart.decoder = theirs.pre_tokenizer, theirs.decoder
    assert in_javascript(tmp_path, apart, ["do n't", "do . .", ". 's", ""]) == []


def in_javascript(tmp_path: Path, theirs: Tokenizer, texts: list[str]) -> list[Any]:
    """The texts whose ids, or whose ids' text, differ in JavaScript."""
    cases = [
        {"text": text, "ids": ids, "plain": ids, "decoded": theirs.decode(ids)}
        for text in texts
        for ids in (theirs.encode(text).ids,)
    ]
    files = {"tokenizer": tmp_path / "tokenizer.json", "cases": tmp_path / "cases.json"}
    files["tokenizer"].write_text(json.dumps(canonical(tmp_path, theirs)), "utf-8")
    files["cases"].write_text(json.dumps({"cases": cases}), "utf-8")
    (found,) = run_node("token_cases.mjs", data=[{name: str(path) for name, path in files.items()}])
    assert found["count"] == len(texts)
    return list(found["wrong"])
