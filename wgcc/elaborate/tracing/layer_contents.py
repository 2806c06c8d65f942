"""Whole layers as values: the parameters and state in a layer, and what is stored there at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    LayerContents,
    LayerValue,
    ListValue,
    ParamRef,
    StateRef,
    Tensor,
)


def holds_layers(value: AnyValue | None) -> bool:
    """Whether it is a layer, or a list of layers."""
    if isinstance(value, ListValue):
        return bool(value.items) and all(holds_layers(item) for item in value.items)
    return isinstance(value, LayerValue)


def stored_in(value: AnyValue) -> dict[str, ParamRef | StateRef]:
    """All parameters and state of a layer or list of layers, by their names inside it."""
    return dict(_stored(value, ""))


def _stored(value: AnyValue, path: str) -> Iterator[tuple[str, ParamRef | StateRef]]:
    if isinstance(value, (ParamRef, StateRef)):
        yield path, value
    elif isinstance(value, LayerValue):
        for name, member in value.scope.names.items():
            yield from _stored(member, f"{path}.{name}" if path else name)
    elif isinstance(value, ListValue):
        for position, item in enumerate(value.items):
            yield from _stored(item, f"{path}.{position}" if path else str(position))


def contents(tracer: Tracer, value: AnyValue) -> Mapping[str, Tensor]:
    """The current tensors of a layer, or those that are to be stored in one."""
    if isinstance(value, LayerContents):
        return value.tensors
    return {name: tracer.trace.read(ref) for name, ref in stored_in(value).items()}


def difference(a: Mapping[str, ParamRef | StateRef], b: Mapping[str, Tensor]) -> str:
    """What makes two layers unlike: empty if they have the same names and types."""
    for name in (*a, *b):
        if name not in a or name not in b:
            return f"`{name}` is only in the {'first' if name in a else 'second'}"
        if a[name].dtype != b[name].dtype or _sizes(a[name]) != _sizes(b[name]):
            return f"`{name}` is {_type(a[name])} in the first and {_type(b[name])} in the second"
    return ""


def _sizes(value: ParamRef | StateRef | Tensor) -> list[int]:
    return [dim.size for dim in value.dims]


def _type(value: ParamRef | StateRef | Tensor) -> str:
    return f"{value.dtype}{_sizes(value) if value.dims else ''}"
