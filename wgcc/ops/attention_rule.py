"""Shapes, visible keys and scores of attention, shared by attention and its gradients (numpy).

q is [batch, heads, rows, inner], k and v are [batch, key heads, keys, …]; neighbouring heads of q
share a key head. Optional inputs follow: `offset` (a whole number: the position of the first row)
and `mask` (added to the scores, [batch, heads, rows, keys]).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from wgcc.ir.graph import INTEGERS, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.checks import check_dtype, check_scalar
from wgcc.ops.registry import ShapeError

# A key whose mask is not above this is hidden: WGSL has no infinity. It is also the log of a sum
# over no keys at all.
HIDDEN = -1e30

Item = TypeVar("Item", TensorType, Value, Array)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which keys a row attends to. `window` counts the nearest positions, including its own."""

    causal: bool
    window: int | None

    def visible(self, rows: int, keys: int, offset: int) -> Array:
        distance = np.arange(keys) - (np.arange(rows)[:, None] + offset)
        visible = np.ones((rows, keys), bool)
        if self.causal:
            visible &= distance <= 0
        if self.window is not None:
            visible &= np.abs(distance) < self.window
        return visible


def optional(items: Sequence[Item]) -> tuple[Item | None, Item | None]:
    """(offset, mask) of the inputs that follow the required ones; the mask has axes."""
    offset = next((item for item in items if not item.shape), None)
    mask = next((item for item in items if item.shape), None)
    return offset, mask


def check_attention(
    op: str, q: TensorType, k: TensorType, v: TensorType, extras: Sequence[TensorType]
) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_dtype(op, x, ("f32",))
        if x.rank != 4:
            raise ShapeError(f"{op}: {name} must be [batch, heads, rows, size], not {x}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ShapeError(f"{op}: {q}, {k} and {v} do not fit together")
    if q.shape[1] % k.shape[1]:
        raise ShapeError(f"{op}: {q.shape[1]} heads cannot share {k.shape[1]} evenly")
    offset, mask = optional(extras)
    if len(extras) != (offset is not None) + (mask is not None):
        raise ShapeError(f"{op} takes one offset and one mask at most")
    if offset is not None:
        check_scalar(op, "the offset", offset, INTEGERS)
    if mask is not None and mask != TensorType((*q.shape[:3], k.shape[2])):
        raise ShapeError(f"{op}: the mask must be [batch, heads, rows, keys], not {mask}")


def heads_of(keys: Array, heads: int) -> Array:
    """Keys or values, repeated for each head of q."""
    return np.repeat(keys, heads // keys.shape[1], axis=1)


def scores(
    q: Array, k: Array, extras: Sequence[Array], scope: Scope, scale: float
) -> tuple[Array, Array]:
    """(score of every key for every row, whether it counts)."""
    offset, mask = optional(extras)
    found = q @ heads_of(k, q.shape[1]).swapaxes(-1, -2) * scale
    visible = scope.visible(q.shape[2], k.shape[2], 0 if offset is None else int(offset))
    counts = np.broadcast_to(visible, found.shape)
    if mask is not None:
        found, counts = found + mask, counts & (mask > HIDDEN)
    return np.where(counts, found, np.asarray(HIDDEN, found.dtype)), counts


def score_effort(node: Node) -> int:
    """There is a score for every row and key, and each is used several times."""
    q, k = node.inputs[:2]
    return q.type.size // q.shape[-1] * k.shape[-2] * (8 + q.shape[-1] // 4)
