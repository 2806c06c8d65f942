"""Builds what was imported, compares it with the original, and writes the README of the folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Content, data_bytes
from wgcc.bundle.folder import write_files
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.from_onnx.compare import (
    Difference,
    compared_numbers,
    differences,
    given_inputs,
    own_inputs,
    random_inputs,
)
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.original import run_onnx
from wgcc.from_onnx.training_options import classes_known
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.layout import format_source
from wgcc_runtime.data.preparation import preparation_text

MODEL, WEIGHTS, BUNDLE = "model.wg", "weights.safetensors", "bundle"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a comparison. Without a `runner` there was none; `why_not` says the reason.

    `inputs` says where the numbers came from, `note` what was compared in place of the model.
    """

    runner: str = ""
    inputs: str = ""
    note: str = ""
    why_not: str = ""
    differences: list[Difference] = field(default_factory=list)

    def sentences(self) -> list[str]:
        if not self.runner:
            return [f"not compared with the original: {self.why_not}"]
        compared = [item.sentence(self.runner, self.inputs) for item in self.differences]
        return [*compared, *([self.note] if self.note else [])]

    def paragraphs(self) -> list[str]:
        if not self.runner:
            return [f"It was not compared with the original: {self.why_not}."]
        is_empty = not any(item.finite for item in self.differences)
        heading = f"Compared with {self.runner} on {self.inputs}, run by the WebAssembly twin:"
        if is_empty:
            heading = f"It was run beside {self.runner} on {self.inputs}, but nothing was compared:"
        return [
            heading,
            "",
            "| output | largest difference | largest number | |",
            "|---|---|---|---|",
            *(item.row() for item in self.differences),
            *(["", f"{self.note[0].upper()}{self.note[1:]}."] if self.note else []),
        ]


def readme(file: str, converted: Converted, comparison: Comparison) -> str:
    """Inputs and outputs, how near they are, and what to do next."""
    written, traced = converted.written, converted.traced
    rows = [
        f"| `{own}` | `{name}` | {value.dtype} {list(value.shape)} |"
        for ports, held in ((written.inputs, traced.inputs), (written.outputs, traced.outputs))
        for (name, own), value in zip(ports.items(), held.values(), strict=True)
    ]
    notes = [f"- {note}" for note in traced.all_notes()]
    return "\n".join(
        [
            f"# {file}, imported",
            "",
            f"`{MODEL}` is the model, `{WEIGHTS}` its parameters, `{BUNDLE}/` what `wgcc build`",
            "makes of both: open `bundle/index.html` in a browser.",
            "",
            "| input or output | name in the ONNX file | type |",
            "|---|---|---|",
            *rows,
            "",
            *comparison.paragraphs(),
            "",
            *([*notes, ""] if notes else []),
            "```bash",
            f"wgcc build {MODEL} --weights {WEIGHTS} -o {BUNDLE}/",
            f"wgcc verify {BUNDLE}/",
            *_size_commands(converted),
            *_training_commands(converted),
            "```",
            "",
        ]
    )


def _size_commands(converted: Converted) -> list[str]:
    """How to build the model for other sizes, if its text leaves any open."""
    for name, size in converted.written.dims.items():
        return [
            f"# the sizes after `dim` can be others, such as {name} = {size + 1}",
            f"wgcc build {MODEL} --weights {WEIGHTS} --set {name}={size + 1} -o other/",
        ]
    return []


def _training_commands(converted: Converted) -> list[str]:
    """Commands for a model with `entry train`, and which arrays it takes."""
    if converted.written.entry("train") is None:
        return []
    names = ", ".join([*converted.written.inputs.values(), "target"])
    return [
        f"# data.npz has the arrays {names}, with a row for each example",
        f"wgcc train {BUNDLE}/ data.npz --held-out 0.2 --steps 200 --out trained.safetensors",
        f"wgcc run {BUNDLE}/ predict -i new.npz --weights trained.safetensors",
        "wgcc build model.wg --weights trained.safetensors -o personal/",
    ]


@dataclass(frozen=True, slots=True)
class Imported:
    """The files of a folder, and how far the bundle's outputs are from ONNX's."""

    files: dict[str, Content]
    compiled: Compiled
    comparison: Comparison

    @property
    def differences(self) -> list[Difference]:
        return self.comparison.differences

    @property
    def compared_with(self) -> str:
        return self.comparison.runner


