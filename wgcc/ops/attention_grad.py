"""The gradients of attention, with the probabilities recomputed from saved row statistics.

attention_stats(y, rows, dy) returns the two numbers of each row and sum(dy y), concatenated;
attention_grad_q(q, k, v, dy, stats[, offset][, mask]) returns dq, and attention_grad_kv (same
inputs) dk and dv, concatenated. attention_grad_mask, of the same inputs too, returns dmask.
attention_grad_stats_q(q, k, v, dy, y, rows) returns the statistics and dq, made by one kernel.

attention_grad_mask(q, k, v, dy, stats[, offset], mask): the gradient of attention's mask.

It is built from simpler ops, because it is as large as the mask itself.

The gradients of attention from ops that have gradients, to be differentiated again.

Scores and probabilities are computed from q, k and v and stored in full. What attention saved for
its gradients is not used: no gradient flows through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.graph import Builder, Node, TensorType, Value
from wgcc.ir.places import ceil_div
from wgcc.lazy_numpy import Array, np
from wgcc.ops.attention import (
    HIDDEN,
    AttentionScope,
    check_attention,
    gradient_samples,
    heads_of,
    masked_gradient_samples,
    optional,
    score_effort,
    scores,
)
from wgcc.ops.formula import Term
from wgcc.ops.registry import Expand, Op, Sample, ShapeError, Special


@dataclass(frozen=True, slots=True)
class _Scores:
    """Probabilities `p` and gradients of the scores `ds`; `k` is repeated for each head."""

    q: Term
    k: Term
    dy: Term
    scale: float
    p: Term
    ds: Term


def ordinary_attention(b: Builder, node: Node) -> Sequence[Value]:
    """Attention itself; what it saves for its gradients is zeros."""
    q, k, v = (Term(b, value) for value in node.inputs[:3])
    k, v = (_for_each_head(x, q.shape[1]) for x in (k, v))
    score = _product(q, _transpose(k)) * node.attrs["scale"]
    p = _probabilities(b, node, score, node.inputs[3:])
    rows = Term(b, b.constant(0.0)).broadcast(node.outputs[1].shape)
    return [_product(p, v).value, rows.value]


def attention_weights(b: Builder, node: Node) -> Value:
    """How much each row of q attends to each key, [batch, heads, rows, keys], for captures."""
    # p = exp(q kᵀ scale + mask - peak - log) where the key is visible
    q, k = (Term(b, value) for value in node.inputs[:2])
    score = _product(q, _transpose(_for_each_head(k, q.shape[1]))) * node.attrs["scale"]
    score, visible = _add_mask(b, node, score, node.inputs[3:])
    peak, log = (_column(Term(b, node.outputs[1]), at).broadcast(score.shape) for at in (0, 1))
    if visible is None:
        return (score - peak - log).exp().value
    near = visible.choose(score, 0) - visible.choose(peak, 0) - log
    return visible.choose(near.exp(), 0).value


def ordinary_grad_q(b: Builder, node: Node) -> Sequence[Value]:
    # dq = ds k scale
    terms = _scores(b, node)
    return [(_product(terms.ds, terms.k) * terms.scale).value]


def ordinary_grad_kv(b: Builder, node: Node) -> Sequence[Value]:
    # dk = dsᵀ q scale, dv = pᵀ dy, both added up over the heads that share keys
    terms = _scores(b, node)
    dk = _product(_transpose(terms.ds), terms.q) * terms.scale
    dv = _product(_transpose(terms.p), terms.dy)
    both = dk.apply("concat", dv, axis=3)
    batch, heads, keys, width = both.shape
    key_heads = node.inputs[1].shape[1]
    shared = both.reshape((batch, key_heads, heads // key_heads, keys, width))
    return [shared.sum((2,)).value]


def ordinary_grad_mask(b: Builder, node: Node) -> Sequence[Value]:
    # dmask = ds
    return [_scores(b, node).ds.value]


def _scores(b: Builder, node: Node) -> _Scores:
    # p = softmax(q kᵀ scale + mask), dp = dy vᵀ, ds = p (dp - Σ p dp)
    q, k, v, dy = (Term(b, value) for value in node.inputs[:4])
    k, v = (_for_each_head(x, q.shape[1]) for x in (k, v))
    score = _product(q, _transpose(k)) * node.attrs["scale"]
    p = _probabilities(b, node, score, node.inputs[5:])
    dp = _product(dy, _transpose(v))
    ds = p * (dp - (p * dp).sum((3,)).spread((3,), p.shape))
    return _Scores(q, k, dy, node.attrs["scale"], p, ds)


def _probabilities(b: Builder, node: Node, score: Term, extras: Sequence[Value]) -> Term:
    """The softmax of each row over the keys it attends to; zeros if there are none."""
    score, visible = _add_mask(b, node, score, extras)
    if visible is not None:
        score = visible.choose(score, HIDDEN)
    peak = score.apply("peak", axes=(3,)).apply("stop_grad").spread((3,), score.shape)
    weights = (score - peak).exp()
    if visible is None:
        return weights / weights.sum((3,)).spread((3,), score.shape)
    weights = visible.choose(weights, 0)
    total = weights.sum((3,))
    safe = total.exceeds(0).choose(total, 1)
    return weights / safe.spread((3,), score.shape)


def _add_mask(
    b: Builder, node: Node, score: Term, extras: Sequence[Value]
) -> tuple[Term, Term | None]:
    """Scores with the mask added, and which of them count; None if all do."""
    offset, mask = optional(extras)
    visible = visible_by_position(b, node, offset, score.shape)
    if mask is None:
        return score, visible
    shown = Term(b, mask).exceeds(HIDDEN)
    visible = shown if visible is None else visible.apply("logical_and", shown)
    return score + shown.choose(Term(b, mask), 0), visible


def _for_each_head(keys: Term, heads: int) -> Term:
    batch, key_heads, *rest = keys.shape
    apart = keys.reshape((batch, key_heads, 1, *rest))
    repeated = apart.broadcast((batch, key_heads, heads // key_heads, *rest))
    return repeated.reshape((batch, heads, *rest))


def _transpose(x: Term) -> Term:
    return x.apply("transpose", perm=(0, 1, 3, 2))


def _product(x: Term, y: Term) -> Term:
    """The matrix product for each head of each batch."""
    (batch, heads, rows, _), cols = x.shape, y.shape[3]
    flat = [term.reshape((batch * heads, *term.shape[2:])) for term in (x, y)]
    return flat[0].apply("matmul", flat[1]).reshape((batch, heads, rows, cols))


def expand_grad_mask(b: Builder, node: Node) -> Sequence[Value]:
    # dmask = p (dy vᵀ - stat) with p = exp(q kᵀ scale + mask - peak - log) where the key is visible
    q, k, v, dy, stats = (Term(b, value) for value in node.inputs[:5])
    offset, mask = optional(node.inputs[5:])
    assert mask is not None
    hidden = Term(b, mask)
    pairs = k.shape[0] * k.shape[1]
    peak, log, stat = (_column(stats, at).broadcast(mask.shape) for at in (0, 1, 2))
    score = _products(q, k, pairs).reshape(mask.shape) * node.attrs["scale"] + hidden
    visible = hidden.exceeds(HIDDEN)
    near = visible_by_position(b, node, offset, mask.shape)
    visible = visible if near is None else visible.apply("logical_and", near)
    p = visible.choose((visible.choose(score, 0) - visible.choose(peak, 0) - log).exp(), 0)
    return [(p * (_products(dy, v, pairs).reshape(mask.shape) - stat)).value]


def _column(stats: Term, at: int) -> Term:
    sizes = (*stats.shape[:3], 1)
    return stats.apply("slice", starts=(0, 0, 0, at), sizes=sizes, steps=(1, 1, 1, 1))


def _products(rows: Term, keys: Term, pairs: int) -> Term:
    """rows keysᵀ; the heads that share a key head are rows of one matrix."""
    tall = rows.reshape(
        (pairs, ceil_div(rows.value.type.size, pairs * rows.shape[3]), rows.shape[3])
    )
    wide = keys.reshape((pairs, *keys.shape[2:])).apply("transpose", perm=(0, 2, 1))
    return tall.apply("matmul", wide)


def visible_by_position(
    b: Builder, node: Node, offset: Value | None, shape: tuple[int, ...]
) -> Term | None:
    """Whether each row attends to each key, by position; None if all rows attend to all keys."""
    rows, keys = shape[2:]
    row = Term(b, b.apply("iota", n=rows, dtype="i32"))
    key = Term(b, b.apply("iota", n=keys, dtype="i32")).broadcast((rows, keys))
    if offset is not None:
        row = row + Term(b, offset).cast("i32").broadcast((rows,))
    distance = key - row.reshape((rows, 1)).broadcast((rows, keys))
    parts = []
    if node.attrs["causal"]:
        parts.append(distance.like(1).exceeds(distance))
    if (window := node.attrs["window"]) is not None:
        parts.append(distance.like(window).exceeds(distance.apply("abs")))
    if not parts:
        return None
    both = parts[0] if len(parts) == 1 else parts[0].apply("logical_and", parts[1])
    return both.broadcast(shape)


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
    logits, counts = scores(q, k, extras, AttentionScope(causal, window), scale)
    exponent = logits - stats[..., :1] - stats[..., 1:2]
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
