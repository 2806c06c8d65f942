"""Functions that combine elements along axes: `sum mean max min prod var std norm logsumexp`,
`any all argmax argmin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Number, Tensor
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
        found = x.reduce("var", axes) if axes else x - x
        count = product(x.dims[axis] for axis in axes)
        correction = expect.whole(tracer, args, "correction", least=0)
        if correction.size:
            found = found * _correction_factor(tracer, args, count, correction)
        result = rule(found)
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
)
