"""Broadcasting of two operands: shapes align from the last axis, and only a literal 1 stretches."""

from __future__ import annotations

from itertools import zip_longest

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import DIFF, SAME, Dim, compare, shape_text
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Diagnostic, Span


def aligned(
    tracer: Tracer, op: str, left: Given, right: Given, at: Span, without: int = 0
) -> tuple[Dim, ...]:
    """The dims of `left op right`, leaving out the last `without` axes of both.

    Reports WG0411 if they cannot be broadcast.
    """
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    last_a, last_b = max(0, a.rank - without), max(0, b.rank - without)
    result: list[Dim] = []
    for x, y in zip_longest(reversed(a.dims[:last_a]), reversed(b.dims[:last_b])):
        if x is not None and y is not None and not (x.is_one or y.is_one):
            if compare(x, y) is DIFF:
                raise _cannot_broadcast(tracer, op, (left, right), (x, y), at)
            tracer.same_size(x, y, at, f"`{op}`")
        result.append(common_dim(x, y))
    return tuple(reversed(result))


def common_dim(x: Dim | None, y: Dim | None) -> Dim:
    """The dim of two axes that agree: the one that exists, is not 1, or has a name."""
    if x is None or y is None:
        found = x or y
        assert found is not None
        return found
    return y if x.is_one or (x.is_literal and not y.is_one) else x


def _cannot_broadcast(
    tracer: Tracer, op: str, operands: tuple[Given, Given], axes: tuple[Dim, Dim], at: Span
) -> Stop:
    found = tracer.report.error("WG0411", f"`{op}`: the shapes cannot be broadcast", at)
    for operand in operands:
        found.also(operand.span, str(operand.value))
    x, y = axes
    found.note(f"shapes are compared from the last axis: {x.full} against {y.full}")
    return Stop(_suggest_new_axis(found, *operands))


def _suggest_new_axis(found: Diagnostic, left: Given, right: Given) -> Diagnostic:
    """If the smaller shape is a run of the larger one's axes, say how to align it."""
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    large, small, operand = (a, b, right) if a.rank >= b.rank else (b, a, left)
    for start in range(large.rank - small.rank):
        run = large.dims[start : start + small.rank]
        if all(compare(x, y) is SAME for x, y in zip(run, small.dims, strict=True)):
            after = large.rank - start - small.rank
            index = ", ".join([":"] * small.rank + ["new"] * after)
            return found.help(
                f"to align it with the axes [{shape_text(run)}] "
                f"write `{operand.span.text}[{index}]`"
            )
    return found
