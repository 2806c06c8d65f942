"""attention(q, k, v[, offset][, mask]; causal, scale, window): softmax(q kᵀ scale + mask) v.

Returns the result and, for the gradients, two numbers per row: the greatest score, and the log of
the sum of exponentials relative to it. Their sum alone would lose digits where all scores of a row
share an offset. A row that attends to no key gives zeros.

q is [batch, heads, rows, inner], k and v are [batch, key heads, keys, …]; neighbouring heads of q
share a key head. Optional inputs follow: `offset` (a whole number: the position of the first row)
and `mask` (added to the scores, [batch, heads, rows, keys]).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from wgcc.ir.graph import INTEGERS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, Sample, ShapeError, SharedAxis, Special, check_dtype, check_scalar

# A key whose mask is not above this is hidden: WGSL has no infinity. It is also the log of a sum
# over no keys at all.
HIDDEN = -1e30

Item = TypeVar("Item", TensorType, Value, Array)


@dataclass(frozen=True, slots=True)
class AttentionScope:
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
    q: Array, k: Array, extras: Sequence[Array], scope: AttentionScope, scale: float
) -> tuple[Array, Array]:
    """(score of every key for every row, whether it counts)."""
    offset, mask = optional(extras)
    logits = q @ heads_of(k, q.shape[1]).swapaxes(-1, -2) * scale
    visible = scope.visible(q.shape[2], k.shape[2], 0 if offset is None else int(offset))
    counts = np.broadcast_to(visible, logits.shape)
    if mask is not None:
        logits, counts = logits + mask, counts & (mask > HIDDEN)
    return np.where(counts, logits, np.asarray(HIDDEN, logits.dtype)), counts


def score_effort(node: Node) -> int:
    """There is a score for every row and key, and each is used several times."""
    q, k = node.inputs[:2]
    return q.type.size // q.shape[-1] * k.shape[-2] * (8 + q.shape[-1] // 4)


OFFSET = TensorType((), "i32")


@dataclass(frozen=True, slots=True)
class Case:
    """`shape` is batch, heads, key heads, rows, keys, inner size, size of v."""

    shape: tuple[int, int, int, int, int, int, int]
    causal: bool = False
    window: int | None = None
    offset: int | None = None
    masked: bool = False

    @property
    def attrs(self) -> dict[str, Any]:
        return {"causal": self.causal, "scale": 0.4, "window": self.window}

    def operands(self) -> list[tuple[int, ...]]:
        batch, heads, key_heads, rows, keys, inner, width = self.shape
        return [
            (batch, heads, rows, inner),
            (batch, key_heads, keys, inner),
            (batch, key_heads, keys, width),
        ]

    def extras(self) -> list[tuple[int, ...] | TensorType]:
        batch, heads, _, rows, keys, _, _ = self.shape
        mask = [(batch, heads, rows, keys)] if self.masked else []
        return [*([] if self.offset is None else [OFFSET]), *mask]

    def sample(self, inputs: Sequence[tuple[int, ...] | TensorType], size: float) -> Sample:
        """Inputs (and extras) drawn between ±`size`."""
        at = self.offset or 0
        return Sample([*inputs, *self.extras()], self.attrs, -size, size, integers=(at, at))


CASES = (
    Case((1, 1, 1, 1, 1, 1, 1)),
    Case((2, 2, 2, 5, 7, 3, 5)),
    Case((1, 2, 1, 67, 67, 21, 34), causal=True),
    Case((2, 6, 2, 13, 13, 5, 6), causal=True),
    Case((1, 4, 2, 1, 37, 8, 8), causal=True, offset=20),
    Case((1, 3, 3, 3, 11, 4, 2), causal=True, offset=-2),
    Case((1, 2, 2, 19, 23, 4, 4), window=3),
    Case((1, 4, 1, 17, 17, 6, 4), causal=True, window=5),
    Case((1, 2, 1, 5, 31, 7, 3), causal=True, window=4, offset=29),
    Case((2, 2, 2, 9, 6, 4, 4), masked=True),
    Case((1, 4, 2, 7, 10, 2, 3), causal=True, window=6, offset=3, masked=True),
)


def samples() -> list[Sample]:
    return [case.sample(case.operands(), 2.0) for case in CASES]


def gradient_samples(with_stats: bool = True) -> list[Sample]:
    """Small numbers: row statistics are random, too, so exp(score - peak - log) could overflow.

    Without statistics the result and two numbers of each row are given, and no extras.
    """
    small_samples = []
    for case in CASES:
        q, k, v = case.operands()
        dy = (*q[:3], v[3])
        rows = [dy, (*q[:3], 3)] if with_stats else [dy, dy, (*q[:3], 2)]
        if case.extras() and not with_stats:
            continue
        small_samples.append(case.sample([q, k, v, *rows], 0.7))
    return small_samples


def masked_gradient_samples() -> list[Sample]:
    return [x for x, case in zip(gradient_samples(), CASES, strict=True) if case.masked]


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
    logits, counts = scores(q, k, extras, AttentionScope(causal, window), scale)
    peak = logits.max(-1, keepdims=True)
    weights = np.where(counts, np.exp(logits - peak), 0).astype(q.dtype)
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
