"""Entries as exporters need them: gradients computed, and ops that other formats lack taken apart.

Kernels compute these ops faster or more precisely in one piece; here only the numbers count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import pi
from typing import TypeAlias

from wgcc.ir.graph import Builder, Graph, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS
from wgcc.ops.attention_grad import ordinary_attention
from wgcc.ops.formula import Term
from wgcc.ops.ordering import HIDDEN
from wgcc.ops.softmax import LEAST_LOG
from wgcc.passes.autograd import autograd
from wgcc.passes.rewrite import Parts, composite, expand, prune

# Below this, (exp(x) - 1) / x is computed by its series.
_NEAR_ZERO = 0.25


def bce(b: Builder, node: Node) -> Sequence[Value]:
    p, t = (Term(b, value) for value in node.inputs)
    yes, no = (x.apply("log").apply("maximum", x.like(LEAST_LOG)) for x in (p, 1 - p))
    return [(-t * yes - (1 - t) * no).value]


def atan2(b: Builder, node: Node) -> Sequence[Value]:
    y, x = (Term(b, value) for value in node.inputs)
    safe = x.equals(0).choose(x.like(1), x)
    angle = (y / safe).apply("atan")
    behind = angle + x.like(0).exceeds(y).choose(x.like(-pi), pi)
    upright = x.like(0).exceeds(y).choose(x.like(-pi / 2), y.exceeds(0).choose(x.like(pi / 2), 0))
    turned = x.like(0).exceeds(x).choose(behind, angle)
    return [x.equals(0).choose(upright, turned).value]


def exp_tail(b: Builder, node: Node) -> Sequence[Value]:
    """(exp(x) - 1 - x - …) / xⁿ; near 0 the series, of which six terms are enough for f32."""
    x, order = Term(b, node.inputs[0]), int(node.attrs["order"])
    edge = _NEAR_ZERO * max(order, 1)
    near = x.apply("abs").apply("minimum", x.like(edge)) * x.apply("sign")
    series, factor = x.like(0), 1.0
    for k in range(1, order + 1):
        factor /= k
    terms = []
    for j in range(8):
        terms.append(factor)
        factor /= j + order + 1
    for term in reversed(terms):
        series = series * near + term
    far_x = x.like(edge).exceeds(x.apply("abs")).choose(x.like(edge), x)
    far, factor = far_x.exp(), 1.0
    for i in range(order):
        far = (far - factor) / far_x
        factor /= i + 1
    return [x.like(edge).exceeds(x.apply("abs")).choose(series, far).value]


def scan(b: Builder, node: Node) -> Sequence[Value]:
    axis = node.attrs["axis"]
    a, x = (_front(Term(b, value), axis) for value in node.inputs)

    def round_(index: Term, before: list[Term], slices: list[Term]) -> list[Term]:
        factor, term = slices
        return [factor * before[0] + term]

    start = Term(b, b.constant(0.0, a.dtype)).broadcast(a.shape[1:])
    return [_back(_loop(round_, [start], [a, x], node.attrs["reverse"])[0], axis).value]


def running_argmax(b: Builder, node: Node) -> Sequence[Value]:
    """The last of equal elements is taken; nothing but another NaN is greater than a NaN."""
    axis = node.attrs["axis"]
    x = _front(Term(b, node.inputs[0]), axis)

    def round_(index: Term, before: list[Term], slices: list[Term]) -> list[Term]:
        best, place = before
        wins = slices[0].apply("ge", best).apply("logical_or", slices[0].apply("ne", slices[0]))
        here = index.cast("i32").broadcast(place.shape)
        return [wins.apply("where", slices[0], best), wins.apply("where", here, place)]

    first = x.apply("slice", starts=(0,) * len(x.shape), sizes=(1, *x.shape[1:]),
                    steps=(1,) * len(x.shape)).reshape(x.shape[1:])  # fmt: skip
    nowhere = Term(b, b.constant(0, "i32")).broadcast(x.shape[1:])
    return [_back(_loop(round_, [first, nowhere], [x])[1], axis).value]


Round: TypeAlias = Callable[[Term, list[Term], list[Term]], list[Term]]


def _loop(round_: Round, inits: list[Term], xs: list[Term], reverse: bool = False) -> list[Term]:
    """Runs the rounds as a loop and returns the states after every round, stacked."""
    b = inits[0].b
    inner = b.inner()
    states = [Value(b.fresh("state"), init.value.type) for init in inits]
    slices = [Value(b.fresh("slice"), TensorType(x.shape[1:], x.dtype)) for x in xs]
    index = Value(b.fresh("index"), TensorType((), "u32"))
    groups = [Term(inner, value) for value in states], [Term(inner, value) for value in slices]
    after = [term.value for term in round_(Term(inner, index), *groups)]
    body = Graph(
        "loop", inputs=(index, *slices), state=tuple(states), nodes=tuple(inner.nodes),
        outputs={f"state{place}": value for place, value in enumerate(after)},
        writes={state.name: value for state, value in zip(states, after, strict=True)},
    )  # fmt: skip
    given = [term.value for term in (*inits, *xs)]
    rounds = xs[0].shape[0]
    outputs = b.apply_many("repeat", *given, body=body, rounds=rounds, reverse=reverse)
    return [Term(b, value) for value in outputs[len(inits) :]]


def selective_scan(b: Builder, node: Node) -> Sequence[Value]:
    """All states of all steps are stored: [batch, times, channels, states]."""
    u, dt, a, b_, c = (Term(b, value) for value in node.inputs)
    full = (*u.shape, a.shape[1])
    u4, dt4 = (x.spread((3,), full) for x in (u, dt))
    a4, b4, c4 = a.broadcast(full), b_.spread((2,), full), c.spread((2,), full)
    held = (dt4 * a4).apply("exp_tail", order=1) if node.attrs.get("zero_order") else dt4.like(1)
    h = (dt4 * a4).exp().apply("scan", dt4 * held * u4 * b4, axis=1, reverse=False)
    return [(c4 * h).sum((3,)).value]


def window(b: Builder, node: Node) -> Sequence[Value]:
    """Rows by their numbers, with the axis in front."""
    x, at = (Term(b, value) for value in node.inputs)
    axis, size = node.attrs["axis"], node.attrs["size"]
    start = _within(at.cast("i32"), 0, x.shape[axis] - size)
    ids = Term(b, b.apply("iota", n=size, dtype="i32")) + start.broadcast((size,))
    return [_back(_front(x, axis).apply("gather", ids), axis).value]


def window_update(b: Builder, node: Node) -> Sequence[Value]:
    """Rows of the update where it is written; nothing is, where it does not fit."""
    base, update, at = (Term(b, value) for value in node.inputs)
    axis = node.attrs["axis"]
    rows, size = base.shape[axis], update.shape[axis]
    start = at.cast("i32")
    fits = start.exceeds(-1).apply("logical_and", start.like(rows - size + 1).exceeds(start))
    place = Term(b, b.apply("iota", n=rows, dtype="i32")) - start.broadcast((rows,))
    inside = place.exceeds(-1).apply("logical_and", place.like(size).exceeds(place))
    inside = inside.apply("logical_and", fits.broadcast((rows,)))
    spread = _front(update, axis).apply("gather", _within(place, 0, size - 1))
    old = _front(base, axis)
    chosen = inside.reshape((rows, *(1,) * (len(old.shape) - 1))).broadcast(old.shape)
    return [_back(chosen.apply("where", spread, old), axis).value]


def unslice(b: Builder, node: Node) -> Sequence[Value]:
    """Elements apart from each other: each gets zeros behind it first."""
    x, shape = Term(b, node.inputs[0]), node.attrs["shape"]
    starts = []
    for axis, (start, step) in enumerate(
        zip(node.attrs["starts"], node.attrs["steps"], strict=True)
    ):
        if step < 0:
            x = x.apply("flip", axes=(axis,))
            start += (x.shape[axis] - 1) * step
        x = _apart(x, axis, abs(step))
        starts.append(start)
    ones = (1,) * len(shape)
    return [x.apply("unslice", shape=shape, starts=tuple(starts), steps=ones).value]


def keep_top_k(b: Builder, node: Node) -> Sequence[Value]:
    x = Term(b, node.inputs[0])
    _, rank = _ranks(x)
    return [rank.like(node.attrs["k"]).exceeds(rank).choose(x, HIDDEN).value]


def keep_top_p(b: Builder, node: Node) -> Sequence[Value]:
    x, mass = (Term(b, value) for value in node.inputs)
    last = len(x.shape) - 1
    order, rank = _ranks(x)
    rows = x.apply("take_along", order, axis=last)
    weights = (rows - rows.apply("max", axes=(last,)).spread((last,), x.shape)).exp()
    before = weights.apply("cumsum", axis=last) - weights
    wanted = weights.sum((last,)).spread((last,), x.shape) * mass.broadcast(x.shape)
    is_first = order.like(0).equals(Term(b, b.apply("iota", n=x.shape[-1], dtype="i32"))
                                    .broadcast(x.shape))  # fmt: skip
    kept = wanted.exceeds(before).apply("logical_or", is_first).cast("i32")
    return [kept.apply("take_along", rank, axis=last).exceeds(0).choose(x, HIDDEN).value]


def _ranks(x: Term) -> tuple[Term, Term]:
    """The places of elements from the largest down, and the place of each element among them."""
    axis = len(x.shape) - 1
    order = x.apply("argsort", axis=axis, descending=True)
    return order, order.apply("argsort", axis=axis, descending=False)


def _within(x: Term, low: int, high: int) -> Term:
    return x.apply("maximum", x.like(low)).apply("minimum", x.like(high))


def _front(x: Term, axis: int) -> Term:
    rest = (k for k in range(len(x.shape)) if k != axis)
    return x.apply("transpose", perm=(axis, *rest)) if axis else x


def _back(x: Term, axis: int) -> Term:
    perm = (*range(1, axis + 1), 0, *range(axis + 1, len(x.shape)))
    return x.apply("transpose", perm=perm) if axis else x


def _apart(x: Term, axis: int, step: int) -> Term:
    """Puts step - 1 zeros between neighbours along an axis."""
    if step == 1:
        return x
    shape = x.shape
    lead, size, rest = shape[:axis], shape[axis], shape[axis + 1 :]
    wide = (*lead, size, step, *rest)
    none, ones = (0,) * len(wide), (1,) * len(wide)
    x = x.reshape((*lead, size, 1, *rest)).apply("unslice", shape=wide, starts=none, steps=ones)
    sizes = (*lead, (size - 1) * step + 1, *rest)
    x = x.reshape((*lead, size * step, *rest))
    return x.apply("slice", starts=none[1:], sizes=sizes, steps=ones[1:])


COMPOSITIONS: dict[str, Parts] = {
    "atan2": atan2,
    "attention": ordinary_attention,
    "bce": bce,
    "exp_tail": exp_tail,
    "keep_top_k": keep_top_k,
    "keep_top_p": keep_top_p,
    "running_argmax": running_argmax,
    "scan": scan,
    "selective_scan": selective_scan,
    "unslice": unslice,
    "window": window,
    "window_update": window_update,
}


def window_places(node: Node) -> Iterator[tuple[int, int, Array]]:
    """An axis of pixels or windows, that of its kernel, and the numbers of elements to read.

    Elements [before, kernel] are numbered from 1; 0 is a zero. The op's own reference says which
    are read, and one axis does not depend on another.
    """
    shape = node.inputs[0].shape
    rank = (len(shape) - 2) // 2
    for place in range(rank):
        axis, kernel = 1 + place, 1 + rank + place
        size = shape[axis], shape[kernel]
        numbers = np.arange(1, size[0] * size[1] + 1).reshape(1, *size, 1)
        own = {key: (values[place],) for key, values in node.attrs.items()}
        elements = np.asarray(OPS[node.op].reference(numbers, **own))
        yield axis, kernel, elements.reshape(elements.shape[1:3])


def written_out(graph: Graph, has_rule: Callable[[Node], bool]) -> Graph:
    """`has_rule`: whether the exporter writes a node itself. What nothing expresses stays."""

    def parts_of(node: Node) -> Parts | None:
        if has_rule(node):
            return None
        return COMPOSITIONS.get(node.op) or OPS[node.op].ordinary or composite(node)

    unguarded = replace(graph, range_flag=None)  # exported entries do not report wrong ids
    return prune(expand(autograd(unguarded), parts_of))
