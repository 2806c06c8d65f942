"""Chooses the next id by the scores of all. Mirrors choose.js, with the same random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.drawn import random_words


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose: `top_k` ids at most, and of those as few as make up `top_p` of all."""

    temperature: float
    top_k: int | None
    top_p: float
    seed: int

    def choose(self, scores: Array, step: int) -> int:
        """`scores` are those before softmax; `step` is how many ids were chosen before."""
        scores = np.asarray(scores, np.float64).ravel()
        by_score = np.argsort(-scores, kind="stable")[: self.top_k]
        if self.temperature == 0:
            return int(by_score[0])
        weights = np.exp((scores[by_score] - scores[by_score[0]]) / self.temperature)
        sums = np.cumsum(weights)
        count = int(np.searchsorted(sums, self.top_p * sums[-1])) + 1
        sums = sums[:count]
        part = int(random_words(self.seed, "generate", 1, step)[0]) / 2**32
        at = int(np.searchsorted(sums, part * sums[-1], side="right"))
        return int(by_score[min(at, len(sums) - 1)])
