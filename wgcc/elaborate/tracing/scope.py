"""Scopes: what a name means at one place of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wgcc.elaborate.tracing.values import AnyValue


class Scope:
    """Names with their values; names not found here are looked up in `parent`.

    `pending` are names that a later line defines.
    """

    def __init__(
        self, parent: Scope | None = None, names: Mapping[str, AnyValue] | None = None
    ) -> None:
        self.parent = parent
        self.pending: set[str] = set()
        self.names: dict[str, AnyValue] = dict(names or {})

    def find(self, name: str) -> AnyValue | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def bind(self, name: str, value: AnyValue) -> None:
        self.names[name] = value
        self.pending.discard(name)

    def awaits(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None and name not in scope.pending:
            scope = scope.parent
        return scope is not None

    def visible(self) -> Iterator[str]:
        """Every name that `find` would find, nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent
