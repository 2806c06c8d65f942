"""An ONNX model as a model file with weights: all steps."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from wgcc.elaborate.builtins import BUILTINS
from wgcc.errors import WgError
from wgcc.files import data_dir
from wgcc.from_onnx.inputs import (
    BATCH,
    OpenSize,
    any_floats,
    fix_sizes,
    fixed_arrays,
    fixed_batch,
    open_sizes,
    temporary_sizes,
)
from wgcc.from_onnx.model_file import read_model
from wgcc.from_onnx.names import one_line, word
from wgcc.from_onnx.original import HIDDEN_NOISE, feed_noise, run_onnx
from wgcc.from_onnx.problems import CannotImport, NotImportable
from wgcc.from_onnx.symbolic import open_program, program_of
from wgcc.from_onnx.trace import trace
from wgcc.from_onnx.training_options import Classes, Training, change_classes
from wgcc.from_onnx.values import Traced
from wgcc.from_onnx.writing.layers import clean as clean_name
from wgcc.from_onnx.writing.model import Heading, Written, write_model
from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import parse_own


@dataclass(frozen=True, slots=True)
class Converted:
    """A model as a program with weights, and the ONNX model that it is of.

    `fixed` are the inputs that it does not have, as their numbers are known. `trial` is compared
    with the original in its place, and has a `note` that says how it differs; `incomparable` is why
    nothing can be compared.
    """

    written: Written
    traced: Traced
    model: Any
    fixed: Mapping[str, Array] = field(default_factory=dict)
    trial: Converted | None = None
    note: str = ""
    incomparable: str = ""
    classes: Classes | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """The wishes that a user has for an import.

    `fixed`: inputs whose numbers are known, as arrays; `numbers`: the same as written. `classes`:
    other ones than those of the file. `any_floats`: inputs that may hold NaN and infinity, beside
    those that need it by what they do.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    training: Training = field(default_factory=Training)
    keeps_batch_norm: bool = False
    fixed: Mapping[str, Array] = field(default_factory=dict)
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    classes: Classes | None = None
    any_floats: Collection[str] = ()


def convert_file(path: Path, wishes: Wishes) -> Converted:
    return convert_model(read_model(path), path.name, wishes)


def convert_model(model: Any, file: str, wishes: Wishes) -> Converted:
    """Raises `NotImportable` with all nodes that cannot be expressed."""
    trial = None
    if wishes.classes and not wishes.classes.keeps_old:
        trial = _with_random_head(model, file, wishes)
    converted = _convert_model(model, file, wishes)
    if converted.traced.hidden_noise:
        return replace(converted, incomparable=HIDDEN_NOISE)
    return replace(converted, trial=_with_noise_fed(trial or converted, file, wishes))


def _with_random_head(model: Any, file: str, wishes: Wishes) -> Converted:
    """A new last layer begins at zero, where all that comes before it has no effect."""
    copy = type(model)()
    copy.CopyFrom(model)
    drawn = _convert_model(copy, file, wishes, np.random.default_rng(0))
    note = "the new last layer begins at zero: it was compared with random numbers in it"
    return replace(drawn, note=note)


def _with_noise_fed(converted: Converted, file: str, wishes: Wishes) -> Converted | None:
    """Random numbers become inputs, so that both draw the same."""
    traced = converted.traced
    if not traced.noise:
        return converted if converted.note else None
    model = feed_noise(converted.model, traced.noise)
    drawn = set(traced.noise.values())
    fed = replace(
        traced,
        inputs=traced.inputs | traced.noise,
        statements=[item for item in traced.statements if not drawn.intersection(item.outputs)],
        noise={},
    )
    heading = _heading(file, fed, frozenset())
    note = "the random numbers that it draws were given to both as inputs"
    return replace(
        converted,
        written=write_model(fed, heading, standard_names(), wishes.training),
        traced=fed,
        model=model,
        note="; ".join(filter(None, (converted.note, note))),
    )


