"""What the body of a loop returns: the next state, of the type of the last one, and a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostic, Span


def parts(value: AnyValue) -> Sequence[AnyValue] | None:
    """The items of a tuple, or of a list of tensors; None for a tensor or a list of numbers."""
    if isinstance(value, TupleValue):
        return value.items
    if isinstance(value, ListValue) and not _is_literal(value):
        return value.items
    return None


def _is_literal(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return all(map(_is_literal, value.items))
    return isinstance(value, (Number, Dim, BoolValue))


def leaves(tracer: Tracer, value: AnyValue, name: str, at: Span) -> list[Tensor]:
    """The tensors of a tensor, or of a tuple of tensors and tuples; numbers become tensors."""
    if (items := parts(value)) is not None:
        return [leaf for item in items for leaf in leaves(tracer, item, name, at)]
    return [expect.checked(tracer, Given(value, at), name)]


def rebuilt(like: AnyValue, tensors: Iterator[Tensor]) -> AnyValue:
    """The same tuple or list of other tensors."""
    if (items := parts(like)) is None:
        return next(tensors)
    made = tuple(rebuilt(item, tensors) for item in items)
    return ListValue(made) if isinstance(like, ListValue) else TupleValue(made)


def round_results(
    tracer: Tracer, value: AnyValue, at: Span, declared: Span | None
) -> tuple[AnyValue, AnyValue]:
    """The next state, and the result of the round. The body is `declared` there."""
    items = value.items if isinstance(value, TupleValue) else ()
    if len(items) == 2:
        return items[0], items[1]
    text = f"the body of `scan` returns the next state and a result, but this is {shown(value)}"
    found = _with_body(tracer.report.error("WG0317", text, at), declared)
    found.help("return both, e.g. `return h, h`; a result that is not used costs nothing")
    if len(items) > 2:
        found.help("put several states into a tuple: `return (h, c), y`")
    raise Stop(found)


def check_state(
    tracer: Tracer,
    before: AnyValue,
    after: AnyValue,
    carried: Sequence[Tensor],
    at: Span,
    declared: Span | None,
) -> list[Tensor]:
    """The tensors of the next state, which has the type of the last one."""
    found = list(_matched(tracer, before, after, iter(carried), at))
    if len(found) != len(carried) or not all(map(_same_type, carried, found)):
        changed = _changed(tracer, rebuilt(before, iter(carried)), after, at)
        raise Stop(_with_body(changed, declared))
    for old, new in zip(carried, found, strict=True):
        for want, have in zip(old.dims, new.dims, strict=True):
            tracer.same_size(have, want, at, "the next state of `scan`")
    return found


def _matched(
    tracer: Tracer, before: AnyValue, after: AnyValue, carried: Iterator[Tensor], at: Span
) -> Iterator[Tensor]:
    """The tensors of `after`, as far as it has the form of `before`."""
    if (items := parts(before)) is not None:
        given = parts(after) or ()
        if len(given) == len(items):
            for old_item, new_item in zip(items, given, strict=True):
                yield from _matched(tracer, old_item, new_item, carried, at)
        return
    old = next(carried)
    if isinstance(after, (Number, Dim, BoolValue)):
        yield tracer.fit(after, old.dtype, old.dims, at)
    elif isinstance(after, Tensor):
        yield after


def _same_type(old: Tensor, new: Tensor) -> bool:
    return (
        old.dtype == new.dtype
        and old.rank == new.rank
        and all(compare(a, b) is not DIFF for a, b in zip(old.dims, new.dims, strict=True))
    )


def _changed(tracer: Tracer, before: AnyValue, after: AnyValue, at: Span) -> Diagnostic:
    text = f"the state of `scan` is {shown(before)}, but a round makes it {shown(after)}"
    found = tracer.report.error("WG0317", text, at)
    return found.help("every round gets the state of the last one, so its type must not change")


def _with_body(found: Diagnostic, declared: Span | None) -> Diagnostic:
    return found if declared is None else found.also(declared, "the body")


def shown(value: AnyValue) -> str:
    """`(f32[B, H], f32[B, H])`"""
    if isinstance(value, Tensor):
        return str(value)
    if isinstance(value, (TupleValue, ListValue)):
        return f"({', '.join(map(shown, value.items))})" if value.items else "nothing"
    return describe(value)
