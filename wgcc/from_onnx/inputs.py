"""Inputs of an ONNX model: sizes that the file leaves open, numbers that a user fixes, NaN."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.names import word
from wgcc.from_onnx.values import Shape
from wgcc.lazy_numpy import Array, np
from wgcc.spelling import did_you_mean

# Numbers that are tried for sizes that are not given, in models of at most so many nodes.
LIKELY = (1, 2, 4, 8, 16, 32, 64, 100, 128, 224, 256, 320, 512, 640, 1024)
MOST_TRIED_NODES = 2000
# What the first axis of all inputs is called, if the file has no name for it.
BATCH = "batch"


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
    open_axes = []
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
            open_axes.append(
                OpenSize(port.name, axis, names[key], title, dim, axis == len(dims) - 1)
            )
    return open_axes


def fixed_batch(
    model: Any, inputs: Mapping[str, Shape], outputs: Iterable[Shape]
) -> list[OpenSize]:
    """The first axes of all inputs, if these and those of the outputs have one size; else none.

    The file states a number there, which `wgcc build --set batch=5` may change. A graph without
    weights is no model of rows.
    """
    sizes = {shape[:1] for shape in (*inputs.values(), *outputs)}
    if len(sizes) != 1 or () in sizes or not model.graph.initializer:
        return []
    dims = {port.name: port.type.tensor_type.shape.dim for port in model.graph.input}
    return [OpenSize(name, 0, BATCH, "", dims[name][0], False) for name in inputs]


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
            with temporary_sizes(missing, numbers):
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
def temporary_sizes(axes: Sequence[OpenSize], numbers: Mapping[str, int]) -> Iterator[None]:
    """Gives open sizes other numbers until the block ends."""
    before = [(size, type(size.dim).FromString(size.dim.SerializeToString())) for size in axes]
    for size in axes:
        if size.name in numbers:
            size.dim.dim_value = numbers[size.name]
    try:
        yield
    finally:
        for size, dim in before:
            size.dim.CopyFrom(dim)


def fixed_arrays(
    model: Any, path: str, numbers: Mapping[str, Sequence[float]], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """One number fills the whole input; several must be as many as it has elements."""
    stored = {tensor.name for tensor in model.graph.initializer}
    ports = {port.name: port for port in model.graph.input if port.name not in stored}
    named = {(size.port, size.axis): (size.title, size.name) for size in open_sizes(model)}
    arrays = {}
    for name, values in numbers.items():
        if name not in ports:
            names = ", ".join(ports)
            raise WgError(f"{path}: --input {name}: no input is called so; they are {names}")
        shape = []
        for axis, dim in enumerate(ports[name].type.tensor_type.shape.dim):
            titles = named.get((name, axis), ())
            given = [sizes[title] for title in titles if title in sizes]
            shape.append(given[0] if given else dim.dim_value if not titles else 0)
        arrays[name] = _fill(f"{path}: --input {name}", ports[name], shape, values)
    return arrays


def _fill(what: str, port: Any, shape: list[int], values: Sequence[float]) -> Array:
    from onnx.helper import tensor_dtype_to_np_dtype

    kind = np.dtype(tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
    if len(shape) == 1 and not shape[0]:
        shape = [len(values)]
    elements = int(np.prod(shape, dtype=np.int64))
    if 0 in shape:
        raise WgError(f"{what}: give its open sizes with --set, too")
    if len(values) not in (1, elements):
        raise WgError(f"{what}: it has {elements:,} elements {shape}, but {len(values)} are given")
    array = np.array(values, np.float64)
    if kind.kind in "iu" and (array != np.round(array)).any():
        raise WgError(f"{what}: it has whole numbers")
    return (
        np.full(shape, values[0], kind)
        if len(values) == 1
        else np.array(values, kind).reshape(shape)
    )


# Operators whose results are elements of their first operand.
VIEWS = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
TESTS = frozenset({"IsInf", "IsNaN"})
# The operand that is a mask, by operator.
MASKS = {"Attention": 3}
FLOAT_KINDS = frozenset({1, 10, 11, 16})


def any_floats(graph: Any) -> set[str]:
    """The names of such inputs."""
    readers: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    for node in graph.node:
        for place, name in enumerate(node.input):
            readers[name].append((node, place))
    floats = [port.name for port in graph.input if port.type.tensor_type.elem_type in FLOAT_KINDS]
    return {
        name for name in floats if any(_is_special(*use, readers) for use in _uses(name, readers))
    }


Readers = dict[str, list[tuple[Any, int]]]


def _uses(name: str, readers: Readers) -> Iterator[tuple[Any, int]]:
    """Nodes that read a tensor, or a view of it, and as which operand."""
    todo, seen = [name], {name}
    while todo:
        for node, place in readers.get(todo.pop(), ()):
            if node.op_type in VIEWS and place == 0:
                todo += [output for output in node.output if output not in seen]
                seen.update(node.output)
            else:
                yield node, place


def _is_special(node: Any, place: int, readers: Readers) -> bool:
    if node.op_type in TESTS or MASKS.get(node.op_type) == place:
        return True
    if node.op_type != "Add":
        return False
    return any(reader.op_type == "Softmax" for reader, _ in _uses(node.output[0], readers))
