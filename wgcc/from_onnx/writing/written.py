"""A model file as a tree, with the weights that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from wgcc.lazy_numpy import Array
from wgcc.syntax import ast
from wgcc.syntax.print_source import print_source


@dataclass(frozen=True)
class Written:
    """A model file, its weights, and what ONNX's inputs and outputs are called in it.

    `remarks` are names of nodes, for the statements that stand for them.
    """

    file: ast.File
    remarks: dict[ast.Syntax, str]
    weights: dict[str, Array]
    inputs: dict[str, str]
    outputs: dict[str, str]

    @cached_property
    def text(self) -> str:
        return print_source(self.file, self.remarks)

    @property
    def model(self) -> ast.Layer:
        (found,) = [
            item for item in self.file.items if isinstance(item, ast.Layer) and item.is_model
        ]
        return found

    @property
    def dims(self) -> dict[str, int]:
        """The sizes that are open, with those that it was written for."""
        found = [dim for item in self.file.items if isinstance(item, ast.Dims) for dim in item.dims]
        return {dim.name.text: dim.value.value for dim in found if isinstance(dim.value, ast.Int)}

    def owner(self, path: str) -> tuple[str, str] | None:
        """The layer and the name of a parameter of this file; None of those of standard layers."""
        layers = {item.name.text: item for item in self.file.items if isinstance(item, ast.Layer)}
        layer: ast.Layer | None = self.model
        *blocks, last = path.split(".")
        for block in (part for part in blocks if not part.isdigit()):
            members = layer.members if layer is not None else ()
            held = [item for item in members if isinstance(item, ast.Submodule)]
            made = [item.constructor for item in held if item.name.text == block]
            layer = layers.get(made[0].path[-1].text) if made else None
        return (layer.name.text, last) if layer is not None else None

    def entry(self, name: str) -> ast.Function | None:
        """An entry of the model, or its function `forward`."""
        for item in self.model.members:
            if isinstance(item, ast.Function) and item.name.text == name:
                return item
        return None
