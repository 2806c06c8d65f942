"""Builds the syntax tree of statements and blocks from raw nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wgcc.syntax import ast
from wgcc.syntax.expressions import (
    DEEPEST,
    Reading,
    expression,
    expressions,
    string,
    strings,
    type_expression,
)
from wgcc.syntax.tokens import RawNode


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
    if node.rule not in ("for_stmt", "if_stmt") and reading.is_doubtful(node):
        return reading.doubted(node)
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


def _call(reading: Reading, node: RawNode) -> ast.Statement:
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


def _if(reading: Reading, node: RawNode) -> ast.If:
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
        return _if(reading, node)
    finally:
        reading.depth -= 1


_STATEMENTS: dict[str, Callable[[Reading, Any], ast.Statement]] = {
    "bind": _bind,
    "write": _write,
    "call_stmt": _call,
    "return_stmt": _return,
    "minimize": _minimize,
    "for_stmt": _for,
    "if_stmt": _if,
    "assertion": assertion,
    "broken": Reading.broken,
}
