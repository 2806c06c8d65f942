"""The canonical layout of a program: `wgcc fmt` and the formatting of editors.

Layout decides spaces, indentation, blank lines, and which lines of a block begin where. Where a
statement is broken into several lines stays the author's decision, and so does a block that is
written on one line. Tokens and comments are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wgcc.errors import Diagnostics, Source, WgError
from wgcc.syntax import ast
from wgcc.syntax.blocks import statement_ends
from wgcc.syntax.grammar import grammar
from wgcc.syntax.mistakes import names_among_keywords
from wgcc.syntax.parser import parse
from wgcc.syntax.tables import Token
from wgcc.syntax.tree_text import walk

INDENT = "  "
# Between code and the comment behind it.
GAP = "  "
# Comments of neighbouring lines are aligned unless that would move one by more than this.
FARTHEST = 40

_LITERALS = frozenset({"NAME", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "DTYPE", "ANY_FLOAT"})


def format_source(source: Source, diagnostics: Diagnostics) -> str | None:
    """The text in canonical layout; None if it has syntax errors, which are then reported."""
    tree = parse(source, diagnostics)
    if diagnostics.errors:
        return None
    text = _Layout(source, tree).run()
    if code_of(text) != code_of(source.text):
        raise WgError(f"{source.path}: its layout was not changed, because that changed a token")
    return text


def code_of(text: str) -> list[tuple[str, str]]:
    """All that layout must keep: what the parser reads of a text, and its comments."""
    tokens = grammar().lex(text)
    comments = [("COMMENT", token.text.rstrip()) for token in tokens if token.type == "COMMENT"]
    code = statement_ends(names_among_keywords([t for t in tokens if t.type != "COMMENT"]))
    return [
        *comments,
        *((token.type, "" if token.type == "_NL" else token.text) for token in code),
    ]


@dataclass(slots=True)
class _Line:
    """One line of the result. `code` is empty where only a comment is on it."""

    level: int
    after_blank: bool = False
    code: str = ""
    comment: str = ""


@dataclass(slots=True)
class _Bracket:
    """`level` is that of the line that opens it, `inside` that of the lines in it."""

    text: str
    level: int
    inside: int
    is_inline: bool = False


@dataclass(slots=True)
class _Layout:
    source: Source
    tree: ast.File
    lines: list[_Line] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    previous: Token | None = None
    is_unary: bool = False
    statement_level: int = 0

    def run(self) -> str:
        tokens = grammar().lex(self.source.text)
        code = names_among_keywords([token for token in tokens if token.type != "COMMENT"])
        ends = {token.start for token in statement_ends(code) if token.type == "_NL"}
        names = _starts_of_names(self.tree)
        inline = set(_inline_blocks(code))
        comments: list[Token] = []
        is_new = True
        for token in tokens:
            if token.type == "_NL":
                is_new = is_new or token.start in ends
            elif token.type == "COMMENT":
                self._comment(token, comments)
            else:
                is_name = token.start in names and token.text.isidentifier()
                named = token.read_as("NAME") if is_name else token
                self._code(named, comments, is_new, token.start in inline)
                comments, is_new = [], False
        self._own_lines(comments, 0)
        _align_comments(self.lines)
        return "".join(map(_text, self.lines))

    def _comment(self, token: Token, waiting: list[Token]) -> None:
        """A comment behind code stays there; others wait for the line that follows them."""
        last = self.previous
        if last is not None and last.line == token.line and not waiting:
            self.lines[-1].comment = token.text.rstrip()
        else:
            waiting.append(token)

    def _code(self, token: Token, comments: list[Token], is_new: bool, is_inline: bool) -> None:
        closed = self.brackets.pop() if token.text in (")", "]", "}") else None
        if self._begins_line(token, bool(comments), is_new, closed):
            level = self._level(token, is_new, closed)
            self._own_lines(comments, level + (closed is not None))
            blank = self._is_after_blank(token, comments, is_new) and closed is None
            self.lines.append(_Line(level, blank, token.text))
        else:
            is_joined = is_new and self.previous is not None and self.previous.text != "{"
            separator = "; " if is_joined and closed is None else self._space(token)
            self.lines[-1].code += separator + token.text
        begins = is_new or self.previous is None or self.previous.text == "{"
        if begins and closed is None:
            self.statement_level = self.lines[-1].level
        self.is_unary = token.text == "-" and not _ends_operand(self.previous)
        if token.text in ("(", "[", "{"):
            self._open(token, is_inline)
        elif closed is not None and closed.text == "{":
            self.statement_level = closed.level
        self.previous = token

    def _open(self, token: Token, is_inline: bool) -> None:
        level = self.statement_level if token.text == "{" else self.lines[-1].level
        self.brackets.append(_Bracket(token.text, level, level + 1, is_inline))

    def _begins_line(
        self, token: Token, after_comment: bool, is_new: bool, closed: _Bracket | None
    ) -> bool:
        if self.previous is None or after_comment or self.lines[-1].comment:
            return True
        if closed is not None and closed.text == "{":
            return not closed.is_inline
        if self.previous.text == "{" or is_new:
            return not (self.brackets and self.brackets[-1].is_inline)
        if token.text == "{" or (self.previous.text == "}" and token.text == "else"):
            return False
        return token.line > self.previous.line

    def _level(self, token: Token, is_new: bool, closed: _Bracket | None) -> int:
        if closed is not None:
            return closed.level
        if token.text in ("else", "grad") and self.previous and self.previous.text == "}":
            return self.statement_level
        bracket = self.brackets[-1] if self.brackets else _Bracket("{", 0, 0)
        if bracket.text == "{":
            at_start = is_new or self.previous is None or self.previous.text == "{"
            return bracket.inside if at_start else self.statement_level + 1
        assert self.previous is not None
        at_start = self.previous.text in ("(", "[", ",")
        return bracket.inside if at_start else bracket.inside + 1

    def _is_after_blank(self, token: Token, comments: list[Token], is_new: bool) -> bool:
        """Whether an empty line of the source stays: between statements or elements of a list."""
        if comments:
            return token.line > comments[-1].line + 1
        last = self.previous
        if last is None or last.text in ("(", "[", "{") or not (is_new or last.text == ","):
            return False
        return token.line > last.line + 1

    def _own_lines(self, comments: list[Token], level: int) -> None:
        last = self.previous.line if self.previous is not None else None
        if self.previous is not None and self.previous.text in ("(", "[", "{"):
            last = None
        for comment in comments:
            blank = last is not None and comment.line > last + 1
            self.lines.append(_Line(level, blank, comment=comment.text.rstrip()))
            last = comment.line

    def _space(self, token: Token) -> str:
        before = self.previous
        assert before is not None
        is_slice = bool(self.brackets) and self.brackets[-1].text == "["
        return " " if _is_apart(before, token, self.is_unary, is_slice) else ""


def _is_apart(before: Token, token: Token, is_unary: bool, is_slice: bool) -> bool:
    """Whether a space is between two tokens of a line; `is_slice`: a `:` here is one of a slice."""
    if token.text in (",", ")", "]", ".") or token.type == "ANY_FLOAT":
        return False
    if before.text in ("(", "[", ".") or is_unary:
        return False
    if before.text == ",":
        return True
    if ".." in (token.text, before.text):
        return False
    if token.text == ":":
        return is_slice and before.text != ":"
    if token.text in ("(", "["):
        return not _ends_operand(before)
    return True


def _ends_operand(token: Token | None) -> bool:
    return token is not None and (token.type in _LITERALS or token.text in (")", "]"))


def _starts_of_names(tree: ast.File) -> set[int]:
    """Places of words that are names, also of those that are keywords elsewhere."""
    return {node.span.start for node in walk(tree) if isinstance(node, (ast.Identifier, ast.Name))}


def _inline_blocks(tokens: list[Token]) -> Iterator[int]:
    """Starts of each `{` whose block is on one line, or empty."""
    waiting: list[tuple[Token, int]] = []
    code = [token for token in tokens if token.type != "_NL"]
    for index, token in enumerate(code):
        if token.text == "{":
            waiting.append((token, index))
        elif token.text == "}":
            opener, at = waiting.pop()
            if opener.line == token.line or at == index - 1:
                yield opener.start


def _align_comments(lines: list[_Line]) -> None:
    """Comments behind neighbouring lines of one level begin in the same column."""
    run: list[_Line] = []
    for line in [*lines, _Line(0)]:
        is_next = bool(line.code and line.comment and not line.after_blank)
        if run and not (is_next and line.level == run[0].level):
            _align(run)
            run = []
        if line.code and line.comment:
            run.append(line)


def _align(run: list[_Line]) -> None:
    widths = [len(line.code) for line in run]
    widest = max(widths)
    if widest - min(widths) > FARTHEST:
        return
    for line in run:
        line.code = line.code.ljust(widest)


def _text(line: _Line) -> str:
    parts = [line.code + GAP if line.code and line.comment else line.code, line.comment]
    start = "\n" if line.after_blank else ""
    return f"{start}{INDENT * line.level}{''.join(parts)}\n"
