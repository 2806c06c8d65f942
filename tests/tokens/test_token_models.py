"""Models whose vocabulary is a file of tokens: bundles, text that they write, training data."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from cli_runs import run
from token_makers import gpt2, llama2c_file
from wgcc.bundle.edited import read_files
from wgcc.compiler import compile_file
from wgcc_runtime.errors import WgccError

CASES = ROOT / "tests" / "token_cases"
# After each id comes the next one. The tables have more rows than there are tokens.
COUNTING = """
dim V = {ids}, B = 2, T = 5
model Counting {{
  vocab = tokens({files})
  tok: Embedding[V, 4]
  head: Linear[4, V]
  optimizer opt: sgd {{ lr = 0.1 }}
  entry decode(id: i32) -> (id: i32) = id + 1
  entry down(id: i32) -> (id: i32) = where(id > 0, id - 1, 3)
  entry score(ids: i32[B, T]) -> (y: f32[B, T, V]) = head(tok(ids))
  entry train(x: i32[B, T], y: i32[B, T]) -> (loss: f32) {{
    loss = cross_entropy(head(tok(x)), y)
    minimize loss with opt
    return loss
  }}
}}
"""
Capture = pytest.CaptureFixture[str]


def write_model(folder: Path, ids: int = 640, files: str = '"tokenizer.json"') -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.wg"
    path.write_text(COUNTING.format(ids=ids, files=files), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    shutil.copy(CASES / "gpt2.tokenizer.json", folder / "tokenizer.json")
    return build(write_model(folder), folder / "bundle")


@pytest.fixture(scope="module")
def model(bundle: Path) -> wgcc_runtime.Model:
    return wgcc_runtime.load(bundle, device="wasm")


def test_the_file_is_in_the_bundle_and_in_the_plan(bundle: Path) -> None:
    data = (bundle / "tokenizer.json").read_bytes()
    vocab = json.loads((bundle / "plan.json").read_text("utf-8"))["model"]["vocab"]
    digest = hashlib.sha256(data).hexdigest()
    assert vocab == {"tokens": "tokenizer.json", "size": 600, "sha256": digest}


def test_encode_and_decode(model: wgcc_runtime.Model) -> None:
    case = json.loads((CASES / "gpt2.json").read_text("utf-8"))["cases"][8]
    assert model.tokens.encode(case["text"]) == case["ids"]
    assert model.tokens.decode(np.array(case["ids"])) == case["decoded"] == case["text"]


def test_text_is_written_in_whole_characters(model: wgcc_runtime.Model) -> None:
    tokens = model.tokens
    prompt = "Hello wor"
    last = tokens.encode(prompt)[-1]
    expected = tokens.decode([last, *range(last + 1, last + 60)])[len(tokens.decode([last])) :]
    assert "".join(wgcc_runtime.write(model, prompt, 59)) == expected
    assert "".join(wgcc_runtime.generate(model, prompt, steps=59)) == expected
    # Half a character at the very end is shown as such.
    (first, *_), text = tokens.encode("é"), "".join(wgcc_runtime.write(model, "é", 1))
    assert text == tokens.decode([*tokens.encode("é"), tokens.encode("é")[-1] + 1])[1:] and first


def test_text_ends_before_a_special_token(model: wgcc_runtime.Model) -> None:
    """It is no part of the text, and has the id 0."""
    assert model.tokens.encode("&<|endoftext|>") == [6, 0]

    def written(**options: object) -> str:
        return "".join(wgcc_runtime.generate(model, "&", entry="down", steps=8, **options))

    assert written() == written(stop="<|no token|>") == '%$#"!#"'
    assert written(stop="<|endoftext|>") == written(stop=["§", 0]) == '%$#"!'
    assert written(stop=3) == "%$" and written(stop=["$", "<|endoftext|>"]) == "%"


def test_run_prints_tokens(bundle: Path, model: wgcc_runtime.Model, capsys: Capture) -> None:
    command = ["run", str(bundle), "decode", "--device", "wasm", "--prompt", "Hello", "-n", "3"]
    code, out, err = run(capsys, *command)
    last = model.tokens.encode("Hello")[-1]
    added = model.tokens.decode([last + 1, last + 2, last + 3])
    assert (code, out) == (0, f"Hello{added}\n") and "tokens a second" in err
    code, out, _ = run(capsys, *command, "--json")
    assert code == 0 and json.loads(out) == {"prompt": "Hello", "text": added}


def test_a_prompt_needs_a_token(model: wgcc_runtime.Model) -> None:
    with pytest.raises(WgccError, match="at least one character"):
        wgcc_runtime.write(model, "", 1)
    with pytest.raises(WgccError, match="surrogate pair at character 1"):
        model.tokens.encode("a\ud800")


def test_training_data_are_windows_of_tokens(
    bundle: Path, model: wgcc_runtime.Model, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "book.txt"
    path.write_text("It is a truth universally acknowledged,\r\nthat naïve 文字 …\n" * 9, "utf-8")
    ids = model.tokens.encode(path.read_text("utf-8"), special=False)
    for data in (wgcc_runtime.read_data(path, model), _read_by_plan(path, bundle)):
        x, y = data.arrays["x"], data.arrays["y"]
        assert x.shape == y.shape and x.shape[1] == 5
        assert x[:3].ravel().tolist() == ids[:15] and y[:3].ravel().tolist() == ids[1:16]
        assert y[-1].tolist() == ids[-5:]
    code, _, err = run(
        capsys, "train", str(bundle), str(path), "--steps", "2", "--device", "wasm", "--out",
        str(tmp_path / "new.safetensors"),
    )  # fmt: skip
    assert code == 0, err
    path.write_text("a", "utf-8")
    with pytest.raises(WgccError, match="1 token is fewer than the 6 of one window"):
        wgcc_runtime.read_data(path, model)


def _read_by_plan(path: Path, bundle: Path) -> wgcc_runtime.Data:
    return wgcc_runtime.read_data(path, wgcc_runtime.load_plan(bundle))


def test_a_page_is_built_with_windows_of_tokens(
    bundle: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copy(bundle / "tokenizer.json", tmp_path)
    text = tmp_path / "book.txt"
    text.write_text("It is a truth universally acknowledged, that", "utf-8")
    source = write_model(tmp_path)
    code, _, err = run(
        capsys, "build", str(source), "-o", str(tmp_path / "bundle"), "--data", str(text)
    )
    assert code == 0, err
    assert (tmp_path / "bundle" / "tokenizer.json").is_file()


def test_gpt2s_and_llama2cs_files(tmp_path: Path) -> None:
    file = json.loads(gpt2().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(file["vocab"]), "utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in file["merges"])]
    (tmp_path / "merges.txt").write_text("\n".join(lines), "utf-8")
    (tmp_path / "tokenizer.bin").write_bytes(llama2c_file())
    two = compile_file(write_model(tmp_path, 600, '"vocab.json", "merges.txt"')).program.vocab
    one = compile_file(write_model(tmp_path, 900, '"tokenizer.bin"')).program.vocab
    assert not isinstance(two, str) and not isinstance(one, str)
    assert (two.size, one.size) == (600, 900)
    from wgcc_runtime.tokens.bundle_tokens import tokens_of_text

    text = "Hello world<|endoftext|> 12 naïve"
    assert tokens_of_text(two.text).encode(text) == gpt2().encode(text).ids


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "gone": (lambda path: path.unlink(), "the bundle lacks tokenizer.json"),
    "changed": (
        lambda path: path.write_text("{}", "utf-8"),
        "was changed after the bundle was built",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_file_is_reported_at_the_first_text(
    change: str, bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(bundle, tmp_path / "copy")
    act, message = CHANGES[change]
    act(tmp_path / "copy" / "tokenizer.json")
    loaded = wgcc_runtime.load(tmp_path / "copy", device="wasm")
    with pytest.raises(WgccError, match=message):
        wgcc_runtime.write(loaded, "a", 1)


def test_a_file_of_another_form_is_refused() -> None:
    from wgcc_runtime.tokens.bundle_tokens import tokens_of_text

    good = json.loads((CASES / "gpt2.tokenizer.json").read_text("utf-8"))
    steps = {"pattern": "(", "type": "Split", "behavior": "Isolated", "invert": False}
    for wgcc in ({}, {**good["model"]["wgcc"], "pre_tokenizer": [steps]}, {"version": 1}):
        wrong = {**good, "model": {**good["model"], "wgcc": wgcc}}
        with pytest.raises(WgccError, match="not in the form that wgcc writes"):
            tokens_of_text(json.dumps(wrong))
    newer = {**good["model"], "wgcc": {**good["model"]["wgcc"], "version": 2}}
    with pytest.raises(WgccError, match="was written by another version of wgcc"):
        tokens_of_text(json.dumps({**good, "model": newer}))
    with pytest.raises(WgccError, match="is not valid JSON"):
        tokens_of_text("{")


def test_a_build_deletes_only_its_own_file(bundle: Path, tmp_path: Path) -> None:
    """Somebody's tokenizer.json in the folder of a bundle without tokens stays."""
    folder = tmp_path / "bundle"
    source = write_model(tmp_path)
    shutil.copy(bundle / "tokenizer.json", tmp_path)
    build(source, folder)
    text = source.read_text("utf-8").replace('  vocab = tokens("tokenizer.json")\n', "")
    source.write_text(text, "utf-8")
    build(source, folder)
    assert not (folder / "tokenizer.json").exists()
    (folder / "tokenizer.json").write_text("mine", "utf-8")
    build(source, folder)
    assert (folder / "tokenizer.json").read_text("utf-8") == "mine"


def test_tuning_and_archives_keep_the_file(bundle: Path, tmp_path: Path) -> None:
    assert read_files(bundle)["tokenizer.json"] == (bundle / "tokenizer.json").read_bytes()
    archive = shutil.make_archive(str(tmp_path / "bundle"), "zip", bundle)
    loaded = wgcc_runtime.load(archive, device="wasm")
    assert loaded.tokens.decode(loaded.tokens.encode("naïve 文字")) == "naïve 文字"


def test_letters_have_the_same_methods(tmp_path: Path) -> None:
    path = write_model(tmp_path, 3)
    text = path.read_text("utf-8").replace('tokens("tokenizer.json")', '"abc"')
    path.write_text(text.replace("= id + 1", "= argmax(head(tok(id)), axis = 0)"), "utf-8")
    loaded = wgcc_runtime.load(build(path, tmp_path / "bundle"), device="wasm")
    assert loaded.tokens.encode("cab") == [2, 0, 1] and loaded.tokens.decode([2, 0, 1]) == "cab"
