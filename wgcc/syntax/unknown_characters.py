"""Text that cannot be a token: reported, and replaced by what was probably meant."""

from __future__ import annotations

import unicodedata

from wgcc.errors import Diagnostics, Source
from wgcc.syntax.tokens import Token

# Operators of other languages -> (what to write, its terminal).
_OPERATORS = {
    "&&": ("and", "AND"),
    "||": ("or", "OR"),
    "&": ("and", "AND"),
    "|": ("or", "OR"),
    "!": ("not", "NOT"),
    "^": ("**", "POW"),
    "−": ("-", "MINUS"),
    "–": ("-", "MINUS"),
    "×": ("*", "MULOP"),
    "·": ("*", "MULOP"),
    "÷": ("/", "MULOP"),
    "≤": ("<=", "CMP"),
    "≥": (">=", "CMP"),
    "≠": ("!=", "CMP"),
    "→": ("->", "ARROW"),
}
_HINTS = {
    "?": "a choice is written `if c then a else b`, between values at run time `where(c, a, b)`",
    "\\": "a line that ends with an operator or inside a bracket continues on the next line",
    "'": 'strings use double quotes: "..."',
    "“": 'strings use straight double quotes: "..."',
    "”": 'strings use straight double quotes: "..."',
}

LONGEST_NAME = 255


def replace_unknown(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """`tokens` without white space and comments, and with terminals of the grammar only."""
    kept: list[Token] = []
    for token in tokens:
        if token.type == "COMMENT":
            continue
        handler = _HANDLERS.get(token.type)
        meant = token if handler is None else handler(source, token, diagnostics)
        if meant is not None:
            kept.append(meant)
    return kept


def _name(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    if len(token.text) <= LONGEST_NAME:
        return token
    text = f"this name has {len(token.text):,} characters; at most {LONGEST_NAME} are possible"
    diagnostics.error("WG0107", text, token.span(source))
    return token.retagged("NAME", token.text[:LONGEST_NAME])


def _open_string(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    quote = Token(token.type, '"', token.start, token.start + 1, token.line).span(source)
    behind = source.text[token.end : token.end + 2]
    if len(behind) == 2 and behind[0] == "\\" and behind[1] != "\n":
        diagnostics.error("WG0103", "this string has too many `\\`", quote)
        return token.retagged("STRING", '""')
    diagnostics.error(
        "WG0103", "this string is never closed", quote, "the string starts here"
    ).help('add a closing `"`; a string cannot span lines')
    return token.retagged("STRING", f'{token.text}"')


def _hash(source: Source, token: Token, diagnostics: Diagnostics) -> None:
    sign = Token(token.type, "#", token.start, token.start + 1, token.line).span(source)
    diagnostics.error("WG0102", "`#` does not begin a comment", sign).help(
        "comments begin with `//` (and doc comments with `///`)", (sign, "//")
    )


def _bare_float(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    """`1.` and `.5`"""
    whole, _, rest = token.text.partition(".")
    meant = f"{whole or 0}.{rest if rest[:1].isdigit() else '0' + rest}"
    message = f"a number cannot {'end' if whole else 'begin'} with `.`"
    span = token.span(source)
    diagnostics.error("WG0116", message, span).help(f"write `{meant}`", (span, meant))
    return token.retagged("FLOAT", meant)


def _foreign_word(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    diagnostics.error(
        "WG0105",
        f"`{token.text}`: names use ASCII letters, digits and `_` only",
        token.span(source),
    ).note("names become WGSL identifiers and JSON keys in the bundle")
    return token.retagged("NAME", token.text[:LONGEST_NAME])


def _stray(source: Source, token: Token, diagnostics: Diagnostics) -> Token | None:
    if len(token.text) > 1 and token.text[0] in "'“”":
        return _other_quotes(source, token, diagnostics)
    span = token.span(source)
    if token.text in _OPERATORS:
        better, type_ = _OPERATORS[token.text]
        diagnostics.error("WG0104", f"`{token.text}` is not an operator here", span).help(
            f"write `{better}`", (span, better)
        )
        return token.retagged(type_, better)
    problem = diagnostics.error("WG0100", f"unexpected character {_shown(token.text)}", span)
    if token.text in _HINTS:
        problem.help(_HINTS[token.text])
    elif unicodedata.category(token.text) in ("Zs", "Cf"):
        problem.help("it came with pasted text: delete it, or type a space", (span, " "))
    return None


def _other_quotes(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    meant = '"' + token.text[1:-1].replace('"', "'") + '"'
    message = f"`{token.text[0]}` does not begin a string"
    diagnostics.error("WG0104", message, token.span(source)).help(
        _HINTS[token.text[0]], (token.span(source), meant)
    )
    return token.retagged("STRING", meant)


def _shown(char: str) -> str:
    """An invisible character is shown by its code point."""
    if char.isprintable() and not char.isspace():
        return f"`{char}`"
    name = unicodedata.name(char, "").lower()
    return f"U+{ord(char):04X}" + (f" ({name})" if name else "")


_HANDLERS = {
    "NAME": _name,
    "OPEN_STRING": _open_string,
    "HASH": _hash,
    "BARE_FLOAT": _bare_float,
    "FOREIGN_WORD": _foreign_word,
    "STRAY": _stray,
}
