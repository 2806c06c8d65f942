"""The gradients of attention from ops that have gradients, to be differentiated again.

Scores and probabilities are computed from q, k and v and stored in full. What attention saved for
its gradients is not used: no gradient flows through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops.attention_mask import visible_by_position
from wgcc.ops.attention_rule import HIDDEN, optional
from wgcc.ops.formula import Term


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
    score = _product(q, _transposed(k)) * node.attrs["scale"]
    p = _probabilities(b, node, score, node.inputs[3:])
    rows = Term(b, b.constant(0.0)).broadcast(node.outputs[1].shape)
    return [_product(p, v).value, rows.value]


def ordinary_grad_q(b: Builder, node: Node) -> Sequence[Value]:
    # dq = ds k scale
    found = _scores(b, node)
    return [(_product(found.ds, found.k) * found.scale).value]


def ordinary_grad_kv(b: Builder, node: Node) -> Sequence[Value]:
    # dk = dsᵀ q scale, dv = pᵀ dy, both added up over the heads that share keys
    found = _scores(b, node)
    dk = _product(_transposed(found.ds), found.q) * found.scale
    dv = _product(_transposed(found.p), found.dy)
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
    score = _product(q, _transposed(k)) * node.attrs["scale"]
    p = _probabilities(b, node, score, node.inputs[5:])
    dp = _product(dy, _transposed(v))
    ds = p * (dp - (p * dp).sum((3,)).spread((3,), p.shape))
    return _Scores(q, k, dy, node.attrs["scale"], p, ds)


def _probabilities(b: Builder, node: Node, score: Term, extras: Sequence[Value]) -> Term:
    """The softmax of each row over the keys it attends to; zeros if there are none."""
    offset, mask = optional(extras)
    visible = visible_by_position(b, node, offset, score.shape)
    if mask is not None:
        shown = Term(b, mask).exceeds(HIDDEN)
        visible = shown if visible is None else visible.apply("logical_and", shown)
        score = score + shown.choose(Term(b, mask), 0)
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


def _for_each_head(keys: Term, heads: int) -> Term:
    batch, key_heads, *rest = keys.shape
    apart = keys.reshape((batch, key_heads, 1, *rest))
    repeated = apart.broadcast((batch, key_heads, heads // key_heads, *rest))
    return repeated.reshape((batch, heads, *rest))


def _transposed(x: Term) -> Term:
    return x.apply("transpose", perm=(0, 1, 3, 2))


def _product(x: Term, y: Term) -> Term:
    """The matrix product for each head of each batch."""
    (batch, heads, rows, _), cols = x.shape, y.shape[3]
    flat = [term.reshape((batch * heads, *term.shape[2:])) for term in (x, y)]
    return flat[0].apply("matmul", flat[1]).reshape((batch, heads, rows, cols))
