"""An ONNX model as a model file with weights: all steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc.elaborate.builtins import BUILTINS
from wgcc.from_onnx.classes import Classes, change_classes
from wgcc.from_onnx.model_file import fix_sizes, read_model
from wgcc.from_onnx.names import word
from wgcc.from_onnx.problems import NotImportable
from wgcc.from_onnx.trace import trace
from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import Traced
from wgcc.from_onnx.writing.model_text import Heading, write_model
from wgcc.from_onnx.writing.text import Written
from wgcc.from_onnx.writing.text import clean as clean_name
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.lazy_numpy import Array
from wgcc.paths import data_dir


@dataclass(frozen=True, slots=True)
class Converted:
    written: Written
    traced: Traced
    model: Any
    classes: Classes | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a user asks of an import.

    `fixed`: inputs whose numbers are known. `classes`: other ones than those of the file.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    training: Training = field(default_factory=Training)
    keeps_batch_norm: bool = False
    fixed: Mapping[str, Array] = field(default_factory=dict)
    classes: Classes | None = None


def convert_file(path: Path, wishes: Wishes) -> Converted:
    return convert_model(read_model(path), path.name, wishes)


def convert_model(model: Any, file: str, wishes: Wishes) -> Converted:
    """Raises `NotImportable` with all nodes that cannot be expressed."""
    classes = wishes.classes
    changed = change_classes(model, classes, wishes.training.output) if classes else None
    names = _size_names(model)
    given = fix_sizes(model, file, wishes.sizes)
    traced, problems = trace(model, wishes.fixed, wishes.keeps_batch_norm)
    if problems:
        raise NotImportable(file, problems)
    if classes and changed:
        changed.check(traced.outputs[changed.output].shape, classes)
    ports = {clean_name(word(port.name)) for port in model.graph.input}
    clean = {key: f"{key}_size" if key in ports else key for key in given}
    heading = Heading(
        name=_model_name(file, set(traced.layers)),
        title=f"Imported from {file}.",
        dims={
            port: {axis: clean[dim] for axis, dim in axes.items() if dim in clean}
            for port, axes in names.items()
        },
        sizes={clean[key]: size for key, size in given.items()},
    )
    written = write_model(traced, heading, standard_names(), wishes.training)
    return Converted(written, traced, model, classes)


def _size_names(model: Any) -> dict[str, dict[int, str]]:
    """The names of symbolic sizes, by input and axis."""
    found: dict[str, dict[int, str]] = {}
    for port in model.graph.input:
        dims = port.type.tensor_type.shape.dim
        found[port.name] = {
            axis: word(dim.dim_param or f"{port.name}_{axis}")
            for axis, dim in enumerate(dims)
            if not dim.dim_value
        }
    return found


def _model_name(file: str, taken: set[str]) -> str:
    words = re.split(r"[^A-Za-z0-9]+", Path(file).stem)
    name = "".join(part[:1].upper() + part[1:] for part in words if part) or "Imported"
    name = f"Model{name}" if name[0].isdigit() else name
    return f"{name}Model" if name in standard_names() or name in taken else name


def standard_names() -> frozenset[str]:
    """Layers, functions and types that every program has."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in sorted((data_dir("grammar") / "std").glob("*.wg"))
    ]
    own = re.findall(r"^(?:layer|fn) (\w+)", "\n".join(texts), re.MULTILINE)
    return frozenset([*own, *BUILTINS, *DTYPE_TABLE, "pi", "e", "inf"])
