"""Functions that create tensors: `zeros ones arange rand randn one_hot`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import DtypeValue, Tensor, TypeValue, type_text
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, TensorType


def _filled(name: str, number: int) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        dtype, dims = _type(tracer, name, args)
        tracer.check_size(TensorType(sizes_of(dims), dtype), type_text(dtype, dims), at)
        return tracer.broadcast(tracer.constant(number, dtype), dims)

    return BuiltinFunction(name, "type", call)


def _random(name: str, kind: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        dtype, dims = _type(tracer, name, args)
        if dtype not in FLOATS:
            text = f"`{name}` makes floats, not {dtype}"
            raise Stop(tracer.report.error("WG0501", text, args.span("type")))
        return tracer.cast(tracer.random(dims, kind, at), dtype)

    return BuiltinFunction(name, "type", call)


def _type(tracer: Tracer, name: str, args: BoundArgs) -> tuple[str, tuple[Dim, ...]]:
    value = args["type"]
    if isinstance(value, DtypeValue):
        return value.name, ()
    if isinstance(value, TypeValue):
        return value.dtype, value.dims
    text = f"`{name}` takes a type: `{name}(f32[2, 3])`"
    raise Stop(tracer.report.error("WG0415", text, args.span("type")))


def arange(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """0, 1, … n - 1 as i32."""
    n = expect.whole(tracer, args, "n")
    tracer.check_size(TensorType((n.size,), "i32"), type_text("i32", (n,)), at)
    return iota(tracer, n).tensor


def one_hot(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """f32 rows of `size` numbers: 1 at the id, 0 elsewhere."""
    ids = TensorExpr(tracer, expect.tensor(tracer, args, "ids", INTEGERS)).cast("i32")
    size = expect.whole(tracer, args, "size")
    tracer.look_up(ids.tensor, size.size, "an id")
    classes = iota(tracer, size)
    return ids.new_axis(-1).compare("eq", classes).cast("f32").tensor


FUNCTIONS = (
    _filled("zeros", 0),
    _filled("ones", 1),
    BuiltinFunction("arange", "n", arange),
    _random("rand", "uniform"),
    _random("randn", "normal"),
    BuiltinFunction("one_hot", "ids, size", one_hot),
)
