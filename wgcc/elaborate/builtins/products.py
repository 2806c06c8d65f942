"""Products of tensors: `einsum`, given by a pattern and computed by matrix products, and
`attention`, one op for all sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate.builtins import expect, patterns
from wgcc.elaborate.operators.arithmetic import batched_matmul
from wgcc.elaborate.operators.broadcasting import TensorExpr, broadcast_dims
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor, Text
from wgcc.errors import Diagnostic, Span
from wgcc.ir.graph import FLOATS
from wgcc.ops.attention import HIDDEN


@dataclass(frozen=True, eq=False)
class Factor:
    """A tensor whose axes have names."""

    term: TensorExpr
    names: tuple[str, ...]

    def dims(self, names: Sequence[str]) -> list[Dim]:
        return [self.term.dims[self.names.index(name)] for name in names]

    def transpose_to(self, names: Sequence[str]) -> TensorExpr:
        return self.term.transpose([self.names.index(name) for name in names])

    def without(self, names: Sequence[str]) -> Factor:
        """Summed over the axes named."""
        axes = [axis for axis, name in enumerate(self.names) if name in names]
        left = tuple(name for name in self.names if name not in names)
        return Factor(self.term.sum(axes), left) if axes else self


def einsum(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`einsum("n t d, q d -> n q t", x, query)`: axes missing on the right are summed over."""
    text = args["pattern"]
    if not isinstance(text, Text):
        message = '`einsum` begins with a pattern: `einsum("i j, j k -> i k", a, b)`'
        raise Stop(tracer.report.error("WG0416", message, args.span("pattern")))
    pattern = patterns.read_pattern(tracer, text)
    if len(pattern.inputs) != len(args.rest):
        count = len(args.rest)
        message = f"the pattern has {len(pattern.inputs)} inputs, but {count} tensors are given"
        raise Stop(tracer.report.error("WG0416", message, text.span))
    factors = _factors(tracer, pattern, args)
    known = list(dict.fromkeys(name for factor in factors for name in factor.names))
    right = patterns.write_out(pattern.output, sum(name.startswith("..") for name in known))
    patterns.check_output(tracer, right, known)
    if any(group.merged for group in right):
        message = "`einsum` cannot merge axes; `rearrange` its result"
        raise Stop(tracer.report.error("WG0416", message, text.span))
    names = patterns.names_of(right)
    result = _contract(tracer, factors, names).transpose_to(names)
    ones = iter(result.dims)
    one = Dim.literal(1)
    return result.reshape([one if g.axes[0].name == "1" else next(ones) for g in right]).tensor


def _factors(tracer: Tracer, pattern: patterns.Pattern, args: BoundArgs) -> list[Factor]:
    sizes = patterns.AxisSizes(tracer, pattern.own_names())
    factors: list[Factor] = []
    for side, got in zip(pattern.inputs, args.rest, strict=True):
        x = expect.as_tensor(tracer, got, "tensor", FLOATS)
        if factors and x.dtype != factors[0].term.dtype:
            text = f"`einsum` mixes {factors[0].term.dtype} and {x.dtype}"
            raise Stop(tracer.report.error("WG0501", text, got.span, str(x)))
        side = patterns.match(tracer, side, x, sizes, got.span)
        names = tuple(patterns.names_of(side))
        dims = [dim for name in names if (dim := sizes.get(name)) is not None]
        factors.append(Factor(TensorExpr(tracer, x).reshape(dims), names))
    return factors


def _contract(tracer: Tracer, factors: Sequence[Factor], wanted: Sequence[str]) -> Factor:
    """Multiply the factors one after another, summing as soon as nothing later needs an axis."""
    result = factors[0]
    for position, factor in enumerate(factors[1:], 1):
        later = {name for other in factors[position + 1 :] for name in other.names}
        needed = [*wanted, *later]
        result = _multiply(tracer, result, factor, needed)
    return result.without([name for name in result.names if name not in wanted])


