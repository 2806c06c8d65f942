"""The parser tables: a lexer that never fails, and a parser that is fed token by token.

This is the only file that imports Lark, and the only one that accesses Lark's parser state.

The tables are kept between runs, because building them takes a while. They also say what messages
call a token, and which ones the grammar accepts at a place.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import lark
from lark import exceptions
from lark.lexer import LexerThread

from wgcc.errors import Diagnostics, Source, Span
from wgcc.files import data_dir, keep_cached, read_cached
from wgcc.syntax.tokens import RawNode, Token, words

END = "$END"

# The rules that panic mode may replace by an error node.
_RECOVERABLE = ("_stmt", "_member", "_opt_item", "_item", "setting")


@functools.cache
def grammar() -> Grammar:
    """The tables of `wg.lark`, loaded once."""
    text = (data_dir("grammar") / "wg.lark").read_text(encoding="utf-8")
    version = f"{lark.__version__} {sys.version_info[:2]}"
    key = f"grammar-{hashlib.sha256(f'{version} {text}'.encode()).hexdigest()[:24]}"
    return Grammar(_load(key) or _make(key, text))


def _load(key: str) -> lark.Lark | None:
    payload = read_cached(key)
    if payload is None:
        return None
    try:
        return lark.Lark.load(io.BytesIO(payload))
    except Exception:  # an old or foreign file may raise anything; the tables are built again
        return None


def _make(key: str, text: str) -> lark.Lark:
    parser = lark.Lark(text, parser="lalr", lexer="basic", tree_class=RawNode)
    file = io.BytesIO()
    parser.save(file)
    keep_cached(key, file.getvalue())
    # Loaded tables are faster than built ones, which check their terminals at every use.
    file.seek(0)
    return lark.Lark.load(file)


class Grammar:
    def __init__(self, tables: lark.Lark) -> None:
        self._tables = tables
        # `tables.lex` would build its lexer again in every call.
        self._lexer: Any = tables._build_lexer(dont_ignore=True)
        self._lexer.ignore_types = frozenset({"WS"})
        texts = {t.name: t.pattern.value for t in tables.terminals if t.pattern.type == "str"}
        self.texts: dict[str, str] = texts
        self.keywords = {text: name for name, text in texts.items() if text.isidentifier()}
        self._callbacks: dict[Any, Any] = {
            rule: _with_place(build)
            for rule, build in tables.parse_interactive(
                ""
            ).parser_state.parse_conf.callbacks.items()
        }

    def lex(self, text: str, most: int | None = None) -> list[Token]:
        """The first `most` tokens of `text`, with comments, and with text that is no token."""
        thread: Any = LexerThread.from_text(self._lexer, text)
        return [
            Token(t.type, t.value, t.start_pos or 0, t.end_pos or 0, t.line or 1)
            for t in itertools.islice(thread.lex(None), most)
        ]

    def machine(self) -> ParserState:
        parser = self._tables.parse_interactive("")
        parser.parser_state.parse_conf.callbacks = self._callbacks
        return ParserState(parser)


def _with_place(build: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """`build`, but the node's place covers all parts, also those that are not in the tree."""

    def build_with_place(parts: list[Any]) -> Any:
        node = build(parts)
        if type(node) is RawNode and node.start < 0:
            places = [part for part in parts if _has_place(part)]
            if places:
                node.start, node.end = places[0].start, places[-1].end
        return node

    return build_with_place


@dataclass(frozen=True, slots=True)
class OpenRule:
    """An unfinished statement, member or item, which may be replaced by an error node."""

    depth: int
    symbol: str
    state: Any
    start: int
    open_braces: int
    followers: frozenset[str]


class ParserState:
    """The state of one parse."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def feed(self, token: Token) -> bool:
        """Accept a token; False if the grammar does not allow it here."""
        try:
            self._parser.feed_token(token)
        except exceptions.UnexpectedToken:
            return False
        return True

    @property
    def depth(self) -> int:
        """The depth of the parser's stack: `- - - x` takes one more level for each `-`."""
        return len(self._parser.parser_state.state_stack)

    def finish(self, end: Token) -> RawNode | None:
        """The tree; None if the text may not end here."""
        try:
            tree = self._parser.parser_state.feed_token(end, True)
        except exceptions.UnexpectedToken:
            return None
        return tree if isinstance(tree, RawNode) else None

    def accepts(self) -> set[str]:
        """The terminals that are possible here."""
        return {str(name) for name in self._parser.accepts()}

    def count_taken(self, tokens: Iterable[Token]) -> int:
        """How many of `tokens` would be accepted, without changing the state."""
        trial = self._parser.copy(deepcopy_values=False)
        trial.parser_state.parse_conf = copy.copy(trial.parser_state.parse_conf)
        trial.parser_state.parse_conf.callbacks = {}
        count = 0
        for token in tokens:
            try:
                trial.feed_token(token)
            except exceptions.UnexpectedToken:
                break
            count += 1
        return count

    def frames(self) -> Iterator[OpenRule]:
        """The rules that could be replaced by an error node, the innermost first."""
        state = self._parser.parser_state
        table = state.parse_conf.states
        for depth in range(len(state.state_stack) - 1, -1, -1):
            gotos = table[state.state_stack[depth]]
            symbol = next((name for name in _RECOVERABLE if name in gotos), None)
            if symbol is None:
                continue
            dropped = state.value_stack[depth:]
            after = gotos[symbol][1]
            yield OpenRule(
                depth=depth,
                symbol=symbol,
                state=after,
                start=next((part.start for part in dropped if _has_place(part)), -1),
                open_braces=sum(_brace(part) for part in dropped),
                followers=frozenset(table[after]),
            )

    def replace(self, frame: OpenRule, node: RawNode) -> None:
        """Put `node` in place of what belongs to `frame` so far."""
        state = self._parser.parser_state
        del state.state_stack[frame.depth + 1 :]
        del state.value_stack[frame.depth :]
        state.state_stack.append(frame.state)
        inlined = frame.symbol.startswith("_")
        state.value_stack.append(RawNode(frame.symbol, [node]) if inlined else node)


def _has_place(part: Any) -> bool:
    return part is not None and part.start >= 0


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
