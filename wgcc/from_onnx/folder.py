"""Builds what was imported, compares it with the original, and describes it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Content
from wgcc.bundle.data_file import data_bytes
from wgcc.bundle.folder import write_files
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import WgError
from wgcc.from_onnx.classes import classes_known
from wgcc.from_onnx.compare import (
    Difference,
    compared_numbers,
    differences,
    own_inputs,
    random_inputs,
    run_onnx,
)
from wgcc.from_onnx.convert import Converted
from wgcc.lazy_numpy import Array, np
from wgcc_runtime.data.preparation import preparation_text

MODEL, WEIGHTS, BUNDLE = "model.wg", "weights.safetensors", "bundle"


@dataclass(frozen=True, slots=True)
class Imported:
    """The files of a folder, and how far the bundle's outputs are from ONNX's."""

    files: dict[str, Content]
    compiled: Compiled
    differences: list[Difference]
    compared_with: str
    has_own_inputs: bool


def build(path: Path, converted: Converted) -> Imported:
    """Nothing is written but to a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / MODEL).write_text(converted.written.text, encoding="utf-8")
        compiled = _compiled(path, folder / MODEL)
        known = classes_known(compiled.plan(), converted.classes)
        data = data_bytes({}, known, None) if known else None
        files = compiled.files(converted.written.weights, data)
        (folder / BUNDLE).mkdir()
        write_files(files, folder / BUNDLE)
        own = own_inputs(path, converted)
        inputs = own or random_inputs(converted, _limits(converted, compiled))
        wanted, runner = run_onnx(converted.model, inputs)
        found = _run(folder / BUNDLE, converted, inputs)
    compared = differences(converted, found, wanted)
    contents = {
        MODEL: converted.written.text.encode(),
        WEIGHTS: _saved(converted.written.weights, known),
        "README.md": readme(path.name, converted, compared, runner).encode(),
        **{f"{BUNDLE}/{name}": data for name, data in files.items()},
    }
    return Imported(contents, compiled, compared, runner, own is not None)


def _compiled(path: Path, model: Path) -> Compiled:
    """The user has not seen the text yet: its errors are reported in one sentence."""
    try:
        return compile_file(model)
    except WgError as error:
        found = [
            f"{item.message} (line {item.span.line if item.span else 1})"
            for item in error.diagnostics
        ]
        reason = found[0] if found else str(error)
        raise WgError(f"{path}: the text made of it cannot be compiled: {reason}") from None


def _saved(weights: Mapping[str, Array], known: Mapping[str, Any] | None) -> bytes:
    """`known` stays with the weights, so that a bundle that is built with them knows it, too."""
    from safetensors.numpy import save

    metadata = {"preparation": preparation_text(dict(known))} if known else None
    return save({name: weights[name] for name in sorted(weights)}, metadata)


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
        found: Mapping[str, Any] = model.predict(**given)
        return dict(found)


def as_known(array: Array) -> Array:
    """bf16, which numpy itself does not have, as f32."""
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def readme(file: str, converted: Converted, compared: list[Difference], runner: str) -> str:
    """Inputs and outputs, how near they are, and what to do next."""
    written, traced = converted.written, converted.traced
    rows = [
        f"| `{own}` | `{name}` | {value.dtype} {list(value.shape)} |"
        for ports, held in ((written.inputs, traced.inputs), (written.outputs, traced.outputs))
        for (name, own), value in zip(ports.items(), held.values(), strict=True)
    ]
    near = [f"| `{item.output}` | {item.largest:.3g} | {item.scale:.3g} |" for item in compared]
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
            f"Compared with {runner} on the same inputs:",
            "",
            "| output | largest difference | largest number |",
            "|---|---|---|",
            *near,
            "",
            *([*notes, ""] if notes else []),
            "```bash",
            f"wgcc build {MODEL} --weights {WEIGHTS} -o {BUNDLE}/",
            f"wgcc verify {BUNDLE}/",
            *_training_commands(converted),
            "```",
            "",
        ]
    )


def _training_commands(converted: Converted) -> list[str]:
    """Of a model with `entry train`: which arrays it takes, and the command."""
    if "entry train(" not in converted.written.text:
        return []
    names = ", ".join([*converted.written.inputs.values(), "target"])
    return [
        f"# data.npz has the arrays {names}, with a row for each example",
        f"wgcc train {BUNDLE}/ data.npz --held-out 0.2 --steps 200 --out trained.safetensors",
        f"wgcc run {BUNDLE}/ predict -i new.npz --weights trained.safetensors",
        "wgcc build model.wg --weights trained.safetensors -o personal/",
    ]
