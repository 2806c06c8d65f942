"""Builds the syntax tree of expressions, types, statements and blocks from raw nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.errors import Diagnostics, Source, Span
from wgcc.syntax import ast
from wgcc.syntax.tables import MISSING_VALUE, RawNode, Token

# More digits than any size or constant needs; Python itself refuses much longer numbers.
_LONGEST_INT = 40

_ESCAPES = {"n": "\n", "t": "\t"}


# Later phases are recursive, with several calls for each level of the tree.
DEEPEST = 128


@dataclass(slots=True)
class Reading:
    """State that all builders of the tree share: the source, its diagnostics, and the nesting."""

    source: Source
    diagnostics: Diagnostics
    docs: Mapping[int, str] = field(default_factory=dict)
    doubtful: list[int] = field(default_factory=list)
    depth: int = 0
    # Types with a `?` that are not yet known to be those of inputs.
    any_floats: list[ast.TypeExpr] = field(default_factory=list)

    def span(self, piece: RawNode | Token) -> Span:
        return Span(self.source, max(piece.start, 0), max(piece.end, 0))

    def doc(self, piece: RawNode) -> str:
        """The `///` lines directly above."""
        return self.docs.get(self.source.line_column(max(piece.start, 0))[0], "")

    def identifier(self, token: Token) -> ast.Identifier:
        return ast.Identifier(self.span(token), token.text)

    def identifiers(self, tokens: list[Token]) -> tuple[ast.Identifier, ...]:
        return tuple(self.identifier(token) for token in tokens)

    def broken(self, node: RawNode) -> ast.Broken:
        return ast.Broken(self.span(node), tuple(token.text for token in node.children))

    def is_doubtful(self, node: RawNode) -> bool:
        """Was something in it repaired in a way that may have changed its meaning?"""
        return any(node.start <= place <= node.end for place in self.doubtful)

    def broken_with_names(self, node: RawNode) -> ast.Broken:
        names: list[str] = []
        todo: list[Any] = [node]
        while todo:
            piece = todo.pop()
            if isinstance(piece, RawNode):
                todo += piece.children
            elif piece is not None and piece.type == "NAME":
                names.append(piece.text)
        return ast.Broken(self.span(node), tuple(dict.fromkeys(names)))

    def refuse_any_floats(self) -> None:
        for written in self.any_floats:
            assert written.any_float is not None
            text = "only an input of an entry says whether it may hold NaN and infinity"
            mark = written.any_float.span
            self.diagnostics.error("WG0611", text, mark).help("leave out the `?`", (mark, ""))

    def too_deep(self, node: RawNode) -> ast.Broken:
        self.diagnostics.error(
            "WG0106", f"this is nested more than {DEEPEST} levels deep", self.span(node)
        ).help("give the inner parts names: `h = ...`")
        return ast.Broken(self.span(node))


def expression(reading: Reading, node: RawNode) -> ast.Expr:
    """Any expression; one nested too deeply is reported and becomes `Broken`."""
    if reading.depth >= DEEPEST:
        return reading.too_deep(node)
    reading.depth += 1
    try:
        return _EXPRESSIONS[node.rule](reading, node)
    finally:
        reading.depth -= 1


def optional(reading: Reading, node: RawNode | None) -> ast.Expr | None:
    return None if node is None else expression(reading, node)


def expressions(reading: Reading, nodes: list[RawNode | None]) -> tuple[ast.Expr, ...]:
    return tuple(expression(reading, node) for node in nodes if node is not None)


def type_expression(reading: Reading, node: RawNode) -> ast.TypeExpr:
    name, mark, *dims = node.children
    written = ast.TypeExpr(
        reading.span(node),
        reading.identifier(name),
        tuple(_rest_or_expression(reading, dim) for dim in dims),
        None if mark is None else reading.identifier(mark),
    )
    if mark is not None:
        reading.any_floats.append(written)
    return written


def string(reading: Reading, token: Token) -> ast.String:
    text = token.text[1:-1]
    if "\\" in text:
        text = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)
    return ast.String(reading.span(token), text)


def strings(reading: Reading, tokens: list[Token]) -> tuple[ast.String, ...]:
    return tuple(string(reading, token) for token in tokens)


def arguments(reading: Reading, nodes: list[RawNode | None]) -> tuple[ast.Argument, ...]:
    return tuple(_argument(reading, node) for node in nodes if node is not None)


def _argument(reading: Reading, node: RawNode) -> ast.Argument:
    if node.rule == "kwarg":
        name, value = node.children
        named = reading.identifier(name)
        return ast.Argument(reading.span(node), named, expression(reading, value))
    value = expression(reading, node)
    return ast.Argument(value.span, None, value)


def _rest_or_expression(reading: Reading, node: RawNode) -> ast.Expr | ast.Rest:
    return ast.Rest(reading.span(node)) if node.rule == "rest" else expression(reading, node)


def _name(reading: Reading, node: RawNode) -> ast.Expr:
    text = node.children[0].text
    if text == MISSING_VALUE:
        return ast.Broken(reading.span(node))
    return ast.Name(reading.span(node), text)


def _dtype(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.Dtype(reading.span(node), node.children[0].text)


def _int(reading: Reading, node: RawNode) -> ast.Expr:
    digits = node.children[0].text.replace("_", "")
    if len(digits) > _LONGEST_INT:
        return _too_large(reading, node)
    return ast.Int(reading.span(node), int(digits))


def _float(reading: Reading, node: RawNode) -> ast.Expr:
    value = float(node.children[0].text.replace("_", ""))
    if math.isinf(value):
        return _too_large(reading, node)
    return ast.Float(reading.span(node), value)


def _too_large(reading: Reading, node: RawNode) -> ast.Broken:
    reading.diagnostics.error("WG0107", "this number is too large", reading.span(node))
    return ast.Broken(reading.span(node))


def _string(reading: Reading, node: RawNode) -> ast.Expr:
    return string(reading, node.children[0])


def _true(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.Bool(reading.span(node), True)


def _false(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.Bool(reading.span(node), False)


def _paren(reading: Reading, node: RawNode) -> ast.Expr:
    return expression(reading, node.children[0])


def _tuple(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.TupleExpr(reading.span(node), expressions(reading, node.children))


def _list(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.ListExpr(reading.span(node), expressions(reading, node.children))


def _if(reading: Reading, node: RawNode) -> ast.Expr:
    condition, then, otherwise = expressions(reading, node.children)
    return ast.IfExpr(reading.span(node), condition, then, otherwise)


def _pipe(reading: Reading, node: RawNode) -> ast.Expr:
    value, target = expressions(reading, node.children)
    return ast.Pipe(reading.span(node), value, target)


def _binary(reading: Reading, node: RawNode) -> ast.Expr:
    left, operator, right = node.children
    return ast.Binary(
        reading.span(node),
        operator.text,
        expression(reading, left),
        expression(reading, right),
        reading.span(operator),
    )


def _not(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.Unary(reading.span(node), "not", expression(reading, node.children[0]))


def _negative(reading: Reading, node: RawNode) -> ast.Expr:
    return ast.Unary(reading.span(node), "-", expression(reading, node.children[-1]))


def _range(reading: Reading, node: RawNode) -> ast.Expr:
    low, high, step = (optional(reading, part) for part in node.children)
    assert low is not None and high is not None
    return ast.Range(reading.span(node), low, high, step)


def _member(reading: Reading, node: RawNode) -> ast.Expr:
    value, name = node.children
    return ast.Member(reading.span(node), expression(reading, value), reading.identifier(name))


def _call(reading: Reading, node: RawNode) -> ast.Expr:
    function, *given = node.children
    return ast.Call(reading.span(node), expression(reading, function), arguments(reading, given))


def _index(reading: Reading, node: RawNode) -> ast.Expr:
    value, *items = node.children
    return ast.Index(
        reading.span(node),
        expression(reading, value),
        tuple(_index_item(reading, item) for item in items if item is not None),
    )


def _index_item(reading: Reading, node: RawNode) -> ast.IndexItem:
    span = reading.span(node)
    if node.rule == "slice":
        start, stop, step = (optional(reading, part) for part in node.children)
        return ast.Slice(span, start, stop, step)
    if node.rule == "window":
        start, length = expressions(reading, node.children)
        return ast.Window(span, start, length)
    if node.rule == "new_axis":
        return ast.NewAxis(span)
    return _rest_or_expression(reading, node)


_EXPRESSIONS: dict[str, Callable[[Reading, Any], ast.Expr]] = {
    "name": _name,
    "dtype": _dtype,
    "int": _int,
    "float": _float,
    "string": _string,
    "true": _true,
    "false": _false,
    "paren": _paren,
    "tuple": _tuple,
    "list": _list,
    "if_expr": _if,
    "pipe": _pipe,
    "binary": _binary,
    "not_": _not,
    "neg": _negative,
    "range": _range,
    "member": _member,
    "call": _call,
    "index": _index,
}


def block(reading: Reading, node: RawNode) -> ast.Block:
    statements = (_statement(reading, child) for child in node.children if child is not None)
    return ast.Block(reading.span(node), tuple(statements))


def assertion(reading: Reading, node: RawNode) -> ast.Assert:
    condition, text = node.children
    return ast.Assert(
        reading.span(node),
        expression(reading, condition),
        None if text is None else string(reading, text),
    )


def _statement(reading: Reading, node: RawNode) -> ast.Statement:
    if node.rule not in ("for_stmt", "if_stmt", "function") and reading.is_doubtful(node):
        return reading.broken_with_names(node)
    return _STATEMENTS[node.rule](reading, node)


def _bind(reading: Reading, node: RawNode) -> ast.Statement:
    targets, type_, values = node.children
    return ast.Bind(
        reading.span(node),
        expressions(reading, targets.children),
        None if type_ is None else type_expression(reading, type_),
        expressions(reading, values.children),
    )


def _write(reading: Reading, node: RawNode) -> ast.Statement:
    target, value = expressions(reading, node.children)
    return ast.Write(reading.span(node), target, value)


def _call_statement(reading: Reading, node: RawNode) -> ast.Statement:
    return ast.CallStatement(reading.span(node), expression(reading, node.children[0]))


def _return(reading: Reading, node: RawNode) -> ast.Statement:
    return ast.Return(reading.span(node), expressions(reading, node.children[0].children))


def _minimize(reading: Reading, node: RawNode) -> ast.Statement:
    value, optimizer, *selectors = node.children
    return ast.Minimize(
        reading.span(node),
        expression(reading, value),
        expression(reading, optimizer),
        strings(reading, [selector for selector in selectors if selector is not None]),
    )


def _for(reading: Reading, node: RawNode) -> ast.Statement:
    first, second, iterable, body = node.children
    index, item = (None, first) if second is None else (reading.identifier(first), second)
    return ast.For(
        reading.span(node),
        index,
        reading.identifier(item),
        expression(reading, iterable),
        block(reading, body),
    )


def _if_statement(reading: Reading, node: RawNode) -> ast.If:
    condition, then, *rest = node.children
    return ast.If(
        reading.span(node),
        expression(reading, condition),
        block(reading, then),
        _otherwise(reading, next((part for part in rest if part is not None), None)),
    )


def _otherwise(reading: Reading, node: RawNode | None) -> ast.Block | ast.If | None:
    if node is None:
        return None
    if node.rule == "block":
        return block(reading, node)
    if reading.depth >= DEEPEST:
        return ast.Block(reading.span(node), (reading.too_deep(node),))
    reading.depth += 1
    try:
        return _if_statement(reading, node)
    finally:
        reading.depth -= 1


def _function(reading: Reading, node: RawNode) -> ast.Statement:
    """A function inside another is what it is at the top level."""
    from wgcc.syntax.members import function

    return function(reading, node)


_STATEMENTS: dict[str, Callable[[Reading, Any], ast.Statement]] = {
    "bind": _bind,
    "write": _write,
    "call_stmt": _call_statement,
    "return_stmt": _return,
    "minimize": _minimize,
    "for_stmt": _for,
    "if_stmt": _if_statement,
    "assertion": assertion,
    "function": _function,
    "broken": Reading.broken,
}
