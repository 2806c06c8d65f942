"""A curve of any length in a bounded number of points, so that a message stays small."""

from __future__ import annotations

MOST_POINTS = 400


class Points:
    """`pairs` are [step, number]; the last one is always there."""

    def __init__(self) -> None:
        self._points: list[list[float]] = []
        self._last: list[float] | None = None
        self._stride, self._seen = 1, 0

    def add(self, step: int, number: float) -> None:
        """Keeps every point, then every second, every fourth …"""
        self._last = [step, number]
        if self._seen % self._stride == 0:
            self._points.append(self._last)
        self._seen += 1
        if len(self._points) > MOST_POINTS:
            self._points = self._points[::2]
            self._stride *= 2

    @property
    def pairs(self) -> list[list[float]]:
        is_new = self._last is not None and (not self._points or self._points[-1] != self._last)
        return [*self._points, self._last] if is_new and self._last else [*self._points]
