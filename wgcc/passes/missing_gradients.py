"""Ops that a gradient reaches and that have none: collected, and reported all at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.graph import Node
from wgcc.ops import OPS
from wgcc.ops.registry import NoGradient


@dataclass(slots=True)
class Missing:
    """What is missing, by place in the source, in the order of the text."""

    found: dict[tuple[Span | None, str], NoGradient] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        known = OPS[node.op].no_gradient or NoGradient(
            f"gradient of `{node.op}`", "compute it in another way"
        )
        self.found.setdefault((node.span, known.what), known)

    def report(self) -> None:
        """Raise if anything is missing."""
        if not self.found:
            return
        problems, advice = Diagnostics(), "or stop the gradient there with `stop_grad(...)`"
        for (span, what), known in self.found.items():
            if span is not None:
                found = problems.error("WG0313", f"there is no {what}", span)
                found.help(known.instead).help(advice)
        raise WgError(f"there is no {next(iter(self.found.values())).what}", problems)
