"""A token that the grammar does not accept at its place, and the names of tokens in messages."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax.grammar import END, grammar
from wgcc.syntax.tokens import Token, words


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


_VALUE_STARTS = words("NAME INT FLOAT STRING DTYPE LPAR LSQB MINUS NOT TRUE FALSE IF")
_OPERATORS = words("CMP MULOP PLUS MINUS POW AND OR PIPE RANGE DOT LSQB LPAR")
# Where all of these are possible, many others are, too: one phrase is shorter than the list.
_PLACES = (
    (words("LAYER MODEL IMPORT"), "`layer`, `model`, `fn`, `dim` or another item"),
    (words("PARAM ENTRY OPTIMIZER"), "a member such as `param`, `fn` or `entry`"),
    (words("MINIMIZE RETURN"), "a statement"),
    (words("EQUAL WRITE DOT"), "`=`, `:=` or a new line"),
)
_PHRASES = {
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "DTYPE": "a type such as `f32`",
    "CMP": "a comparison",
    "MULOP": "an operator",
    "_NL": "a new line",
    END: "the end of the file",
}
_LAST = ("a new line", "the end of the file")
_MOST = 5
_LONGEST = 60


def expected_text(accepts: set[str]) -> str:
    """`a value`, or a list such as "`,`, `=` or `)`"."""
    place = next((phrase for signs, phrase in _PLACES if signs <= accepts), None)
    if place is not None:
        return place
    left = set(accepts)
    phrases: list[str] = []
    if {"NAME", "INT", "FLOAT", "LPAR"} <= left:
        phrases.append("a value")
        left -= _VALUE_STARTS
    if {"CMP", "PLUS", "MULOP"} <= left:
        left -= _OPERATORS
        if not left:
            phrases.append("an operator")
    rest = dict.fromkeys(_phrase(name) for name in sorted(left))
    phrases += sorted(rest, key=lambda phrase: _LAST.index(phrase) + 1 if phrase in _LAST else 0)
    return _listed(phrases)


def found_text(token: Token) -> str:
    if token.type == "_NL":
        return "the end of the line"
    if token.type == END:
        return "the end of the file"
    if token.type in grammar().keywords.values():
        return f"the keyword `{token.text}`"
    return f"`{shortened(token.text)}`"


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _phrase(name: str) -> str:
    if name in _PHRASES:
        return _PHRASES[name]
    return f"`{grammar().texts[name]}`" if name in grammar().texts else "an operator"


def _listed(phrases: list[str]) -> str:
    if len(phrases) > _MOST:
        phrases = [*phrases[:_MOST], "..."]
    if len(phrases) == 1:
        return phrases[0]
    return ", ".join(phrases[:-1]) + " or " + phrases[-1] if phrases else "the end of the file"
