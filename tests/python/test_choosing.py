"""The choice of the next id: filters as transformers has them, and the same ids in JavaScript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from web_stacks import run_node
from wgcc_runtime import WgccError
from wgcc_runtime.choosing import Choice

RECORDED = Path(__file__).parents[1] / "recorded" / "sampling.json"
SEEDS = 60
# Options in the order of Choice, and in JavaScript.
NAMES = {"top_k": "topK", "top_p": "topP", "min_p": "minP",
         "repetition_penalty": "repetitionPenalty"}  # fmt: skip
NONE = {"topK": 10**9, "topP": 1, "minP": 0, "repetitionPenalty": 1}


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(RECORDED.read_text())["cases"]
    return cases


def test_filters_leave_the_probabilities_of_transformers(recorded: list[dict[str, Any]]) -> None:
    count = 0
    for case in recorded:
        choice = Choice(**case["options"])
        scores = choice._penalise(np.asarray(case["scores"], np.float32), case["before"])
        ids, sums = choice._filter(scores)
        parts = np.zeros(len(scores))
        parts[ids] = np.diff(sums, prepend=0.0) / sums[-1]
        assert np.abs(parts - case["parts"]).max() < 1e-5, case["options"]
        left = {id_ for id_, part in enumerate(case["parts"]) if part > 0}
        assert set(ids.tolist()) == left, case["options"]
        count += len(left) < len(scores)
    assert len(recorded) == 40 and count > 25, "filters leave everything"


def test_draws_have_their_probabilities() -> None:
    scores = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))
    ids = [Choice(1.0, seed=3).choose(scores, step) for step in range(4000)]
    assert np.abs(np.bincount(ids) / 4000 - [0.5, 0.25, 0.15, 0.1]).max() < 0.03


def test_javascript_chooses_the_same_ids(recorded: list[dict[str, Any]]) -> None:
    rng = np.random.default_rng(2)
    large = [
        {
            "scores": rng.normal(0, 4, 3000).astype(np.float32).tolist(),
            "before": rng.integers(0, 3000, 50).tolist(),
            "options": {"temperature": 0.9, **options},
        }
        for options in ({}, {"top_k": 40}, {"top_p": 0.9}, {"min_p": 0.05}, {"temperature": 0.0},
                        {"repetition_penalty": 1.2, "top_k": 50, "top_p": 0.95, "min_p": 0.02})
    ]  # fmt: skip
    signs = {"scores": [-0.0, 0.0, -1.0], "before": [], "options": {"temperature": 0.0}}
    cases = [*recorded, *large, signs]
    sent = [
        {**case, "seeds": SEEDS, "options": {**NONE, **_in_javascript(case["options"])}}
        for case in cases
    ]
    different = 0
    for case, ids in zip(cases, run_node("choices.mjs", data=sent), strict=True):
        scores = np.asarray(case["scores"], np.float32)
        own = [
            Choice(**case["options"], seed=seed).choose(scores, seed % 7, case["before"])
            for seed in range(SEEDS)
        ]
        assert own == ids, case["options"]
        different += len(set(own)) > 1
    assert different > 20


def _in_javascript(options: dict[str, Any]) -> dict[str, Any]:
    return {NAMES.get(name, name): value for name, value in options.items()}


def test_scores_without_a_value_are_refused() -> None:
    with pytest.raises(WgccError, match="NaN"):
        Choice(1.0).choose(np.array([1.0, np.nan]), 0)
    scores = [1.0, None]
    assert run_node("choices.mjs", data=[{"scores": scores, "before": [], "seeds": 1,
                                          "options": {**NONE, "temperature": 1}}]) == [
        "not-finite"
    ]  # fmt: skip
