"""Sources of training data: arrays (shuffled by seed), an iterable, a function of the step.

Each source yields batches as words, counts them, and can start at any position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wgcc_runtime.arrays import (
    Array,
    Batch,
    as_array,
    check_batch,
    check_names,
    column_list,
    column_names,
    convert_input,
)
from wgcc_runtime.drawn import random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Entry

# The rows after the last full batch are left out, or repeated until they are a batch.
DROP, FILL = "drop", "fill"
# Arrays up to this size are checked and converted once, larger ones row by row.
CONVERT_BYTES = 256 << 20


class Source(ABC):
    """`position` counts the batches taken so far."""

    def __init__(self, entry: Entry, position: int) -> None:
        self.entry = entry
        self.position = position

    def take(self) -> Batch | None:
        """The next batch, or None when the data has ended."""
        batch = self._next()
        if batch is not None:
            self.position += 1
        return batch

    def close(self) -> None:
        """Ends a generator, as if nobody needed it any more; other data has no end."""
        return

    @abstractmethod
    def _next(self) -> Batch | None: ...


@dataclass(frozen=True, slots=True)
class Length:
    """How long a training lasts: in `epochs`, if given, which are counted from the step `first`.

    With `cycle`, an iterable starts over at its end. `partial` says what becomes of fewer rows than
    a batch at the end of the data: `DROP` or `FILL`; None is `DROP` for arrays, else `FILL`.
    """

    cycle: bool
    epochs: int | None = None
    first: int = 0
    partial: str | None = None


ENDLESS = Length(cycle=True)


def open_source(
    data: Any, entry: Entry, seed: int, step: int, position: int, length: Length
) -> Source:
    """The source for what a caller passed as `batches`.

    Arrays and functions continue at `step` (the model's own count); an iterable starts over, after
    skipping `position` batches that a resumed run has seen.
    """
    if isinstance(data, Mapping):
        return ArraySource(data, entry, seed, step, length)
    if callable(data):
        return FunctionSource(data, entry, step)
    if isinstance(data, Iterable):
        return IterableSource(data, entry, position, length)
    kind = type(data).__name__
    text = (
        f"batches are a dict of arrays, an iterable of dicts or tuples, or a function, not {kind}"
    )
    raise WgccError("data", text)


def named_batch(batch: Any, entry: Entry) -> Any:
    """A tuple of a data loader as a dict: its parts are the inputs in the entry's order."""
    if not isinstance(batch, tuple | list):
        return batch
    if len(batch) != len(entry.inputs):
        names = ", ".join(entry.inputs)
        text = f"{entry.name}: a batch has {len(batch)} parts, but the entry takes {names}"
        raise WgccError("data", text)
    return dict(zip(entry.inputs, batch, strict=True))


def short_rows(batch: Any, entry: Entry) -> int | None:
    """How many rows a batch has, if it has fewer than the entry takes, and is right otherwise."""
    rows = entry.rows
    if rows is None or not isinstance(batch, Mapping) or not rows.inputs:
        return None
    counts = {_length(batch.get(name)) for name in rows.inputs}
    count = counts.pop()
    return count if not counts and 0 < count < rows.count else None


def _length(value: Any) -> int:
    try:
        return len(value)
    except TypeError:  # a number, or an array without axes
        return 0


def fill_rows(batch: Mapping[str, Any], entry: Entry, count: int) -> dict[str, Any]:
    """The batch with its own rows again and again, until they are as many as the entry takes."""
    assert entry.rows is not None
    rows = np.arange(entry.rows.count) % count
    names = entry.rows.inputs
    return {
        name: as_array(value, f"{entry.name}: `{name}`")[rows] if name in names else value
        for name, value in batch.items()
    }


def check_rows(
    arrays: Mapping[str, Array], entry: Entry, names: Iterable[str], inputs: Mapping[str, Any]
) -> None:
    """Refuses the first wrong number in all rows of these inputs, before any part is computed.

    `inputs` is what a caller gave, with the names of its columns.
    """
    for name in names:
        array, tensor = arrays[name], entry.inputs[name]
        row_bytes = array.nbytes // max(1, len(array))
        step = max(1, CONVERT_BYTES // max(1, row_bytes))
        for start in range(0, len(array), step):
            part, what = array[start : start + step], f"{entry.name}: `{name}`"
            rows = np.arange(start, start + len(part))
            columns = column_names(inputs[name])
            convert_input(part, tensor, what, entry.ranges.get(name), rows, columns)


class ArraySource(Source):
    """Whole data sets: rows of the first axis, in an order that seed and epoch determine.

    An array with exactly the input's shape is the same in every batch. Rows after the last full
    batch of an epoch are left out, unless `partial` fills them up; the next epoch has another
    order, so all rows are used in time.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        entry: Entry,
        seed: int,
        step: int,
        length: Length = ENDLESS,
    ) -> None:
        super().__init__(entry, step)
        check_names(data, entry)
        self._seed = seed
        self._fixed: Batch = {}
        self._rows: Batch = {}
        self._converted: dict[str, bool] = {}
        self._columns = {name: column_names(value) for name, value in data.items()}
        self._fills = length.partial == FILL
        for name, value in data.items():
            self._add(name, as_array(value, f"{entry.name}: `{name}`"))
        self.count, self.batch = self._sizes()
        self._epoch, self._order = -1, np.arange(self.count)
        self._end = length.first + length.epochs * self.per_epoch if length.epochs else None

    @property
    def per_epoch(self) -> int:
        batches = -(-self.count // self.batch) if self._fills else self.count // self.batch
        return max(1, batches)

    @property
    def arrays(self) -> Mapping[str, Array]:
        """All rows, in the order in which they were given."""
        return {**self._fixed, **self._rows}

    def _add(self, name: str, array: Array) -> None:
        tensor, what = self.entry.inputs[name], f"{self.entry.name}: `{name}`"
        if array.shape == tensor.shape:
            self._fixed[name] = self._words(name, array)
        elif array.ndim and tensor.shape and array.shape[1:] == tensor.shape[1:]:
            self._converted[name] = array.nbytes <= CONVERT_BYTES
            self._rows[name] = self._words(name, array) if self._converted[name] else array
        else:
            shape = f"{list(array.shape)}{column_list(self._columns[name])}"
            takes = f"the model takes {list(tensor.shape)}, or the same with more rows"
            if array.shape[1:-1] == tensor.shape[1:] and name in self.entry.ranges:
                takes += f"; of one-hot rows, `{name}.argmax(-1)` are the classes"
            raise WgccError("shape", f"{what} has shape {shape}; {takes}", what)

    def _words(self, name: str, array: Array, rows: Array | None = None) -> Array:
        what, allowed = f"{self.entry.name}: `{name}`", self.entry.ranges.get(name)
        tensor, columns = self.entry.inputs[name], self._columns[name]
        return convert_input(array, tensor, what, allowed, rows, columns)

    def _sizes(self) -> tuple[int, int]:
        rows = {name: len(words) for name, words in self._rows.items()}
        sizes = {name: self.entry.inputs[name].shape[0] for name in rows}
        for name, words in self._fixed.items():
            # One batch of labels with a thousand rows of inputs is a mistake, not a constant.
            if words.ndim and len(words) in sizes.values():
                rows[name] = len(words)
        if len(set(rows.values())) > 1 or len(set(sizes.values())) > 1:
            text = ", ".join(f"`{name}` {count}" for name, count in rows.items())
            raise WgccError("shape", f"{self.entry.name}: the numbers of rows differ: {text}")
        if not rows:
            return 1, 1
        count, batch = next(iter(rows.values())), next(iter(sizes.values()))
        if count < batch and not (self._fills and count):
            raise WgccError("shape", self._too_few(count, batch))
        return count, batch

    def _too_few(self, count: int, batch: int) -> str:
        if not count:
            return f"{self.entry.name}: the data has no rows"
        rows = self.entry.rows
        advice = rows.advice(count) if rows else "build the model for fewer rows"
        return (
            f"{self.entry.name}: {count} rows are fewer than the batch of {batch}. Give more rows "
            f'(rows may be repeated, as partial="fill" does), or make the batch smaller: {advice}'
        )

    def _next(self) -> Batch | None:
        if self._end is not None and self.position >= self._end:
            return None
        epoch, index = divmod(self.position, self.per_epoch)
        if self._rows and epoch != self._epoch:
            keys = random_words(self._seed, "shuffle", self.count, epoch)
            self._epoch, self._order = epoch, np.argsort(keys, kind="stable")
        rows = self._order[index * self.batch : (index + 1) * self.batch]
        if len(rows) < self.batch and self._rows:
            rows = np.resize(rows, self.batch)
        batch = dict(self._fixed)
        for name, array in self._rows.items():
            chosen = array[rows]
            batch[name] = chosen if self._converted[name] else self._words(name, chosen, rows)
        return batch


class IterableSource(Source):
    """Any iterable of dicts or tuples. Lists and data loaders start over at their end; generators
    do not."""

    def __init__(self, data: Iterable[Any], entry: Entry, position: int, length: Length) -> None:
        super().__init__(entry, 0)
        self._data = data
        self._iterator: Iterator[Any] = iter(data)
        self._cycle = length.cycle and self._iterator is not data
        self._passes, self._epochs = 1, length.epochs
        self._drops = length.partial == DROP
        while self.position < position:
            if self._next_raw() is None:
                text = f"the data ended before batch {position}, where the training should continue"
                raise WgccError("data", text)
            self.position += 1

    def _next(self) -> Batch | None:
        batch = self._next_raw()
        if batch is None:
            return None
        count = short_rows(batch, self.entry)
        return check_batch(fill_rows(batch, self.entry, count) if count else batch, self.entry)

    def _next_raw(self) -> Any:
        """The next batch that is not dropped because it has too few rows."""
        while (raw := self._raw()) is not None:
            batch = named_batch(raw, self.entry)
            if not (self._drops and short_rows(batch, self.entry)):
                return batch
        return None

    def close(self) -> None:
        if isinstance(self._iterator, Generator):
            self._iterator.close()

    def _raw(self) -> Any:
        for raw in self._iterator:
            return raw
        if self._cycle and self.position and self._passes != self._epochs:
            self._passes += 1
            self._iterator = iter(self._data)
            return next(self._iterator, None)
        return None


class FunctionSource(Source):
    """A function of the step's number, counted from 0; None ends the data."""

    def __init__(self, function: Callable[[int], Any], entry: Entry, step: int) -> None:
        super().__init__(entry, step)
        self._function = function

    def _next(self) -> Batch | None:
        raw = self._function(self.position)
        return None if raw is None else check_batch(named_batch(raw, self.entry), self.entry)
