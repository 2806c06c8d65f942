"""The newline rule: which line breaks end a statement, decided from the tokens around them."""

from __future__ import annotations

from wgcc.syntax.tokens import Token, words

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
