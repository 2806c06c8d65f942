"""Explains an unexpected token: a rule for each common mistake and for each habit of Python, then a
general one. Each line has at most one syntax error."""

from __future__ import annotations

import re

from wgcc.errors import Diagnostic, Diagnostics, Source, Span
from wgcc.syntax.blocks import CONTINUES_AFTER
from wgcc.syntax.grammar import UnexpectedToken, expected_text, found_text, grammar, shorten
from wgcc.syntax.mistakes import FOREIGN
from wgcc.syntax.tables import words

# Where only these are accepted, a name is expected.
_NAME_PLACES = words("NAME STRING DTYPE RPAR RSQB")
# What can follow a name that is declared: before a type or layer, `:` is missing.
_AFTER_NAMES = words("COLON EQUAL LSQB")
_ARITHMETIC = ("PLUS", "MINUS", "MULOP", "POW")


def explain(unexpected: UnexpectedToken) -> None:
    """Report by the first rule that applies."""
    if not any(rule(unexpected) for rule in _RULES):
        _explain_generally(unexpected)


def _foreign_word(a: UnexpectedToken) -> bool:
    if a.previous.type != "NAME" or a.previous.text not in FOREIGN:
        return False
    advice, instead = FOREIGN[a.previous.text]
    edits = () if instead is None else ((a.previous_span, instead),)
    a.diagnostics.error(
        "WG0110", f"`{a.previous.text}` is not a keyword of this language", a.previous_span
    ).help(advice, *edits)
    return True


def _assignment_operator(a: UnexpectedToken) -> bool:
    adjacent = a.following.text == "=" and a.token.end == a.following.start
    if not adjacent or a.token.type not in _ARITHMETIC:
        return False
    span = Span(a.source, a.token.start, a.following.end)
    name, operator = a.previous.text, a.token.text
    a.diagnostics.error("WG0111", f"there is no `{operator}=` operator", span).help(
        f"bind a new value: `{name} = {name} {operator} ...`"
    )
    return True


def _equals_in_expression(a: UnexpectedToken) -> bool:
    if a.token.text != "=" or "CMP" not in a.accepts:
        return False
    a.diagnostics.error("WG0112", "`=` cannot be used inside an expression", a.span).help(
        "compare with `==`", (a.span, "==")
    )
    return True


def _chained_comparison(a: UnexpectedToken) -> bool:
    if a.token.type != "CMP" or "CMP" in a.accepts or "AND" not in a.accepts:
        return False
    a.diagnostics.error(
        "WG0113", "comparisons cannot be chained", a.span, "second comparison"
    ).help("write `a < b and b < c`")
    return True


def _after_pipeline(a: UnexpectedToken) -> bool:
    operator = a.token.type in (*_ARITHMETIC, "CMP")
    if not operator or "PIPE" not in a.accepts or a.token.type in a.accepts:
        return False
    a.diagnostics.error(
        "WG0114", f"`{a.token.text}` cannot follow a pipeline", a.span, "the pipeline ends here"
    ).help("put the pipeline in parentheses: `(x |> f) + y`")
    return True


def _misplaced_write(a: UnexpectedToken) -> bool:
    if a.token.text != ":=":
        return False
    a.diagnostics.error(
        "WG0115", "`:=` writes state inside a function or entry; it cannot be used here", a.span
    )
    return True


def _number_and_name(a: UnexpectedToken) -> bool:
    """`2x`"""
    adjacent = a.token.start == a.previous.end
    if not adjacent or a.previous.type not in ("INT", "FLOAT") or a.token.type != "NAME":
        return False
    span = Span(a.source, a.previous.start, a.token.end)
    a.diagnostics.error("WG0116", "a name cannot begin with a digit", span).help(
        f"for a product write `{a.previous.text} * {a.token.text}`",
        (Span(a.source, a.previous.end, a.token.start), " * "),
    )
    return True


def _colon_block(a: UnexpectedToken) -> bool:
    if a.token.text != ":" or a.following.line <= a.token.line or "LBRACE" not in a.accepts:
        return False
    a.diagnostics.error("WG0117", "blocks use braces, not `:` and indentation", a.span).help(
        "write `{` here and `}` after the last statement", (a.span, " {")
    )
    return True


def _reserved_word(a: UnexpectedToken) -> bool:
    reserved = a.token.type in grammar().keywords.values() or a.token.type == "DTYPE"
    if not reserved or "NAME" not in a.accepts or "INT" in a.accepts:
        return False
    if not a.accepts <= _NAME_PLACES and a.following.text not in (":", "=", "["):
        return False
    word = a.token.text
    a.diagnostics.error(
        "WG0118", f"`{word}` is a reserved word and cannot be used as a name", a.span
    ).help(f"try `{word}_`", (a.span, f"{word}_"))
    return True


def _python_import(a: UnexpectedToken) -> bool:
    if "FROM" not in a.accepts or not (a.token.text in ("as", ".") or a.at_line_end):
        return False
    text = f"expected `from` after `{shorten(a.previous.text)}`, found {found_text(a.token)}"
    a.diagnostics.error("WG0120", text, a.span).help(
        "layers and functions such as PyTorch's are built in; imports name a file: "
        '`import A, B from "file.wg"` or `import "file.wg" as name`'
    )
    return True


