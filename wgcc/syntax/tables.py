"""Tokens and raw nodes, the parser tables of the grammar as plain data, and a parser's steps.

Lark makes the tables; they are kept between runs as JSON, and while that is there, Lark is not
loaded. This is the only file that imports Lark.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from wgcc.errors import Source, Span
from wgcc.files import data_dir, keep_cached, read_cached


@dataclass(slots=True)
class Token:
    """A piece of text; `type` is the name of its terminal in the grammar."""

    type: str
    text: str
    start: int
    end: int
    line: int

    def span(self, source: Source) -> Span:
        return Span(source, self.start, self.end)

    def read_as(self, type_: str, text: str | None = None) -> Token:
        """The same place read as another terminal."""
        return Token(type_, self.text if text is None else text, self.start, self.end, self.line)


def token_after(type_: str, text: str, after: Token) -> Token:
    """A token that is not in the text, placed after another."""
    return Token(type_, text, after.end, after.end, after.line)


@dataclass(slots=True)
class RawNode:
    """A raw node: a rule of the grammar as parsed, from which the syntax tree is built."""

    rule: str
    children: list[Any] = field(default_factory=list)
    start: int = -1
    end: int = -1


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The text of a name that is inserted for a missing value.
MISSING_VALUE = ""

OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}
CLOSER_TYPES = {"(": "RPAR", "[": "RSQB", "{": "RBRACE"}

# Soft keywords: names wherever the grammar does not expect the keyword.
SOFT = words(
    "wg from as over group test state model entry replace then new when optimizer dtype with remat "
    "step grad"
)

# Keywords that can only begin a line.
LINE_STARTERS = words(
    "layer model entry optimizer param state return for minimize test import frozen replace assert "
    "const group dtype remat"
)


# A new form of the tables has a new number, so that kept ones of the old form are not read.
FORM = 1

# Of a state: where each symbol leads. A number from 0 on is the state after it; -1 - n means that
# rule n is complete.
State = dict[str, int]


@dataclass(frozen=True, slots=True)
class Production:
    """A rule of the grammar, and how its node is made of its parts.

    `node` names the node; `only_child`: a single child stands for it. `children` are the parts that
    are kept: number, whether its own children are, and how many None come before; `nones` follow
    them. `expansion` are the symbols of the rule.
    """

    origin: str
    expansion: tuple[str, ...]
    node: str
    only_child: bool
    children: tuple[tuple[int, bool, int], ...]
    nones: int

    def build(self, parts: list[Any]) -> Any:
        """The node; its place covers all parts, also those that are not in the tree."""
        kept: list[Any] = []
        for number, is_inlined, nones in self.children:
            kept += [None] * nones
            if is_inlined and not kept:
                kept = parts[number].children  # long lists grow at their end, without copies
            elif is_inlined:
                kept += parts[number].children
            else:
                kept.append(parts[number])
        kept += [None] * self.nones
        if self.only_child and len(kept) == 1:
            node = kept[0]
            if type(node) is not RawNode or node.start >= 0:
                return node
        else:
            node = RawNode(self.node, kept)
        places = [part for part in parts if has_place(part)]
        if places:
            node.start, node.end = places[0].start, places[-1].end
        return node


def has_place(part: Any) -> bool:
    return part is not None and part.start >= 0


@dataclass(frozen=True, slots=True)
class Tables:
    """`terminals` are pairs of name and regular expression, in the order in which they are tried.

    `texts` has the text of terminals that are always the same, `words` by terminal those of its
    texts that are another one: a keyword is no name.
    """

    terminals: tuple[tuple[str, str], ...]
    texts: dict[str, str]
    words: dict[str, dict[str, str]]
    rules: tuple[Production, ...]
    states: tuple[State, ...]
    start: int
    end: int


@functools.cache
def tables() -> Tables:
    """The tables of `wg.lark`, loaded once."""
    return _read(json.loads(shipped_tables()[1]))


def shipped_tables() -> tuple[str, bytes]:
    """The tables as they are kept between runs, and the key under which they are."""
    text = (data_dir("grammar") / "wg.lark").read_text(encoding="utf-8")
    key = f"grammar-{hashlib.sha256(f'{FORM} {text}'.encode()).hexdigest()[:24]}"
    kept = read_cached(key)
    if kept is None:
        kept = json.dumps(_make(text)).encode()
        keep_cached(key, kept)
    return key, kept


def _read(data: dict[str, Any]) -> Tables:
    rules = (
        Production(origin, tuple(expansion), node, only, tuple(map(tuple, children)), nones)
        for origin, expansion, node, only, children, nones in data["rules"]
    )
    terminals = tuple((name, regex) for name, regex in data["terminals"])
    states = tuple(data["states"])
    ends = data["start"], data["end"]
    return Tables(terminals, data["texts"], data["words"], tuple(rules), states, *ends)


def _make(text: str) -> dict[str, Any]:
    """The tables as JSON has them."""
    import lark

    parser: Any = lark.Lark(text, parser="lalr", lexer="basic")
    lexer = parser._build_lexer(dont_ignore=True)
    scanner, words = lexer.scanner, lexer.callback
    table = parser.parser.parser._parse_table
    numbers = {rule: number for number, rule in enumerate(parser.rules)}
    order = {state: number for number, state in enumerate(table.states)}
    return {
        "terminals": [(t.name, t.pattern.to_regexp()) for t in scanner.terminals],
        "texts": {t.name: t.pattern.value for t in parser.terminals if t.pattern.type == "str"},
        "words": {
            name: {t.pattern.value: t.name for t in unless.scanner.terminals}
            for name, unless in words.items()
        },
        "rules": [_rule(rule) for rule in parser.rules],
        "states": [
            {
                symbol: order[to] if action.name == "Shift" else -1 - numbers[to]
                for symbol, (action, to) in state.items()
            }
            for state in table.states.values()
        ],
        "start": order[table.start_states["start"]],
        "end": order[table.end_states["start"]],
    }


def _rule(rule: Any) -> tuple[Any, ...]:
    """Parts without a name are dropped; `[x]` that is not there is None."""
    options, children, nones = rule.options, [], 0
    # For each part and the end, how many None come before it.
    gaps = [len(ones) for ones in "".join(str(int(b)) for b in options.empty_indices).split("0")]
    gaps = gaps if options.empty_indices else [0] * (len(rule.expansion) + 1)
    for number, symbol in enumerate(rule.expansion):
        nones += gaps[number]
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out):
            is_inlined = not symbol.is_term and symbol.name.startswith("_")
            children.append((number, is_inlined, nones))
            nones = 0
    node = rule.alias or options.template_source or rule.origin.name
    expansion = [symbol.name for symbol in rule.expansion]
    only_child = bool(options.expand1 and not rule.alias)
    return rule.origin.name, expansion, node, only_child, children, nones + gaps[-1]


class ParserStack:
    """The states of a parse and, with `values`, the nodes and tokens that belong to them."""

    def __init__(self, tables: Tables, states: list[int], values: list[Any] | None) -> None:
        self._tables = tables
        self.states = states
        self.values = values

    def copy_states(self) -> ParserStack:
        """For trials: what would be accepted, without a tree."""
        return ParserStack(self._tables, list(self.states), None)

    def feed(self, token: Token) -> bool:
        """Accept a token; False if the grammar does not allow it here."""
        type_, states, table = token.type, self.states, self._tables.states
        while (to := table[states[-1]].get(type_)) is not None:
            if to >= 0:
                states.append(to)
                if self.values is not None:
                    self.values.append(token)
                return True
            self._reduce(-1 - to)
        return False

    def finish(self, end: Token) -> bool:
        """Is the text complete? Then its node is the last value."""
        table = self._tables.states
        while (to := table[self.states[-1]].get(end.type)) is not None and to < 0:
            self._reduce(-1 - to)
            if self.states[-1] == self._tables.end:
                return True
        return False

    def _reduce(self, number: int) -> None:
        rule = self._tables.rules[number]
        states, values, size = self.states, self.values, len(rule.expansion)
        if values is not None:
            parts = values[-size:] if size else []
            if size:
                del values[-size:]
            values.append(rule.build(parts))
        if size:
            del states[-size:]
        states.append(self._tables.states[states[-1]][rule.origin])
