"""Builds what was imported, and compares it with the original."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Content, data_bytes
from wgcc.bundle.folder import write_files
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import WgError
from wgcc.from_onnx.classes import classes_known
from wgcc.from_onnx.compare import (
    compared_numbers,
    given_inputs,
    own_inputs,
    random_inputs,
)
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.differences import Difference, differences
from wgcc.from_onnx.original import run_onnx
from wgcc.from_onnx.readme import BUNDLE, MODEL, WEIGHTS, Comparison, readme
from wgcc.lazy_numpy import Array, np
from wgcc_runtime.data.preparation import preparation_text


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
    """What a user wants compared: `inputs` is a file of arrays."""

    is_wanted: bool = True
    inputs: Path | None = None


def build(path: Path, converted: Converted, comparing: Comparing = Comparing()) -> Imported:
    """Nothing is written but to a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = _compiled(path, folder, converted.written.text)
        known = classes_known(compiled.plan(), converted.classes)
        data = data_bytes({}, known, None) if known else None
        files = compiled.files(converted.written.weights, data)
        comparison = _compared(path, folder, converted, compiled, files, comparing)
    contents = {
        MODEL: converted.written.text.encode(),
        WEIGHTS: _saved(converted.written.weights, known),
        "README.md": readme(path.name, converted, comparison).encode(),
        **{f"{BUNDLE}/{name}": data for name, data in files.items()},
    }
    return Imported(contents, compiled, comparison)


def _compiled(path: Path, folder: Path, text: str) -> Compiled:
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


def _saved(weights: Mapping[str, Array], known: Mapping[str, Any] | None) -> bytes:
    """`known` stays with the weights, so that a bundle that is built with them knows it, too."""
    from safetensors.numpy import save

    metadata = {"preparation": preparation_text(dict(known))} if known else None
    return save({name: weights[name] for name in sorted(weights)}, metadata)


def _compared(
    path: Path,
    folder: Path,
    converted: Converted,
    compiled: Compiled,
    files: Mapping[str, Content],
    comparing: Comparing,
) -> Comparison:
    """What stands for the model in a comparison is run by the twin, and by onnxruntime."""
    if not comparing.is_wanted:
        return Comparison(why_not="--no-compare was given")
    if converted.incomparable:
        return Comparison(why_not=converted.incomparable)
    tried = converted.trial or converted
    if tried.written.text != converted.written.text:
        compiled = _compiled(path, folder, tried.written.text)
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
