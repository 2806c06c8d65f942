"""Advice for expressions and blocks as Python has them, with the words of the line itself."""

from __future__ import annotations

import re

from wgcc.errors import Span
from wgcc.syntax.unexpected import UnexpectedToken

Advice = tuple[str, tuple[tuple[Span, str], ...]]

_VALUES = frozenset(["NAME", "INT", "FLOAT", "STRING", "TRUE", "FALSE", "RPAR", "RSQB", "DTYPE"])
_OPERATORS = frozenset(["PLUS", "MINUS", "MULOP", "POW", "CMP", "AND", "OR", "PIPE", "RANGE"])
_RANGE = re.compile(r"range\(([^,()]*)\)")
_COMPREHENSION = re.compile(r"\[(?P<item>.*) for (?P<name>\w+) in (?P<items>.*)\]")


def advise(a: UnexpectedToken) -> Advice | None:
    """What to write instead, and the edits that do it; None if this is no habit of Python's."""
    return next((advice for rule in _RULES if (advice := rule(a)) is not None), None)


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
    """Where the value before `column` begins: after `=`, `return` or an open bracket."""
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
    match = _COMPREHENSION.search(a.source.line_text(a.token.line))
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


def _nested_function(a: UnexpectedToken) -> Advice | None:
    if a.token.text != "fn" or "MINIMIZE" not in a.accepts:
        return None
    name = a.following.text
    return (
        f"functions are not defined inside others: move `fn {name}` before this one; the values "
        "that it uses become arguments, or parts of the state of a `scan`"
    ), ()


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


_RULES = (_self, _lone_value, _choice, _comprehension, _ellipsis, _settings, _nested_function)