def _multiply(tracer: Tracer, a: Factor, b: Factor, needed: Sequence[str]) -> Factor:
    a = a.without([name for name in a.names if name not in (*needed, *b.names)])
    b = b.without([name for name in b.names if name not in (*needed, *a.names)])
    both = [name for name in a.names if name in b.names]
    stack = [name for name in both if name in needed]
    summed = [name for name in both if name not in needed]
    rows = [name for name in a.names if name not in both]
    columns = [name for name in b.names if name not in both]
    if not summed:
        return _outer(a, b, [*stack, *rows, *columns])
    inner = product(a.dims(summed))
    height, width = product(a.dims(rows)), product(b.dims(columns))
    lead = a.dims(stack)
    left = a.transpose_to([*stack, *rows, *summed]).reshape([*lead, height, inner])
    right = b.transpose_to([*stack, *summed, *columns]).reshape([*lead, inner, width])
    if stack:
        result = batched_matmul(tracer, left.tensor, right.tensor, lead)
    else:
        dims = (height, width)
        result = tracer.emit("matmul", left.tensor, right.tensor, dims=dims, dtype=left.dtype)
    whole = TensorExpr(tracer, result).reshape([*lead, *a.dims(rows), *b.dims(columns)])
    return Factor(whole, (*stack, *rows, *columns))


def _outer(a: Factor, b: Factor, names: Sequence[str]) -> Factor:
    """Nothing to sum: the elementwise product of the two, broadcast to all axes."""
    terms = []
    for factor in (a, b):
        own = [name for name in names if name in factor.names]
        dims = iter(factor.dims(own))
        shape = [next(dims) if name in own else Dim.literal(1) for name in names]
        terms.append(factor.transpose_to(own).reshape(shape))
    return Factor(terms[0] * terms[1], tuple(names))


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
    scale, queries = _scale(tracer, args, q)
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


def _scale(tracer: Tracer, args: BoundArgs, q: Tensor) -> tuple[float, TensorExpr]:
    """A scale known now is part of the op; one known at run time is multiplied with q."""
    queries = TensorExpr(tracer, q)
    if args["scale"] is None:
        return 1.0 / math.sqrt(q.dims[-1].size), queries
    if isinstance(args["scale"], (Dim, Number)):
        return expect.number(tracer, args, "scale"), queries
    factor = TensorExpr(tracer, expect.scalar(tracer, args, "scale", "f32"))
    return 1.0, queries.cast("f32") * factor


def _mask(tracer: Tracer, args: BoundArgs, q: Tensor, k: Tensor, stack: Dim) -> Tensor:
    """The tensor that is added to the scores; a mask of bools hides the keys where it is false."""
    mask = expect.tensor(tracer, args, "mask", (*FLOATS, "bool"))
    dims = (*q.dims[:-1], k.dims[-2])
    scores = Tensor(q.value, dims)  # has the type of the scores, which are never stored
    operand = Given(mask, args.span("mask"))
    common = broadcast_dims(tracer, "mask", Given(scores, args.call), operand, args.span("mask"))
    if len(common) > len(dims) or any(x.size != y.size for x, y in zip(common, dims, strict=True)):
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
        raise Stop(_show(tracer.report.error("WG0418", text, at), args, q=q, k=k))
    if not _agree(tracer, k, v, 1, at):
        text = f"attention: k and v must have the same heads and rows, but they are {k} and {v}"
        raise Stop(tracer.report.error("WG0418", text, at))
    if not _agree(tracer, q, k, 3, at):
        text = f"attention: the leading axes of q and k differ, {q} and {k}"
        raise Stop(_show(tracer.report.error("WG0418", text, at), args, q=q, k=k))


def _agree(tracer: Tracer, a: Tensor, b: Tensor, without: int, at: Span) -> bool:
    pairs = zip(a.dims[:-without], b.dims[:-without], strict=False)
    return a.rank == b.rank and all(tracer.same_size(x, y, at, "attention") for x, y in pairs)


def _show(problem: Diagnostic, args: BoundArgs, **tensors: Tensor) -> Diagnostic:
    for name, x in tensors.items():
        problem.also(args.span(name), str(x))
    return problem


FUNCTIONS = (
    BuiltinFunction("einsum", "pattern, *tensors", einsum),
    BuiltinFunction(
        "attention",
        "q, k, v, causal=false, offset=none, scale=none, mask=none, window=none",
        attention,
    ),
)
