"""Simpler forms of views and of pointwise nodes.

Chains of views become one, and identities are removed. A sum of tensors that are zero where the
others are not, as gradients of slices are, becomes a join: x among zeros + y among zeros = x beside
y. Kernels then read each element from where it is.

Rules of pointwise nodes are exact for every float: no reordering of sums, no `x * 0`, which would
hide a NaN. (The one exception, `x + 0 = x`, leaves -0 as it is, which makes no difference in a
model.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, frexp, inf, isfinite, nan

from wgcc.ir.graph import FLOATS, Builder, Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Reduce
from wgcc.passes.known_values import Known, Number, Rule, fill


def _reshape(b: Builder, known: Known, node: Node) -> Value | None:
    (x,) = node.inputs
    if x.shape == node.output.shape:
        return x
    inner = known.producer(x, "reshape")
    return b.apply("reshape", inner.inputs[0], shape=node.output.shape) if inner else None


def _transpose(b: Builder, known: Known, node: Node) -> Value | None:
    """Moving only axes of size 1 is a reshape."""
    (x,), perm = node.inputs, node.attrs["perm"]
    if list(perm) == sorted(perm):
        return x
    if inner := known.producer(x, "transpose"):
        composed = tuple(inner.attrs["perm"][axis] for axis in perm)
        return b.apply("transpose", inner.inputs[0], perm=composed)
    wide = [axis for axis in perm if x.shape[axis] != 1]
    return b.apply("reshape", x, shape=node.output.shape) if wide == sorted(wide) else None


def _broadcast(b: Builder, known: Known, node: Node) -> Value | None:
    """Axes align from the last, so leading axes of size 1 need not be added before."""
    (x,), shape = node.inputs, node.output.shape
    if x.shape == shape:
        return x
    if inner := known.producer(x, "broadcast"):
        return b.apply("broadcast", inner.inputs[0], shape=shape)
    inner = known.producer(x, "reshape")
    if (
        inner
        and x.shape == (1,) * (x.type.rank - inner.inputs[0].type.rank) + inner.inputs[0].shape
    ):
        return b.apply("broadcast", inner.inputs[0], shape=shape)
    return None


def _slice(b: Builder, known: Known, node: Node) -> Value | None:
    (x,) = node.inputs
    if x.shape == node.output.shape:
        return x
    inner = known.producer(x, "slice")
    if inner is None:
        return None
    places = zip(node.attrs["starts"], inner.attrs["starts"], inner.attrs["steps"], strict=True)
    steps = zip(node.attrs["steps"], inner.attrs["steps"], strict=True)
    return b.apply(
        "slice",
        inner.inputs[0],
        starts=tuple(start + at * step for at, start, step in places),
        sizes=node.attrs["sizes"],
        steps=tuple(outer * within for outer, within in steps),
    )


def _if_same_shape(b: Builder, known: Known, node: Node) -> Value | None:
    """An op that could only have changed the shape, and did not."""
    return node.inputs[0] if node.inputs[0].type == node.output.type else None


def _concat(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _reduce(b: Builder, known: Known, node: Node) -> Value | None:
    """A reduction over axes of size 1 only removes them."""
    (x,) = node.inputs
    if x.dtype != node.output.dtype or any(x.shape[axis] != 1 for axis in node.attrs["axes"]):
        return None
    return b.apply("reshape", x, shape=node.output.shape)


VIEW_RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "unslice": _if_same_shape,
    "window": _if_same_shape,
    "concat": _concat,
    **{op.name: _reduce for op in OPS.values() if isinstance(op.lower, Reduce)},
}


# Longer sums are looked at in part, so that the work for one is limited.
MOST_TERMS = 16


@dataclass(frozen=True, slots=True)
class _Part:
    """A value that fills an axis from `start` to `end`, with zeros around it."""

    value: Value
    axis: int
    start: int
    end: int


def sum_of_parts(b: Builder, known: Known, node: Node) -> Value | None:
    """`node`, an `add`, with those of its terms that together fill a tensor put side by side."""
    terms = _terms(known, node)
    parts = [part for term in terms if (part := _part(known, term))]
    if len(parts) < 2 or not _fill(parts, node.output):
        return None
    parts.sort(key=lambda part: part.start)
    joined = b.apply("concat", *(part.value for part in parts), axis=parts[0].axis)
    for term in terms:
        if _part(known, term) is None:
            joined = b.apply("add", term, joined)
    return joined


def _terms(known: Known, node: Node) -> list[Value]:
    """The terms of a sum of sums, in order."""
    pending, terms = list(node.inputs[::-1]), list[Value]()
    while pending:
        value = pending.pop()
        inner = known.producer(value, "add")
        if inner is not None and len(pending) + len(terms) < MOST_TERMS:
            pending += inner.inputs[::-1]
        else:
            terms.append(value)
    return terms


def _part(known: Known, term: Value) -> _Part | None:
    """The term as what fills the whole tensor but for one axis."""
    node = known.producer(term, "unslice")
    if node is None or any(step != 1 for step in node.attrs["steps"]):
        return None
    (value,), starts = node.inputs, node.attrs["starts"]
    axes = [i for i, size in enumerate(term.shape) if value.shape[i] != size]
    if len(axes) != 1:
        return None
    (axis,) = axes
    return _Part(value, axis, starts[axis], starts[axis] + value.shape[axis])


def _fill(parts: list[_Part], whole: Value) -> bool:
    """Do they have each element in exactly one of them?"""
    axes = {part.axis for part in parts}
    ends = [0, *sorted(part.end for part in parts)]
    starts = [*sorted(part.start for part in parts), whole.shape[parts[0].axis]]
    return len(axes) == 1 and starts == ends


def _add(b: Builder, known: Known, node: Node) -> Value | None:
    """x + 0 = x;  x + -y = x - y"""
    x, y = node.inputs
    if known.number(y) == 0:
        return x
    if known.number(x) == 0:
        return y
    if negated := known.producer(y, "neg"):
        return b.apply("sub", x, negated.inputs[0])
    if negated := known.producer(x, "neg"):
        return b.apply("sub", y, negated.inputs[0])
    return sum_of_parts(b, known, node)


def _sub(b: Builder, known: Known, node: Node) -> Value | None:
    """x - 0 = x;  0 - x = -x;  x - -y = x + y"""
    x, y = node.inputs
    if known.number(y) == 0:
        return x
    if known.number(x) == 0 and x.dtype in FLOATS:
        return b.apply("neg", y)
    if negated := known.producer(y, "neg"):
        return b.apply("add", x, negated.inputs[0])
    return None


def _mul(b: Builder, known: Known, node: Node) -> Value | None:
    """x · 1 = x;  x · -1 = -x"""
    for x, y in (node.inputs, node.inputs[::-1]):
        if known.number(y) == 1:
            return x
        if known.number(y) == -1:
            return b.apply("neg", x)
    return None


def _div(b: Builder, known: Known, node: Node) -> Value | None:
    """x / 1 = x;  1 / y by reciprocal;  x / 2^k = x · 2^-k;  x / 0 = x · infinity"""
    x, y = node.inputs
    divisor = known.number(y)
    if divisor == 1:
        return x
    if x.dtype in FLOATS and divisor == 0:
        # Some drivers take x / 0 for 0.
        return b.apply("mul", x, fill(b, copysign(inf, divisor), x))
    if x.dtype in FLOATS and divisor is not None and _is_power_of_two(float(divisor)):
        return b.apply("mul", x, fill(b, 1.0 / float(divisor), x))
    if x.dtype in FLOATS and known.number(x) == 1:
        return b.apply("reciprocal", y)
    return None


def _mod(b: Builder, known: Known, node: Node) -> Value | None:
    """x % 0 is NaN"""
    x, y = node.inputs
    return fill(b, nan, x) if x.dtype in FLOATS and known.number(y) == 0 else None


def _is_power_of_two(number: float) -> bool:
    """Far from the ends of the range of f32, so that the inverse is exact, too."""
    fraction, exponent = frexp(number)
    return abs(fraction) == 0.5 and -64 < exponent < 64


def _pow(b: Builder, known: Known, node: Node) -> Value | None:
    """Powers by multiplication, square roots and reciprocals, where the exponent is known."""
    x, exponent = node.inputs
    number = known.number(exponent)
    if number is None or x.dtype not in FLOATS or not isfinite(number):
        return None
    if number in ROOTS:
        return b.apply(ROOTS[number], x)
    if number == 0:
        return fill(b, 1.0, x)
    if number != int(number) or abs(number) > 16:
        return None
    power = _product(b, x, abs(int(number)))
    return power if number > 0 else b.apply("reciprocal", power)


ROOTS: dict[Number, str] = {0.5: "sqrt", -0.5: "rsqrt"}


def _product(b: Builder, x: Value, exponent: int) -> Value:
    """x · x · … by repeated squaring."""
    if exponent == 1:
        return x
    half = b.apply("square", _product(b, x, exponent // 2))
    return b.apply("mul", half, x) if exponent % 2 else half


def _undo(op: str) -> Rule:
    def rule(b: Builder, known: Known, node: Node) -> Value | None:
        inner = known.producer(node.inputs[0], op)
        return inner.inputs[0] if inner else None

    return rule


def _same_operands(b: Builder, known: Known, node: Node) -> Value | None:
    """max(x, x) = x"""
    return node.inputs[0] if node.inputs[0] == node.inputs[1] else None


def _logical_and(b: Builder, known: Known, node: Node) -> Value | None:
    return _bool_operand(known, node, neutral=True)


def _logical_or(b: Builder, known: Known, node: Node) -> Value | None:
    return _bool_operand(known, node, neutral=False)


def _bool_operand(known: Known, node: Node, neutral: bool) -> Value | None:
    for x, y in (node.inputs, node.inputs[::-1]):
        number = known.number(y)
        if number is not None:
            return x if bool(number) == neutral else y
    return node.inputs[0] if node.inputs[0] == node.inputs[1] else None


def _where(b: Builder, known: Known, node: Node) -> Value | None:
    """where(true, x, y) = x;  where(c, x, x) = x;  where(not c, x, y) = where(c, y, x)"""
    condition, x, y = node.inputs
    number = known.number(condition)
    if number is not None or x == y:
        return y if number is not None and not number else x
    if inverted := known.producer(condition, "logical_not"):
        return b.apply("where", inverted.inputs[0], y, x)
    return None


def _cast(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0] if node.inputs[0].dtype == node.attrs["dtype"] else None


def _stop_grad(b: Builder, known: Known, node: Node) -> Value | None:
    return node.inputs[0]


ARITHMETIC_RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "pow": _pow,
    "neg": _undo("neg"),
    "logical_not": _undo("logical_not"),
    "maximum": _same_operands,
    "minimum": _same_operands,
    "logical_and": _logical_and,
    "logical_or": _logical_or,
    "where": _where,
    "cast": _cast,
    "stop_grad": _stop_grad,
}
