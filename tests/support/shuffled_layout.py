"""The same program with another layout, by chance: spaces, line breaks, `;`, comments."""

from __future__ import annotations

import random

from wgcc.syntax.blocks import statement_ends
from wgcc.syntax.grammar import grammar
from wgcc.syntax.mistakes import names_among_keywords
from wgcc.syntax.tables import Token

_ENDS = (
    "\n",
    "\n",
    "\n\n\n",
    ";",
    " ; ",
    "  // why\n",
    "\n// note\n",
    "\n\n   // note\n\n",
    " \n\t",
)
_BREAKS = ("\n", "\n\n", "  // why\n", "\n\t// note\n", "", " ")
# Without spaces around them, these cannot become part of another token.
_LONE = frozenset("+*@%=,")


def shuffled(text: str, rng: random.Random) -> str:
    tokens = grammar().lex(text)
    code = names_among_keywords([token for token in tokens if token.type != "COMMENT"])
    ends = {token.start for token in statement_ends(code) if token.type == "_NL"}
    parts: list[str] = []
    brackets: list[str] = []
    last: Token | None = None
    for token in tokens:
        if token.type == "_NL":
            parts.append(_line_break(token, last, token.start in ends, rng))
        else:
            parts += [_gap(last, token, bool(brackets) and brackets[-1] != "{", rng), token.text]
            if token.text in ("(", "[", "{"):
                brackets.append(token.text)
            elif token.text in (")", "]", "}"):
                brackets.pop()
        last = token
    return "".join(parts)


def _line_break(token: Token, last: Token | None, is_end: bool, rng: random.Random) -> str:
    if last is not None and last.type == "COMMENT":
        return rng.choice(("\n", "\n\n", "\n     "))
    return rng.choice(_ENDS if is_end else _BREAKS)


def _gap(last: Token | None, token: Token, in_brackets: bool, rng: random.Random) -> str:
    if last is None or last.type == "_NL":
        return rng.choice(("", "  ", "\t"))
    if "ANY_FLOAT" in (last.type, token.type):
        return ""
    if token.type == "COMMENT":
        return " "
    if in_brackets and last.text in (",", "(", "["):
        return rng.choice(("", " ", " ", "\n", " // part\n", "\n\n"))
    if token.start > last.end:
        is_lone = last.text in _LONE or token.text in _LONE
        has_word = last.text[-1].isalnum() or token.text[0].isalnum()
        return rng.choice((" ", "   ", "\t", "" if is_lone and has_word else " "))
    return rng.choice(("", "", " "))
