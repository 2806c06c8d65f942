"""Writes a function of ONNX's own operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Operand
from wgcc.lazy_numpy import np

# Functions are written in this version of ONNX's operators.
OPSET = 20


class OperatorBody:
    """The function of one node. Names of its values are `i0`, `i1` … and `t0`, `t1` …."""

    def __init__(self, node: Any, inputs: Sequence[Operand | None]) -> None:
        from onnx.helper import get_attribute_value

        self.node, self.operands = node, inputs
        self.attributes = {item.name: get_attribute_value(item) for item in node.attribute}
        self.nodes: list[Any] = []

    def has(self, place: int) -> bool:
        return place < len(self.operands) and self.operands[place] is not None

    def input(self, place: int) -> str:
        if not self.has(place):
            raise CannotImport(f"its operand {place + 1} is missing")
        return f"i{place}"

    def optional(self, place: int) -> str:
        return self.input(place) if self.has(place) else ""

    def shape(self, place: int) -> tuple[int, ...]:
        self.input(place)
        operand = self.operands[place]
        assert operand is not None
        return operand.shape

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def refuse(self, *places: int) -> None:
        """Operands that only other forms of the operator have."""
        for place in places:
            if self.has(place):
                raise CannotImport(f"its operand {place + 1} has no meaning here yet")

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The name of a new node's output, or the names of several."""
        from onnx.helper import make_node

        names = [f"t{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def whole(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, array: Any) -> str:
        from onnx.numpy_helper import from_array

        name: str = self.add("Constant", value=from_array(np.asarray(array)))
        return name

    def function(self, outputs: Sequence[str]) -> Any:
        from onnx.helper import make_function, make_opsetid

        inputs = [f"i{place}" for place in range(len(self.operands))]
        sets = [make_opsetid("", OPSET)]
        return make_function(
            self.node.domain, self.node.op_type, inputs, list(outputs), self.nodes, sets
        )


# Adds nodes, and returns the names of the outputs; "" for one that there is not.
Definition: TypeAlias = Callable[[OperatorBody], Sequence[str]]
