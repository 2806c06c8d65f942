"""The gradients of attention, with the probabilities recomputed from saved row statistics.

attention_stats(y, rows, dy) returns the two numbers of each row and sum(dy y), concatenated;
attention_grad_q(q, k, v, dy, stats[, offset][, mask]) returns dq, and attention_grad_kv (same
inputs) dk and dv, concatenated. attention_grad_mask, of the same inputs too, returns dmask.
attention_grad_stats_q(q, k, v, dy, y, rows) returns the statistics and dq, made by one kernel.
"""

from __future__ import annotations

from wgcc.ir.graph import TensorType
from wgcc.lazy_numpy import Array, np
from wgcc.ops.attention_mask import expand_grad_mask
from wgcc.ops.attention_ordinary import ordinary_grad_kv, ordinary_grad_mask, ordinary_grad_q
from wgcc.ops.attention_rule import (
    Scope,
    check_attention,
    heads_of,
    optional,
    score_effort,
    scores,
)
from wgcc.ops.attention_samples import gradient_samples, masked_gradient_samples
from wgcc.ops.registry import Expand, Op, Sample, ShapeError, Special


def infer_stats(y: TensorType, rows: TensorType, dy: TensorType) -> TensorType:
    if y != dy or rows != TensorType((*y.shape[:-1], 2)):
        raise ShapeError(f"attention_stats: {y}, {rows} and {dy} do not fit together")
    return TensorType((*y.shape[:-1], 3))


def reference_stats(y: Array, rows: Array, dy: Array) -> Array:
    return np.concatenate([rows, (y * dy).sum(-1, keepdims=True)], -1)


def _check(op: str, types: tuple[TensorType, ...]) -> None:
    q, k, v, dy, stats, *extras = types
    check_attention(op, q, k, v, extras)
    if dy != TensorType((*q.shape[:3], v.shape[3])) or stats != TensorType((*q.shape[:3], 3)):
        raise ShapeError(f"{op}: {dy} and {stats} do not fit {q} and {v}")


def infer_q(*types: TensorType, causal: bool, scale: float, window: int | None) -> TensorType:
    _check("attention_grad_q", types)
    return types[0]


def infer_stats_q(
    *types: TensorType, causal: bool, scale: float, window: int | None
) -> tuple[TensorType, TensorType]:
    q, k, v, dy, y, rows = types
    stats = infer_stats(y, rows, dy)
    _check("attention_grad_stats_q", (q, k, v, dy, stats))
    return stats, q


def infer_kv(*types: TensorType, causal: bool, scale: float, window: int | None) -> TensorType:
    _check("attention_grad_kv", types)
    k, v = types[1:3]
    return TensorType((*k.shape[:3], k.shape[3] + v.shape[3]))


def infer_mask(*types: TensorType, causal: bool, scale: float, window: int | None) -> TensorType:
    _check("attention_grad_mask", types)
    _, mask = optional(types[5:])
    if mask is None:
        raise ShapeError("attention_grad_mask needs a mask")
    return mask


def _weights(
    arrays: tuple[Array, ...], causal: bool, scale: float, window: int | None
) -> tuple[Array, Array]:
    """(probabilities, gradients of the scores)."""
    q, k, v, dy, stats, *extras = arrays
    found, counts = scores(q, k, extras, Scope(causal, window), scale)
    exponent = found - stats[..., :1] - stats[..., 1:2]
    p = np.where(counts, np.exp(np.where(counts, exponent, 0)), 0).astype(q.dtype)
    return p, p * (dy @ heads_of(v, q.shape[1]).swapaxes(-1, -2) - stats[..., 2:])


def reference_q(*arrays: Array, causal: bool, scale: float, window: int | None) -> Array:
    _, ds = _weights(arrays, causal, scale, window)
    return np.asarray(ds @ heads_of(arrays[1], ds.shape[1]) * scale)


def reference_stats_q(
    *arrays: Array, causal: bool, scale: float, window: int | None
) -> tuple[Array, Array]:
    q, k, v, dy, y, rows = arrays
    stats = reference_stats(y, rows, dy)
    return stats, reference_q(q, k, v, dy, stats, causal=causal, scale=scale, window=window)


def reference_kv(*arrays: Array, causal: bool, scale: float, window: int | None) -> Array:
    q, k, _, dy = arrays[:4]
    p, ds = _weights(arrays, causal, scale, window)
    both = np.concatenate([ds.swapaxes(-1, -2) @ q * scale, p.swapaxes(-1, -2) @ dy], -1)
    shared = both.reshape(*k.shape[:2], -1, *both.shape[2:])
    return np.asarray(shared.sum(2))


def reference_mask(*arrays: Array, causal: bool, scale: float, window: int | None) -> Array:
    _, ds = _weights(arrays, causal, scale, window)
    return ds


_STATS = ((1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 65, 4), (3, 1, 1, 33))

OPS = (
    Op(
        "attention_stats",
        infer_stats,
        reference_stats,
        Special("attention_stats", inlines=False),
        samples=[Sample([shape, (*shape[:-1], 2), shape]) for shape in _STATS],
    ),
    Op(
        "attention_grad_q",
        infer_q,
        reference_q,
        Special("attention_grad_q", inlines=False),
        samples=gradient_samples(),
        effort=score_effort,
        ordinary=ordinary_grad_q,
    ),
    Op(
        "attention_grad_stats_q",
        infer_stats_q,
        reference_stats_q,
        Special("attention_grad_q", inlines=False),
        samples=gradient_samples(with_stats=False),
        effort=score_effort,
    ),
    Op(
        "attention_grad_kv",
        infer_kv,
        reference_kv,
        Special("attention_grad_kv", inlines=False),
        samples=gradient_samples(),
        effort=score_effort,
        ordinary=ordinary_grad_kv,
    ),
    Op(
        "attention_grad_mask",
        infer_mask,
        reference_mask,
        Expand(expand_grad_mask),
        samples=masked_gradient_samples(),
        effort=score_effort,
        ordinary=ordinary_grad_mask,
    ),
)