@dataclass(frozen=True, slots=True)
class Comparing:
    """The comparison that a user wants; `inputs` is a file of arrays."""

    is_wanted: bool = True
    inputs: Path | None = None


def build(path: Path, converted: Converted, comparing: Comparing = Comparing()) -> Imported:
    """Nothing is written but to a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = _in_canonical_layout(converted.written.text)
        compiled = _compile(path, folder, text)
        known = classes_known(compiled.plan(), converted.classes)
        data = data_bytes({}, known, None) if known else None
        files = compiled.files(converted.written.weights, data)
        comparison = _compare(path, folder, converted, compiled, files, comparing)
    contents = {
        MODEL: text.encode(),
        WEIGHTS: _weights_file(converted.written.weights, known),
        "README.md": readme(path.name, converted, comparison).encode(),
        **{f"{BUNDLE}/{name}": data for name, data in files.items()},
    }
    return Imported(contents, compiled, comparison)


def _in_canonical_layout(text: str) -> str:
    """The text as `wgcc fmt` would leave it; an error in it is reported when it is compiled."""
    return format_source(Source(MODEL, text), Diagnostics()) or text


def _compile(path: Path, folder: Path, text: str) -> Compiled:
    """The user has not seen the text yet: its errors are reported in one sentence."""
    model = folder / MODEL
    model.write_text(text, encoding="utf-8")
    try:
        return compile_file(model)
    except WgError as error:
        reasons = [
            f"{item.message} (line {item.span.line if item.span else 1})"
            for item in error.diagnostics
        ]
        reason = reasons[0] if reasons else str(error)
        raise WgError(f"{path}: the text made of it cannot be compiled: {reason}") from None


def _weights_file(weights: Mapping[str, Array], known: Mapping[str, Any] | None) -> bytes:
    """`known` stays with the weights, so that a bundle that is built with them knows it, too."""
    from safetensors.numpy import save

    metadata = {"preparation": preparation_text(dict(known))} if known else None
    return save({name: weights[name] for name in sorted(weights)}, metadata)


def _compare(
    path: Path,
    folder: Path,
    converted: Converted,
    compiled: Compiled,
    files: Mapping[str, Content],
    comparing: Comparing,
) -> Comparison:
    """Runs the model, or its stand-in for comparisons, by the twin and by onnxruntime."""
    if not comparing.is_wanted:
        return Comparison(why_not="--no-compare was given")
    if converted.incomparable:
        return Comparison(why_not=converted.incomparable)
    tried = converted.trial or converted
    if tried.written.text != converted.written.text:
        compiled = _compile(path, folder, tried.written.text)
    files = files if tried is converted else compiled.files(tried.written.weights)
    (folder / BUNDLE).mkdir()
    write_files(files, folder / BUNDLE)
    chosen, source = _inputs(path, converted, comparing)
    inputs = {**random_inputs(tried, _limits(tried, compiled)), **chosen}
    wanted, runner = run_onnx(tried.model, {**inputs, **tried.fixed})
    results = _run(folder / BUNDLE, tried, inputs)
    compared = differences(tried, results, wanted)
    return Comparison(runner, source, tried.note, "", compared)


def _inputs(path: Path, converted: Converted, comparing: Comparing) -> tuple[dict[str, Array], str]:
    """Numbers for the inputs, and where they are from; others are random."""
    if comparing.inputs is not None:
        return given_inputs(comparing.inputs, converted), f"the inputs of {comparing.inputs.name}"
    own = own_inputs(path, converted)
    return (own, "its own inputs") if own else ({}, "random inputs")


def _limits(converted: Converted, compiled: Compiled) -> dict[str, tuple[int, int]]:
    ranges = compiled.plan()["entries"]["predict"]["ranges"]
    names = converted.written.inputs
    known = {
        name: (ranges[own]["low"], ranges[own]["high"])
        for name, own in names.items()
        if own in ranges
    }
    return compared_numbers(converted.traced) | known


def _run(folder: Path, converted: Converted, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
    import wgcc_runtime

    given = {converted.written.inputs[name]: as_known(array) for name, array in inputs.items()}
    with wgcc_runtime.load(folder, device="wasm") as model:
        results: Mapping[str, Any] = model.predict(**given)
        return dict(results)


def as_known(array: Array) -> Array:
    """bf16, which numpy itself does not have, as f32."""
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)
