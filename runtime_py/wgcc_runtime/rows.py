"""Runs an entry of fixed shape over any number of rows, in parts of as many rows as it takes.

A last part with fewer rows is filled up with its own rows, again and again. Outputs per row are cut
to size. Sums over rows then have each row of that part the same number of times, and a few of them
once more: those are subtracted, found in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import Array, as_array, check_names
from wgcc_runtime.batches import check_rows
from wgcc_runtime.captured import JoinedCaptures
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry, Rows

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

Outputs = dict[str, Array]


def run_rows(model: Model, entry: Entry, inputs: Mapping[str, Any]) -> Outputs | None:
    """The outputs for inputs with another number of rows; None if it is not that."""
    check_names(inputs, entry)
    arrays = {name: as_array(value, f"{entry.name}: `{name}`") for name, value in inputs.items()}
    count = row_count(entry, arrays)
    if entry.rows is None or count is None:
        return None
    if not entry.rows.outputs:
        raise _cannot_run(entry, entry.rows, count)
    check_rows(arrays, entry, entry.rows.inputs, inputs)
    return _Parts(model, entry, entry.rows, arrays, count).outputs()


def map_rows(model: Model, entry: Entry, inputs: Mapping[str, Any]) -> Outputs:
    """As a call; entries whose rows mix, too, run over several whole batches.

    Of those, outputs with the batch as first axis are joined, other floats averaged over the
    batches, and other integers stacked, one per batch.
    """
    rows = entry.rows
    check_names(inputs, entry)
    if rows is None or rows.outputs:
        return model.call_prepared(entry.name, **inputs)
    arrays = {name: as_array(value, f"{entry.name}: `{name}`") for name, value in inputs.items()}
    count = row_count(entry, arrays, whole_batches=True)
    if count is None:
        return model.call_prepared(entry.name, **arrays)
    check_rows(arrays, entry, rows.inputs, inputs)
    results = []
    for start in range(0, count, rows.count):
        part = {n: a[start : start + rows.count] for n, a in arrays.items() if n in rows.inputs}
        results.append(model.call_prepared(entry.name, **{**arrays, **part}))
    return {name: _together(entry, name, results, rows.count) for name in entry.outputs}


def row_count(entry: Entry, arrays: Mapping[str, Array], whole_batches: bool = False) -> int | None:
    """How many rows are given, if that is not the entry's number; None if something else is.

    With `whole_batches`, rows that mix must fill batches.
    """
    rows, counts = entry.rows, {}
    if rows is None:
        return None
    for name in rows.inputs:
        shape = entry.inputs[name].shape
        if not arrays[name].ndim or arrays[name].shape[1:] != shape[1:]:
            return None
        counts[name] = len(arrays[name])
    if set(counts.values()) == {rows.count}:
        return None
    if len(set(counts.values())) > 1:
        text = ", ".join(f"`{name}` {count}" for name, count in counts.items())
        raise WgccError("shape", f"{entry.name}: the numbers of rows differ: {text}")
    count = next(iter(counts.values()))
    if not count:
        raise WgccError("shape", f"{entry.name}: `{rows.inputs[0]}` has no rows", rows.inputs[0])
    if whole_batches and not rows.outputs and count % rows.count:
        raise _cannot_run(entry, rows, count)
    return count


def _cannot_run(entry: Entry, rows: Rows, count: int) -> WgccError:
    name = rows.inputs[0]
    return WgccError(
        "shape",
        f"{entry.name}: `{name}` has {count} rows, not {rows.count}, and the entry cannot run on "
        f"other numbers of rows: {rows.why}. Build it for {count}: {rows.advice(count)}",
        name,
    )


class _Parts:
    """The calls that all rows take."""

    def __init__(
        self, model: Model, entry: Entry, rows: Rows, arrays: Mapping[str, Array], count: int
    ) -> None:
        self._model, self._entry, self._rows = model, entry, rows
        self._arrays, self._count = arrays, count

    def outputs(self) -> Outputs:
        size = self._rows.count
        starts = range(0, self._count - self._count % size, size)
        joined = JoinedCaptures(self._model, self._entry)
        parts = []
        for start in starts:
            parts.append(self._call(np.arange(start, start + size)))
            joined.add()
        sums = [self._sums(part) for part in parts]
        left = self._count % size
        if left:
            last = self._call(self._row_numbers(left))
            joined.add()
            parts.append(last)
            sums.append(self._of_some(last, left))
        joined.finish(self._count)
        return {name: self._together(name, parts, sums) for name in self._entry.outputs}

    def _call(self, rows: Array) -> Outputs:
        chosen = {name: self._arrays[name][rows] for name in self._rows.inputs}
        return self._model.call_prepared(self._entry.name, **{**self._arrays, **chosen})

    def _row_numbers(self, some: int) -> Array:
        """The first `some` rows of the last part, repeated until there are enough."""
        start = self._count - self._count % self._rows.count
        return start + np.arange(self._rows.count) % some

    def _sums(self, part: Outputs) -> dict[str, Array]:
        """The sums over all rows of a part, of outputs that are sums or means."""
        return {
            name: np.asarray(part[name], wide) * factor for name, wide, factor in self._totals()
        }

    def _totals(self) -> Iterator[tuple[str, Any, int]]:
        for name, form in self._rows.outputs.items():
            if form in ("mean", "sum"):
                wide = np.float64 if self._entry.outputs[name].is_float else np.int64
                yield name, wide, self._rows.count if form == "mean" else 1

    def _of_some(self, part: Outputs, some: int) -> dict[str, Array]:
        """The sums over the first `some` rows of the last part, from a call with them repeated."""
        sums, (times, more) = self._sums(part), divmod(self._rows.count, some)
        if more and sums:
            rest = self._of_some(self._call(self._row_numbers(more)), more)
            sums = {name: total - rest[name] for name, total in sums.items()}
        return {
            name: total / times if total.dtype.kind == "f" else total // times
            for name, total in sums.items()
        }

    def _together(self, name: str, parts: list[Outputs], sums: list[dict[str, Array]]) -> Array:
        form, tensor = self._rows.outputs[name], self._entry.outputs[name]
        if form == "same":
            return parts[0][name]
        if form == "rows":
            joined = np.concatenate([part[name] for part in parts])
            return joined[: self._count * tensor.shape[0] // self._rows.count]
        total = np.sum([part[name] for part in sums], axis=0)
        combined = total / self._count if form == "mean" else total
        return np.asarray(combined, parts[0][name].dtype)


def _together(entry: Entry, name: str, results: list[Outputs], batch: int) -> Array:
    parts = [result[name] for result in results]
    if entry.outputs[name].shape[:1] == (batch,):
        return np.concatenate(parts)
    if not entry.outputs[name].is_float:
        return np.stack(parts)
    return np.asarray(np.mean(parts, axis=0), parts[0].dtype)
