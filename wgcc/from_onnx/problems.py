"""Nodes that cannot be imported are collected, so that a user sees all of them at once."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import WgError


class CannotImport(Exception):
    """A node cannot be expressed: `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLarge(CannotImport):
    """A node asks for more memory than an import may take."""


@dataclass(frozen=True, slots=True)
class Problem:
    node: str
    operator: str
    opset: int
    reason: str

    def __str__(self) -> str:
        set_ = f" (opset {self.opset})" if self.opset else ""
        return f"{self.node}: {self.operator}{set_}: {self.reason}"


class NotImportable(WgError):
    """Some nodes of a model cannot be expressed."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        count = "1 node" if len(problems) == 1 else f"{len(problems)} nodes"
        super().__init__(f"{file}: {count} cannot be imported\n{lines}")
        self.problems = problems
