"""Intervals of whole numbers, both ends included."""

from __future__ import annotations

Interval = tuple[int, int]


def within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def hull(*parts: Interval) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)


def overlap(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def is_empty(interval: Interval) -> bool:
    return interval[0] > interval[1]
