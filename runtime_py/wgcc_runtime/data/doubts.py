"""Notes on data that can be trained with, but that may not be what its owner means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.columns import Column
from wgcc_runtime.data.matching import Matching
from wgcc_runtime.data.source import Source, quote

# In smaller tables everything is rare, equal or far away.
LEAST_ROWS = 10
# A column that tells all of so many rows apart does so by more than chance.
MANY_ROWS = 20
FEW_ROWS = 5
MOST_SHARE = 0.9
# Numbers that people write for missing values, far from the others by this many of their spreads.
_SENTINELS = frozenset(sign * (10**digits - 1) for sign in (-1, 1) for digits in range(1, 7))
FAR = 2


def note_doubts(
    source: Source,
    matching: Matching,
    specs: Mapping[str, Any],
    arrays: Mapping[str, Array],
    rows: Sequence[int],
) -> None:
    """Notes on what was read, input by input; `rows` are those of the table that are used."""
    target = matching.target
    spec = specs.get(target or "", {})
    is_class = spec.get("kind") == "classes"
    truth = arrays[target].ravel() if target and (is_class or _is_number(spec)) else None
    if is_class and truth is not None:
        _note_classes(source, spec["columns"][0], truth, spec["classes"])
    for name, columns in matching.columns.items():
        if name == target or specs[name]["kind"] != "columns":
            continue
        for column in columns:
            values = np.array([column.values[row] for row in rows], np.float64)
            is_there = ~np.isnan(values)
            _note_column(source, column, values[is_there])
            if truth is not None:
                own = truth[is_there].astype(np.float64)
                _note_leak(source, column.name, values[is_there], spec["columns"][0], own, is_class)


def _is_number(spec: Mapping[str, Any]) -> bool:
    return spec.get("kind") == "columns" and len(spec["columns"]) == 1


def _note_classes(source: Source, column: str, ids: Array, names: Sequence[str]) -> None:
    """Notes on classes that are alone, rare, or nearly all rows."""
    counts = np.bincount(ids[ids >= 0], minlength=len(names))
    total, largest = int(counts.sum()), int(counts.argmax()) if len(counts) else 0
    if total < LEAST_ROWS or total != len(ids):
        return
    if counts[largest] == total:
        source.note("one-class", column=column, cell=quote(names[largest]))
        return
    few = [f"{name} ({n})" for name, n in zip(names, counts, strict=True) if 0 < n < FEW_ROWS]
    if few:
        source.note("few-of-class", column=column, names=few, least=FEW_ROWS)
    if counts[largest] >= MOST_SHARE * total:
        share = int(100 * counts[largest] // total)
        source.note("most-of-class", column=column, cell=quote(names[largest]), share=share)


def _note_column(source: Source, column: Column, values: Array) -> None:
    """Notes on a column of equal numbers, or with one that may stand for a missing value."""
    if len(values) < LEAST_ROWS:
        return
    low, high = float(values.min()), float(values.max())
    if low == high:
        source.note("column-same", column=column.name)
        return
    for extreme in (low, high):
        others = values[values != extreme]
        gap = min(abs(others.min() - extreme), abs(others.max() - extreme))
        if extreme in _SENTINELS and gap > FAR * (others.max() - others.min()):
            count = len(values) - len(others)
            source.note("column-sentinel", column=column.name, number=int(extreme), count=count)


def _note_leak(
    source: Source, column: str, values: Array, target: str, truth: Array, is_class: bool
) -> None:
    """A note on a column that alone says what shall be learned."""
    if len(values) < MANY_ROWS:
        return
    tells = _tells_classes(values, truth) if is_class else _tells_numbers(values, truth)
    if tells:
        source.note("column-tells", column=column, target=target)


def _tells_classes(values: Array, ids: Array) -> bool:
    """Whether no number of one class lies within the range of another."""
    ranges = sorted((values[ids == i].min(), values[ids == i].max()) for i in np.unique(ids))
    pairs = pairwise(ranges)
    return len(ranges) > 1 and all(high < low for (_, high), (low, _) in pairs)


def _tells_numbers(values: Array, truth: Array) -> bool:
    x, y = values - values.mean(), truth - truth.mean()
    squares = float((x * x).sum() * (y * y).sum())
    return squares > 0 and float((x * y).sum()) ** 2 > 0.9999 * squares
