"""`einsum`: sums of products of tensors, given by a pattern, computed by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate.builtins import expect, patterns
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators.arithmetic import batched
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, Text
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


@dataclass(frozen=True, eq=False)
class Factor:
    """A tensor whose axes have names."""

    term: TensorExpr
    names: tuple[str, ...]

    def dims(self, names: Sequence[str]) -> list[Dim]:
        return [self.term.dims[self.names.index(name)] for name in names]

    def ordered(self, names: Sequence[str]) -> TensorExpr:
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
    result = _contract(tracer, factors, names).ordered(names)
    ones = iter(result.dims)
    one = Dim.literal(1)
    return result.reshape([one if g.axes[0].name == "1" else next(ones) for g in right]).tensor


def _factors(tracer: Tracer, pattern: patterns.Pattern, args: BoundArgs) -> list[Factor]:
    sizes = patterns.AxisSizes(tracer, pattern.own_names())
    factors: list[Factor] = []
    for side, got in zip(pattern.inputs, args.rest, strict=True):
        x = expect.checked(tracer, got, "tensor", FLOATS)
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
    left = a.ordered([*stack, *rows, *summed]).reshape([*lead, height, inner])
    right = b.ordered([*stack, *summed, *columns]).reshape([*lead, inner, width])
    if stack:
        result = batched(tracer, left.tensor, right.tensor, lead)
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
        terms.append(factor.ordered(own).reshape(shape))
    return Factor(terms[0] * terms[1], tuple(names))


FUNCTIONS = (BuiltinFunction("einsum", "pattern, *tensors", einsum),)
