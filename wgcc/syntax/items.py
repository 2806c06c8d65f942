"""Builds the syntax tree of the top level of a file from raw nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wgcc.syntax import ast
from wgcc.syntax.expressions import string
from wgcc.syntax.members import ONE_LINE, const, dims, function, member, size_params, value_params
from wgcc.syntax.reading import Reading
from wgcc.syntax.statements import assertion, block
from wgcc.syntax.tokens import Node


def item(reading: Reading, node: Node) -> ast.Item:
    if node.rule in ONE_LINE and reading.is_doubtful(node):
        return reading.doubted(node)
    return _ITEMS[node.rule](reading, node)


def _edition(reading: Reading, node: Node) -> ast.Edition:
    digits = node.children[0].text.replace("_", "")
    return ast.Edition(reading.span(node), int(digits[:9]))


def _import_names(reading: Reading, node: Node) -> ast.ImportNames:
    *names, path = node.children
    return ast.ImportNames(reading.span(node), reading.identifiers(names), string(reading, path))


def _import_module(reading: Reading, node: Node) -> ast.ImportModule:
    path, name = node.children
    return ast.ImportModule(reading.span(node), string(reading, path), reading.identifier(name))


def _dtype_alias(reading: Reading, node: Node) -> ast.DtypeAlias:
    name, dtype = node.children
    return ast.DtypeAlias(reading.span(node), reading.identifier(name), reading.identifier(dtype))


def _layer(reading: Reading, node: Node) -> ast.Layer:
    name, sizes, values, *members = node.children
    return ast.Layer(
        reading.span(node),
        node.rule == "model",
        reading.identifier(name),
        size_params(reading, sizes),
        value_params(reading, values),
        tuple(member(reading, child) for child in members if child is not None),
        reading.doc(node),
    )


def _test(reading: Reading, node: Node) -> ast.Test:
    name, body = node.children
    return ast.Test(reading.span(node), string(reading, name), block(reading, body))


_ITEMS: dict[str, Callable[[Reading, Any], ast.Item]] = {
    "edition": _edition,
    "import_names": _import_names,
    "import_module": _import_module,
    "dims": dims,
    "const": const,
    "dtype_alias": _dtype_alias,
    "layer": _layer,
    "model": _layer,
    "function": function,
    "test": _test,
    "assertion": assertion,
    "broken": Reading.broken,
}
