"""`selective_scan`: the recurrence of state-space models."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

# What the input does during a step: count once, with weight dt, or be constant.
HOLDS = ("euler", "zero_order")
RANKS = {"u": 3, "dt": 3, "a": 2, "b": 3, "c": 3}
# Which axes of which arguments are the same size.
EQUAL = {
    "B": (("u", 0), ("dt", 0), ("b", 0), ("c", 0)),
    "T": (("u", 1), ("dt", 1), ("b", 1), ("c", 1)),
    "E": (("u", 2), ("dt", 2), ("a", 0)),
    "N": (("a", 1), ("b", 2), ("c", 2)),
}


def selective_scan(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """h_t = exp(dt_t a) h_{t-1} + dt_t u_t b_t and y_t = Σ_n c_t h_t, from h = 0.

    With `hold = "zero_order"` the input is constant during each step, and (exp(dt_t a) - 1) / a
    replaces dt_t.
    """
    tensors = {
        name: expect.tensor(tracer, args, name, FLOATS, rank) for name, rank in RANKS.items()
    }
    _check(tracer, tensors, at)
    zero_order = expect.choice(tracer, args, "hold", HOLDS) == "zero_order"
    operands = [TensorExpr(tracer, tensor).cast("f32").tensor for tensor in tensors.values()]
    y = tracer.emit(
        "selective_scan", *operands, dims=tensors["u"].dims, dtype="f32", zero_order=zero_order
    )
    return TensorExpr(tracer, y).cast(tensors["u"].dtype).tensor


def _check(tracer: Tracer, tensors: dict[str, Tensor], at: Span) -> None:
    fits = all(
        compare(tensors[first].dims[axis], tensors[name].dims[other]) is not DIFF
        for (first, axis), *rest in EQUAL.values()
        for name, other in rest
    )
    if fits and len({tensor.dtype for tensor in tensors.values()}) == 1:
        return
    shown = ", ".join(f"{name} {tensor}" for name, tensor in tensors.items())
    found = tracer.report.error("WG0418", f"selective_scan: {shown} do not fit together", at)
    raise Stop(found.note("it takes u, dt: [B, T, E]; a: [E, N]; b, c: [B, T, N]"))


FUNCTIONS = (BuiltinFunction("selective_scan", 'u, dt, a, b, c, hold="euler"', selective_scan),)
