"""What a `for` can iterate over: lists, tuples, ranges, and a dim as the numbers below it."""

from __future__ import annotations

from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import AnyValue, ListValue, RangeValue, TupleValue

Sequences = ListValue | TupleValue | RangeValue


def as_sequence(tracer: Tracer, value: AnyValue | None, at: Place) -> Sequences | None:
    """None for a value that cannot be iterated over."""
    if isinstance(value, Dim):
        if value.size < 0 and not value.generic:
            text = f"a loop cannot run {value.full} times"
            raise Stop(tracer.report.error("WG0308", text, at))
        return RangeValue(range(tracer.repetitions(value)))
    return value if isinstance(value, Sequences) else None
