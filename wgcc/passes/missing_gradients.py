"""Ops that need a gradient and have none: collected, and reported together."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.errors import Diagnostics, Span, WgError
from wgcc.ir.graph import Node
from wgcc.ops import OPS
from wgcc.ops.registry import NoGradient


@dataclass(slots=True)
class Missing:
    """What is missing, by place in the source. `asked` is where the current gradient is needed."""

    found: dict[tuple[Span | None, str], tuple[NoGradient, Span | None]] = field(
        default_factory=dict
    )
    asked: Span | None = None

    def add(self, node: Node) -> None:
        known = OPS[node.op].no_gradient or NoGradient(
            f"gradient of `{node.op}`", "compute it in another way"
        )
        self.found.setdefault((node.span, known.what), (known, self.asked))

    def report(self) -> None:
        """Raise if anything is missing."""
        if not self.found:
            return
        problems = Diagnostics()
        for (span, what), (known, asked) in self.found.items():
            if span is None:
                continue
            found = problems.error("WG0313", f"there is no {what}", span)
            if asked is not None and asked != span:
                found.also(asked, "asked for here")
            found.help(known.instead).help(known.or_stop)
        raise WgError(f"there is no {next(iter(self.found))[1]}", problems)
