"""attention_grad_mask(q, k, v, dy, stats[, offset], mask): the gradient of attention's mask.

It is built from simpler ops, because it is as large as the mask itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ops.attention_rule import HIDDEN, optional
from wgcc.ops.formula import Term


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
    tall = rows.reshape((pairs, -(-rows.value.type.size // (pairs * rows.shape[3])), rows.shape[3]))
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
