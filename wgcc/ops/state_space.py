"""The parts of selective_scan and its gradient, each one kernel.

Time is divided into chunks of `chunk` steps; only the hidden state at each chunk's start (`starts`)
and the gradient at its end (`ends`) are stored, both [batch, chunks, states, channels]; the states
between them are recomputed. `bc` is b and c concatenated: a kernel has only 8 bindings.

What a step adds is gain · u b. The gain is dt, or with `zero_order` (exp(dt a) - 1) / a, whose
derivatives are exp(dt a) with respect to dt and dt² (f(dt a) - f₂(dt a)) with respect to a, where f
and f₂ are orders 1 and 2 of exp_tail (unary.py).
"""

from __future__ import annotations

from wgcc.ir.graph import Node, TensorType
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import Array, np
from wgcc.ops.registry import Op, Sample, ShapeError, SharedAxis, Special
from wgcc.ops.unary import reference as exp_tail

Type = TensorType


def chunks_of(times: int, chunk: int) -> int:
    return ceil_div(times, chunk)


def reference_scan(
    u: Array,
    dt: Array,
    a: Array,
    bc: Array,
    chunk: int,
    with_output: bool,
    zero_order: bool = False,
) -> Array | tuple[Array, Array]:
    starts = reference_starts(u, dt, a, bc, chunk, zero_order)
    if not with_output:
        return starts
    return reference_output(u, dt, a, bc, starts, chunk, zero_order), starts


