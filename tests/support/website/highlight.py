"""Colours of code: `.wg` by the compiler's own tokens, other languages by a few patterns."""

from __future__ import annotations

import re
from html import escape

from wgcc.language_service.reference import reference
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import SOFT, Token

_CLASSES = {"COMMENT": "c", "STRING": "s", "INT": "n", "FLOAT": "n", "DTYPE": "t", "ANY_FLOAT": "t"}
_PYTHON = (
    "and as assert async await break class continue def del elif else except False finally for from"
    " if import in is lambda None not or pass raise return True try while with yield"
)
_SCRIPT = (
    "async await break case catch class const continue default else export extends false finally"
    " for from function if import in let new null of return static super switch this throw true"
    " try typeof undefined var while yield"
)
_WGSL = (
    "array bool break const continue else enable f16 f32 false fn for i32 if let loop override ptr"
    " return struct true u32 uniform var vec2u vec3u vec4u while workgroup"
)
_HASH, _SLASHES = r"#[^\n]*", r"//[^\n]*|/\*.*?\*/"
_QUOTES = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
# Comments, strings and keywords by the name that a Markdown fence has.
_LANGUAGES = {
    "python": (_HASH, _QUOTES, _PYTHON),
    "py": (_HASH, _QUOTES, _PYTHON),
    "sh": (_HASH, _QUOTES, ""),
    "toml": (_HASH, _QUOTES, "true false"),
    "yaml": (_HASH, _QUOTES, "true false"),
    "js": (_SLASHES, _QUOTES + r"|`(?:\\.|[^`\\])*`", _SCRIPT),
    "ts": (_SLASHES, _QUOTES + r"|`(?:\\.|[^`\\])*`", _SCRIPT + " interface type readonly"),
    "jsx": (_SLASHES, _QUOTES, _SCRIPT),
    "json": (r"(?!)", _QUOTES, "true false null"),
    "wgsl": (_SLASHES, _QUOTES, _WGSL),
    "lua": (r"--[^\n]*", _QUOTES, "end false function local nil return true"),
}


def highlight(code: str, language: str) -> str:
    """HTML of a text, in `<span class=…>` of one letter; unknown languages stay plain."""
    if language == "wg":
        return _by_tokens(code)
    if language in _LANGUAGES:
        return _by_patterns(code, *_LANGUAGES[language])
    return escape(code)


def _by_tokens(code: str) -> str:
    parts, place = [], 0
    tokens = grammar().lex(code)
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        parts.append(escape(code[place : token.start]))
        parts.append(_span(_class_of(before, token, after), token.text))
        place = token.end
    return "".join(parts) + escape(code[place:])


def _class_of(before: Token | None, token: Token, after: Token | None) -> str:
    if token.type in _CLASSES:
        return _CLASSES[token.type]
    if token.text in SOFT and _is_name(before, after):
        return ""
    if token.text.isalpha() and token.type != "NAME":
        return "k"
    if token.type == "NAME" and (before is None or before.text != "."):
        is_used = after is not None and after.text in ("(", "[")
        if token.text in reference() and (is_used or (before and before.text in ("|>", ":"))):
            return "b"
    return ""


def _is_name(before: Token | None, after: Token | None) -> bool:
    """Whether a word that can be a keyword stands where only a name can: `state = f(step)`."""
    followed = after is not None and (after.text in "=:,.)[]+-*/%@(" or after.type == "_NL")
    return followed or (before is not None and before.text in (".", ","))


def _by_patterns(code: str, comment: str, string: str, keywords: str) -> str:
    words = rf"\b(?:{'|'.join(keywords.split())})\b" if keywords else r"(?!)"
    number = r"(?<![\w.])\d[\w.]*"
    pattern = rf"(?P<c>{comment})|(?P<s>{string})|(?P<k>{words})|(?P<n>{number})"
    parts, place = [], 0
    for match in re.finditer(pattern, code, re.DOTALL):
        parts += [escape(code[place : match.start()]), _span(match.lastgroup or "", match[0])]
        place = match.end()
    return "".join(parts) + escape(code[place:])


def _span(kind: str, text: str) -> str:
    return f'<span class="{kind}">{escape(text)}</span>' if kind else escape(text)
