"""Mistakes that tokens show: text that cannot be a token, soft keywords used as names, keywords of
other languages, and misspelt keywords. Each is reported, and replaced by what was meant.

`NAME NAME` never occurs in the grammar, so a word before a name was meant to be a keyword."""

from __future__ import annotations

import itertools
import unicodedata
from dataclasses import dataclass

from wgcc.errors import Diagnostics, Source, Span
from wgcc.spelling import did_you_mean
from wgcc.syntax.blocks import CONTINUES_AFTER
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import CLOSERS, OPENERS, SOFT, Token, token_after, words

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
    return token.read_as("NAME", token.text[:LONGEST_NAME])


def _open_string(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    quote = Token(token.type, '"', token.start, token.start + 1, token.line).span(source)
    behind = source.text[token.end : token.end + 2]
    if len(behind) == 2 and behind[0] == "\\" and behind[1] != "\n":
        diagnostics.error("WG0103", "this string has too many `\\`", quote)
        return token.read_as("STRING", '""')
    diagnostics.error(
        "WG0103", "this string is never closed", quote, "the string starts here"
    ).help('add a closing `"`; a string cannot span lines')
    return token.read_as("STRING", f'{token.text}"')


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
    return token.read_as("FLOAT", meant)


def _foreign_word(source: Source, token: Token, diagnostics: Diagnostics) -> Token:
    diagnostics.error(
        "WG0105",
        f"`{token.text}`: names use ASCII letters, digits and `_` only",
        token.span(source),
    ).note("names become WGSL identifiers and JSON keys in the bundle")
    return token.read_as("NAME", token.text[:LONGEST_NAME])


def _stray(source: Source, token: Token, diagnostics: Diagnostics) -> Token | None:
    if len(token.text) > 1 and token.text[0] in "'“”":
        return _other_quotes(source, token, diagnostics)
    span = token.span(source)
    if token.text in _OPERATORS:
        better, type_ = _OPERATORS[token.text]
        diagnostics.error("WG0104", f"`{token.text}` is not an operator here", span).help(
            f"write `{better}`", (span, better)
        )
        return token.read_as(type_, better)
    problem = diagnostics.error("WG0100", f"unexpected character {_show(token.text)}", span)
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
    return token.read_as("STRING", meant)


def _show(char: str) -> str:
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
        token.read_as("NAME") if _is_name(previous, token, following) else token
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
            kept += [token.read_as(keywords[word], word) for word in meaning.instead.split()]
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
        guesses[word] = _guess_keyword(word)
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


def _guess_keyword(word: str) -> _Meaning | None:
    near = did_you_mean(word, grammar().keywords)
    if not near:
        return None
    return _Meaning("WG0119", f"unknown word `{word}`", f"did you mean `{near[0]}`?", near[0])


_CONTEXTS = {
    "no_grad": "gradients are computed only where `minimize` or `grad` asks for them; "
    "`stop_grad(x)` stops them at one value",
    "inference_mode": "an entry without `minimize` computes no gradients",
    "autocast": "`precision = f16` in the model is mixed precision for all of it",
}


def correct_python_blocks(
    source: Source, tokens: list[Token], diagnostics: Diagnostics
) -> list[Token]:
    """Report `with torch.no_grad():`, which is left out, and `for i in 0..3: x = f(x)`."""
    kept: list[Token] = []
    left_out: set[int] = set()
    at = 0
    while at < len(tokens):
        line = _line(tokens, at)
        at += len(line)
        colon = _outside(line, ":")
        if line[0].type == "WITH" and _opens_context(line):
            header = line[: (_outside(line, ":") or _outside(line, "{")) + 1]
            closer = _closer(tokens, at - len(line) + len(header)) if header[-1].text == "{" else []
            left_out |= _leave_out_context(source, header, closer, diagnostics)
        elif line[0].type in ("FOR", "IF", "ELSE") and 0 < colon < len(line) - 1:
            line = _put_braces(source, line, colon, diagnostics)
        kept += line
    return [token for token in kept if token.start not in left_out] if left_out else kept


def _line(tokens: list[Token], at: int) -> list[Token]:
    """The tokens up to a new line outside of parentheses, or that new line itself."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end].text in ("(", "[")) - (tokens[end].text in (")", "]"))
        if tokens[end].type == "_NL" and depth <= 0:
            return tokens[at : max(end, at + 1)]
    return tokens[at:]


def _outside(line: list[Token], text: str) -> int:
    """The index of the first `text` outside of brackets, or 0."""
    depth = 0
    for index, token in enumerate(line):
        if depth == 0 and token.text == text:
            return index
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
    return 0


def _opens_context(line: list[Token]) -> bool:
    """`with torch.no_grad():`, but not `with opt` or `with ema {`, which continue a statement."""
    header = line[: _outside(line, "{")]
    return _outside(line, ":") > 0 or any(token.text == "(" for token in header)


def _leave_out_context(
    source: Source, header: list[Token], closer: list[Token], diagnostics: Diagnostics
) -> set[int]:
    """The starts of the tokens that are left out."""
    span = Span(source, header[0].start, header[-1].end)
    edits = [(span, ""), *((token.span(source), "") for token in closer)]
    called = next((token.text for token in header if token.text in _CONTEXTS), "")
    advice = f"leave this line out: {_CONTEXTS.get(called, 'its statements stand alone')}"
    diagnostics.error("WG0110", "there are no `with` blocks", span).help(advice, *edits)
    return {token.start for token in (*header, *closer)}


def _closer(tokens: list[Token], at: int) -> list[Token]:
    """The `}` of a block whose first token is at this index; none if it is missing."""
    depth = 1
    for token in itertools.islice(tokens, at, None):
        depth += (token.text in OPENERS) - (token.text in CLOSERS)
        if depth == 0:
            return [token]
    return []


def _put_braces(
    source: Source, line: list[Token], colon: int, diagnostics: Diagnostics
) -> list[Token]:
    span, end = line[colon].span(source), Span(source, line[-1].end, line[-1].end)
    diagnostics.error("WG0117", "blocks use braces, not `:` and indentation", span).help(
        "write `{` here and `}` after the statement", (span, " {"), (end, " }")
    )
    opener = line[colon].read_as("LBRACE", "{")
    return [*line[:colon], opener, *line[colon + 1 :], token_after("RBRACE", "}", line[-1])]
