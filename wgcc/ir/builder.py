"""Appends nodes to a graph under construction.

Shape rules run here, so a badly typed node never exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from wgcc.errors import Span
from wgcc.ir.graph import Attrs, Node, TensorType, Value

InferTypes = Callable[[str, tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]


class Builder:
    """`apply` adds one node; `span` is its place in the source, `prefix` that of its name."""

    def __init__(self, infer: InferTypes, taken: Iterable[str] = ()) -> None:
        self.nodes: list[Node] = []
        self.span: Span | None = None
        self.prefix = ""
        self._infer = infer
        self._reserved = taken
        self._counts: dict[str, int] = {}

    @cached_property
    def _taken(self) -> set[str]:
        """Made for the first new name: most rewrites of a large graph add no node."""
        return set(self._reserved)

    def inner(self) -> Builder:
        """A builder of other nodes of the same entry, as the body of a loop: names differ."""
        found = Builder(self._infer)
        found.span, found.prefix = self.span, self.prefix
        found._taken, found._counts = self._taken, self._counts
        return found

    def apply(self, op: str, *inputs: Value, name: str = "", **attrs: Any) -> Value:
        """Add a node with one output and return its value."""
        (value,) = self.apply_many(op, *inputs, names=(name,), **attrs)
        return value

    def apply_many(
        self, op: str, *inputs: Value, names: tuple[str, ...] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Add a node with any number of outputs."""
        types = self._infer(op, tuple(value.type for value in inputs), attrs)
        wanted = names if len(names) == len(types) else ("",) * len(types)
        outputs = tuple(
            Value(self.fresh(name or self._default_name(op)), type_)
            for name, type_ in zip(wanted, types, strict=True)
        )
        self.nodes.append(Node(op, inputs, outputs, attrs, self.span))
        return outputs

    def constant(self, value: float | int | bool, dtype: str = "f32") -> Value:
        return self.apply("const", value=value, dtype=dtype)

    def zeros(self, like: Value) -> Value:
        """A tensor of the type of `like`."""
        zero = self.constant(0.0, like.dtype)
        return self.apply("broadcast", zero, shape=like.shape) if like.shape else zero

    @contextmanager
    def at(self, span: Span | None, prefix: str) -> Iterator[None]:
        """Nodes added inside belong to this source place and are named after `prefix`."""
        saved = self.span, self.prefix
        self.span, self.prefix = span, prefix
        try:
            yield
        finally:
            self.span, self.prefix = saved

    def fresh(self, name: str) -> str:
        """`name`, or `name_2`, `name_3`, … when it is taken; it is taken from now on."""
        candidate = name
        while candidate in self._taken:
            self._counts[name] = self._counts.get(name, 1) + 1
            candidate = f"{name}_{self._counts[name]}"
        self._taken.add(candidate)
        return candidate

    def _default_name(self, op: str) -> str:
        return f"{self.prefix}.{op}" if self.prefix else op
