"""What reading data gives: arrays for `fit`, and everything that people should know about them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.preparation import Preparation
from wgcc_runtime.data.scaling import scaled_anew
from wgcc_runtime.errors import WgccError
from wgcc_runtime.threefry import random_words


@dataclass(slots=True, repr=False)
class Data:
    """Made by `read_data`; `fit` takes it and keeps its preparation with the model.

    `arrays` by input; those named in `with_rows` have one row per example. `dropped` has for each
    reason the number of rows and the first line; `columns` the columns of a table with their kinds
    and inputs; `needs_scaling` the columns that should be scaled but were not asked to be.
    """

    arrays: dict[str, Array]
    preparation: Preparation | None
    rows: int
    with_rows: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    columns: list[dict[str, Any]] = field(default_factory=list)
    needs_scaling: list[str] = field(default_factory=list)
    # Whether the scaling was computed from these rows, so that a part of them needs its own.
    own_scaling: bool = False

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {list(array.shape)}" for name, array in self.arrays.items())
        return f"<Data: {self.rows:,} rows; {arrays}>"

    def split(self, share: float, seed: int = 0) -> tuple[Data, Data]:
        """Rows to train with, and a `share` of them to judge with, chosen by `seed`.

        Scaling, if it was asked for, is computed anew from the rows to train with.
        """
        if not 0 < share < 1:
            raise WgccError("range", f"a held-out share is between 0 and 1, not {share!r}", "share")
        order = np.argsort(random_words(seed, "held out", self.rows, 0), kind="stable")
        count = min(max(1, int(share * self.rows + 0.5)), self.rows - 1)
        if count < 1:
            raise WgccError("data", "a single row cannot be split into two parts", "share")
        train, held = self._of(np.sort(order[count:])), self._of(np.sort(order[:count]))
        return _scaled_alone(train, held) if self.own_scaling else (train, held)

    def repeated(self, batch: int) -> dict[str, Array]:
        """The arrays, all rows as often as a batch needs them. Arrays of files are as given."""
        if self.rows >= batch or self.preparation is None:
            return self.arrays
        times = -(-batch // self.rows)
        return self._of(np.tile(np.arange(self.rows), times)).arrays

    def _of(self, rows: Array) -> Data:
        arrays = {n: a[rows] if n in self.with_rows else a for n, a in self.arrays.items()}
        return replace(self, arrays=arrays, rows=len(rows))


def _scaled_alone(train: Data, held: Data) -> tuple[Data, Data]:
    """Both, scaled by the rows to train with alone: nothing of the others may be known."""
    assert train.preparation is not None
    inputs: dict[str, Any] = dict(train.preparation["inputs"])
    arrays = [dict(train.arrays), dict(held.arrays)]
    for name, spec in inputs.items():
        if "mean" in spec:
            inputs[name], *parts = scaled_anew(train.arrays[name], held.arrays[name], spec)
            for part, found in zip(arrays, parts, strict=True):
                part[name] = found
    preparation = {**train.preparation, "inputs": inputs}
    both = zip((train, held), arrays, strict=True)
    first, second = (replace(data, arrays=a, preparation=preparation) for data, a in both)
    return first, second
