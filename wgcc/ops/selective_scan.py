"""selective_scan(u, dt, a, b, c): h[t] = exp(dt[t] a) h[t-1] + dt[t] u[t] b[t], y[t] = Σ c[t] h[t].

u, dt and y are [batch, times, channels], a is [channels, states], b and c [batch, times, states];
h starts at zero. Hidden states are stored for few steps only; see state_space.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError, no_second_derivative
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


def infer(u: TensorType, dt: TensorType, a: TensorType, b: TensorType, c: TensorType) -> TensorType:
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


def reference(u: Array, dt: Array, a: Array, b: Array, c: Array) -> Array:
    bc = np.concatenate([b, c], axis=2)
    return reference_output(u, dt, a, bc, reference_starts(u, dt, a, bc, 1), 1)


def effort(node: Node) -> int:
    """For each step, all states of every channel."""
    u, _, a = node.inputs[:3]
    return u.shape[1] * 8 * NUMPY_CALL + 8 * u.type.size * a.shape[-1]


def expand(b: Builder, node: Node) -> Sequence[Value]:
    y, _ = _scanned(b, node.inputs)
    return [y]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # With v[t] = c[t] g[t] + exp(dt[t+1] a) v[t+1] and p[t] = exp(dt[t] a) h[t-1]:
    # du = dt Σ b v, ddt = Σ (u b + a p) v, da = Σ dt p v, db = Σ dt u v, dc = Σ g h
    (g,) = gs
    if g is None:
        return [None] * len(node.inputs)
    return b.apply_many("selective_scan_grad", *node.inputs, g)


def infer_grad(*types: TensorType) -> tuple[TensorType, ...]:
    infer(*types[:5])
    if types[5] != types[0]:
        raise ShapeError(f"selective_scan_grad: {types[5]} should be {types[0]}")
    return types[:5]


def reference_grad(
    u: Array, dt: Array, a: Array, b: Array, c: Array, g: Array
) -> tuple[Array, ...]:
    bc = np.concatenate([b, c], axis=2)
    starts, ends = reference_starts(u, dt, a, bc, 1), reference_ends(dt, a, bc, g, 1)
    rows = reference_grad_channels(u, dt, a, bc, g, starts, ends, 1)
    dbc = reference_grad_states(u, dt, a, bc, g, starts, ends, 1, 1)[0]
    states = a.shape[1]
    da = rows[:, :, 2:].sum((0, 1)).T
    return rows[:, :, 0], rows[:, :, 1], da, dbc[:, :, :states], dbc[:, :, states:]


def expand_grad(b: Builder, node: Node) -> Sequence[Value]:
    *scanned, g = node.inputs
    u, dt, a = scanned[:3]
    chunk, bc = _chunk(u), _side_by_side(b, scanned)
    _, starts = _scanned(b, scanned)
    ends = b.apply("state_ends", dt, a, bc, g, chunk=chunk)
    inputs = (u, dt, a, bc, g, starts, ends)
    rows = Term(b, b.apply("state_grad_channels", *inputs, chunk=chunk))
    parts = _parts(starts)
    dbc = Term(b, b.apply("state_grad_states", *inputs, chunk=chunk, parts=parts)).sum((0,))
    states = a.shape[1]
    da = _cut(rows, 2, 2 * chunk, states).sum((0, 1)).apply("transpose", perm=(1, 0))
    along_time = [_unchunked(_cut(rows, 2, at, chunk), u) for at in (0, chunk)]
    by_state = [_cut(dbc, 2, at, states) for at in (0, states)]
    return [term.value for term in (*along_time, da, *by_state)]


def _scanned(b: Builder, inputs: Sequence[Value]) -> tuple[Value, Value]:
    """y and the states at the start of each chunk, which the gradient reuses."""
    u, dt, a = inputs[:3]
    bc, chunk = _side_by_side(b, inputs), _chunk(u)
    batch, times, channels = u.shape
    one_thread_each = batch * channels >= ENOUGH_CHANNELS or times <= SHORT_TIMES
    if one_thread_each and a.shape[1] <= MOST_STATES_PER_THREAD:
        y, starts = b.apply_many("state_scan", u, dt, a, bc, chunk=chunk, with_output=True)
        return y, starts
    starts = b.apply("state_scan", u, dt, a, bc, chunk=chunk, with_output=False)
    return b.apply("state_output", u, dt, a, bc, starts, chunk=chunk), starts


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


def _unchunked(x: Term, like: Value) -> Term:
    batch, chunks, chunk, channels = x.shape
    return _cut(x.reshape((batch, chunks * chunk, channels)), 1, 0, like.shape[1])


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


OPS = (
    Op(
        "selective_scan",
        infer,
        reference,
        Expand(expand),
        grad,
        [Sample(_inputs(*case), {}, -0.6, 0.6) for case in _CASES],
        effort=effort,
    ),
    Op(
        "selective_scan_grad",
        infer_grad,
        reference_grad,
        Expand(expand_grad),
        samples=[Sample([*_inputs(*case), _inputs(*case)[0]], {}, -0.4, 0.4) for case in _CASES],
        no_gradient=no_second_derivative(
            "selective_scan",
            "write the recurrence as a loop over time where it is differentiated twice: "
            "`h = exp(dt[:, t, :, new] * a) * h + (dt * u)[:, t, :, new] * b[:, t, new]`, and "
            "`sum(h * c[:, t, new], axis = -1)` is row t of the result",
        ),
        effort=effort,
    ),
)
