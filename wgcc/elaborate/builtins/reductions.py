"""Functions along axes: reductions (`sum mean max min prod var std norm logsumexp any all argmax
argmin`), sorting, the largest elements, running sums and their relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.shapes import concatenate
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import TensorExpr, broadcast_dims, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.dtypes import NUMBERS
from wgcc.ir.graph import FLOATS

PARAMETERS = "x, axis=none, keep=false"
# A sum of bytes would wrap around at 256.
SUMMABLE = (*FLOATS, "i32", "u32")

Rule = Callable[[TensorExpr, Sequence[int]], TensorExpr]


def _reduction(name: str, dtypes: Sequence[str], rule: Rule) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = TensorExpr(tracer, expect.tensor(tracer, args, "x", dtypes))
        axes = expect.axes(tracer, args, x.tensor)
        result = rule(x, axes)
        keep = expect.flag(tracer, args, "keep")
        return (result.keep(axes, x) if keep else result).tensor

    return BuiltinFunction(name, PARAMETERS, call)


def _plain(op: str) -> Rule:
    return lambda x, axes: x.reduce(op, axes)


def mean(x: TensorExpr, axes: Sequence[int]) -> TensorExpr:
    return x.mean(axes)


def _spread(name: str, rule: Callable[[TensorExpr], TensorExpr]) -> BuiltinFunction:
    """A function of the variance: unbiased, or biased without a `correction`, as in norm layers."""

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
        axes = expect.axes(tracer, args, x.tensor)
        variance = x.reduce("var", axes) if axes else x - x
        count = product(x.dims[axis] for axis in axes)
        correction = expect.whole(tracer, args, "correction", least=0)
        if correction.size:
            variance = variance * _correction_factor(tracer, args, count, correction)
        result = rule(variance)
        keep = expect.flag(tracer, args, "keep")
        return (result.keep(axes, x) if keep else result).tensor

    return BuiltinFunction(name, f"{PARAMETERS}, correction=1", call)


def _correction_factor(tracer: Tracer, args: BoundArgs, count: Dim, correction: Dim) -> float:
    """n / (n - correction): a correction of 1 makes the variance of a sample unbiased."""
    if count.size <= correction.size:
        if tracer.generic:
            return 1.0
        text = f"`correction` must be below the number of elements, {count.full}"
        problem = tracer.report.error("WG0503", text, args.span("correction"))
        raise Stop(problem.help("`correction = 0` is the biased variance, also of one element"))
    return count.size / (count.size - correction.size)


def _root(x: TensorExpr) -> TensorExpr:
    """The square root, with a gradient of 0 at 0, as PyTorch's std and norm have."""
    is_zero = x.compare("eq", 0.0)
    return is_zero.choose(x.of(0.0), is_zero.choose(x.of(1.0), x).apply("sqrt"))