def _convert_model(model: Any, file: str, wishes: Wishes, drawn: Any = None) -> Converted:
    """`drawn`: a generator of numbers for a new last layer."""
    classes = wishes.classes
    changed = change_classes(model, classes, wishes.training.output, drawn) if classes else None
    fixed = {**wishes.fixed, **fixed_arrays(model, file, wishes.numbers, wishes.sizes)}
    open_axes = open_sizes(model)
    given = fix_sizes(model, file, wishes.sizes, fixed, lambda: _works(model, file, wishes, fixed))
    traced = _trace(model, file, wishes, fixed)
    if classes and changed:
        changed.check(traced.outputs[changed.output].shape, classes)
    for name, numbers in wishes.numbers.items():
        values = ", ".join(map(str, numbers))
        traced.notes.append(f"the input `{one_line(name)}` is fixed: {values}")
    batch = _batch(model, traced, open_axes)
    given |= {size.name: size.dim.dim_value for size in batch}
    titles = _size_titles(model, given)
    heading = _heading(file, traced, frozenset(titles.values()))
    written = write_model(traced, heading, standard_names(), wishes.training)

    def draft(sizes: Mapping[str, int]) -> Written | None:
        """The program for other sizes."""
        try:
            by_name = {name: sizes[title] for name, title in titles.items()}
            with temporary_sizes([*open_axes, *batch], by_name):
                rows = (given[BATCH], by_name[BATCH]) if batch else None
                other = _trace(model, file, wishes, fixed, rows)
            return write_model(other, heading, standard_names(), wishes.training)
        except (WgError, CannotImport):
            return None

    sizes = {titles[name]: size for name, size in given.items()}
    opened = open_program(draft, sizes, titles[BATCH] if batch else "")
    return Converted(opened or written, traced, model, fixed, classes=classes)


def _batch(model: Any, traced: Traced, open_axes: Sequence[OpenSize]) -> list[OpenSize]:
    """Axes that have the rows of a model for a fixed number of them."""
    if any(size.axis == 0 or size.name == BATCH for size in open_axes):
        return []
    inputs = {name: value.shape for name, value in traced.inputs.items()}
    return fixed_batch(model, inputs, [value.shape for value in traced.outputs.values()])


def _check_any_floats(traced: Traced, names: Collection[str]) -> None:
    floats = [name for name, value in traced.inputs.items() if value.dtype in FLOATS]
    for name in names:
        if name not in floats:
            listed = ", ".join(floats) or "none"
            raise WgError(
                f"--any-float {name}: no input of floats is called so; there are: {listed}"
            )


def _trace(
    model: Any,
    file: str,
    wishes: Wishes,
    fixed: Mapping[str, Array],
    rows: tuple[int, int] | None = None,
) -> Traced:
    traced, problems = trace(model, fixed, wishes.keeps_batch_norm, rows)
    fixed_shape = next((item for item in problems if "it reshapes" in item.reason), None)
    if wishes.classes and fixed_shape:
        raise WgError(
            f"{wishes.classes.option}: `{fixed_shape.node}` fixes the old number of classes: "
            f"{fixed_shape.reason}"
        )
    if problems:
        raise NotImportable(file, problems)
    _check_any_floats(traced, wishes.any_floats)
    traced.any_floats |= {*wishes.any_floats, *any_floats(model.graph)}
    return traced


def _works(model: Any, file: str, wishes: Wishes, fixed: Mapping[str, Array]) -> bool:
    """Whether it can be imported at its present sizes, and gives the shapes of the original."""
    from onnx.helper import tensor_dtype_to_np_dtype

    try:
        traced = _trace(model, file, wishes, fixed)
        heading = _heading(file, traced, frozenset())
        text = write_model(traced, heading, standard_names(), wishes.training).text
        kinds = {port.name: port.type.tensor_type.elem_type for port in model.graph.input}
        inputs = {
            name: np.zeros(value.shape, tensor_dtype_to_np_dtype(kinds[name]))
            for name, value in traced.inputs.items()
        }
        outputs, _ = run_onnx(model, {**inputs, **fixed})
    except (WgError, CannotImport):
        return False
    shapes = {name: np.shape(array) for name, array in outputs.items()}
    has_shapes = all(value.shape == shapes[name] for name, value in traced.outputs.items())
    return has_shapes and program_of(text, {}) is not None


def _size_titles(model: Any, given: Mapping[str, int]) -> dict[str, str]:
    """The names of sizes in the text, which differ from those of all inputs."""
    ports = {clean_name(word(port.name)) for port in model.graph.input}
    return {name: f"{name}_size" if name in ports else name for name in given}


def _heading(file: str, traced: Traced, sizes: frozenset[str]) -> Heading:
    return Heading(_model_name(file, set(traced.layers)), f"Imported from {file}.", sizes)


def _model_name(file: str, taken: set[str]) -> str:
    words = re.split(r"[^A-Za-z0-9]+", Path(file).stem)
    name = "".join(part[:1].upper() + part[1:] for part in words if part) or "Imported"
    name = f"Model{name}" if name[0].isdigit() else name
    return f"{name}Model" if name in standard_names() or name in taken else name


@cache
def standard_names() -> frozenset[str]:
    """Layers, functions and types that every program has."""
    files = [parse_own(path.read_text(encoding="utf-8"))
             for path in sorted((data_dir("grammar") / "std").glob("*.wg"))]  # fmt: skip
    items = [item for file in files for item in file.items]
    own = [item.name.text for item in items if isinstance(item, ast.Layer | ast.Function)]
    return frozenset([*own, *BUILTINS, *DTYPE_TABLE, "pi", "e", "inf"])
