"""The state of one entry: its own, and what its optimizers add."""

from __future__ import annotations

from wgcc.ir.graph import Graph, TensorType, Value
from wgcc.ir.program import Init, Tensor

COUNTER = TensorType((), "u32")


class EntryState:
    """`tensors` describes the added state, `writes` has the new values."""

    def __init__(self, graph: Graph) -> None:
        self.values = {value.name: value for value in graph.state}
        self.tensors: dict[str, Tensor] = {}
        self.writes: dict[str, Value] = {}

    def read(self, name: str, type_: TensorType, init: Init | None = None) -> Value:
        """The current state `name`, after earlier updates of the same call; 0 initially."""
        start = init or Init("value", values=(0.0,))
        self.tensors.setdefault(name, Tensor(name, type_, start))
        value = self.values.setdefault(name, Value(name, type_))
        return self.writes.get(name, value)

    def write(self, name: str, value: Value) -> None:
        self.writes[name] = value