def _untyped_argument(a: UnexpectedToken) -> bool:
    if a.accepts != {"COLON"} or a.previous.type != "NAME" or a.token.text not in (",", ")", "="):
        return False
    problem = a.diagnostics.error("WG0120", f"expected `:`, found `{a.token.text}`", a.span)
    if a.previous.text == "self":
        after = a.following.start if a.token.text == "," else a.token.start
        edit = Span(a.source, a.previous.start, after), ""
        problem.help("leave `self` out: functions of a layer see its members", edit)
    elif a.source.text[: a.previous.start].split()[-1:] == ["optimizer"]:
        form = f"optimizer {a.previous.text}: adam {{ lr = 1e-3 }}"
        problem.help(f"its kind and its settings follow: `{form}`")
    else:
        problem.help(f"every argument has a type: `{a.previous.text}: f32[N, D]`")
    return True


def _top_level_binding(a: UnexpectedToken) -> bool:
    if a.token.type != "NAME" or a.following.text != "=" or "IMPORT" not in a.accepts:
        return False
    name = a.token.text
    a.diagnostics.error(
        "WG0120", f"expected {expected_text(a.accepts)}, found `{name}`", a.span
    ).help(f"a size is written `dim {name} = ...`, another number `const {name} = ...`")
    return True


def _member_at_top_level(a: UnexpectedToken) -> bool:
    if a.token.type not in ("ENTRY", "OPTIMIZER", "PARAM", "STATE") or "IMPORT" not in a.accepts:
        return False
    word = a.token.text
    a.diagnostics.error("WG0120", f"`{word}` is outside of the model", a.span).help(
        "write it inside the braces of `model NAME { ... }`"
    )
    return True


def _line_ends_early(a: UnexpectedToken) -> bool:
    """`z = x +` and then a line that begins another statement."""
    if a.at_line_end or a.token.line <= a.previous.line or advise(a) is not None:
        return False
    if a.previous.text not in CONTINUES_AFTER or not a.previous.text:
        return False
    a.diagnostics.error(
        "WG0120",
        f"expected {expected_text(a.accepts)} after `{a.previous.text}`",
        a.previous_span,
        f"the next line begins with {found_text(a.token)}",
    )
    return True


def _explain_generally(a: UnexpectedToken) -> None:
    named = a.previous.text in CONTINUES_AFTER or a.at_line_end
    known = named and a.previous.text and a.previous.type != "_NL"
    after = f" after `{shorten(a.previous.text)}`" if known else ""
    closes = a.at_line_end and a.token.type == "RBRACE"
    token_text = "the end of the line" if closes else found_text(a.token)
    problem = a.diagnostics.error(
        "WG0120", f"expected {expected_text(a.accepts)}{after}, found {token_text}", a.span
    )
    advice = advise(a)
    if advice is not None:
        problem.help(advice[0], *advice[1])
    elif a.token.text == "==" and "EQUAL" in a.accepts:
        problem.fix((a.span, "="))
    elif a.accepts <= _AFTER_NAMES and "COLON" in a.accepts and a.token.type in ("NAME", "DTYPE"):
        problem.fix((Span(a.source, a.previous.end, a.previous.end), ":"))


_RULES = (
    _foreign_word,
    _assignment_operator,
    _equals_in_expression,
    _chained_comparison,
    _after_pipeline,
    _misplaced_write,
    _number_and_name,
    _colon_block,
    _reserved_word,
    _python_import,
    _untyped_argument,
    _top_level_binding,
    _member_at_top_level,
    _line_ends_early,
)


# An unclosed bracket affects the lines up to where it is found missing; of those, at most these.
_MOST_LINES = 3


def one_error_per_line(diagnostics: Diagnostics, source: Source) -> None:
    """Keep one syntax error for each line: about a bracket if there is one, else the first."""
    best: dict[int, Diagnostic] = {}
    for item in diagnostics:
        if is_syntax_error(item) and item.span.source is source:
            other = best.get(item.span.line)
            if other is None or _rank(item) < _rank(other):
                best[item.span.line] = item
    kept = {id(item) for item in best.values()}
    diagnostics.items[:] = [
        item
        for item in diagnostics
        if id(item) in kept or not is_syntax_error(item) or item.span.source is not source
    ]


def is_syntax_error(item: Diagnostic) -> bool:
    return item.severity == "error" and item.code.startswith("WG01")


def _rank(item: Diagnostic) -> tuple[bool, int]:
    return item.code != "WG0101", item.span.start


def affected_lines(item: Diagnostic) -> range:
    """The lines that may not have been parsed as written, because of this syntax error."""
    lines = [item.span.line, *(span.line for span, _ in item.others)]
    first, last = min(lines), max(lines)
    return range(first, max(first + 1, min(last, first + _MOST_LINES)))


Advice = tuple[str, tuple[tuple[Span, str], ...]]

