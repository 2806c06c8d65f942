"""A token that the grammar does not accept at its place."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax.grammar import END
from wgcc.syntax.tokens import Token


@dataclass(frozen=True, slots=True)
class UnexpectedToken:
    """`token` between `previous` and `following`, where only the types `accepts` are possible."""

    source: Source
    diagnostics: Diagnostics
    previous: Token
    token: Token
    following: Token
    accepts: set[str]

    @property
    def at_line_end(self) -> bool:
        """Also before the `}` of the next line, because the newline rule drops that line break."""
        closes = self.token.type == "RBRACE" and self.token.line > self.previous.line
        return closes or self.token.type in ("_NL", END)

    @property
    def span(self) -> Span:
        if self.at_line_end:
            return Span(self.source, self.previous.end, self.previous.end + 1)
        return self.token.span(self.source)

    @property
    def previous_span(self) -> Span:
        return self.previous.span(self.source)
