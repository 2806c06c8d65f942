"""Records what the filters of Hugging Face's transformers leave: tests/recorded/sampling.json.

python tests/support/record_sampling.py     with torch, transformers and numpy
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import generation

COUNT = 40


def main() -> None:
    rng = np.random.default_rng(7)
    cases = [_case(rng, number) for number in range(COUNT)]
    record = {"transformers": transformers.__version__, "cases": cases}
    path = Path(__file__).parents[1] / "recorded" / "sampling.json"
    path.write_text(json.dumps(record) + "\n")


def _case(rng: Any, number: int) -> dict[str, Any]:
    size = int(rng.integers(3, 24))
    # Every other case has equal scores; at the edge of top_p, transformers keeps any of them.
    is_even = bool(number % 2)
    scores = rng.integers(-5, 5, size) if is_even else rng.normal(0, 3, size).round(3)
    options: dict[str, Any] = {"temperature": float(rng.choice([0.3, 0.7, 1.0, 2.5]))}
    if rng.integers(2):
        options["top_k"] = int(rng.integers(1, size + 3))
    if rng.integers(2) and not is_even:
        options["top_p"] = float(rng.choice([0.05, 0.3, 0.62, 0.9, 1.0]))
    if rng.integers(2):
        options["min_p"] = float(rng.choice([0.01, 0.1, 0.5, 1.0]))
    if rng.integers(2):
        options["repetition_penalty"] = float(rng.choice([0.8, 1.1, 1.3, 2.0]))
    before = rng.integers(0, size, int(rng.integers(1, 9))).tolist()
    values = np.asarray(scores, np.float32)
    parts = probabilities(torch.tensor(values)[None], torch.tensor([before]), options)
    return {"scores": values.tolist(), "before": before, "options": options, "parts": parts}


def probabilities(scores: Any, before: Any, options: dict[str, Any]) -> list[float]:
    """In the order in which `generate` of transformers applies them."""
    kinds = {
        "repetition_penalty": generation.RepetitionPenaltyLogitsProcessor,
        "temperature": generation.TemperatureLogitsWarper,
        "top_k": generation.TopKLogitsWarper,
        "top_p": generation.TopPLogitsWarper,
        "min_p": generation.MinPLogitsWarper,
    }
    for name, kind in kinds.items():
        if name in options:
            scores = kind(options[name])(before, scores)
    return torch.softmax(scores, -1)[0].tolist()


if __name__ == "__main__":
    main()
