"""`model.captured`: values inside an entry that its bundle was built to show, after a call."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.plan_parts import BINS, Capture
from wgcc_runtime.replace_file import replace_file
from wgcc_runtime.weights import save_arrays

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of one value. `mean`, `deviation`, `min` and `max` are those of finite elements.

    `zeros`, `nan` and `infinite` are counts of elements; `histogram` counts the finite ones in 32
    bins of equal width from `min` to `max`, and `edges` has their 33 bounds.
    """

    shape: tuple[int, ...]
    mean: float
    deviation: float
    min: float
    max: float
    zeros: int
    nan: int
    infinite: int
    histogram: Array

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def edges(self) -> Array:
        return np.linspace(self.min, self.max, BINS + 1)


Shown = Array | Stats
# The parts of statistics that files hold, by name.
STATS = ("mean", "deviation", "min", "max", "zeros", "nan", "infinite", "histogram")


class Captured(Mapping[str, Shown]):
    """Arrays, or `Stats`, by name, of the last call of `entry`; read from the device when asked."""

    def __init__(self, model: Model, entry: str) -> None:
        self._model, self.entry = model, entry

    def of(self, entry: str) -> Captured:
        """The same of another entry, as its last call left them."""
        return Captured(self._model, self._model.entry(entry).name)

    def __getitem__(self, name: str) -> Shown:
        capture = self._check_name(name)
        joined = self._model._captures.get(self.entry)
        if joined is None:
            return self._read(capture)
        if name not in joined and not _is_stored(capture):
            raise WgccError("captured", self._without_parts(name), name)
        return joined[name] if name in joined else self._read(capture)

    def arrays(self) -> dict[str, Array]:
        """All as arrays; the mean of statistics is `NAME/mean`, and so on.

        What a call in parts could not join is left out.
        """
        joined = self._model._captures.get(self.entry)
        arrays: dict[str, Array] = {}
        for name, capture in self._captures.items():
            if joined is not None and name not in joined and not _is_stored(capture):
                continue
            shown = self[name]
            if isinstance(shown, Stats):
                arrays |= {f"{name}/{key}": np.asarray(getattr(shown, key)) for key in STATS}
            else:
                arrays[name] = shown
        return arrays

    def save(self, path: str | Path) -> None:
        """Writes `arrays` to a .npz or .safetensors file."""
        file = Path(path)
        if file.suffix not in (".npz", ".safetensors"):
            raise WgccError("name", f"{file} is neither .npz nor .safetensors", str(file))
        if file.suffix == ".npz":
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for name, array in self.arrays().items():
                    with archive.open(f"{name}.npy", "w") as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            replace_file(file, stream.getvalue())
        else:
            save_arrays(file, self.arrays())

    def _read(self, capture: Capture) -> Shown:
        arrays = self._model._read(capture.tensors)
        values = [arrays[tensor.name] for tensor in capture.tensors]
        return stats_of(capture, *values) if capture.is_stats else values[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._captures)

    def __len__(self) -> int:
        return len(self._captures)

    def __repr__(self) -> str:
        lines = [f"{name}: {_text(capture)}" for name, capture in self._captures.items()]
        return "\n".join([f"captured by {self.entry or 'no call yet'}", *lines])

    @property
    def _captures(self) -> Mapping[str, Capture]:
        return self._model.plan.entries[self.entry].captures if self.entry else {}

    def _check_name(self, name: str) -> Capture:
        if self.entry and self.entry not in self._model._captures:
            text = f"`{name}` is not known: no call of `{self.entry}` has ended well since"
            raise WgccError("captured", f"{text} the model was opened or recovered", name)
        if name in self._captures:
            return self._captures[name]
        entries = self._model.plan.entries.values()
        by = [entry.name for entry in entries if name in entry.captures]
        if by:
            text = f"`{name}` is captured by {', '.join(by)}: call it, or `captured.of(...)`"
        elif any(entry.captures for entry in entries):
            text = f"`{name}` is not captured{did_you_mean(str(name), self._captures)}"
        else:
            text = f'nothing is captured: build with --capture "{name}", or use capture(x, "name")'
        raise WgccError("captured", text, str(name))

    def _without_parts(self, name: str) -> str:
        count = self._model.plan.entries[self.entry].rows
        rows = f"exactly {count.count} rows" if count else "a whole batch"
        return (
            f"`{name}` cannot be joined from the parts that the last call of `{self.entry}` ran "
            f"in: call it with {rows}"
        )


def stats_of(capture: Capture, numbers: Array, counts: Array) -> Stats:
    zeros, nan, infinite = map(int, counts[:-BINS])
    mean, deviation, low, high = map(float, numbers)
    bins = counts[-BINS:]
    return Stats(capture.shape, mean, deviation, low, high, zeros, nan, infinite, bins)


class JoinedCaptures:
    """Captures of a call in parts: each is read after its part."""

    def __init__(self, model: Model, entry: Entry) -> None:
        self._model, self._entry = model, entry
        self._wanted = {n: c for n, c in entry.captures.items() if c.rows and not _is_stored(c)}
        self._parts: list[dict[str, Array]] = []

    def add(self) -> None:
        captured = Captured(self._model, self._entry.name)
        self._parts.append({name: captured._read(c) for name, c in self._wanted.items()})  # type: ignore[misc]

    def finish(self, rows: int) -> None:
        """Joins the first so many rows."""
        if not self._entry.captures:
            return
        assert self._entry.rows is not None
        count, joined = self._entry.rows.count, {}
        for name, capture in self._wanted.items():
            if capture.rows == "same":
                joined[name] = self._parts[0][name]
            else:
                whole = np.concatenate([part[name] for part in self._parts])
                joined[name] = whole[: rows * capture.shape[0] // count]
        self._model._captures[self._entry.name] = joined


def _is_stored(capture: Capture) -> bool:
    return capture.tensors[0].role != "output"


def _text(capture: Capture) -> str:
    tensor = capture.tensors[0]
    shape = ", ".join(map(str, capture.shape))
    return f"statistics of [{shape}]" if capture.is_stats else f"{tensor}"
