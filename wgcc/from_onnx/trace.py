"""Walks an ONNX graph: what is known now is computed now, the rest becomes statements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.control import CONTROL
from wgcc.from_onnx.infer import RANDOM, Environment, fold, output_types, type_of, without_unread
from wgcc.from_onnx.loops import count_uses
from wgcc.from_onnx.microsoft.operators import DOMAIN
from wgcc.from_onnx.model_file import initialisers
from wgcc.from_onnx.names import one_line, scope_of, scopes_of, word
from wgcc.from_onnx.problems import CannotImport, Problem
from wgcc.from_onnx.rules import OWN_SHAPES, RULES
from wgcc.from_onnx.values import (
    Computed,
    OnnxType,
    Operand,
    Scope,
    Stored,
    Traced,
    Writer,
    plain_order,
)
from wgcc.importing.onnx_weights import repeated_vectors, stored_weights
from wgcc.lazy_numpy import Array, np

# A small file can ask for any amount of work, by loops in loops and functions of functions.
MOST_STEPS = 100_000
# Operators that leave a weight as it is, and those that take a part of it or repeat it.
RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
PARTS = ("Expand", "Gather", "Slice")
# Single numbers are parts of formulas.
FEWEST_WEIGHTS = 2
OTHER_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float64": "f64"}


@dataclass(slots=True)
class Trace:
    """The state of a walk. `values` has what each ONNX name stands for."""

    environment: Environment
    writer: Writer
    uses: Counter[str]
    problems: list[Problem] = field(default_factory=list)
    steps: int = 0
    # How many inner graphs are around the nodes that are looked at.
    depth: int = 0
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    # The scope of a function, for the nodes that define it.
    inherited: Scope | None = None
    # The function of the model whose nodes are looked at.
    function: str = ""
    # Vectors that each node which reads them has for itself, and how many have theirs.
    untied: set[str] = field(default_factory=set)
    copies: Counter[str] = field(default_factory=Counter)
    # Random numbers are drawn in an inner graph.
    hidden_noise: bool = False
    # How many rows the file fixes, and how many there are now.
    rows: tuple[int, int] | None = None

    def walk(self, nodes: Any, values: dict[str, Operand]) -> None:
        for node in nodes:
            try:
                self.step(node, values)
            except CannotImport as error:
                self.fail(node, error.reason, values)

    def fail(self, node: Any, reason: str, values: dict[str, Operand]) -> None:
        """Later nodes are looked at as well: their operands get the types they would have."""
        name = node.name or next(filter(None, node.output), node.op_type)
        opset = self.environment.opset(node.domain)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        self.problems.append(Problem(name, operator, opset, reason))
        inputs = [values.get(name) for name in node.input]
        for output, output_type in zip(node.output, self.types(node, inputs), strict=False):
            if output and output_type is not None:
                order = plain_order(output_type.shape)
                values[output] = Computed(
                    output_type.dtype, output_type.shape, order, word(output), output_type.element
                )

    def types(self, node: Any, inputs: list[Operand | None]) -> list[OnnxType | None]:
        try:
            return list(output_types(self.environment, node, inputs))
        except CannotImport:
            return [None for _ in node.output]

    def step(self, node: Any, values: dict[str, Operand]) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise WgError(f"with its loops and functions, the model has over {MOST_STEPS:,} nodes")
        missing = [name for name in node.input if name and name not in values]
        if missing:
            return  # the node that makes it is a problem that is already known
        node = without_unread(self.environment, node, self.uses)
        inputs = [self.read(name, values) if name else None for name in node.input]
        if node.op_type == "Reshape" and self.rows is not None:
            inputs[1] = self.for_rows(inputs[0], inputs[1], *self.rows)
        folded = fold(self.environment, node, inputs)
        folded = folded if folded is not None else self.empty(node, inputs)
        if folded is not None:
            outputs: list[Operand | None] = [*self.weights(node, inputs, folded)]
        else:
            outputs = self.results(node, inputs, values)
        for name, result in zip(node.output, outputs, strict=False):
            if name and result is not None:
                values[name] = result
                if isinstance(result, Computed) and self.uses[name] == 1:
                    self.writer.used_once.add(result)
                if isinstance(result, Computed) and node.op_type in RANDOM and not self.depth:
                    self.writer.traced.noise[name] = result
        self.hidden_noise |= node.op_type in RANDOM and bool(self.depth)

    def read(self, name: str, values: Mapping[str, Operand]) -> Operand:
        operand = values[name]
        if name not in self.untied or not isinstance(operand, Stored) or operand.source != name:
            return operand
        self.copies[name] += 1
        return Stored(operand.array, f"{name}:{self.copies[name]}")

    def for_rows(
        self, x: Operand | None, shape: Operand | None, fixed: int, rows: int
    ) -> Operand | None:
        """A shape that the file states for its own number of rows, for another one."""
        if not isinstance(x, Computed) or not isinstance(shape, Stored) or not shape.array.size:
            return shape
        first, *rest = map(int, shape.array)
        is_joined = min(first, *rest, 1) > 0 and first % fixed == 0
        if first == fixed or (is_joined and first * math.prod(rest) != math.prod(x.shape)):
            return Stored(np.array([first // fixed * rows, *rest]))
        return shape

    def weights(
        self, node: Any, inputs: list[Operand | None], folded: list[Stored]
    ) -> list[Stored]:
        """A part or another shape of a weight is still a weight, which training must reach."""
        if node.op_type == "Constant" and self.function:
            return [self.own_weight(node, folded[0])]
        first = inputs[0] if inputs else None
        if not isinstance(first, Stored) or not self.writer.is_weight(first):
            return folded
        if node.op_type in RESHAPES and not first.again and first.source not in self.writer.shared:
            if self.uses[node.output[0]] > 1:
                self.writer.shared.add(first.source)
            return [Stored(folded[0].array, first.source)]
        if node.op_type in (*RESHAPES, *PARTS) or (first.again and node.op_type == "Transpose"):
            return [Stored(folded[0].array, again=lambda: self.rule_of(node, inputs))]
        return folded

    def own_weight(self, node: Any, constant: Stored) -> Stored:
        """A tensor stored in a function of the model: all its calls share it."""
        if constant.dtype != "f32" or constant.array.size < FEWEST_WEIGHTS:
            return constant
        source = f"{self.function}.{node.output[0]}"
        self.writer.shared.add(source)
        return Stored(constant.array, source)

    def rule_of(self, node: Any, inputs: list[Operand | None]) -> Operand:
        types = output_types(self.environment, node, inputs)
        output = RULES["", node.op_type](self.op(node, inputs, types))
        assert isinstance(output, Computed | Stored)
        return output

    def empty(self, node: Any, inputs: list[Operand | None]) -> list[Stored] | None:
        """Outputs without any element, whatever the operands are."""
        if node.op_type in CONTROL:
            return None
        types = [item for item in self.types(node, inputs) if item is not None]
        if not types or not all(0 in item.shape for item in types):
            return None
        return [Stored(np.zeros(item.shape, _HELD[item.dtype])) for item in types]

    def results(
        self, node: Any, inputs: list[Operand | None], values: dict[str, Operand]
    ) -> list[Operand | None]:
        if node.op_type in CONTROL and node.domain in ("", "ai.onnx"):
            return list(CONTROL[node.op_type](self, self.op(node, inputs, []), values))
        key = (node.domain if node.domain != "ai.onnx" else "", node.op_type)
        if key not in RULES:
            return self.expand(node, inputs)
        types = [] if key in OWN_SHAPES else output_types(self.environment, node, inputs)
        output = RULES[key](self.op(node, inputs, types))
        return [output] if isinstance(output, Computed | Stored) else [*output]

    def op(self, node: Any, inputs: list[Operand | None], types: list[OnnxType]) -> OnnxOp:
        from onnx.helper import get_attribute_value

        attributes = {item.name: get_attribute_value(item) for item in node.attribute}
        return OnnxOp(
            kind=node.op_type,
            opset=self.environment.opset(node.domain),
            attributes={name: _text(value) for name, value in attributes.items()},
            inputs=inputs,
            types=types,
            scope=self.scope(node),
            node=one_line(node.name),
            name=word(next(filter(None, node.output), node.op_type)),
            writer=self.writer,
            names=[word(name) if name else "" for name in node.output],
        )

    def scope(self, node: Any) -> Scope:
        if self.inherited is not None:
            return self.inherited
        scope = self.scopes.get(next(filter(None, node.output), ""))
        return scope if scope is not None else scope_of(node) or ()

    def expand(self, node: Any, inputs: list[Operand | None]) -> list[Operand | None]:
        """Expands an operator without a rule of its own into the operators that define it."""
        body = self.environment.function_of(node, inputs)
        if body is None:
            raise CannotImport("there is no rule for this operator")
        known = zip(body.input, inputs, strict=False)
        values = {name: operand for name, operand in known if operand is not None}
        outer, self.inherited = self.inherited, self.scope(node)
        caller, self.function = self.function, self.environment.own_function(node)
        around, self.environment = self.environment, self.environment.inside(body)
        if (node.domain, node.op_type) == (DOMAIN, "DynamicQuantizeLSTM"):
            self.round_dynamically(node)
        try:
            with self.names_of(body.node, body.output, values):
                for inner in body.node:
                    inner.name = node.name
                    self.step(inner, values)
        except CannotImport:
            if node.domain in ("", "ai.onnx"):
                output_types(around, node, inputs)  # whose reason says more
            raise
        finally:
            self.inherited, self.function = outer, caller
            self.environment = around
        return [values.get(name) for name in body.output]

    def round_dynamically(self, node: Any) -> None:
        """onnxruntime rounds what it reads to bytes, anew in every step."""
        self.writer.traced.remark(
            "computed in f32, where onnxruntime rounds to bytes", f"{node.op_type} {node.name}"
        )
        self.writer.traced.narrow.add("bytes")

    @contextmanager
    def names_of(
        self, nodes: Any, outputs: Iterable[str], values: Mapping[str, Operand]
    ) -> Iterator[None]:
        """Inside an inner graph, whose names are its own; what it reads twice is shared."""
        outer, self.uses = self.uses, count_uses(nodes, outputs)
        self.depth += 1
        for name, item in values.items():
            if isinstance(item, Stored) and item.source and self.uses[name] > 1:
                self.writer.shared.add(item.source)
        try:
            yield
        finally:
            self.uses = outer
            self.depth -= 1


_HELD = {
    "f32": "float32", "i32": "int64", "u32": "uint32", "bool": "bool", "i8": "int8", "u8": "uint8",
}  # fmt: skip


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def trace(
    model: Any,
    fixed: Mapping[str, Array],
    keeps_batch_norm: bool = False,
    rows: tuple[int, int] | None = None,
) -> tuple[Traced, list[Problem]]:
    """The graph of a model as statements, and what cannot be expressed.

    `fixed` are inputs whose numbers are known; `rows`: how many rows the file fixes, and how many
    its inputs have now.
    """
    traced = Traced()
    graph = model.graph
    constants = initialisers(graph)
    uses = count_uses(graph.node, [port.name for port in graph.output])
    untied = repeated_vectors(model, constants)
    shared = {name for name in constants if uses[name] > 1} - untied
    kinds = stored_weights(graph, constants)
    writer = Writer(traced, shared, keeps_batch_norm=keeps_batch_norm, stored=kinds)
    scopes = scopes_of(graph.node)
    tracer = Trace(Environment(model), writer, uses, scopes=scopes, untied=untied, rows=rows)
    values: dict[str, Operand] = {name: Stored(held, name) for name, held in constants.items()}
    values |= {name: Stored(array) for name, array in fixed.items()}
    _note_wider_floats(traced, graph, constants)
    for port in graph.input:
        if port.name not in values:
            try:
                port_type = type_of(port.type, "it")
            except CannotImport as error:
                tracer.problems.append(Problem(port.name, "input", 0, error.reason))
                continue
            if 0 in port_type.shape:
                values[port.name] = Stored(np.zeros(port_type.shape, _HELD[port_type.dtype]))
                continue
            order = plain_order(port_type.shape)
            value = Computed(
                port_type.dtype, port_type.shape, order, word(port.name), port_type.element
            )
            values[port.name] = traced.inputs[port.name] = value
    tracer.walk(graph.node, values)
    for port in graph.output:
        try:
            if (output := _output(tracer, port, values.get(port.name))) is not None:
                traced.outputs[port.name] = output
        except CannotImport as error:
            tracer.problems.append(Problem(port.name, "output", 0, error.reason))
    traced.hidden_noise = tracer.hidden_noise
    return traced, tracer.problems


def _output(tracer: Trace, port: Any, value: Operand | None) -> Operand | None:
    """None where the node that makes it is a problem that is already known."""
    kind = port.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise CannotImport(f"it is no tensor, but of {kind}")
    if value is not None and 0 in value.shape:
        raise CannotImport("it is empty")
    return _plain(tracer, value) if value is not None else None


def _note_wider_floats(traced: Traced, graph: Any, constants: Mapping[str, Array]) -> None:
    """Floats of other sizes are f32 here; with fewer bits, the file rounds more."""
    from onnx.helper import tensor_dtype_to_np_dtype

    ports = {"inputs": graph.input, "outputs": graph.output}
    kinds = [
        (port.name, tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type), what)
        for what, held in ports.items()
        for port in held
        if port.type.HasField("tensor_type") and port.name not in constants
    ]
    kinds += [(name, array.dtype, "weights") for name, array in constants.items()]
    for name, kind, what in kinds:
        if (short := OTHER_FLOATS.get(str(kind))) is not None:
            traced.remark(f"{short} {what} become f32", one_line(name))
            traced.narrow |= {short} - {"f64"}


def _plain(tracer: Trace, operand: Operand) -> Operand:
    """An output in ONNX's order of axes, and with numbers of the language's element types."""
    op = OnnxOp("", 0, {}, [operand], [], (), "", "y", tracer.writer)
    result = op.plain(0)
    return Stored(op.narrow(result.array)) if isinstance(result, Stored) else result
