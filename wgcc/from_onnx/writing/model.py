"""A model file as a tree, with its weights: layers, and the model with its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import ModelMember, Stored, Traced
from wgcc.from_onnx.writing.blocks import LayerDraft, make_blocks
from wgcc.from_onnx.writing.layers import (
    BlockWriter,
    ModelWriter,
    WrittenLayer,
    argument,
    clean,
    collect_weights,
    function,
)
from wgcc.from_onnx.writing.trained_output import Trained, trained_output
from wgcc.from_onnx.writing.training import (
    ForwardPorts,
    Loss,
    corrected_paths,
    named_results,
    output_of,
    places,
    remark_frozen,
    selectors,
    training_members,
)
from wgcc.ir.dtypes import FLOATS
from wgcc.lazy_numpy import Array
from wgcc.syntax import ast
from wgcc.syntax.print_source import print_source
from wgcc.syntax.templates import NOWHERE, bind, constructor, identifier, name, type_expr


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
        (layer,) = [
            item for item in self.file.items if isinstance(item, ast.Layer) and item.is_model
        ]
        return layer

    @property
    def dims(self) -> dict[str, int]:
        """The sizes that are open, with those that it was written for."""
        dims = [dim for item in self.file.items if isinstance(item, ast.Dims) for dim in item.dims]
        return {dim.name.text: dim.value.value for dim in dims if isinstance(dim.value, ast.Int)}

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


# What the model itself declares.
OWN_NAMES = frozenset({"eval", "forward", "opt", "predict", "target", "train"})


@dataclass(frozen=True, slots=True)
class Heading:
    """The beginning of a file. `sizes` are names that its values must not have."""

    name: str
    title: str
    sizes: frozenset[str] = frozenset()


def write_model(
    traced: Traced, heading: Heading, reserved: frozenset[str], training: Training
) -> Written:
    trained = trained_output(traced, training) if training.is_wanted else None
    traced = trained.traced if trained else traced
    root = make_blocks(traced)
    constants = _constant_outputs(traced)
    root.members += constants.values()
    model = ModelWriter(reserved | OWN_NAMES | {heading.name} | heading.sizes)
    body = BlockWriter(model, root)
    inputs = {key: body.names[value] for key, value in traced.inputs.items()}
    statements = body.statements()
    returned = [
        body.expression(constants[key] if isinstance(value, Stored) else value)
        for key, value in traced.outputs.items()
    ]
    statements.append(ast.Return(NOWHERE, tuple(returned)))
    outputs = _output_names(traced, set(inputs.values()) | set(body.member_names))
    kind = WrittenLayer(heading.name, body.member_names, body.block_names)
    writer = _Entries(traced, inputs, outputs, statements)
    if trained is None:
        members: list[Any] = [writer.predict(statements)]
    else:
        members = _trained_members(writer, trained, training, root, kind, model)
    own = identifier(heading.name)
    whole = ast.Layer(NOWHERE, True, own, (), (), (*body.declarations, *members))
    items: Any = (ast.Edition(NOWHERE, 1), *traced.layers.values(), *model.layers, whole)
    weights = collect_weights(root, kind, "", model)
    return Written(ast.File(NOWHERE, items, heading.title), model.remarks, weights, inputs, outputs)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The inputs and outputs of a model's entries, by name."""

    traced: Traced
    inputs: dict[str, str]
    outputs: dict[str, str]
    statements: Sequence[ast.Statement]

    def ports(self, is_entry: bool) -> list[ast.ValueParam]:
        """Only entries say which inputs may hold NaN."""
        params = []
        for key, value in self.traced.inputs.items():
            marked = is_entry and key in self.traced.any_floats and value.dtype in FLOATS
            params.append(argument(self.inputs[key], type_expr(value.dtype, value.shape, marked)))
        return params

    def types(self) -> list[ast.TypeExpr]:
        return [type_expr(value.dtype, value.shape) for value in self.traced.outputs.values()]

    def predict(self, body: Sequence[ast.Statement] | ast.Expr) -> ast.Function:
        results = dict(zip(self.outputs.values(), self.types(), strict=True))
        return function("predict", self.ports(True), named_results(results), body, is_entry=True)

    def forward(self) -> ast.Function:
        fields = tuple(ast.TupleField(NOWHERE, None, kind) for kind in self.types())
        result = fields[0].type if len(fields) == 1 else ast.TupleType(NOWHERE, fields)
        return function("forward", self.ports(False), result, self.statements)


def _trained_members(
    entries: _Entries,
    trained: Trained,
    training: Training,
    root: LayerDraft,
    kind: WrittenLayer,
    model: ModelWriter,
) -> list[Any]:
    """All members, among them `forward`, which all entries call."""
    member_places = list(places(root, kind, model))
    count = len(entries.outputs)
    ports = ForwardPorts(entries.ports(True), trained.place if count > 1 else None)
    over = selectors(training, member_places)
    remark_frozen(entries.traced, training, member_places)
    loss = Loss(trained.loss, trained.output.shape, trained.axis)
    return [
        *_corrections(training, corrected_paths(training, member_places)),
        entries.forward(),
        *training_members(training, ports, loss, over),
        entries.predict(_prediction(ports, trained, count)),
    ]


def _corrections(training: Training, paths: Sequence[str]) -> list[ast.Replace]:
    patterns = tuple(ast.String(NOWHERE, path) for path in paths)
    low_rank = constructor("Lora", arguments={"rank": training.rank})
    return [ast.Replace(NOWHERE, patterns, low_rank)] if patterns else []


def _prediction(
    ports: ForwardPorts, trained: Trained, count: int
) -> list[ast.Statement] | ast.Expr:
    """The model's own outputs, of which the trained one may end in a function."""
    if not trained.function:
        return ports.forward()
    if count == 1:
        return trained.prediction(ports.forward())
    items = [output_of(name("y"), place) for place in range(count)]
    items[trained.place] = trained.prediction(items[trained.place])
    return [bind([name("y")], ports.forward()), ast.Return(NOWHERE, tuple(items))]


def _constant_outputs(traced: Traced) -> dict[str, ModelMember]:
    """Outputs that do not depend on inputs are frozen parameters."""
    return {
        key: ModelMember({"": value.array}, key, is_frozen=True)
        for key, value in traced.outputs.items()
        if isinstance(value, Stored)
    }


def _output_names(traced: Traced, taken: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for key in traced.outputs:
        name, number = clean(key), 1
        while name in taken or name in names.values():
            number += 1
            name = f"{clean(key)}_{number}"
        names[key] = name
    return names
