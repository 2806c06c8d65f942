"""Chooses the next id by the scores of all. Mirrors choose.js, with the same random numbers.

The filters are those of Hugging Face's transformers, in its order: repetition penalty, temperature,
top_k, top_p, min_p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError


@dataclass(frozen=True, slots=True)
class Choice:
    """How to choose among ids.

    `top_k`: those whose scores are at least the k-th largest. `top_p`: of these as few of the
    likeliest as make up such a part of all. `min_p`: of these the ones that have at least such a
    part of the largest probability. `repetition_penalty`: divides positive scores of ids that were
    read or written before, and multiplies negative ones.
    """

    temperature: float
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def choose(self, scores: Array, step: int, before: Sequence[int] = ()) -> int:
        """`scores` are those before softmax, `before` the ids that the penalty is for; `step` is
        how many ids were chosen before."""
        scores = self._penalise(np.asarray(scores, np.float32).ravel(), before)
        if np.isnan(scores).any():
            raise WgccError("not-finite", "generate: the scores of ids hold NaN", "scores")
        if self.temperature == 0:
            return int(scores.argmax())
        ids, sums = self._filter(scores)
        part = int(random_words(self.seed, "generate", 1, step)[0]) / 2**32
        at = int(np.searchsorted(sums, part * sums[-1], side="right"))
        return int(ids[min(at, len(sums) - 1)])

    def _penalise(self, scores: Array, before: Sequence[int]) -> Array:
        if self.repetition_penalty == 1 or not len(before):
            return scores
        penalty, ids = np.float32(self.repetition_penalty), np.unique(before)
        scores, own = scores.copy(), scores[ids]
        scores[ids] = np.where(own < 0, own * penalty, own / penalty)
        return scores

    def _filter(self, scores: Array) -> tuple[Array, Array]:
        """The ids that the filters leave, the likeliest first, and sums of their weights."""
        ids = np.argsort(-scores, kind="stable")
        if self.top_k is not None:
            # As in transformers, ids that have the last score stay, however many there are.
            last = scores[ids[min(self.top_k, len(ids)) - 1]]
            ids = ids[: int((scores >= last).sum())]
        differences = scores[ids].astype(np.float64) - np.float64(scores[ids[0]])
        weights = np.exp(differences / self.temperature)
        sums = np.cumsum(weights)
        # Weights that are small beside the others do not change the sum.
        is_cut = self.top_p < 1
        count = int(np.searchsorted(sums, self.top_p * sums[-1])) + 1 if is_cut else len(ids)
        # They fall, so that those which are large enough come first.
        count = min(count, int((weights >= self.min_p).sum()))
        return ids[:count], sums[:count]
