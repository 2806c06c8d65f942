"""Text models with a vocabulary of tokens in JavaScript: the ids of the `tokenizers` package."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import wgcc.bundle.page as pages
import wgcc_runtime
from adapters import ROOT
from token_makers import MAKERS, random_texts
from token_texts import hard_texts
from web_stacks import build_web, run_job, run_node
from wgcc.tokens.read import read_tokens

GPT = ROOT / "examples" / "chargpt" / "model.wg"
BOOK = "Grüße aus Köln, naïve café. 你好，世界。 👍🏽 The model reads tokens, not letters.\r\n" * 30
PROMPT = "The model"
CASES = ROOT / "tests" / "token_cases"
# The kinds that models in use have; the others are combinations of steps.
MANY, FEW = 10_000, 1_000
COMMON = ("gpt2", "llama3", "llama2")


def compared(pairs: dict[Path, Path]) -> dict[str, Any]:
    """What Node says about files of tokens and files of cases."""
    asked = [{"tokenizer": str(file), "cases": str(cases)} for file, cases in pairs.items()]
    found = run_node("token_cases.mjs", data=asked)
    return {path.name: one for path, one in zip(pairs, found, strict=True)}


def test_recorded_cases() -> None:
    files = sorted(CASES.glob("*.tokenizer.json"))
    assert len(files) > 8
    found = compared({path: path.with_name(path.name.replace(".tokenizer", "")) for path in files})
    for name, result in found.items():
        assert result["count"] > 40 and result["wrong"] == [], name


def test_ids_and_texts_are_those_of_the_tokenizers_package(tmp_path: Path) -> None:
    """One process for all kinds; each text also streams as it is decoded."""
    pairs = {}
    for name, make in MAKERS.items():
        half = (MANY if name in COMMON else FEW) // 2
        # Training is not the same each time.
        theirs = make()
        cases = recorded(theirs, [*random_texts(half, 11), *hard_texts(half, 12)])
        (tmp_path / f"{name}.json").write_text(json.dumps({"cases": cases}), "utf-8")
        (tmp_path / f"{name}.hf.json").write_text(theirs.to_str(), "utf-8")
        canonical = tmp_path / f"{name}.tokenizer.json"
        canonical.write_text(read_tokens([tmp_path / f"{name}.hf.json"]).text, "utf-8")
        pairs[canonical] = tmp_path / f"{name}.json"
    found = compared(pairs)
    for name, result in found.items():
        assert result["wrong"] == [], name
    assert sum(result["count"] for result in found.values()) == 3 * MANY + (len(MAKERS) - 3) * FEW


def recorded(theirs: Tokenizer, texts: list[str]) -> list[dict[str, Any]]:
    ids = [found.ids for found in theirs.encode_batch(texts)]
    plain = [found.ids for found in theirs.encode_batch(texts, add_special_tokens=False)]
    return [
        {"text": text, "ids": some, "plain": others, "decoded": decoded}
        for text, some, others, decoded in zip(
            texts, ids, plain, theirs.decode_batch(ids), strict=True
        )
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The GPT of examples/chargpt, with tokens instead of characters."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokenizer.json").write_bytes((CASES / "gpt2.tokenizer.json").read_bytes())
    (folder / "book.txt").write_bytes(BOOK.encode())
    text = GPT.read_text(encoding="utf-8")
    for old, new in {
        "vocab = letters": 'vocab = tokens("tokenizer.json")',
        "dim V = 96 ": "dim V = 600 ",
        "dim B = 12 ": "dim B = 4 ",
        "dim Test = 32 ": "dim Test = 4 ",
        "dim T = 64 ": "dim T = 16 ",
        "letters: u8[": "letters: i32[",
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "model.wg").write_text(text, encoding="utf-8")
    return folder / "model.wg"


@pytest.fixture(scope="module")
def bundle(model: Path) -> Path:
    return build_web(model, model.parent / "inside")


@pytest.fixture(scope="module")
def seen(bundle: Path) -> Any:
    given = {"device": "wasm", "text": BOOK, "prompt": PROMPT, "worker": False}
    return run_job("node", bundle, "token_text", given)


def test_only_bundles_with_tokens_have_their_files(bundle: Path) -> None:
    assert (bundle / "wgcc" / "tokens.js").exists()
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    assert plan["model"]["vocab"]["tokens"] == "tokenizer.json"
    assert "./tokenizer.json" in (bundle / "index.js").read_text(encoding="utf-8")
    assert "tokenizer.json" in json.loads((bundle / "package.json").read_text("utf-8"))["files"]


def test_text_is_read_and_written_as_in_python(seen: Any, bundle: Path) -> None:
    theirs = Tokenizer.from_file(str(CASES / "gpt2.tokenizer.json"))
    lines = BOOK.replace("\r\n", "\n")
    assert seen["ids"] == theirs.encode(BOOK).ids
    assert seen["decoded"] == BOOK and seen["size"] == 600 and seen["isKept"]
    assert seen["windows"][:17] == theirs.encode(lines).ids[:17]
    assert seen["short"]["code"] == "data"
    assert "1 token is fewer than the 17 of one window" in seen["short"]["message"]
    with wgcc_runtime.load(bundle, device="wasm") as model:
        data = wgcc_runtime.read_data(bundle.parent / "book.txt", model)
        assert seen["windows"] == data.arrays["letters"].ravel().tolist()
        assert seen["shape"] == [seen["rows"], 17] == list(data.arrays["letters"].shape)
        options = {"entry": "read", "steps": 12, "temperature": 0}
        assert "".join(seen["before"]) == "".join(wgcc_runtime.generate(model, PROMPT, **options))


def test_text_grows_by_whole_characters(seen: Any) -> None:
    whole = BOOK.encode("utf-16-le")[:120].decode("utf-16-le")
    assert "".join(seen["streamed"]) == whole and "👍🏽" in whole
    assert "" in seen["streamed"][:-1], "no token ends inside a character"
    assert not any("\ufffd" in piece for piece in seen["streamed"])
    assert seen["loss"] > 0 and seen["sampled"]
    assert 0 < len(seen["after"]) <= 12 and 0 < len(seen["drawn"]) <= 61
    assert all(piece for piece in (*seen["after"], *seen["drawn"]))


@pytest.mark.parametrize("stack, worker", [("deno", True), ("chrome", True), ("chrome", False)])
def test_other_stacks_and_workers_write_the_same(
    stack: str, worker: bool, seen: Any, bundle: Path
) -> None:
    given = {"device": "wasm", "text": BOOK, "prompt": PROMPT, "worker": worker}
    assert run_job(stack, bundle, "token_text", given) == seen


# What is wrong with a bundle, and what is said of it.
WRONG = {
    "missing": "cannot be read",
    "without_code": "tokens.js",
    "changed": "was changed after the bundle was built",
    "half": "is not in the form that wgcc writes (SyntaxError",
    "empty": "is not in the form that wgcc writes (TypeError",
    "newer": "was written by another version",
    "other_merges": "joins a and 世, not all in its vocabulary",
}


def test_files_that_cannot_be_used(bundle: Path, tmp_path: Path) -> None:
    file = json.loads((bundle / "tokenizer.json").read_text(encoding="utf-8"))
    newer = {**file["model"], "wgcc": {**file["model"]["wgcc"], "version": 2}}
    merges = {**file["model"], "merges": [["a", "世"]]}
    for name in WRONG:
        shutil.copytree(bundle, tmp_path / name)
    (tmp_path / "missing" / "tokenizer.json").unlink()
    (tmp_path / "without_code" / "wgcc" / "tokens.js").unlink()
    (tmp_path / "changed" / "tokenizer.json").write_text("{}", encoding="utf-8")
    replace_tokens(tmp_path / "half", '{"version": "1.0", "model": ')
    replace_tokens(tmp_path / "empty", "{}")
    replace_tokens(tmp_path / "newer", json.dumps({**file, "model": newer}))
    replace_tokens(tmp_path / "other_merges", json.dumps({**file, "model": merges}))
    found = run_node("token_errors.mjs", *(str(tmp_path / name) for name in WRONG))
    for (name, words), said in zip(WRONG.items(), found, strict=True):
        assert len(said) == 3 and all(code == "bundle" for code, _ in said), (name, said)
        assert all(words in message for _, message in said), (name, said)


def replace_tokens(bundle: Path, text: str) -> None:
    """Another file of tokens, with the digest that the plan has of it."""
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    (bundle / "tokenizer.json").write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    index = bundle / "index.js"
    old = index.read_text(encoding="utf-8")
    assert plan["model"]["vocab"]["sha256"] in old
    new = old.replace(plan["model"]["vocab"]["sha256"], digest)
    index.write_text(new.replace(f',"sha256":"{plan["sha256"]}"', ""), encoding="utf-8")


def test_a_page_trains_and_writes(model: Path, bundle: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MOST_INSIDE", (bundle / "tokenizer.json").stat().st_size - 1)
        patch.setattr(pages, "WEIGHTS", "none")
        build_web(model, model.parent / "beside")
    assert "tokenizer.json" in (model.parent / "beside" / "index.html").read_text(encoding="utf-8")
    seen = run_node("token_page.mjs", str(bundle.parent), str(tmp_path))
    assert seen["problems"] == []
    inside = seen["inside"]
    assert inside["takes"] == "text, in pieces of 17 tokens"
    assert inside["written"]["text"].startswith("Grüße, 世界 ")
    assert len(inside["written"]["grown"]) > 20
    assert seen["box"]["label"].startswith("ids, up to 16 tokens") and len(seen["box"]["ids"]) > 2
    assert "the model reads the first 16" in seen["box"]["warning"]
    assert "This model needs its file of tokens" in seen["card"]
    assert "was changed after the bundle was built" in seen["again"]
    for place in ("beside", "fromServer"):
        assert seen[place]["text"].startswith("The ") and len(seen[place]["grown"]) > 20
