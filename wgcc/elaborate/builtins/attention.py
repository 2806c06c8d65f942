"""`attention(q, k, v, causal, offset, scale, mask, window)`: one op for all sizes."""

from __future__ import annotations

import math

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators.broadcasting import aligned
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor
from wgcc.errors import Diagnostic, Span
from wgcc.ir.graph import FLOATS
from wgcc.ops.attention import HIDDEN


def attention(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """softmax(q kᵀ · scale + mask) v for `[.., heads, rows, head size]`.

    With `causal` row i attends to rows up to `offset` + i, with `window` only to rows less than
    `window` positions away; a row that attends to nothing gives zeros. Where q has more heads than
    k and v, neighbouring heads of q share a head of k and v.
    """
    q, k, v = (expect.tensor(tracer, args, name, FLOATS) for name in ("q", "k", "v"))
    _check(tracer, args, at, q, k, v)
    _check_sharing(tracer, args, q, k)
    stack = product(q.dims[:-3])
    scale, queries = _scaled(tracer, args, q)
    inputs = [_four_axes(x, stack) for x in (queries, TensorExpr(tracer, k), TensorExpr(tracer, v))]
    window = None if args["window"] is None else expect.whole(tracer, args, "window").size
    causal = expect.flag(tracer, args, "causal")
    if args["offset"] is not None and (causal or window is not None):
        inputs.append(expect.scalar(tracer, args, "offset", "i32"))
    if args["mask"] is not None:
        inputs.append(_mask(tracer, args, q, k, stack))
    dims = (stack, *q.dims[-3:-1])
    outputs = [((*dims, v.dims[-1]), "f32"), ((*dims, Dim.literal(2)), "f32")]
    mixed, _ = tracer.emit_many(
        "attention", *inputs, outputs=outputs, causal=causal, scale=scale, window=window
    )
    return TensorExpr(tracer, mixed).reshape([*q.dims[:-1], v.dims[-1]]).cast(q.dtype).tensor


def _four_axes(x: TensorExpr, stack: Dim) -> Tensor:
    return x.cast("f32").reshape([stack, *x.dims[-3:]]).tensor


def _scaled(tracer: Tracer, args: BoundArgs, q: Tensor) -> tuple[float, TensorExpr]:
    """A scale known now is part of the op; one known at run time is multiplied with q."""
    queries = TensorExpr(tracer, q)
    if args["scale"] is None:
        return 1.0 / math.sqrt(q.dims[-1].size), queries
    if isinstance(args["scale"], (Dim, Number)):
        return expect.number(tracer, args, "scale"), queries
    factor = TensorExpr(tracer, expect.scalar(tracer, args, "scale", "f32"))
    return 1.0, queries.cast("f32") * factor


def _mask(tracer: Tracer, args: BoundArgs, q: Tensor, k: Tensor, stack: Dim) -> Tensor:
    """What is added to the scores; a mask of bools hides the keys where it is false."""
    mask = expect.tensor(tracer, args, "mask", (*FLOATS, "bool"))
    dims = (*q.dims[:-1], k.dims[-2])
    scores = Tensor(q.value, dims)  # has the type of the scores, which are never stored
    given = Given(mask, args.span("mask"))
    found = aligned(tracer, "mask", Given(scores, args.call), given, args.span("mask"))
    if len(found) > len(dims) or any(x.size != y.size for x, y in zip(found, dims, strict=True)):
        text = f"attention: the scores are {scores}, and the mask {mask} cannot be added to them"
        raise Stop(tracer.report.error("WG0418", text, args.span("mask")))
    term = TensorExpr(tracer, mask)
    if mask.dtype == "bool":
        zero = TensorExpr(tracer, tracer.constant(0.0, "f32"))
        term = term.choose(zero, HIDDEN)
    return _four_axes(term.cast("f32").broadcast(dims), stack)


def _check_sharing(tracer: Tracer, args: BoundArgs, q: Tensor, k: Tensor) -> None:
    if q.dims[-3].divided_by(k.dims[-3]) is None:
        text = (
            f"attention: {q.dims[-3].full} query heads "
            f"cannot share {k.dims[-3].full} key/value heads evenly"
        )
        problem = tracer.report.error("WG0418", text, args.call)
        raise Stop(problem.also(args.span("q"), str(q)).also(args.span("k"), str(k)))


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
    if not _agree(tracer, k, v, 1, at):
        text = f"attention: k and v must have the same heads and rows, but they are {k} and {v}"
        raise Stop(tracer.report.error("WG0418", text, at))
    if not _agree(tracer, q, k, 3, at):
        text = f"attention: the leading axes of q and k differ, {q} and {k}"
        raise Stop(_shown(tracer.report.error("WG0418", text, at), args, q=q, k=k))


def _agree(tracer: Tracer, a: Tensor, b: Tensor, without: int, at: Span) -> bool:
    pairs = zip(a.dims[:-without], b.dims[:-without], strict=False)
    return a.rank == b.rank and all(tracer.same_size(x, y, at, "attention") for x, y in pairs)


def _shown(found: Diagnostic, args: BoundArgs, **tensors: Tensor) -> Diagnostic:
    for name, x in tensors.items():
        found.also(args.span(name), str(x))
    return found


FUNCTIONS = (
    BuiltinFunction(
        "attention",
        "q, k, v, causal=false, offset=none, scale=none, mask=none, window=none",
        attention,
    ),
)
