"""Where instructions of a function under construction go: into the loop they vary with.

A scope is a loop's body (or a branch, or the function itself). What depends on variables of outer
scopes alone is appended to the outer scope, once: the code of an inner scope follows only when that
is complete, so all that was computed before is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from wgcc.backends.wasm.encoding.function import Function


class TooCostly(Exception):
    """What is being written takes more instructions than another way that is known."""


@dataclass(slots=True)
class Scope:
    """`known` maps what was computed in it to locals.

    `conditional`: it may not run at all. `runs`: how often it runs, about.
    """

    conditional: bool = False
    runs: float = 1.0
    body: bytearray = field(default_factory=bytearray)
    known: dict[Hashable, int] = field(default_factory=dict)


class Scopes:
    """The open scopes of a function, outermost first. `cost` grows with what is emitted."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.cost = 0.0
        self._limit = inf
        outermost = Scope()
        self._open = [outermost]
        function.code = outermost.body

    @property
    def depth(self) -> int:
        return len(self._open) - 1

    @property
    def runs(self) -> float:
        return self._open[-1].runs

    def spend(self, cost: float, depth: int | None = None) -> None:
        scope = self._open[-1 if depth is None else depth]
        self.cost += cost * scope.runs
        if self.cost > self._limit:
            raise TooCostly

    @contextmanager
    def limited(self, cost: float) -> Iterator[None]:
        """Whatever is written meanwhile may grow to this cost."""
        before = self._limit
        self._limit = min(before, cost)
        try:
            yield
        finally:
            self._limit = before

    @contextmanager
    def inside(self, times: float = 1.0, conditional: bool = False) -> Iterator[Scope]:
        """A new scope; whoever opens it appends its `body` to the surrounding code afterwards."""
        around = self.function.code
        scope = Scope(conditional, self.runs * times)
        self._open.append(scope)
        self.function.code = scope.body
        try:
            yield scope
        finally:
            self._open.pop()
            self.function.code = around

    def snapshot(self) -> tuple[int, dict[Hashable, int]]:
        scope = self._open[-1]
        return len(scope.body), dict(scope.known)

    def restore(self, snapshot: tuple[int, dict[Hashable, int]]) -> None:
        """Forgets what the current scope got since the snapshot."""
        scope = self._open[-1]
        del scope.body[snapshot[0] :]
        scope.known = dict(snapshot[1])

    def hoistable(self, depth: int) -> int:
        """The outermost scope from `depth` on that runs only if all scopes inside it may run.

        What can fail, such as a load, must not leave a scope that may not run.
        """
        return max(
            (i for i in range(depth + 1, len(self._open)) if self._open[i].conditional),
            default=depth,
        )

    def once(self, key: Hashable, depth: int, emit: Callable[[], int]) -> int:
        """The local that holds `key`, computed by `emit` in the scope of this depth."""
        for scope in self._open[: depth + 1]:
            if key in scope.known:
                return scope.known[key]
        scope = self._open[depth]
        around, self.function.code = self.function.code, scope.body
        try:
            local = emit()
        finally:
            self.function.code = around
        scope.known[key] = local
        return local
