"""`generate` in Python and JavaScript: the same text for the same options, and the same errors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import wgcc_runtime
from web_stacks import build_web, run_job
from wgcc_runtime import WgccError

# Counts letters, with scores that prefer the next; the other entries choose themselves.
MODEL = """
dim V = 6
model Counting {
  vocab = "abcdeé"
  param table: f32[V, V] = one_hot((arange(V) + 1) % V, V) * 2.0 + one_hot((arange(V) + 2) % V, V)
  state heard: i32 = 0
  entry read(id: i32) -> (scores: f32[V]) = gather(table, id)
  entry both(id: i32[1]) -> (id: i32, scores: f32[1, V]) {
    scores = gather(table, id)
    return argmax(scores[0], axis = 0), scores
  }
  entry decode(id: i32, temperature: f32, top_k: i32) -> (id: i32) {
    return (id + top_k + i32(temperature)) % V
  }
  entry silent(x: f32[2]) -> (y: f32[2]) = x
}
"""
# A prompt, Python's options, and what is written; None: whatever both write.
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("a", {"steps": 4, "top_k": 1}, "bcde"),
    ("ab", {"max_length": 5, "top_k": 1}, "cde"),
    ("ab", {"steps": 5, "top_k": 2, "temperature": 1.0}, "ebebe"),
    ("a", {"entry": "both", "steps": 7}, "bcdeéab"),
    ("a", {"entry": "both", "steps": 3, "temperature": 0}, "bcd"),
    ("a", {"entry": "read", "steps": 40, "seed": 3}, None),
    ("a", {"entry": "read", "steps": 40, "seed": 4, "temperature": 2.5}, None),
    ("a", {"entry": "read", "steps": 40, "top_k": 2, "temperature": 3.0}, None),
    ("a", {"entry": "read", "steps": 40, "top_p": 0.6, "temperature": 1.0}, None),
    ("a", {"entry": "both", "steps": 9, "stop": "dé"}, "bcdeéabcd"),
    ("a", {"entry": "both", "steps": 9, "stop": ["cde", "xy"]}, "b"),
    ("a", {"entry": "both", "steps": 2, "stop": "cx"}, "bc"),
    ("a", {"entry": "both", "steps": 2, "stop": "b"}, ""),
    ("a", {"inputs": {"top_k": 2, "temperature": 0.0}, "steps": 2}, "ce"),
]
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("axßy", {"top_k": 1}, "text", "'x', 'ß', 'y'"),
    ("", {"top_k": 1}, "text", "at least one character"),
    ("a", {"top_k": 1, "top_p": 0.5}, "text", "has no effect"),
    ("a", {"entry": "silent"}, "text", "cannot write text"),
    ("a", {"entry": "none"}, "name", "none"),
    ("a", {"temperature": -1.0}, "range", "temperature"),
    ("a", {"top_p": 0.0}, "range", "is above 0 and at most 1"),
    ("a", {"top_k": 0}, "range", "is a whole number above 0"),
    ("a", {"steps": 1.5}, "range", "is a whole number above 0"),
    ("a", {"top_k": 1, "seed": -1}, "range", "is a whole number from 0 to"),
]
NAMES = {"max_length": "maxLength", "top_k": "topK", "top_p": "topP"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    return build_web(folder / "model.wg", folder / "bundle")


@pytest.fixture(scope="module")
def javascript(bundle: Path) -> Any:
    given = [(prompt, options) for prompt, options, _ in CASES]
    given += [(prompt, options) for prompt, options, *_ in REFUSED]
    cases = [
        {"prompt": prompt, "options": {NAMES.get(name, name): v for name, v in options.items()}}
        for prompt, options in given
    ]
    cases.append({"prompt": "a", "options": {"topk": 1}})
    return run_job("node", bundle, "writing", {"device": "wasm", "cases": cases})


def test_both_languages_write_the_same(bundle: Path, javascript: Any) -> None:
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for (prompt, options, wanted), found in zip(CASES, javascript["found"], strict=False):
            pieces = list(wgcc_runtime.generate(model, prompt, **options))
            assert pieces == found, options
            assert wanted is None or "".join(pieces) == wanted, options
    written = ["".join(found) for found in javascript["found"][5:9]]
    assert len(set(written)) == 4, "options change nothing"
    # Of the two likeliest letters, the second follows the first or skips one.
    places = ["abcdeé".index(letter) for letter in "a" + written[2]]
    steps = {(b - a) % 6 for a, b in itertools.pairwise(places)}
    assert steps == {1, 2}


def test_refusals(bundle: Path, javascript: Any) -> None:
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for (prompt, options, code, says), found in zip(
            REFUSED, javascript["found"][len(CASES) :], strict=False
        ):
            with pytest.raises(WgccError) as caught:
                wgcc_runtime.generate(model, prompt, **options)
            assert caught.value.code == found["code"] == code, options
            assert says in str(caught.value), options
            assert says in found["text"], options
    assert "did you mean `topK`?" in javascript["found"][-1]["text"]


def test_aborting(javascript: Any) -> None:
    assert javascript["aborted"] == "bcAbortError"


def test_a_second_text_at_the_same_time_is_refused(bundle: Path, javascript: Any) -> None:
    """Two at once would read each other's letters."""
    with wgcc_runtime.load(bundle, device="wasm") as model:
        for write in (
            lambda: wgcc_runtime.generate(model, "a", steps=3, entry="both"),
            lambda: wgcc_runtime.write(model, "a", 3, top_k=1),
        ):
            first, second = write(), write()
            start = next(first)
            with pytest.raises(WgccError) as caught:
                next(second)
            assert (caught.value.code, caught.value.field) == ("busy", "generate")
            assert start + "".join(first) == "bcd"
            left = write()
            next(left)
            left.close()
            assert "".join(write()) == "bcd"
    assert javascript["busy"] == ["busy", "generate", "bcd", "bcd", "bcd"]
