"""`a @ b`: leading axes are collapsed, so only plain and batched matrix products are emitted."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.operators.broadcasting import aligned, reshape
from wgcc.elaborate.operators.operands import numeric
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Diagnostic, Span
from wgcc.ir.dtypes import NARROW_INTEGERS
from wgcc.ir.graph import FLOATS

ONE = Dim.literal(1)


def matmul(tracer: Tracer, left: Given, right: Given, at: Span) -> Tensor:
    """A vector is one row on the left, one column on the right; that axis is then removed."""
    a, b = numeric(tracer, left, "@", bools=True), numeric(tracer, right, "@", bools=True)
    _check(tracer, left, right, at)
    rows = reshape(tracer, a, (ONE, *a.dims)) if a.rank == 1 else a
    columns = reshape(tracer, b, (*b.dims, ONE)) if b.rank == 1 else b
    if columns.rank == 2:
        result = _one_matrix(tracer, rows, columns)
    else:
        lead = aligned(tracer, "@", left, right, at, without=2)
        result = batched(tracer, rows, columns, lead)
    dims = list(result.dims)
    if b.rank == 1:
        del dims[-1]
    if a.rank == 1:
        del dims[-1 if b.rank == 1 else -2]
    return reshape(tracer, result, dims)


def batched(tracer: Tracer, a: Tensor, b: Tensor, lead: Sequence[Dim]) -> Tensor:
    """`[lead, M, K] @ [lead, K, N]` as one batched product."""
    stack = product(lead)
    m, k, n = a.dims[-2], a.dims[-1], b.dims[-1]
    x = reshape(tracer, tracer.broadcast(a, (*lead, m, k)), (stack, m, k))
    y = reshape(tracer, tracer.broadcast(b, (*lead, b.dims[-2], n)), (stack, b.dims[-2], n))
    result = tracer.emit("matmul", x, y, dims=(stack, m, n), dtype=a.dtype)
    return reshape(tracer, result, (*lead, m, n))


def _one_matrix(tracer: Tracer, a: Tensor, b: Tensor) -> Tensor:
    """`[.., M, K] @ [K, N]`: all leading axes of `a` become rows of one matrix."""
    rows = product(a.dims[:-1])
    flat = reshape(tracer, a, (rows, a.dims[-1]))
    result = tracer.emit("matmul", flat, b, dims=(rows, b.dims[-1]), dtype=a.dtype)
    return reshape(tracer, result, (*a.dims[:-1], b.dims[-1]))


def _check(tracer: Tracer, left: Given, right: Given, at: Span) -> None:
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    if a.dtype != b.dtype or a.dtype not in FLOATS:
        text = f"`@` multiplies float matrices of one type, but these are {a.dtype} and {b.dtype}"
        problem = _with_types(tracer.report.error("WG0501", text, at), left, right)
        for value, given in ((a, left), (b, right)):
            if value.dtype not in FLOATS:
                unpacked = ", which takes no memory" if value.dtype in NARROW_INTEGERS else ""
                problem.help(f"convert it: `f32({given.span.text})`{unpacked}")
        raise Stop(problem)
    if not a.dims or not b.dims:
        text = "`@` needs at least one axis on each side"
        problem = _with_types(tracer.report.error("WG0412", text, at), left, right)
        raise Stop(problem.help("use `*` to scale by a number"))
    inner_a, inner_b = a.dims[-1], b.dims[-2 if b.rank > 1 else 0]
    if not tracer.same_size(inner_a, inner_b, at, "`@`"):
        raise Stop(_inner_sizes(tracer, left, right, at))


def _inner_sizes(tracer: Tracer, left: Given, right: Given, at: Span) -> Diagnostic:
    a, b = left.value, right.value
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    inner_a, inner_b = a.dims[-1], b.dims[-2 if b.rank > 1 else 0]
    text = f"`@`: the inner sizes differ, {inner_a.full} against {inner_b.full}"
    problem = _with_types(tracer.report.error("WG0412", text, at), left, right)
    which = "second-last" if b.rank > 1 else "only"
    problem.note(f"`a @ b` needs the last axis of `a` to be the {which} axis of `b`")
    x, y = left.span.text, right.span.text
    if b.rank == 2 and compare(inner_a, b.dims[-1]) is not DIFF:
        problem.help(f"transpose the right side: `{x} @ transpose({y})`")
    elif a.rank == 2 and compare(a.dims[-2], inner_b) is not DIFF:
        problem.help(f"transpose the left side: `transpose({x}) @ {y}`")
    return problem


def _with_types(found: Diagnostic, left: Given, right: Given) -> Diagnostic:
    return found.also(left.span, str(left.value)).also(right.span, str(right.value))
