"""The language's grammar: a lexer that never fails, and a parser that is fed token by token.

It also says what messages call a token, and which ones the grammar accepts at a place.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax.tables import ParserStack, RawNode, Tables, Token, has_place, tables, words

END = "$END"

# The rules that panic mode may replace by an error node.
_RECOVERABLE = ("_stmt", "_member", "_opt_item", "_item", "setting")


@functools.cache
def grammar() -> Grammar:
    return Grammar(tables())


class Grammar:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        regex = "|".join(f"(?P<{name}>{pattern})" for name, pattern in tables.terminals)
        self._next_token = re.compile(regex).match
        self.texts = tables.texts
        self.keywords = {text: n for n, text in tables.texts.items() if text.isidentifier()}

    def lex(self, text: str, most: int | None = None) -> list[Token]:
        """The first `most` tokens of `text`, with comments, and with text that is no token."""
        tokens: list[Token] = []
        start, line, words = 0, 1, self._tables.words
        while start < len(text) and (most is None or len(tokens) < most):
            match = self._next_token(text, start)
            assert match is not None and match.lastgroup, "every text splits into tokens"
            type_, word, end = match.lastgroup, match.group(), match.end()
            if type_ in words:
                type_ = words[type_].get(word, type_)
            if type_ != "WS":
                tokens.append(Token(type_, word, start, end, line))
            line += word.count("\n")
            start = end
        return tokens

    def machine(self) -> ParserState:
        return ParserState(self._tables)


@dataclass(frozen=True, slots=True)
class OpenRule:
    """An unfinished statement, member or item, which may be replaced by an error node."""

    depth: int
    symbol: str
    state: int
    start: int
    open_braces: int
    followers: frozenset[str]


class ParserState:
    """The state of one parse."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._values: list[Any] = []
        self._stack = ParserStack(tables, [tables.start], self._values)
        self.feed = self._stack.feed

    @property
    def depth(self) -> int:
        """The depth of the parser's stack: `- - - x` takes one more level for each `-`."""
        return len(self._stack.states)

    def finish(self, end: Token) -> RawNode | None:
        """The tree; None if the text may not end here."""
        tree = self._values[-1] if self._stack.finish(end) else None
        return tree if isinstance(tree, RawNode) else None

    def accepts(self) -> set[str]:
        """The terminals that are possible here."""
        names = (name for name in self._tables.states[self._stack.states[-1]] if name.isupper())
        tokens = (Token(name, "", -1, -1, 0) for name in names)
        return {token.type for token in tokens if self._would_accept(token)}

    def _would_accept(self, token: Token) -> bool:
        trial = self._stack.copy_states()
        return trial.finish(token) if token.type == END else trial.feed(token)

    def count_taken(self, tokens: Iterable[Token]) -> int:
        """How many of `tokens` would be accepted, without changing the state."""
        trial = self._stack.copy_states()
        count = 0
        for token in tokens:
            if not trial.feed(token):
                break
            count += 1
        return count

    def frames(self) -> Iterator[OpenRule]:
        """The rules that could be replaced by an error node, the innermost first."""
        states, table = self._stack.states, self._tables.states
        for depth in range(len(states) - 1, -1, -1):
            gotos = table[states[depth]]
            symbol = next((name for name in _RECOVERABLE if name in gotos), None)
            if symbol is None:
                continue
            dropped = self._values[depth:]
            after = gotos[symbol]
            yield OpenRule(
                depth=depth,
                symbol=symbol,
                state=after,
                start=next((part.start for part in dropped if has_place(part)), -1),
                open_braces=sum(_brace(part) for part in dropped),
                followers=frozenset(table[after]),
            )

    def replace(self, frame: OpenRule, node: RawNode) -> None:
        """Put `node` in place of what belongs to `frame` so far."""
        states = self._stack.states
        del states[frame.depth + 1 :]
        del self._values[frame.depth :]
        states.append(frame.state)
        inlined = frame.symbol.startswith("_")
        self._values.append(RawNode(frame.symbol, [node]) if inlined else node)


def _brace(part: Any) -> int:
    if not isinstance(part, Token):
        return 0
    return (part.text == "{") - (part.text == "}")


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
    return _list_phrases(phrases)


def found_text(token: Token) -> str:
    if token.type == "_NL":
        return "the end of the line"
    if token.type == END:
        return "the end of the file"
    if token.type in grammar().keywords.values():
        return f"the keyword `{token.text}`"
    return f"`{shorten(token.text)}`"


def shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _phrase(name: str) -> str:
    if name in _PHRASES:
        return _PHRASES[name]
    return f"`{grammar().texts[name]}`" if name in grammar().texts else "an operator"


def _list_phrases(phrases: list[str]) -> str:
    if len(phrases) > _MOST:
        phrases = [*phrases[:_MOST], "..."]
    if len(phrases) == 1:
        return phrases[0]
    return ", ".join(phrases[:-1]) + " or " + phrases[-1] if phrases else "the end of the file"
