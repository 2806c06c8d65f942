"""Writes ONNX nodes: what rules work with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.graph import Node, Value
from wgcc.lazy_numpy import Array, np

ELEMENTS = {name: row.onnx for name, row in DTYPE_TABLE.items()}
NUMPY = {name: row.numpy for name, row in DTYPE_TABLE.items()}


class CannotExport(Exception):
    """An op cannot be expressed: `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class OnnxEmitter:
    """The nodes and stored tensors of a graph in the making. Tensors are known by their names."""

    nodes: list[Any] = field(default_factory=list)
    tensors: dict[str, Array] = field(default_factory=dict)
    # Names of outputs, which no other tensor gets.
    outputs: frozenset[str] = frozenset()
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def inner(self) -> OnnxEmitter:
        """An emitter for the nodes of a loop's body, which reads the same tensors."""
        return OnnxEmitter(tensors=self.tensors, outputs=self.outputs, numbers=self.numbers)

    def fresh(self, hint: str) -> str:
        return f"{hint}.{next(self.numbers)}"

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """One node with one output, whose name it returns."""
        from onnx.helper import make_node

        output = name or self.fresh(kind.lower())
        self.nodes.append(make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def store(self, array: Array, hint: str = "constant") -> str:
        name = self.fresh(hint)
        self.tensors[name] = np.array(array, order="C")
        return name

    def whole(self, numbers: Sequence[int]) -> str:
        """A list of sizes or positions."""
        return self.store(np.array(numbers, np.int64), "sizes")

    def number_of(self, value: float, dtype: str = "f32") -> str:
        return self.store(np.array(value, NUMPY[dtype]), "number")

    def reshape(self, x: str, shape: Sequence[int], name: str = "") -> str:
        return self.node("Reshape", x, self.whole(shape), name=name)

    def transpose(self, x: str, perm: Sequence[int], name: str = "") -> str:
        return self.node("Transpose", x, perm=list(perm), name=name)


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node of a graph with the ONNX names of its operands, and the name its result shall have."""

    node: Node
    inputs: tuple[str, ...]
    name: str
    to: OnnxEmitter

    @property
    def x(self) -> str:
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.inputs[0].shape

    @property
    def out(self) -> Value:
        return self.node.outputs[0]

    def attr(self, name: str) -> Any:
        return self.node.attrs[name]
