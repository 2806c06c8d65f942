"""Lines: which line breaks end a statement, and what indentation says where braces are missing.

Indentation has no meaning in the language. It is only used to guess what was meant where brackets
do not match."""

from __future__ import annotations

from wgcc.errors import Diagnostic, Diagnostics, Source, Span
from wgcc.syntax.tokens import CLOSERS, LINE_STARTERS, OPENERS, SOFT, Token, inserted, words

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
    """Only newlines that end statements: at most one between two, none at the ends of a block."""
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
    open_blocks: list[tuple[Token, Diagnostic]] = []  # the first tokens of headers, their errors
    head: Token | None = None
    for index, token in enumerate(tokens):
        if begins_line(tokens, index):
            head = token
            indent = indentation(source, token)
            while open_blocks and indent <= indentation(source, open_blocks[-1][0]):
                _close(source, kept, *open_blocks.pop())
        if head is not None and _opens_block(source, tokens, index, head):
            text = "blocks use braces, not `:` and indentation"
            open_blocks.append((head, diagnostics.error("WG0117", text, token.span(source))))
            kept.append(token.retagged("LBRACE", "{"))
        else:
            kept.append(token)
    for head, problem in reversed(open_blocks):
        _close(source, kept, head, problem)
    return kept


def _opens_block(source: Source, tokens: list[Token], index: int, head: Token) -> bool:
    if tokens[index].text != ":" or head.text not in BLOCK_HEADERS or head.type == "NAME":
        return False
    after = [token for token in tokens[index + 1 : index + 40] if token.type != "_NL"]
    if tokens[index + 1 : index + 2] == after[:1] or not after:
        return False  # something follows the `:`, so it is not the end of a header
    return indentation(source, after[0]) > indentation(source, head)


def _close(source: Source, kept: list[Token], head: Token, problem: Diagnostic) -> None:
    at = len(kept)
    while kept[at - 1].type == "_NL":
        at -= 1
    closer = inserted("RBRACE", "}", kept[at - 1])
    kept.insert(at, closer)
    problem.help(
        "write `{` here and `}` after the last statement",
        (problem.span, " {"),
        (closer.span(source), f"\n{source.line_indent(head.line)}}}"),
    )


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
    kept.insert(at, inserted("LBRACE", "{", last))
