"""attention(q, k, v[, offset][, mask]; causal, scale, window): softmax(q kᵀ scale + mask) v.

Returns the result and, for the gradients, two numbers per row: the greatest score, and the log of
the sum of exponentials relative to it. Their sum alone would lose digits where all scores of a row
share an offset. A row that attends to no key gives zeros. See attention_rule.py for the shapes and
for which rows attend to which keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.attention_rule import Scope, check_attention, heads_of, optional, score_effort, scores
from wgcc.ops.attention_samples import samples
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, SharedAxis, Special


def infer(
    q: TensorType,
    k: TensorType,
    v: TensorType,
    *extras: TensorType,
    causal: bool,
    scale: float,
    window: int | None,
) -> tuple[TensorType, TensorType]:
    check_attention("attention", q, k, v, extras)
    return TensorType((*q.shape[:3], v.shape[3])), TensorType((*q.shape[:3], 2))


def reference(
    q: Array, k: Array, v: Array, *extras: Array, causal: bool, scale: float, window: int | None
) -> tuple[Array, Array]:
    found, counts = scores(q, k, extras, Scope(causal, window), scale)
    peak = found.max(-1, keepdims=True)
    weights = np.where(counts, np.exp(found - peak), 0).astype(q.dtype)
    total = weights.sum(-1, keepdims=True)
    safe = np.where(total > 0, total, 1)
    rows = np.concatenate([peak, np.log(safe)], -1).astype(q.dtype)
    return (weights / safe) @ heads_of(v, q.shape[1]), rows


def separate(node: Node) -> list[SharedAxis]:
    """The batch; the mask has one, the offset has no axes."""
    extras = (0 if value.shape else None for value in node.inputs[3:])
    return [((0, 0, 0, *extras), (0, 0))]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # p = exp(score - peak - log), ds = p (dy vᵀ - sum(dy y)):
    # dq = ds k scale, dk = dsᵀ q scale, dv = pᵀ dy, dmask = ds
    (q, k, v, *extras), (y, rows), dy = node.inputs, node.outputs, gs[0]
    if dy is None:
        return [None] * len(node.inputs)
    stats = b.apply("attention_stats", y, rows, dy)
    given = (q, k, v, dy, stats, *extras)
    dq = b.apply("attention_grad_q", *given, **node.attrs)
    both = Term(b, b.apply("attention_grad_kv", *given, **node.attrs))
    dk = _columns(both, 0, k.shape[3])
    dv = _columns(both, k.shape[3], v.shape[3])
    _, mask = optional(extras)
    dmask = mask and b.apply("attention_grad_mask", *given, **node.attrs)
    return [dq, dk, dv, *(dmask if value is mask else None for value in extras)]


def _columns(x: Term, start: int, size: int) -> Value:
    sizes = (*x.shape[:3], size)
    return x.apply("slice", starts=(0, 0, 0, start), sizes=sizes, steps=(1, 1, 1, 1)).value


# Keys are read once for every block of rows, so computing them while they are read costs too much.
OPS = (
    Op(
        "attention",
        infer,
        reference,
        Special("attention", inlines=False),
        grad,
        samples(),
        saved=1,
        effort=score_effort,
        separate=separate,
    ),
)
