"""The README of an imported model: its inputs and outputs, what was compared, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.differences import Difference

MODEL, WEIGHTS, BUNDLE = "model.wg", "weights.safetensors", "bundle"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared with what. Without a `runner` nothing was, for the reason `why_not`.

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
    """Of a model with `entry train`: which arrays it takes, and the command."""
    if converted.written.entry("train") is None:
        return []
    names = ", ".join([*converted.written.inputs.values(), "target"])
    return [
        f"# data.npz has the arrays {names}, with a row for each example",
        f"wgcc train {BUNDLE}/ data.npz --held-out 0.2 --steps 200 --out trained.safetensors",
        f"wgcc run {BUNDLE}/ predict -i new.npz --weights trained.safetensors",
        "wgcc build model.wg --weights trained.safetensors -o personal/",
    ]