def reference_starts(
    u: Array, dt: Array, a: Array, bc: Array, chunk: int, zero_order: bool = False
) -> Array:
    batch, times, channels = u.shape
    states = a.shape[1]
    h = np.zeros((batch, states, channels), u.dtype)
    starts = np.zeros((batch, chunks_of(times, chunk), states, channels), u.dtype)
    for t in range(times):
        if t % chunk == 0:
            starts[:, t // chunk] = h
        inflow = u[:, t, None] * bc[:, t, :states, None]
        h = np.exp(dt[:, t, None] * a.T) * h + _gain(dt[:, t, None], a, zero_order) * inflow
    return starts


def _gain(dt: Array, a: Array, zero_order: bool) -> Array:
    """The factor of what flows in, [.., states, channels]; `dt` is [.., 1, channels]."""
    return dt * exp_tail(dt * a.T, 1) if zero_order else dt


def reference_output(
    u: Array,
    dt: Array,
    a: Array,
    bc: Array,
    starts: Array,
    chunk: int,
    zero_order: bool = False,
) -> Array:
    h, _ = _trajectory(u, dt, a, bc, starts, chunk, zero_order)
    return np.asarray(np.einsum("btne,btn->bte", h, bc[:, :, a.shape[1] :]))


def reference_ends(dt: Array, a: Array, bc: Array, g: Array, chunk: int) -> Array:
    batch, times, channels = g.shape
    states = a.shape[1]
    v = np.zeros((batch, states, channels), g.dtype)
    ends = np.zeros((batch, chunks_of(times, chunk), states, channels), g.dtype)
    for t in reversed(range(times)):
        if t == times - 1 or (t + 1) % chunk == 0:
            ends[:, t // chunk] = v
        v = np.exp(dt[:, t, None] * a.T) * (v + bc[:, t, states:, None] * g[:, t, None])
    return ends


def reference_grad_channels(
    u: Array,
    dt: Array,
    a: Array,
    bc: Array,
    g: Array,
    starts: Array,
    ends: Array,
    chunk: int,
    zero_order: bool = False,
) -> Array:
    """[batch, chunks, 2 chunk + states, channels]: rows of du, of ddt, then a part of da."""
    batch, times, channels = u.shape
    states, chunks = a.shape[1], starts.shape[1]
    _, before = _trajectory(u, dt, a, bc, starts, chunk, zero_order)
    v = _adjoints(dt, a, bc, g, ends, chunk)
    through_b, through_decay = v * bc[:, :, :states, None], before * v
    step, rate = dt[:, :, None], dt[:, :, None] * a.T
    by_dt = np.exp(rate) if zero_order else np.ones_like(rate)
    by_a = step**2 * (exp_tail(rate, 1) - exp_tail(rate, 2)) if zero_order else 0 * rate
    rows = np.zeros((batch, chunks * chunk, 2, channels), u.dtype)
    rows[:, :times, 0] = (_gain(step, a, zero_order) * through_b).sum(2)
    rows[:, :times, 1] = u * (by_dt * through_b).sum(2) + (through_decay * a.T).sum(2)
    da = np.zeros((batch, chunks * chunk, states, channels), u.dtype)
    da[:, :times] = step * through_decay + u[:, :, None] * by_a * through_b
    by_chunk = rows.reshape(batch, chunks, chunk, 2, channels).swapaxes(2, 3)
    return np.concatenate(
        [
            by_chunk.reshape(batch, chunks, 2 * chunk, channels),
            da.reshape(batch, chunks, chunk, states, channels).sum(2),
        ],
        axis=2,
    )


def reference_grad_states(
    u: Array,
    dt: Array,
    a: Array,
    bc: Array,
    g: Array,
    starts: Array,
    ends: Array,
    chunk: int,
    parts: int,
    zero_order: bool = False,
) -> Array:
    """[parts, batch, times, 2 states]: db and dc, each part summed over some of the channels."""
    h, _ = _trajectory(u, dt, a, bc, starts, chunk, zero_order)
    v = _adjoints(dt, a, bc, g, ends, chunk)
    db = v * _gain(dt[:, :, None], a, zero_order) * u[:, :, None]
    dc = h * g[:, :, None]
    both = np.concatenate([db, dc], axis=2)
    split = both.reshape(*both.shape[:3], parts, both.shape[3] // parts)
    return np.asarray(np.moveaxis(split.sum(4), 3, 0))


def _trajectory(
    u: Array, dt: Array, a: Array, bc: Array, starts: Array, chunk: int, zero_order: bool
) -> tuple[Array, Array]:
    """h_t and the decayed h_{t-1}, [batch, times, states, channels]."""
    states = a.shape[1]
    hs, before, h = [], [], starts[:, 0]
    for t in range(u.shape[1]):
        h = starts[:, t // chunk] if t % chunk == 0 else h
        before.append(np.exp(dt[:, t, None] * a.T) * h)
        inflow = u[:, t, None] * bc[:, t, :states, None]
        h = before[-1] + _gain(dt[:, t, None], a, zero_order) * inflow
        hs.append(h)
    return np.stack(hs, 1), np.stack(before, 1)


def _adjoints(dt: Array, a: Array, bc: Array, g: Array, ends: Array, chunk: int) -> Array:
    """The gradient of h_t, [batch, times, states, channels]."""
    states, times = a.shape[1], dt.shape[1]
    adjoints, v = [], ends[:, -1]
    for t in reversed(range(times)):
        v = ends[:, t // chunk] if t == times - 1 or (t + 1) % chunk == 0 else v
        v = v + bc[:, t, states:, None] * g[:, t, None]
        adjoints.append(v)
        v = v * np.exp(dt[:, t, None] * a.T)
    return np.stack(adjoints[::-1], 1)


def separate(node: Node) -> list[SharedAxis]:
    """The batch, which only `a` (the third input) does not have."""
    inputs = (None if i == 2 else 0 for i in range(len(node.inputs)))
    return [(tuple(inputs), (0,) * len(node.outputs))]


def infer_scan(
    u: Type,
    dt: Type,
    a: Type,
    bc: Type,
    chunk: int,
    with_output: bool,
    zero_order: bool = False,
) -> Type | tuple[Type, Type]:
    _check("state_scan", a, bc, u, dt)
    starts = _carries(u, a, chunk)
    return (u, starts) if with_output else starts


def infer_output(
    u: Type,
    dt: Type,
    a: Type,
    bc: Type,
    starts: Type,
    chunk: int,
    zero_order: bool = False,
) -> Type:
    _check("state_output", a, bc, u, dt)
    _check_carries("state_output", starts, u, a, chunk)
    return u


def infer_ends(dt: Type, a: Type, bc: Type, g: Type, chunk: int) -> Type:
    _check("state_ends", a, bc, dt, g)
    return _carries(dt, a, chunk)


def infer_grad_channels(
    u: Type,
    dt: Type,
    a: Type,
    bc: Type,
    g: Type,
    starts: Type,
    ends: Type,
    chunk: int,
    zero_order: bool = False,
) -> Type:
    _check("state_grad_channels", a, bc, u, dt, g)
    for carries in (starts, ends):
        _check_carries("state_grad_channels", carries, u, a, chunk)
    batch, chunks, states, channels = starts.shape
    return Type((batch, chunks, 2 * chunk + states, channels))


def infer_grad_states(
    u: Type,
    dt: Type,
    a: Type,
    bc: Type,
    g: Type,
    starts: Type,
    ends: Type,
    chunk: int,
    parts: int,
    zero_order: bool = False,
) -> Type:
    _check("state_grad_states", a, bc, u, dt, g)
    for carries in (starts, ends):
        _check_carries("state_grad_states", carries, u, a, chunk)
    if u.shape[2] % parts:
        raise ShapeError(f"state_grad_states: {parts} parts do not divide {u.shape[2]} channels")
    return Type((parts, *bc.shape))


def _check(op: str, a: Type, bc: Type, *channelled: Type) -> None:
    """All f32; u, dt and g [batch, times, channels]; a [channels, states]; bc twice the states."""
    types = (a, bc, *channelled)
    fits = all(type_.dtype == "f32" for type_ in types) and len({t.shape for t in channelled}) == 1
    if fits and channelled[0].rank == 3 and a.rank == 2:
        batch, times, channels = channelled[0].shape
        fits = a.shape[0] == channels and bc.shape == (batch, times, 2 * a.shape[1])
        if fits:
            return
    raise ShapeError(f"{op}: {', '.join(map(str, types))} do not fit together")


def _carries(u: Type, a: Type, chunk: int) -> Type:
    batch, times, channels = u.shape
    return Type((batch, chunks_of(times, chunk), a.shape[1], channels))


def _check_carries(op: str, carries: Type, u: Type, a: Type, chunk: int) -> None:
    if carries != _carries(u, a, chunk):
        raise ShapeError(f"{op}: {carries} should be {_carries(u, a, chunk)}")


# batch, times, channels, states, chunk
_CASES = (
    (1, 1, 1, 1, 1),
    (2, 5, 3, 4, 8),
    (1, 17, 5, 3, 8),
    (3, 16, 65, 2, 4),
    (1, 33, 7, 16, 16),
)


def _sample(case: tuple[int, ...], names: str, **attrs: int | bool) -> Sample:
    batch, times, channels, states, chunk = case
    along, carries = (batch, times, channels), (batch, chunks_of(times, chunk), states, channels)
    shapes = {"a": (channels, states), "bc": (batch, times, 2 * states)}
    shapes |= {"u": along, "dt": along, "g": along, "starts": carries, "ends": carries}
    inputs = [shapes[name] for name in names.split()]
    return Sample(inputs, {"chunk": chunk, **attrs}, -0.8, 0.8)


# Each case, and one of them with the other gain.
_HOLDS = (*((case, False) for case in _CASES), (_CASES[2], True))
_GRAD_INPUTS = "u dt a bc g starts ends"

OPS = (
    Op(
        "state_scan",
        infer_scan,
        reference_scan,
        Special("state_scan", inlines=False),
        samples=[
            _sample(case, "u dt a bc", with_output=kept, zero_order=hold)
            for case, hold in _HOLDS
            for kept in (True, False)
        ],
        separate=separate,
    ),
    Op(
        "state_output",
        infer_output,
        reference_output,
        Special("state_output", inlines=False),
        samples=[_sample(case, "u dt a bc starts", zero_order=hold) for case, hold in _HOLDS],
        separate=separate,
    ),
    Op(
        "state_ends",
        infer_ends,
        reference_ends,
        Special("state_ends", inlines=False),
        samples=[_sample(case, "dt a bc g") for case in _CASES],
    ),
    Op(
        "state_grad_channels",
        infer_grad_channels,
        reference_grad_channels,
        Special("state_grad_channels", inlines=False),
        samples=[_sample(case, _GRAD_INPUTS, zero_order=hold) for case, hold in _HOLDS],
    ),
    Op(
        "state_grad_states",
        infer_grad_states,
        reference_grad_states,
        Special("state_grad_states", inlines=False),
        samples=[
            *(_sample(case, _GRAD_INPUTS, parts=1, zero_order=hold) for case, hold in _HOLDS),
            _sample(_CASES[3], _GRAD_INPUTS, parts=5),
        ],
    ),
)
