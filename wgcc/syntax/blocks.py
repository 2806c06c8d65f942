"""Lines and brackets: which line breaks end a statement, where brackets do not match, and what the
indentation says about braces that are missing.

Indentation has no meaning in the language. It is only used to guess what was meant where brackets
do not match: what is missing is inserted, and what is nested too deeply is removed, because later
phases are recursive.
"""

from __future__ import annotations

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax.tables import (
    CLOSER_TYPES,
    CLOSERS,
    LINE_STARTERS,
    OPENERS,
    SOFT,
    Token,
    token_after,
    words,
)

# A line cannot end after one of these …
CONTINUES_AFTER = words(
    "( [ { , = := ~ : -> |> . .. +: + - * / % @ ** == != < <= > >= and or not in with over from as "
    "then else if return minimize"
)
# … and none of these can begin a statement.
CONTINUES_BEFORE = words(
    ") ] } { , = := ~ : -> |> . +: + - * / % @ ** == != < <= > >= and or in with over from as then "
    "else grad"
)


def statement_ends(tokens: list[Token]) -> list[Token]:
    """Keep newlines that end statements: at most one between two, none at the ends of a block."""
    kept: list[Token] = []
    open_brackets: list[str] = []
    pending: Token | None = None
    for token in tokens:
        if token.type == "_NL":
            if not (_inside(open_brackets) and token.text != ";"):
                pending = pending or token
            continue
        if pending is not None and _ends(kept, token):
            kept.append(pending)
        pending = None
        if token.text in ("(", "[", "{"):
            open_brackets.append(token.text)
        elif token.text in (")", "]", "}") and open_brackets:
            open_brackets.pop()
        kept.append(token)
    return kept


def _inside(open_brackets: list[str]) -> bool:
    return bool(open_brackets) and open_brackets[-1] != "{"


def _ends(before: list[Token], after: Token) -> bool:
    if not before:
        return False
    return not (_joins(before[-1], CONTINUES_AFTER) or _joins(after, CONTINUES_BEFORE))


def _joins(token: Token, joining: frozenset[str]) -> bool:
    return token.text in joining and token.type not in ("NAME", "STRING")


_TAB = 4


def indentation(source: Source, token: Token) -> int:
    """The indentation of the line of `token`."""
    return len(source.line_indent(token.line).expandtabs(_TAB))


def begins_line(tokens: list[Token], index: int) -> bool:
    return tokens[index].type != "_NL" and (index == 0 or tokens[index - 1].type == "_NL")


def starts_item(tokens: list[Token], index: int) -> bool:
    """Is this a keyword that can only begin a statement, member or item?"""
    token = tokens[index]
    if token.type in ("NAME", "STRING") or token.text not in LINE_STARTERS | {"fn", "dim"}:
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else token
    return token.text not in SOFT or following.type in ("NAME", "STRING")


def starts_binding(tokens: list[Token], index: int) -> bool:
    """`a = `, `a, b = `, `a.b := `, `a: `: what cannot be inside a bracket."""
    if tokens[index].type != "NAME":
        return False
    index += 1
    while index + 1 < len(tokens) and tokens[index].text in (",", "."):
        if tokens[index + 1].type != "NAME":
            return False
        index += 2
    return index < len(tokens) and tokens[index].text in ("=", ":=", ":")


def block_ends(source: Source, tokens: list[Token]) -> dict[int, int]:
    """Start of a `{` -> start of the `}` that belongs to it by indentation.

    That is a `}` at the beginning of the first later line that is not indented more, if that line
    is indented exactly as much.
    """
    ends: dict[int, int] = {}
    waiting: list[tuple[int, Token]] = []  # (indentation of its line, `{`), the innermost last
    for index, token in enumerate(tokens):
        if begins_line(tokens, index):
            indent = indentation(source, token)
            while waiting and waiting[-1][0] >= indent and waiting[-1][1].line < token.line:
                at, opener = waiting.pop()
                if at == indent and token.text == "}":
                    ends[opener.start] = token.start
        if token.text == "{":
            waiting.append((indentation(source, token), token))
        elif token.text == "}" and waiting and waiting[-1][1].line == token.line:
            waiting.pop()
    return ends


