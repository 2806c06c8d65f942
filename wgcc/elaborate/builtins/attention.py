"""`attention(q, k, v, causal, offset, scale)`, out of matrix products and a softmax."""

from __future__ import annotations

import math

from wgcc.elaborate.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.builtins import parameters
from wgcc.elaborate.dims import DIFF, Dim, compare, product
from wgcc.elaborate.report import Stop
from wgcc.elaborate.terms import Term, iota
from wgcc.elaborate.tracer import Tracer
from wgcc.elaborate.values import Tensor
from wgcc.elaborate.views import swap_last
from wgcc.errors import Diagnostic, Span
from wgcc.ir.graph import FLOATS

# Finite, because WGSL has no infinity; its exponential is zero next to any real score.
HIDDEN = -1e30


def attention(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """softmax(q kᵀ · scale) v for `[.., heads, rows, head size]`.

    With `causal` row i sees the rows up to `offset` + i. Where q has more heads than k and v,
    neighbouring heads of q share one of theirs.
    """
    q, k, v = (parameters.tensor(tracer, args, name, FLOATS) for name in ("q", "k", "v"))
    _check(tracer, args, at, q, k, v)
    shared = _divided(tracer, args, q, k)
    stack = product(k.dims[:-2])
    rows, keys = q.dims[-2], k.dims[-2]
    # All heads that share keys become rows of one matrix: no key is copied.
    tall = shared * rows
    queries = Term(tracer, q).cast("f32").reshape([stack, tall, q.dims[-1]]) * _scale(
        tracer, args, q
    )
    scores = _multiply(queries, _flat(tracer, k, stack), transposed=True)
    if parameters.flag(tracer, args, "causal"):
        scores = scores.reshape([stack, shared, rows, keys])
        scores = _visible(tracer, args, rows, keys).choose(scores, HIDDEN)
        scores = scores.reshape([stack, tall, keys])
    weights = tracer.emit("softmax", scores.tensor, dims=scores.dims, dtype="f32", axis=2)
    mixed = _multiply(Term(tracer, weights), _flat(tracer, v, stack))
    return mixed.reshape([*q.dims[:-1], v.dims[-1]]).cast(q.dtype).tensor


def _flat(tracer: Tracer, x: Tensor, stack: Dim) -> Term:
    return Term(tracer, x).cast("f32").reshape([stack, x.dims[-2], x.dims[-1]])


def _multiply(a: Term, b: Term, transposed: bool = False) -> Term:
    tracer = a.tracer
    other = swap_last(tracer, b.tensor) if transposed else b.tensor
    dims = (a.dims[0], a.dims[1], other.dims[2])
    return Term(tracer, tracer.emit("matmul", a.tensor, other, dims=dims, dtype="f32"))


def _visible(tracer: Tracer, args: BoundArgs, rows: Dim, keys: Dim) -> Term:
    row, key = iota(tracer, rows), iota(tracer, keys)
    if args["offset"] is not None:
        row = row + Term(tracer, parameters.scalar(tracer, args, "offset", "i32"))
    return key.compare("le", row.new_axis(1))


def _scale(tracer: Tracer, args: BoundArgs, q: Tensor) -> Term | float:
    if args["scale"] is None:
        return 1.0 / math.sqrt(q.dims[-1].size)
    return Term(tracer, parameters.scalar(tracer, args, "scale", "f32"))


def _divided(tracer: Tracer, args: BoundArgs, q: Tensor, k: Tensor) -> Dim:
    """How many query heads share a key head."""
    shared = q.dims[-3].divided_by(k.dims[-3])
    if shared is None:
        text = (
            f"attention: {q.dims[-3].full} query heads "
            f"cannot share {k.dims[-3].full} key/value heads evenly"
        )
        found = tracer.report.error("WG0418", text, args.call)
        raise Stop(found.also(args.span("q"), str(q)).also(args.span("k"), str(k)))
    return shared


def _check(tracer: Tracer, args: BoundArgs, at: Span, q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.rank < 3:
            text = f"attention: `{name}` is [.., heads, rows, head size], but this is {x}"
            raise Stop(tracer.report.error("WG0415", text, args.span(name), str(x)))
        if x.dtype != q.dtype:
            text = f"`attention` mixes {q.dtype} and {x.dtype}"
            raise Stop(tracer.report.error("WG0501", text, args.span(name), str(x)))
    if not tracer.same_size(q.dims[-1], k.dims[-1], at, "attention"):
        sizes = f"{q.dims[-1].full} against {k.dims[-1].full}"
        text = f"attention: the head sizes of q and k differ, {sizes}"
        raise Stop(_shown(tracer.report.error("WG0418", text, at), args, q=q, k=k))
    if not _agree(k, v, 1):
        text = f"attention: k and v must have the same heads and rows, but they are {k} and {v}"
        raise Stop(tracer.report.error("WG0418", text, at))
    if not _agree(q, k, 3):
        text = f"attention: the leading axes of q and k differ, {q} and {k}"
        raise Stop(_shown(tracer.report.error("WG0418", text, at), args, q=q, k=k))


def _agree(a: Tensor, b: Tensor, without: int) -> bool:
    pairs = zip(a.dims[:-without], b.dims[:-without], strict=False)
    return a.rank == b.rank and all(compare(x, y) is not DIFF for x, y in pairs)


def _shown(found: Diagnostic, args: BoundArgs, **tensors: Tensor) -> Diagnostic:
    for name, x in tensors.items():
        found.also(args.span(name), str(x))
    return found


FUNCTIONS = (
    BuiltinFunction("attention", "q, k, v, causal=false, offset=none, scale=none", attention),
)
