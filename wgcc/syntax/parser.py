"""Makes a syntax tree of a source: passes over tokens, the parser with its error recovery, and
comments: the `///` lines above an item, and a warning where `//` was probably meant to divide."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.blocks import (
    balance,
    brace_indented,
    cut_depth,
    limit_depth,
    starts_item,
    statement_ends,
)
from wgcc.syntax.explain import explain, one_error_per_line
from wgcc.syntax.expressions import Reading
from wgcc.syntax.grammar import END, OpenRule, UnexpectedToken, grammar
from wgcc.syntax.members import item
from wgcc.syntax.mistakes import (
    correct_keywords,
    correct_python_blocks,
    names_among_keywords,
    replace_unknown,
)
from wgcc.syntax.tables import (
    CLOSERS,
    MISSING_VALUE,
    OPENERS,
    SOFT,
    RawNode,
    Token,
    token_after,
)

# Parsing and checking this many takes seconds; real programs have a hundred times fewer.
MOST_TOKENS = 150_000


def parse(source: Source, diagnostics: Diagnostics) -> ast.File:
    """Always a tree; what did not parse is `Broken` in it, and its error is reported."""
    raw = grammar().lex(source.text, MOST_TOKENS + 1)
    if len(raw) > MOST_TOKENS:
        return _too_long(source, raw[-1], diagnostics)
    warn_of_divisions(source, raw, diagnostics)
    tree, doubtful = parse_tokens(source, _prepare(source, raw, diagnostics), diagnostics)
    docs = find_docs(raw)
    reading = Reading(source, diagnostics, docs.by_line, doubtful)
    items = tuple(item(reading, node) for node in tree.children if node is not None)
    reading.refuse_any_floats()
    if diagnostics.items:
        one_error_per_line(diagnostics, source)
    return ast.File(Span(source, 0, len(source.text)), items, docs.file)


def _too_long(source: Source, beyond: Token, diagnostics: Diagnostics) -> ast.File:
    text = f"a file has at most {MOST_TOKENS:,} words, numbers, signs and comments"
    diagnostics.error("WG0108", text, beyond.span(source), "it has more from here on")
    everything = Span(source, 0, len(source.text))
    return ast.File(everything, (ast.Broken(everything),), "")


def _prepare(source: Source, raw: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Tokens for the grammar; mistakes that it could not explain well are fixed before."""
    tokens = replace_unknown(source, raw, diagnostics)
    tokens = cut_depth(source, tokens, diagnostics)
    tokens = names_among_keywords(tokens)
    tokens = correct_keywords(source, tokens, diagnostics)
    tokens = correct_python_blocks(source, tokens, diagnostics)
    tokens = brace_indented(source, tokens, diagnostics)
    tokens = balance(source, tokens, diagnostics)
    tokens = limit_depth(source, tokens, diagnostics)
    return statement_ends(tokens)


# Tokens that must be accepted before another error is reported (yacc's rule).
_TOKENS_BETWEEN_ERRORS = 3
# Tokens that must be accepted after a repair, or the repair was a wrong guess.
_TOKENS_AFTER_REPAIR = 5
_MOST_ERRORS = 100
# Recovery goes through the whole parser stack, several times.
_DEEPEST = 2000
# Never a bracket: they match already.
_INSERTABLE = ("COLON", "COMMA", "EQUAL", "_NL")
_KEPT = (*OPENERS, *CLOSERS)


def parse_tokens(
    source: Source, tokens: list[Token], diagnostics: Diagnostics
) -> tuple[RawNode, list[int]]:
    """The raw tree of a file, with `broken` nodes where something did not parse, and the places
    where a repair may have changed the meaning.
    """
    parse = _Parse(source, tokens, diagnostics)
    return parse.run(), parse.doubtful