def norm(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """(Σ |x|^p)^(1/p): the Euclidean norm, or that of another p; `inf` is the largest magnitude."""
    x = TensorExpr(tracer, expect.tensor(tracer, args, "x", FLOATS))
    axes = expect.axes(tracer, args, x.tensor)
    result = _norm(x, axes, _exponent(tracer, args))
    keep = expect.flag(tracer, args, "keep")
    return (result.keep(axes, x) if keep else result).tensor


def _exponent(tracer: Tracer, args: BoundArgs) -> float:
    value = args["p"]
    if isinstance(value, Number) and value.value == inf:
        return inf
    p = expect.number(tracer, args, "p")
    if p <= 0:
        text = f"`p` must be positive, but it is {p:g}"
        raise Stop(tracer.report.error("WG0503", text, args.span("p")))
    return p


def _norm(x: TensorExpr, axes: Sequence[int], p: float) -> TensorExpr:
    size = x.apply("abs")
    if p == inf:
        return size.reduce("max", axes)
    if p == 1:
        return size.sum(axes)
    if p == 2:
        return _root(x.apply("square").sum(axes))
    # A power has no gradient at 0, so zeros are left out; those that are all zero are 0.
    is_zero = size.compare("eq", 0.0)
    powers = is_zero.choose(size.of(0.0), is_zero.choose(size.of(1.0), size).apply("pow", p))
    total = powers.sum(axes)
    none = total.compare("eq", 0.0)
    return none.choose(total.of(0.0), none.choose(total.of(1.0), total).apply("pow", 1.0 / p))


def logsumexp(x: TensorExpr, axes: Sequence[int]) -> TensorExpr:
    if not axes:
        return x
    dims = [dim for axis, dim in enumerate(x.dims) if axis not in axes]
    tracer = x.tracer
    result = tracer.emit("logsumexp", x.tensor, dims=dims, dtype=x.dtype, axes=tuple(axes))
    return TensorExpr(tracer, result)


def _arg_reduction(op: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = TensorExpr(tracer, expect.tensor(tracer, args, "x", NUMBERS))
        axes = expect.axes(tracer, args, x.tensor)
        result = _position(tracer, args, op, x, axes)
        keep = expect.flag(tracer, args, "keep")
        return (result.keep(axes, x) if keep else result).tensor

    return BuiltinFunction(op, PARAMETERS, call)


def _position(
    tracer: Tracer, args: BoundArgs, op: str, x: TensorExpr, axes: Sequence[int]
) -> TensorExpr:
    """Along one axis, or (without `axis`) in the flattened tensor."""
    if args["axis"] is None:
        flat = x.reshape([product(x.dims)])
        return arg_reduce(op, flat, 0)
    if len(axes) != 1:
        text = f"`{op}` works along one axis, but {len(axes)} are given"
        raise Stop(tracer.report.error("WG0408", text, args.span("axis")))
    return arg_reduce(op, x, axes[0])


def arg_reduce(op: str, x: TensorExpr, axis: int) -> TensorExpr:
    dims: list[Dim] = [*x.dims[:axis], *x.dims[axis + 1 :]]
    return TensorExpr(x.tracer, x.tracer.emit(op, x.tensor, dims=dims, dtype="i32", axis=axis))


def _along(op: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x", FLOATS)
        axis = expect.axis(tracer, args, x)
        return tracer.emit(op, x, dims=x.dims, dtype=x.dtype, axis=axis)

    return BuiltinFunction(op, "x, axis=-1", call)


def cumprod(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The recurrence h[t] = x[t] h[t - 1] from h[0] = x[0]."""
    x = expect.tensor(tracer, args, "x", FLOATS)
    axis = expect.axis(tracer, args, x)
    size, one = x.dims[axis].size, Dim.literal(1)
    if size == 1:
        return x
    starts, steps = [int(number == axis) for number in range(x.rank)], [1] * x.rank
    later = broadcasting.part(tracer, x, axis, 1, x.dims[axis] - one)
    factors = broadcasting.place(tracer, later, starts, x.dims, steps)
    first = broadcasting.place(
        tracer, broadcasting.part(tracer, x, axis, 0, one), [0] * x.rank, x.dims, steps
    )
    return tracer.emit("scan", factors, first, dims=x.dims, dtype=x.dtype, axis=axis, reverse=False)


def normalize(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x divided by its Euclidean norm along the axes; a norm below `eps` counts as `eps`.

    In f32, because f16 has no number as small as eps².
    """
    tensor = expect.tensor(tracer, args, "x", FLOATS)
    x = TensorExpr(tracer, tensor).cast("f32")
    axes = expect.axes(tracer, args, tensor)
    squares = x.apply("square").sum(axes).keep(axes, x)
    # sqrt(max(s, eps^2)) is max(sqrt(s), eps), but has a finite slope at 0.
    unit = x * squares.apply("maximum", _least_square(tracer, args)).apply("rsqrt")
    return unit.cast(tensor.dtype).tensor


def cosine_similarity(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The cosine of the angle between a and b; a norm below `eps` counts as `eps`."""
    first = expect.tensor(tracer, args, "a", FLOATS)
    second = expect.tensor(tracer, args, "b", (first.dtype,))
    left, right = Given(first, args.span("a")), Given(second, args.span("b"))
    dims = broadcast_dims(tracer, "cosine_similarity", left, right, at)
    a, b = (TensorExpr(tracer, x).broadcast(dims).cast("f32") for x in (first, second))
    axes = [expect.axis(tracer, args, a.tensor)]
    least = _least_square(tracer, args)
    norms = [x.apply("square").sum(axes).apply("maximum", least) for x in (a, b)]
    cosine = (a * b).sum(axes) * norms[0].apply("rsqrt") * norms[1].apply("rsqrt")
    return cosine.cast(first.dtype).tensor


def _least_square(tracer: Tracer, args: BoundArgs) -> float:
    """eps². The square of 1e-12 is still a normal f32, unlike that of anything below 1.1e-19."""
    return max(expect.number(tracer, args, "eps"), 1.1e-19) ** 2


# Longer axes are not sorted whole for their largest elements, but in parts.
LONG, PART = 2048, 1024


def argsort(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The positions of the elements in order; equal ones stay in theirs."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    return _order(tracer, x, axis, expect.flag(tracer, args, "descending"))


def sort(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The elements in order, and their positions."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    order = _order(tracer, x, axis, expect.flag(tracer, args, "descending"))
    return _with_values(tracer, x, order, axis)


def top_k(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The k largest elements, the largest first, and their positions."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    k = expect.whole(tracer, args, "k")
    if k.size > x.dims[axis].size and not tracer.generic:
        text = f"`k` is {k.full}, but there are only {x.dims[axis].full} elements along this axis"
        raise Stop(tracer.report.error("WG0503", text, args.span("k")).also(args.span("x"), str(x)))
    return _with_values(tracer, x, _largest(tracer, x, axis, k), axis)


def cummax(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The largest element up to each one, and its position."""
    x = expect.tensor(tracer, args, "x", NUMBERS)
    axis = expect.axis(tracer, args, x)
    places = tracer.emit("running_argmax", x, dims=x.dims, dtype="i32", axis=axis)
    return _with_values(tracer, x, places, axis)


def _order(tracer: Tracer, x: Tensor, axis: int, descending: bool) -> Tensor:
    return tracer.emit("argsort", x, dims=x.dims, dtype="i32", axis=axis, descending=descending)


def _largest(tracer: Tracer, x: Tensor, axis: int, k: Dim) -> Tensor:
    """The positions of the k largest elements, the largest first.

    Of a long axis, first the k largest of each part are found: parts are sorted side by side, in
    workgroup memory. They stay in order, so that the first of equal elements comes first.
    """
    size = x.dims[axis].size
    if size <= LONG or 2 * k.size > PART or tracer.generic:
        order = _order(tracer, x, axis, descending=True)
        return broadcasting.part(tracer, order, axis, 0, k)
    parts, rest = divmod(size, PART)
    positions = [_largest_of_parts(tracer, x, axis, k, parts)]
    if rest:
        last = broadcasting.part(tracer, x, axis, parts * PART, Dim.literal(rest))
        least = k if k.size < rest else Dim.literal(rest)
        positions.append(_move(tracer, _largest(tracer, last, axis, least), parts * PART))
    candidates = concatenate(tracer, positions, axis)
    values = _take(tracer, x, candidates, axis)
    return _take(tracer, candidates, _largest(tracer, values, axis, k), axis)


def _largest_of_parts(tracer: Tracer, x: Tensor, axis: int, k: Dim, parts: int) -> Tensor:
    count, each = Dim.literal(parts), Dim.literal(PART)
    before, after = x.dims[:axis], x.dims[axis + 1 :]
    whole = broadcasting.part(tracer, x, axis, 0, Dim.literal(parts * PART))
    rows = broadcasting.reshape(tracer, whole, [*before, count, each, *after])
    order = _order(tracer, rows, axis + 1, descending=True)
    best = TensorExpr(tracer, broadcasting.part(tracer, order, axis + 1, 0, k))
    firsts = (iota(tracer, count) * PART).reshape([count, *[Dim.literal(1)] * (1 + len(after))])
    return (best + firsts).reshape([*before, Dim.literal(parts * k.size), *after]).tensor


def _move(tracer: Tracer, places: Tensor, by: int) -> Tensor:
    return (TensorExpr(tracer, places) + by).tensor


def _take(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> Tensor:
    return tracer.emit("take_along", x, places, dims=places.dims, dtype=x.dtype, axis=axis)


def _with_values(tracer: Tracer, x: Tensor, places: Tensor, axis: int) -> TupleValue:
    return TupleValue((_take(tracer, x, places, axis), places))


FUNCTIONS = (
    _reduction("sum", SUMMABLE, _plain("sum")),
    _reduction("prod", SUMMABLE, _plain("prod")),
    _reduction("max", NUMBERS, _plain("max")),
    _reduction("min", NUMBERS, _plain("min")),
    _reduction("any", ("bool",), _plain("any")),
    _reduction("all", ("bool",), _plain("all")),
    _reduction("mean", FLOATS, mean),
    _spread("var", lambda variance: variance),
    _spread("std", _root),
    BuiltinFunction("norm", "x, p=2, axis=none, keep=false", norm),
    _reduction("logsumexp", FLOATS, logsumexp),
    _arg_reduction("argmax"),
    _arg_reduction("argmin"),
    _along("softmax"),
    _along("log_softmax"),
    _along("cumsum"),
    BuiltinFunction("cumprod", "x, axis=-1", cumprod),
    BuiltinFunction("normalize", "x, axis=-1, eps=1e-12", normalize),
    BuiltinFunction("cosine_similarity", "a, b, axis=-1, eps=1e-8", cosine_similarity),
    BuiltinFunction("argsort", "x, axis=-1, descending=false", argsort),
    BuiltinFunction("sort", "x, axis=-1, descending=false", sort),
    BuiltinFunction("top_k", "x, k, axis=-1", top_k),
    BuiltinFunction("cummax", "x, axis=-1", cummax),
)
