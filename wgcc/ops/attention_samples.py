"""Samples for attention and its gradients: odd sizes, shared heads, every option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.ir.graph import TensorType
from wgcc.ops.registry import Sample

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
    found = []
    for case in CASES:
        q, k, v = case.operands()
        dy = (*q[:3], v[3])
        rows = [dy, (*q[:3], 3)] if with_stats else [dy, dy, (*q[:3], 2)]
        if case.extras() and not with_stats:
            continue
        found.append(case.sample([q, k, v, *rows], 0.7))
    return found


def masked_gradient_samples() -> list[Sample]:
    return [x for x, case in zip(gradient_samples(), CASES, strict=True) if case.masked]
