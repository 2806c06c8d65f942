"""selective_scan(u, dt, a, b, c): h[t] = exp(dt[t] a) h[t-1] + dt[t] u[t] b[t], y[t] = Σ c[t] h[t].

u, dt and y are [batch, times, channels], a is [channels, states], b and c [batch, times, states];
h starts at zero. With `zero_order`, (exp(dt[t] a) - 1) / a replaces the factor dt[t]: exact for an
input that is constant during a step. Hidden states are stored for few steps only; see
state_space.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError
from wgcc.ops.scan import shift
from wgcc.ops.state_space import (
    reference_ends,
    reference_grad_channels,
    reference_grad_states,
    reference_output,
    reference_starts,
)

# Steps recomputed together, in registers: more of them need less memory and more registers.
SHORT_CHUNK, LONG_CHUNK = 8, 16
LONG_TIMES = 1024
# One thread computes all states of a channel if there are enough threads or few steps.
MOST_STATES_PER_THREAD = 32
ENOUGH_CHANNELS = 1024
SHORT_TIMES = 64
# Below this many threads, several threads share the sum over channels.
FEW_SUMS = 1024


def infer(
    u: TensorType,
    dt: TensorType,
    a: TensorType,
    b: TensorType,
    c: TensorType,
    zero_order: bool = False,
) -> TensorType:
    types = (u, dt, a, b, c)
    by_state = (*u.shape[:2], *a.shape[-1:])
    if (
        all(type_.dtype == "f32" for type_ in types)
        and u.rank == 3
        and u.shape == dt.shape
        and a.rank == 2
        and a.shape[0] == u.shape[2]
        and b.shape == c.shape == by_state
    ):
        return u
    raise ShapeError(f"selective_scan: {', '.join(map(str, types))} do not fit together")


def reference(u: Array, dt: Array, a: Array, b: Array, c: Array, zero_order: bool = False) -> Array:
    bc = np.concatenate([b, c], axis=2)
    starts = reference_starts(u, dt, a, bc, 1, zero_order)
    return reference_output(u, dt, a, bc, starts, 1, zero_order)


def effort(node: Node) -> int:
    """For each step, all states of every channel."""
    u, _, a = node.inputs[:3]
    return u.shape[1] * 8 * NUMPY_CALL + 8 * u.type.size * a.shape[-1]


def expand(b: Builder, node: Node) -> Sequence[Value]:
    y, _ = _scan(b, node)
    return [y]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # With v[t] = c[t] g[t] + exp(dt[t+1] a) v[t+1] and p[t] = exp(dt[t] a) h[t-1]:
    # du = dt Σ b v, ddt = Σ (u b + a p) v, da = Σ dt p v, db = Σ dt u v, dc = Σ g h;
    # a gain other than dt also has derivatives: see state_space.py
    (g,) = gs
    if g is None:
        return [None] * len(node.inputs)
    return b.apply_many("selective_scan_grad", *node.inputs, g, **node.attrs)


def infer_grad(*types: TensorType, zero_order: bool = False) -> tuple[TensorType, ...]:
    u, dt, a, b, c = types[:5]
    infer(u, dt, a, b, c)
    if types[5] != types[0]:
        raise ShapeError(f"selective_scan_grad: {types[5]} should be {types[0]}")
    return types[:5]


def reference_grad(
    u: Array, dt: Array, a: Array, b: Array, c: Array, g: Array, zero_order: bool = False
) -> tuple[Array, ...]:
    bc = np.concatenate([b, c], axis=2)
    starts = reference_starts(u, dt, a, bc, 1, zero_order)
    ends = reference_ends(dt, a, bc, g, 1)
    rows = reference_grad_channels(u, dt, a, bc, g, starts, ends, 1, zero_order)
    dbc = reference_grad_states(u, dt, a, bc, g, starts, ends, 1, 1, zero_order)[0]
    states = a.shape[1]
    da = rows[:, :, 2:].sum((0, 1)).T
    return rows[:, :, 0], rows[:, :, 1], da, dbc[:, :, :states], dbc[:, :, states:]


def expand_grad(b: Builder, node: Node) -> Sequence[Value]:
    u, dt, a, *_, g = node.inputs
    chunk, bc = _chunk(u), _side_by_side(b, node.inputs)
    _, starts = _scan(b, node)
    ends = b.apply("state_ends", dt, a, bc, g, chunk=chunk)
    inputs = (u, dt, a, bc, g, starts, ends)
    attrs = {"chunk": chunk, **node.attrs}
    rows = Term(b, b.apply("state_grad_channels", *inputs, **attrs))
    by_part = Term(b, b.apply("state_grad_states", *inputs, parts=_parts(starts), **attrs))
    dbc = by_part.sum((0,))
    states = a.shape[1]
    da = _cut(rows, 2, 2 * chunk, states).sum((0, 1)).apply("transpose", perm=(1, 0))
    along_time = [_join_chunks(_cut(rows, 2, at, chunk), u) for at in (0, chunk)]
    by_state = [_cut(dbc, 2, at, states) for at in (0, states)]
    return [term.value for term in (*along_time, da, *by_state)]


def _scan(b: Builder, node: Node) -> tuple[Value, Value]:
    """y and the states at the start of each chunk, which the gradient reuses."""
    u, dt, a = node.inputs[:3]
    bc, attrs = _side_by_side(b, node.inputs), {"chunk": _chunk(u), **node.attrs}
    batch, times, channels = u.shape
    one_thread_each = batch * channels >= ENOUGH_CHANNELS or times <= SHORT_TIMES
    if one_thread_each and a.shape[1] <= MOST_STATES_PER_THREAD:
        y, starts = b.apply_many("state_scan", u, dt, a, bc, with_output=True, **attrs)
        return y, starts
    starts = b.apply("state_scan", u, dt, a, bc, with_output=False, **attrs)
    return b.apply("state_output", u, dt, a, bc, starts, **attrs), starts


def _side_by_side(b: Builder, inputs: Sequence[Value]) -> Value:
    return b.apply("concat", inputs[3], inputs[4], axis=2)


def _chunk(u: Value) -> int:
    times = u.shape[1]
    return min(times, SHORT_CHUNK if times < LONG_TIMES else LONG_CHUNK)


def _parts(starts: Value) -> int:
    """How many threads share the sum over channels: a divisor of their number."""
    batch, chunks, states, channels = starts.shape
    wanted = min(FEW_SUMS // (batch * chunks * states), channels // 16)
    return next((n for n in range(wanted, 1, -1) if channels % n == 0), 1)


def _cut(x: Term, axis: int, start: int, size: int) -> Term:
    starts = tuple(start if k == axis else 0 for k in range(len(x.shape)))
    sizes = tuple(size if k == axis else n for k, n in enumerate(x.shape))
    return x.apply("slice", starts=starts, sizes=sizes, steps=(1,) * len(x.shape))


def _join_chunks(x: Term, like: Value) -> Term:
    batch, chunks, chunk, channels = x.shape
    return _cut(x.reshape((batch, chunks * chunk, channels)), 1, 0, like.shape[1])


def ordinary_grad(b: Builder, node: Node) -> Sequence[Value]:
    """The formulas of `grad`, with all states of all steps stored, to be differentiated again."""
    u, dt, a, b_, c, g = (Term(b, value) for value in node.inputs)
    full = (*u.shape, a.shape[1])
    u4, dt4, g4 = (x.spread((3,), full) for x in (u, dt, g))
    a4, b4, c4 = a.broadcast(full), b_.spread((2,), full), c.spread((2,), full)
    decay = (dt4 * a4).exp()
    gain, by_dt, by_a = _gain(dt4, a4, decay, bool(node.attrs.get("zero_order")))
    h = decay.apply("scan", gain * u4 * b4, axis=1, reverse=False)
    v = shift(decay, 1, -1).apply("scan", c4 * g4, axis=1, reverse=True)
    through_decay, through_gain = decay * shift(h, 1, 1) * v, u4 * b4 * v
    return [
        (gain * b4 * v).sum((3,)).value,
        (through_gain * by_dt + through_decay * a4).sum((3,)).value,
        (through_gain * by_a + through_decay * dt4).sum((0, 1)).value,
        (gain * u4 * v).sum((2,)).value,
        (g4 * h).sum((2,)).value,
    ]


def _gain(dt: Term, a: Term, decay: Term, zero_order: bool) -> tuple[Term, Term, Term]:
    """The factor of the input, and its derivatives with respect to dt and a."""
    if not zero_order:
        return dt, dt.like(1), dt.like(0)
    first, second = ((dt * a).apply("exp_tail", order=order) for order in (1, 2))
    return dt * first, decay, dt.square() * (first - second)


# batch, times, channels, states: short and long, few channels and many, over 32 states.
_CASES = (
    (1, 1, 1, 1),
    (2, 5, 3, 4),
    (1, 17, 67, 3),
    (2, 65, 5, 16),
    (1, 70, 3, 33),
    (9, 67, 127, 2),
)


def _inputs(batch: int, times: int, channels: int, states: int) -> list[tuple[int, ...]]:
    along, by_state = (batch, times, channels), (batch, times, states)
    return [along, along, (channels, states), by_state, by_state]


def _samples(more: Callable[[tuple[int, ...]], list[tuple[int, ...]]], size: float) -> list[Sample]:
    return [
        Sample([*_inputs(*case), *more(case[:3])], {"zero_order": zero_order}, -size, size)
        for case, zero_order in (*((case, False) for case in _CASES), (_CASES[1], True))
    ]


OPS = (
    Op(
        "selective_scan",
        infer,
        reference,
        Expand(expand),
        grad,
        _samples(lambda along: [], 0.6),
        effort=effort,
    ),
    Op(
        "selective_scan_grad",
        infer_grad,
        reference_grad,
        Expand(expand_grad),
        samples=_samples(lambda along: [along], 0.4),
        effort=effort,
        ordinary=ordinary_grad,
    ),
)
