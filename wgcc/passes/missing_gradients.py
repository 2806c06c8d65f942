"""Ops that need a gradient and have none: collected, and reported together."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.graph import Node


@dataclass(slots=True)
class Missing:
    """What is missing, by place in the source. `asked` is where the current gradient is needed."""

    found: dict[tuple[Span | None, str], Span | None] = field(default_factory=dict)
    asked: Span | None = None

    def add(self, node: Node) -> None:
        self.found.setdefault((node.span, node.op), self.asked)

    def report(self) -> None:
        """Raise if anything is missing."""
        if not self.found:
            return
        problems = Diagnostics()
        for (span, op), asked in self.found.items():
            if span is None:
                continue
            found = problems.error("WG0313", f"there is no gradient of `{op}`", span)
            if asked is not None and asked != span:
                found.also(asked, "asked for here")
            found.help("compute it in another way, or stop the gradient with `stop_grad(...)`")
        raise WgError(f"there is no gradient of `{next(iter(self.found))[1]}`", problems)
