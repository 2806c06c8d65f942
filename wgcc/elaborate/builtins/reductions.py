"""Functions that combine elements along axes: `sum mean max min prod var logsumexp any all`,
`argmax argmin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
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


def var(x: TensorExpr, axes: Sequence[int]) -> TensorExpr:
    """The biased variance, as norm layers use it."""
    return x.reduce("var", axes) if axes else x - x


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
    _reduction("var", FLOATS, var),
    _reduction("logsumexp", FLOATS, logsumexp),
    _arg_reduction("argmax"),
    _arg_reduction("argmin"),
)
