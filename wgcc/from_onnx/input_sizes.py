"""Sizes that a file leaves open: their names, and the numbers that a user gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.names import word
from wgcc.lazy_numpy import Array
from wgcc.spelling import did_you_mean

# Numbers that are tried for sizes that are not given, in models of at most so many nodes.
LIKELY = (1, 2, 4, 8, 16, 32, 64, 100, 128, 224, 256, 320, 512, 640, 1024)
MOST_TRIED_NODES = 2000


@dataclass(frozen=True, slots=True)
class OpenSize:
    """An axis of an input whose size has no number. `title` is what the file calls it, or ""."""

    port: str
    axis: int
    name: str
    title: str
    dim: Any
    is_last: bool


def open_sizes(model: Any) -> list[OpenSize]:
    """A name without letters, as `?`, names nothing: two such axes are two sizes."""
    stored = {tensor.name for tensor in model.graph.initializer}
    names: dict[str, str] = {}
    found = []
    for port in model.graph.input:
        if port.name in stored or not port.type.HasField("tensor_type"):
            continue
        dims = port.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            title = dim.dim_param if re.search("[A-Za-z]", dim.dim_param) else ""
            key = title or f"{port.name}_{axis}"
            if key not in names:
                names[key] = _unique(word(key), set(names.values()))
            found.append(OpenSize(port.name, axis, names[key], title, dim, axis == len(dims) - 1))
    return found


def _unique(name: str, taken: set[str]) -> str:
    numbered = (f"{name}_{number}" for number in count(2))
    return name if name not in taken else next(new for new in numbered if new not in taken)


def fix_sizes(
    model: Any,
    path: str,
    sizes: Mapping[str, int],
    fixed: Mapping[str, Array],
    works: Callable[[], bool],
) -> dict[str, int]:
    """Gives every open size of the inputs its number; the sizes by name, in order.

    `sizes` are named as the file does, or as the language can; `fixed` are inputs whose numbers are
    known, and with them their sizes. `works` tells whether the model can be imported as it is now,
    so that what is suggested does.
    """
    used: dict[str, int] = {}
    missing: list[OpenSize] = []
    asked: set[str] = set()
    for size in open_sizes(model):
        key = size.title if size.title in sizes else size.name
        asked |= {key}
        if size.port in fixed:
            size.dim.dim_value = fixed[size.port].shape[size.axis]
        elif key in sizes:
            used[size.name] = size.dim.dim_value = sizes[key]
        else:
            missing.append(size)
    known = [*used, *(size.name for size in missing)]
    for name in sizes:
        if name not in asked:
            hint = "".join(f"; did you mean {near}?" for near in did_you_mean(name, known)[:1])
            raise WgError(f"{path}: --set {name}: no input has a size of this name{hint}")
    if missing:
        raise WgError(f"{path}: {_request(model, missing, works)}")
    return used


def _request(model: Any, missing: list[OpenSize], works: Callable[[], bool]) -> str:
    first = {size.name: size for size in reversed(missing)}
    names = list(dict.fromkeys(size.name for size in missing))
    wanted = ", ".join(
        f"{name} (of `{first[name].port}`{_as_titled(first[name])})" for name in names
    )
    numbers = _working_numbers(model, missing, works)
    if numbers is None:
        give = " ".join(f"--set {shlex.quote(name)}=N" for name in names)
        return f"these sizes are not fixed: {wanted}; give them numbers that fit the model: {give}"
    give = " ".join(f"--set {shlex.quote(size)}={n}" for size, n in numbers.items())
    return f"these sizes are not fixed: {wanted}; give them numbers: {give}"


def _as_titled(size: OpenSize) -> str:
    return f", there `{size.title}`" if size.title not in ("", size.name) else ""


def _working_numbers(
    model: Any, missing: list[OpenSize], works: Callable[[], bool]
) -> dict[str, int] | None:
    """A suggestion must work: the first with which all nodes can be imported, and can be run."""
    if len(model.graph.node) > MOST_TRIED_NODES:
        return None
    tried = []
    for numbers in _suggestions(missing):
        if numbers not in tried:
            tried.append(numbers)
            with resized(missing, numbers):
                if works():
                    return numbers
    return None


def _suggestions(missing: list[OpenSize]) -> Iterator[dict[str, int]]:
    """A batch, the first axis, is 1; the other sizes are equal, or only those of last axes."""
    names = {size.name for size in missing}
    batches = {size.name for size in missing if size.axis == 0}
    last = {size.name for size in missing if size.is_last}
    for number in LIKELY:
        for large in (last - batches, names - batches):
            yield {size.name: number if size.name in large else 1 for size in missing}


@contextmanager
def resized(axes: Sequence[OpenSize], numbers: Mapping[str, int]) -> Iterator[None]:
    """With other numbers for open sizes."""
    before = [(size, type(size.dim).FromString(size.dim.SerializeToString())) for size in axes]
    for size in axes:
        if size.name in numbers:
            size.dim.dim_value = numbers[size.name]
    try:
        yield
    finally:
        for size, dim in before:
            size.dim.CopyFrom(dim)
