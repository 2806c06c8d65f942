"""Makes brackets match: reports those that do not, inserts what is missing, and removes what is
nested too deeply, because later phases are recursive."""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.lines import (
    add_missing_braces,
    begins_line,
    block_ends,
    indentation,
    starts_binding,
    starts_item,
)
from wgcc.syntax.tokens import CLOSER_TYPES, CLOSERS, OPENERS, Token, inserted

# Far more than programs need.
DEEPEST = 64
# Where brackets do not match, each is compared with all open ones.
MOST_OPEN = 100


def limit_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Replace a bracket that is nested too deeply by a name; brackets match already."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.text in OPENERS
        if depth <= DEEPEST:
            kept.append(token)
        elif depth == DEEPEST + 1 and token.text in OPENERS:
            _report(source, token, diagnostics)
            kept.append(token.retagged("NAME", "_"))
        depth -= token.text in CLOSERS
    return kept


def cut_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Before brackets are made to match: drop what follows very many open ones."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        depth += token.text in OPENERS
        if depth <= MOST_OPEN:
            kept.append(token)
        elif depth == MOST_OPEN + 1 and token.text in OPENERS:
            _report(source, token, diagnostics)
        depth -= depth > 0 and token.text in CLOSERS
    return kept


def _report(source: Source, token: Token, diagnostics: Diagnostics) -> None:
    text = f"brackets are nested more than {DEEPEST} levels deep"
    problem = diagnostics.error("WG0106", text, token.span(source))
    problem.help("give the inner parts names: `h = ...`")


def balance(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """The same tokens with matching brackets. Indentation is only used if they do not match."""
    if _match(tokens):
        return tokens
    opened = add_missing_braces(source, tokens, diagnostics)
    return opened if _match(opened) else _Balancer(source, opened, diagnostics).run()


def _match(tokens: list[Token]) -> bool:
    open_: list[str] = []
    for token in tokens:
        if token.text in OPENERS:
            open_.append(token.text)
        elif token.text in CLOSERS and (not open_ or open_.pop() != CLOSERS[token.text]):
            return False
    return not open_


class _Balancer:
    def __init__(self, source: Source, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.source = source
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.kept: list[Token] = []
        self.open: list[Token] = []
        # Where the indentation says that a `{` is closed: start of the `{` -> start of its `}`.
        self.ends = block_ends(source, tokens)

    def run(self) -> list[Token]:
        for index, token in enumerate(self.tokens):
            if begins_line(self.tokens, index):
                self._close_before_line(index)
            if token.text == "{":
                self._close_parentheses(token)  # blocks are never inside ( or [
            if token.text == "}":
                self._closing_brace(token)
            elif token.text in CLOSERS:
                self._closer(token)
            else:
                self.kept.append(token)
                if token.text in OPENERS:
                    self.open.append(token)
        while self.open:
            self._insert_closer(None)
        return self.kept

    def _close_before_line(self, index: int) -> None:
        """The beginning of this line may show that brackets of earlier lines were not closed."""
        token = self.tokens[index]
        indent = indentation(self.source, token)
        if starts_item(self.tokens, index):
            while self.open and not self._holds(self.open[-1], indent):
                self._insert_closer(token)
            return
        if self._in_parentheses() and starts_binding(self.tokens, index):
            reach = indentation(self.source, self.open[-1])
            if indent <= reach:
                self._close_parentheses(token)

    def _holds(self, opener: Token, indent: int) -> bool:
        """Can an item indented by `indent` be inside this bracket?"""
        return opener.text == "{" and indentation(self.source, opener) < indent

    def _in_parentheses(self) -> bool:
        return bool(self.open) and self.open[-1].text != "{"

    def _close_parentheses(self, before: Token) -> None:
        while self._in_parentheses():
            self._insert_closer(before)

    def _closing_brace(self, token: Token) -> None:
        braces = [opener for opener in self.open if opener.text == "{"]
        own = next((o for o in braces if self.ends.get(o.start) == token.start), None)
        if not braces or (own is None and braces[-1].start in self.ends):
            self._stray(token)
            return
        while self.open[-1] is not (own or braces[-1]):
            self._insert_closer(token)
        self.open.pop()
        self.kept.append(token)

    def _closer(self, token: Token) -> None:
        inner = self._open_on_top()
        if any(opener.text == CLOSERS[token.text] for opener in inner):
            while self.open[-1].text != CLOSERS[token.text]:
                self._insert_closer(token)
            self.open.pop()
            self.kept.append(token)
        elif inner and inner[-1].line == token.line:
            self._wrong_closer(self.open.pop(), token)
        else:
            self._stray(token)

    def _open_on_top(self) -> list[Token]:
        """The brackets ( and [ that are open inside the innermost {."""
        at = len(self.open)
        while at and self.open[at - 1].text != "{":
            at -= 1
        return self.open[at:]

    def _stray(self, token: Token) -> None:
        self.diagnostics.error(
            "WG0101",
            f"unexpected `{token.text}`",
            token.span(self.source),
            f"there is no open `{CLOSERS[token.text]}` for this to close",
        )

    def _wrong_closer(self, opener: Token, token: Token) -> None:
        right, span = OPENERS[opener.text], token.span(self.source)
        self.diagnostics.error(
            "WG0101", f"`{opener.text}` is closed by `{token.text}`", span, f"expected `{right}`"
        ).also(opener.span(self.source), "opened here").help(f"write `{right}`", (span, right))
        self.kept.append(token.retagged(CLOSER_TYPES[opener.text], right))

    def _insert_closer(self, before: Token | None) -> None:
        opener = self.open.pop()
        closer = OPENERS[opener.text]
        problem = self.diagnostics.error(
            "WG0101",
            f"this `{opener.text}` is never closed",
            opener.span(self.source),
            f"no matching `{closer}`",
        )
        if before is not None:
            problem.also(before.span(self.source), f"`{closer}` is missing before this")
        at = len(self.kept)
        while self.kept[at - 1].type == "_NL":
            at -= 1
        place = inserted(CLOSER_TYPES[opener.text], closer, self.kept[at - 1])
        self.kept.insert(at, place)
        own_line = f"\n{self.source.line_indent(opener.line)}" if closer == "}" else ""
        problem.fix((place.span(self.source), own_line + closer))