_VALUES = frozenset(["NAME", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "RPAR", "RSQB", "DTYPE"])
_OPERATORS = frozenset(["PLUS", "MINUS", "MULOP", "POW", "CMP", "AND", "OR", "PIPE", "RANGE"])
_RANGE = re.compile(r"range\(([^,()]*)\)")
_COMPREHENSION = re.compile(r"\[(?P<item>.*) for (?P<name>\w+) in (?P<items>.*)\]")


def advise(a: UnexpectedToken) -> Advice | None:
    """The text to write instead, and the edits that do it; None if this is no habit of Python's."""
    return next((advice for rule in _HABITS if (advice := rule(a)) is not None), None)


def _choice(a: UnexpectedToken) -> Advice | None:
    """`a if c else b`"""
    if a.token.text != "if" or a.previous.type not in _VALUES or a.at_line_end:
        return None
    line = a.source.line_text(a.token.line)
    column = a.source.line_column(a.token.start)[1] - 1
    start, end = _operand_start(line, column), _operand_end(line, column)
    condition, separator, otherwise = line[column + 2 : end].partition(" else ")
    if not separator:
        return None
    first, condition, otherwise = line[start:column].strip(), condition.strip(), otherwise.strip()
    code = f"if {condition} then {first} else {otherwise}"
    begin = a.token.start - column
    text = f"write `{code}`; for a condition on tensors `where({condition}, {first}, {otherwise})`"
    return text, ((Span(a.source, begin + start, begin + end), code),)


def _operand_start(line: str, column: int) -> int:
    """The column where the value before `column` begins: after `=`, `return` or an open bracket."""
    depth, at = 0, column
    while at > 0:
        sign = line[at - 1]
        depth += (sign in ")]") - (sign in "([")
        plain = sign == "=" and line[at - 2 : at - 1] not in tuple("=<>!") and line[at] != "="
        if depth < 0 or (depth == 0 and (sign == "," or plain)):
            break
        at -= 1
    start = at + len(line[at:column]) - len(line[at:column].lstrip())
    return start + len("return ") if line.startswith("return ", start) else start


def _operand_end(line: str, column: int) -> int:
    depth = 0
    for at in range(column, len(line)):
        depth += (line[at] in "([") - (line[at] in ")]")
        if depth < 0 or (depth == 0 and line[at] in ",;}") or line.startswith("//", at):
            return len(line[:at].rstrip())
    return len(line.rstrip())


def _comprehension(a: UnexpectedToken) -> Advice | None:
    """`[f(i) for i in range(3)]`"""
    if a.token.text != "for" or a.previous.type not in _VALUES or a.at_line_end:
        return None
    line = a.source.line_text(a.token.line)
    if "ModuleList" in line:
        return (
            "a list of layers has a length: `fs[3]: Linear[D, D]`; `for f in fs { x = f(x) }`",
            (),
        )
    match = _COMPREHENSION.search(line)
    item, name, items = match.group("item", "name", "items") if match else ("f(i)", "i", "0..3")
    items = _RANGE.sub(r"0..\1", items)
    loop = f"for {name} in {items} {{ ys = append(ys, {item}) }}"
    return f"collect them in a loop: `ys = []`, then `{loop}`", ()


def _ellipsis(a: UnexpectedToken) -> Advice | None:
    """`x[..., 0]`"""
    if (a.previous.text, a.token.text) != ("..", ".") or a.previous.end != a.token.start:
        return None
    return "all leading axes are written `..`, with two points", ((a.span, ""),)


def _settings(a: UnexpectedToken) -> Advice | None:
    """`{ lr = 1e-3, betas = (0.9, 0.95) }`"""
    is_setting = a.accepts == {"_NL", "RBRACE"} and a.following.type == "NAME"
    if a.token.text != "," or not is_setting:
        return None
    return "settings are on lines of their own, or between `;`", ((a.span, ";"),)


def _lone_value(a: UnexpectedToken) -> Advice | None:
    """`2.0 * x` as a line of its own"""
    if a.token.type not in _OPERATORS or not {"EQUAL", "WRITE"} <= a.accepts:
        return None
    line = a.source.line_text(a.token.line).partition("//")[0].strip(" \t;}")
    return f"a line that is only a value does nothing: `return {line}`, or `y = {line}`", ()


def _self(a: UnexpectedToken) -> Advice | None:
    """`self.fc = nn.Linear(3, 4)`"""
    if (a.previous.text, a.token.text) != ("self", ".") or a.following.type != "NAME":
        return None
    name = a.following.text
    return (
        f"members are declared without `self`: `{name}: Linear[3, 4]`, `param {name}: f32[4]`",
        (),
    )


def _identity(a: UnexpectedToken) -> Advice | None:
    """`if x is None`"""
    if a.token.text != "is" or a.previous.type not in _VALUES:
        return None
    return (
        "compare with `==`; there is no `None`: an option has a value, its default or another",
        (),
    )


def _tilde(a: UnexpectedToken) -> Advice | None:
    """`~(x > 0)`"""
    if a.token.text != "~" or "NOT" not in a.accepts:
        return None
    return "write `not`", ((a.span, "not "),)


_HABITS = (_self, _identity, _tilde, _lone_value, _choice, _comprehension, _ellipsis, _settings)
