"""Marks the arguments and results of `remat` layers, between which gradients recompute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import AnyValue, FunctionValue, ListValue, Tensor, TupleValue


class RematRegion:
    """`number` is None if nothing is marked."""

    def __init__(self, context: Context, number: int | None) -> None:
        self.context = context
        self.number = number

    def arguments(self, function: FunctionValue) -> None:
        scope = self.context.scope
        for parameter in function.node.values:
            name = parameter.name.text
            scope.bind(name, self._marked(scope.names[name], is_end=False))

    def results(self, value: AnyValue) -> AnyValue:
        return self._marked(value, is_end=True)

    def _marked(self, value: AnyValue, is_end: bool) -> AnyValue:
        if self.number is None:
            return value
        if isinstance(value, Tensor):
            return self.context.emit(
                "remat",
                value,
                dims=value.dims,
                dtype=value.dtype,
                region=self.number,
                is_end=is_end,
            )
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._marked(item, is_end) for item in value.items))
        if isinstance(value, ListValue):
            return ListValue(tuple(self._marked(item, is_end) for item in value.items))
        return value


@contextmanager
def remat_region(context: Context, function: FunctionValue) -> Iterator[RematRegion]:
    """The call of a `remat` layer, after its arguments are bound. Nested ones are not marked."""
    wanted = function.owner is not None and function.owner.remat
    if not wanted or context.in_remat:
        yield RematRegion(context, None)
        return
    context.remat_regions += 1
    context.in_remat = True
    try:
        region = RematRegion(context, context.remat_regions)
        region.arguments(function)
        yield region
    finally:
        context.in_remat = False