class _Parse:
    def __init__(self, source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.beginning = Token("_NL", "", 0, 0, 1)
        last = tokens[-1] if tokens else self.beginning
        self.tokens = [*tokens, token_after(END, "", last)]
        self.machine = grammar().machine()
        self.at = 0
        self.since_error = _TOKENS_BETWEEN_ERRORS
        self.doubtful: list[int] = []

    def run(self) -> RawNode:
        errors = 0
        while errors < _MOST_ERRORS:
            if (tree := self._parse_on()) is not None:
                return tree
            errors += 1
            if self.since_error >= _TOKENS_BETWEEN_ERRORS:
                self._explain()
            self.since_error = 0
            if self.machine.depth > _DEEPEST or not (self._repair() or self._panic()):
                break
        everything = RawNode("broken", [], 0, len(self.source.text))
        everything.children = [token for token in self.tokens if token.type == "NAME"]
        return RawNode("start", [everything])

    def _parse_on(self) -> RawNode | None:
        """Parse up to the next error (None), or to the end of the file."""
        while True:
            token = self.tokens[self.at]
            if token.type == END:
                return self.machine.finish(token)
            if not self.machine.feed(token):
                name = token.read_as("NAME")
                if not self._may_be_name(token) or not self.machine.feed(name):
                    return None
                self.tokens[self.at] = name
            self.at += 1
            self.since_error += 1

    def _may_be_name(self, token: Token) -> bool:
        declares = self._token(1).type in ("NAME", "STRING")
        return token.text in SOFT and not declares

    def _token(self, offset: int) -> Token:
        index = self.at + offset
        return self.tokens[min(index, len(self.tokens) - 1)] if index >= 0 else self.beginning

    def _explain(self) -> None:
        unexpected = UnexpectedToken(
            self.source,
            self.diagnostics,
            previous=self._token(-1),
            token=self._token(0),
            following=self._token(1),
            accepts=self.machine.accepts(),
        )
        explain(unexpected)

    def _repair(self) -> bool:
        """Insert, drop or retag one token so that the next ones are accepted, if possible."""
        rest = self.tokens[self.at : self.at + _TOKENS_AFTER_REPAIR + 1]
        name = rest[0].read_as("NAME")
        if rest[0].text.isidentifier() and self._is_accepted([name, *rest[1:3]], needed=2):
            self.tokens[self.at] = name
            return True
        accepts = self.machine.accepts()
        for extra in self._insertable(accepts):
            if self._is_accepted([extra, *rest]):
                self.tokens.insert(self.at, extra)
                if extra.type == "COMMA":
                    self.doubtful.append(extra.start)
                return True
        droppable = self._token(0).text not in _KEPT and self._token(0).type not in ("_NL", END)
        if droppable and self._is_accepted(rest[1:]):
            self.doubtful.append(rest[0].start)
            del self.tokens[self.at]
            return True
        return False

    def _insertable(self, accepts: set[str]) -> list[Token]:
        before = self._token(-1)
        extras = [
            token_after(type_, grammar().texts.get(type_, "\n"), before)
            for type_ in _INSERTABLE
            if type_ in accepts
        ]
        if {"NAME", "INT", "FLOAT"} <= accepts:
            extras.append(token_after("NAME", MISSING_VALUE, before))
        return extras

    def _is_accepted(self, tokens: list[Token], needed: int = _TOKENS_AFTER_REPAIR) -> bool:
        wanted = [token for token in tokens if token.type != END]
        enough = len(wanted) >= needed or len(wanted) < len(tokens)
        return enough and self.machine.count_taken(wanted) == len(wanted)

    def _panic(self) -> bool:
        """Replace the innermost frame after which the parse can continue."""
        for frame in self.machine.frames():
            if frame.open_braces < 0:
                continue  # its block is closed already
            end = self._end_of(frame)
            if self.tokens[end].type in frame.followers:
                self._give_up(frame, end)
                return True
            if starts_item(self.tokens, end) and "_NL" in frame.followers and end > 0:
                # The line break was dropped as a continuation, but a new statement begins here.
                self.tokens.insert(end, token_after("_NL", "\n", self.tokens[end - 1]))
                self._give_up(frame, end)
                return True
        return False

    def _end_of(self, frame: OpenRule) -> int:
        """The index of the token after the statement of `frame`."""
        depth = frame.open_braces
        for index in range(self.at, len(self.tokens)):
            token = self.tokens[index]
            # If the frame is still empty, the token itself must be skipped.
            begun = index > self.at or frame.start >= 0
            if token.type == END or (depth <= 0 and self._ends(index, begun)):
                return index
            if token.text == "{":
                depth += 1
            elif token.text == "}":
                depth -= 1
                if depth == 0 and self.tokens[index + 1].type in ("_NL", "RBRACE", END):
                    return index + 1
        return len(self.tokens) - 1

    def _ends(self, index: int, begun: bool) -> bool:
        token = self.tokens[index]
        if token.type in ("_NL", "RBRACE"):
            return True
        begins = index > 0 and self.tokens[index - 1].line < token.line
        return begun and begins and starts_item(self.tokens, index)

    def _give_up(self, frame: OpenRule, end: int) -> None:
        first = self.at
        while first > 0 and frame.start >= 0 and self.tokens[first - 1].start >= frame.start:
            first -= 1
        lost = self.tokens[first:end] or [self.tokens[end]]
        names = [token for token in lost if token.type == "NAME" or token.text in SOFT]
        self.machine.replace(frame, RawNode("broken", names, lost[0].start, lost[-1].end))
        if end > self.at or self.tokens[end].type == "_NL":
            self.since_error = _TOKENS_BETWEEN_ERRORS
        self.at = end


_DOCUMENTED = frozenset({"LAYER", "MODEL", "FN", "ENTRY"})


@dataclass(slots=True)
class Docs:
    """`by_line` has the text for the item that begins on a line."""

    file: str = ""
    by_line: dict[int, str] = field(default_factory=dict)


def find_docs(tokens: list[Token]) -> Docs:
    """A block directly above an item belongs to it; the first other one, if above all items, is
    about the file."""
    docs = Docs()
    block: list[Token] = []
    seen_item = False
    last_line = 0  # of the last token that is not a comment
    for token in tokens:
        if token.type == "COMMENT":
            if token.text.startswith("///") and token.line != last_line:
                if block and block[-1].line != token.line - 1:
                    _to_file(docs, block, seen_item)
                    block = []
                block.append(token)
        elif token.type != "_NL":
            if block and token.line == block[-1].line + 1 and token.type in _DOCUMENTED:
                docs.by_line[token.line] = _text(block)
            else:
                _to_file(docs, block, seen_item)
            block = []
            seen_item = seen_item or not _edition(token)
            last_line = token.line
    _to_file(docs, block, seen_item)
    return docs


def _edition(token: Token) -> bool:
    return token.type in ("WG", "INT")


def _to_file(docs: Docs, block: list[Token], seen_item: bool) -> None:
    if block and not seen_item and not docs.file:
        docs.file = _text(block)


def _text(block: list[Token]) -> str:
    return "\n".join(token.text[3:].strip() for token in block)


# What could be the right side of a division, and closing brackets after it.
_OPERAND = re.compile(r"//\s*(?P<operand>[A-Za-z_]\w*|\d+)\s*[\])},]*\s*\r?")
_OPERANDS = ("NAME", "INT", "RPAR", "RSQB")


def warn_of_divisions(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
    sizes = _sizes(tokens)
    for before, token in pairwise(tokens):
        if token.type != "COMMENT" or before.type not in _OPERANDS or before.line != token.line:
            continue
        match = _OPERAND.fullmatch(token.text)
        if match and (match["operand"] in sizes or match["operand"].isdigit()):
            span = Token("COMMENT", "//", token.start, token.start + 2, token.line).span(source)
            diagnostics.warning(
                "WG0121", f"`//` begins a comment, so `{match['operand']}` is not read", span
            ).help("to divide, write `/` (of whole numbers it must be exact)", (span, "/"))


def _sizes(tokens: list[Token]) -> set[str]:
    """Names declared by `dim`, and those that come first in brackets: `layer Block[D, H]`."""
    code = [token for token in tokens if token.type not in ("COMMENT", "_NL")]
    return {
        token.text
        for before, token in pairwise(code)
        if token.type == "NAME" and token.text[:1].isupper() and before.text in ("dim", "[", ",")
    }
