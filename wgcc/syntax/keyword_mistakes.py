"""Soft keywords used as names, keywords of other languages, and misspelt keywords.

`NAME NAME` never occurs in the grammar, so a word before a name was meant to be a keyword.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.errors import Diagnostics, Source
from wgcc.spelling import did_you_mean
from wgcc.syntax.grammar import grammar
from wgcc.syntax.lines import CONTINUES_AFTER
from wgcc.syntax.tokens import SOFT, Token, words

_BINDING = "a binding needs no keyword: `x = ...`"

# Keywords of Python, JavaScript, Rust or C: a hint, and the words to parse instead ("" for none at
# all; None if the line cannot be parsed).
FOREIGN: dict[str, tuple[str, str | None]] = {
    "def": ("functions are written `fn name(...) -> type { ... }`", "fn"),
    "func": ("functions are written `fn`", "fn"),
    "function": ("functions are written `fn`", "fn"),
    "class": ("write `layer` for a building block, `model` for the whole network", "layer"),
    "struct": ("write `layer`", "layer"),
    "module": ("write `layer`", "layer"),
    "let": (_BINDING, ""),
    "var": (_BINDING, ""),
    "val": (_BINDING, ""),
    "mut": (_BINDING, ""),
    "weight": ("trainable tensors are declared with `param`", "param"),
    "parameter": ("trainable tensors are declared with `param`", "param"),
    "buffer": ("tensors that persist but are not trained are declared with `state`", "state"),
    "elif": ("write `else if`", "else if"),
    "use": ("write `import`", "import"),
    "include": ("write `import`", "import"),
    "input": ("inputs are the arguments of an `entry`", None),
    "lambda": ("there are no anonymous functions; name it with `fn`", None),
    "while": ("loops run a fixed number of times: `for i in 0..N { ... }`", None),
    "train": ("write `entry train(...) { ... }`", None),
}

_DECLARING = words("wg group test state model entry replace optimizer dtype")
_JOINING = words("from as over with then when new step")
# After a keyword that declares something comes a name, a string or a number, never one of these.
_AFTER_NAMES = words("= := : . , ) ] [ |> + - * / % @ ** == != < <= > >= ..")
_BINDS = words("= := : , .")
_MOST_GUESSES = 1000


def names_among_keywords(tokens: list[Token]) -> list[Token]:
    """Turn soft keywords into names where their neighbours show it. (The parser does the rest.)"""
    nothing = Token("_NL", "", 0, 0, 0)
    before = [nothing, *tokens]
    after = [*tokens[1:], nothing]
    return [
        token.retagged("NAME") if _is_name(previous, token, following) else token
        for previous, token, following in zip(before, tokens, after, strict=False)
    ]


def _is_name(previous: Token, token: Token, following: Token) -> bool:
    if token.type in ("NAME", "STRING"):
        return False
    if token.text == "grad":
        return following.type != "NAME" and following.text not in SOFT
    if token.text in _DECLARING:
        return following.text in _AFTER_NAMES
    if token.type == "DTYPE":
        return previous.text == "." and following.text == "("
    if token.text == "dim":
        return previous.text in ("(", ",", ".") and following.text in ("=", "(")
    if token.text not in _JOINING:
        return False
    if token.text == "new" and previous.text in ("[", ",") and following.text in (",", "]"):
        return False
    if previous.type == "_NL":
        return following.text in _BINDS
    return previous.text in CONTINUES_AFTER and previous.type not in ("NAME", "STRING")


@dataclass(frozen=True, slots=True)
class _Meaning:
    code: str
    message: str
    advice: str
    instead: str | None


def correct_keywords(source: Source, tokens: list[Token], diagnostics: Diagnostics) -> list[Token]:
    """Report `def f`, `class C`, `let x`, `parm w` and replace them by what was meant."""
    kept: list[Token] = []
    guesses: dict[str, _Meaning | None] = {}
    for index, token in enumerate(tokens):
        meaning = _meaning(tokens, index, guesses)
        if meaning is None:
            kept.append(token)
            continue
        span = token.span(source)
        problem = diagnostics.error(meaning.code, meaning.message, span)
        if meaning.instead is None:
            problem.help(meaning.advice)
            kept.append(token)
        else:
            problem.help(meaning.advice, (span, meaning.instead))
            keywords = grammar().keywords
            kept += [token.retagged(keywords[word], word) for word in meaning.instead.split()]
    return kept


def _meaning(
    tokens: list[Token], index: int, guesses: dict[str, _Meaning | None]
) -> _Meaning | None:
    if not _begins_line(tokens, index):
        return None
    token, following = tokens[index], tokens[index + 1 : index + 2]
    kind = following[0].type if following else "_NL"
    if token.type == "FROM" and kind in ("NAME", "DOT", "STRING"):
        return _python_import()
    if token.type != "NAME":
        return None
    if token.text in ("elif", "while") and kind not in ("EQUAL", "WRITE", "COMMA", "DOT", "COLON"):
        return _foreign(token.text)
    if kind not in ("NAME", "STRING", "DTYPE"):
        return None
    return _foreign(token.text) or _guess(token.text, guesses)


def _guess(word: str, guesses: dict[str, _Meaning | None]) -> _Meaning | None:
    """Each word is compared with the keywords only once."""
    if word not in guesses:
        if len(guesses) >= _MOST_GUESSES:
            return None
        guesses[word] = _misspelt(word)
    return guesses[word]


def _begins_line(tokens: list[Token], index: int) -> bool:
    return index == 0 or tokens[index - 1].type in ("_NL", "LBRACE", "RBRACE", "FROZEN")


def _foreign(word: str) -> _Meaning | None:
    if word not in FOREIGN:
        return None
    advice, instead = FOREIGN[word]
    return _Meaning("WG0110", f"`{word}` is not a keyword of this language", advice, instead)


def _python_import() -> _Meaning:
    return _Meaning(
        "WG0110",
        "an import does not begin with `from`",
        'imports name a file: `import A, B from "file.wg"`',
        None,
    )


def _misspelt(word: str) -> _Meaning | None:
    near = did_you_mean(word, grammar().keywords)
    if not near:
        return None
    return _Meaning("WG0119", f"unknown word `{word}`", f"did you mean `{near[0]}`?", near[0])