def brace_indented(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    kept: list[Token] = []
    open_blocks: list[int] = []  # the indentation of the headers of open blocks
    head: Token | None = None
    for index, token in enumerate(tokens):
        if begins_line(tokens, index):
            head = token
            while open_blocks and indentation(source, token) <= open_blocks[-1]:
                open_blocks.pop()
                _close(kept)
        if head is not None and _opens_block(source, tokens, index, head):
            span = token.span(source)
            diagnostics.error("WG0117", "blocks use braces, not `:` and indentation", span).help(
                "write `{` here and `}` after the last statement", (span, " {")
            )
            kept.append(token.read_as("LBRACE", "{"))
            open_blocks.append(indentation(source, head))
        else:
            kept.append(token)
    for _ in open_blocks:
        _close(kept)
    return kept


def _opens_block(source: Source, tokens: list[Token], index: int, head: Token) -> bool:
    if tokens[index].text != ":" or head.text not in BLOCK_HEADERS or head.type == "NAME":
        return False
    after = [token for token in tokens[index + 1 : index + 40] if token.type != "_NL"]
    if tokens[index + 1 : index + 2] == after[:1] or not after:
        return False  # something follows the `:`, so it is not the end of a header
    return indentation(source, after[0]) > indentation(source, head)


def _close(kept: list[Token]) -> None:
    at = len(kept)
    while kept[at - 1].type == "_NL":
        at -= 1
    kept.insert(at, token_after("RBRACE", "}", kept[at - 1]))


BLOCK_HEADERS = words("fn entry for if else layer model test optimizer group")


def add_missing_braces(
    source: Source, tokens: list[Token], diagnostics: Diagnostics
) -> list[Token]:
    """Insert a `{` where a header is followed by a line that is indented more."""
    kept: list[Token] = []
    line: list[Token] = []
    for token in tokens:
        if token.type == "_NL":
            kept.append(token)
            continue
        if line and token.line > line[-1].line:
            if _lacks_brace(line) and _is_inside(source, line[0], token):
                _insert_brace(source, kept, line[-1], diagnostics)
            line = []
        line.append(token)
        kept.append(token)
    return kept


def _lacks_brace(line: list[Token]) -> bool:
    head = line[-1] if line[-1].type == "ELSE" else line[0]
    if head.text not in BLOCK_HEADERS or head.type in ("NAME", "STRING"):
        return False
    depth = 0
    for token in line:
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
        if token.text == "{" or (token.text == "=" and depth == 0):
            return False
    return line[-1].text == "else" or line[-1].text not in CONTINUES_AFTER


def _is_inside(source: Source, head: Token, following: Token) -> bool:
    deeper = indentation(source, following) > indentation(source, head)
    return deeper and following.text not in OPENERS and following.text not in CLOSERS


def _insert_brace(source: Source, kept: list[Token], last: Token, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "WG0120",
        f"expected `{{` after `{last.text}`, found the end of the line",
        Span(source, last.end, last.end + 1),
    ).help("a block begins with `{` and ends with `}`", (Span(source, last.end, last.end), " {"))
    at = len(kept)
    while kept[at - 1].type == "_NL":
        at -= 1
    kept.insert(at, token_after("LBRACE", "{", last))


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
            kept.append(token.read_as("NAME", "_"))
        depth -= token.text in CLOSERS
    return kept


def cut_depth(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Drop what follows very many open brackets, before brackets are made to match."""
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
        self.kept.append(token.read_as(CLOSER_TYPES[opener.text], right))

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
        place = token_after(CLOSER_TYPES[opener.text], closer, self.kept[at - 1])
        self.kept.insert(at, place)
        own_line = f"\n{self.source.line_indent(opener.line)}" if closer == "}" else ""
        problem.fix((place.span(self.source), own_line + closer))
