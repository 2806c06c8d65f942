"""Builds the syntax tree of files, layers and their members from raw nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wgcc.syntax import ast
from wgcc.syntax.expressions import (
    Reading,
    arguments,
    assertion,
    block,
    expression,
    expressions,
    optional,
    string,
    strings,
    type_expression,
)
from wgcc.syntax.tables import RawNode, Token, words

# Rules without a block: if a repair inside is doubtful, the whole becomes `Broken`.
ONE_LINE = words(
    "param state submodule setting dims const replace assertion import_names import_module "
    "dtype_alias"
)


def member(reading: Reading, node: RawNode) -> ast.LayerMember:
    if node.rule in ONE_LINE and reading.is_doubtful(node):
        return reading.broken_with_names(node)
    return _MEMBERS[node.rule](reading, node)


def size_params(reading: Reading, node: RawNode | None) -> tuple[ast.Identifier, ...]:
    return () if node is None else reading.identifiers(node.children)


def value_params(reading: Reading, node: RawNode | None) -> tuple[ast.ValueParam, ...]:
    parts = [] if node is None else node.children
    return tuple(_value_param(reading, part) for part in parts if part is not None)


def function(reading: Reading, node: RawNode) -> ast.Function:
    name, sizes, values, result, *rest = node.children
    is_entry = node.rule == "entry"
    averages, body, gradient = (*rest, None) if is_entry else (None, *rest)
    others, inputs = len(reading.any_floats), value_params(reading, values)
    if is_entry:
        del reading.any_floats[others:]
    return ast.Function(
        reading.span(node),
        is_entry,
        reading.identifier(name),
        size_params(reading, sizes),
        inputs,
        _type(reading, result),
        _body(reading, body),
        reading.doc(node),
        _gradient(reading, gradient),
        () if averages is None else reading.identifiers(averages.children[0].children),
    )


def _gradient(reading: Reading, node: RawNode | None) -> ast.Gradient | None:
    if node is None:
        return None
    *names, body = node.children
    return ast.Gradient(reading.span(node), reading.identifiers(names), block(reading, body))


def dims(reading: Reading, node: RawNode) -> ast.Dims:
    return ast.Dims(
        reading.span(node),
        tuple(
            ast.DimDecl(
                reading.span(child),
                reading.identifier(child.children[0]),
                optional(reading, child.children[1]),
            )
            for child in node.children
        ),
    )


def const(reading: Reading, node: RawNode) -> ast.Const:
    name, type_, value = node.children
    return ast.Const(
        reading.span(node),
        reading.identifier(name),
        None if type_ is None else type_expression(reading, type_),
        expression(reading, value),
    )


def _value_param(reading: Reading, node: RawNode) -> ast.ValueParam:
    name, kind, default = node.children
    return ast.ValueParam(
        reading.span(node),
        reading.identifier(name),
        _choice(reading, kind) or _type(reading, kind) or kind.rule.removeprefix("kind_"),
        optional(reading, default),
    )


def _choice(reading: Reading, node: RawNode) -> ast.OneOf | None:
    if node.rule != "choice":
        return None
    words = [token for token in node.children if token.type == "STRING"]
    return ast.OneOf(reading.span(node), strings(reading, words))


def _type(reading: Reading, node: RawNode | None) -> ast.TypeExpr | ast.TupleType | None:
    """A type or a tuple of types; None if it is neither."""
    if node is None or node.rule not in ("type", "tuple_type"):
        return None
    if node.rule == "type":
        return type_expression(reading, node)
    fields = tuple(_tuple_field(reading, child) for child in node.children)
    return ast.TupleType(reading.span(node), fields)


def _tuple_field(reading: Reading, node: RawNode) -> ast.TupleField:
    name, type_ = node.children
    within = _type(reading, type_)
    assert within is not None
    return ast.TupleField(
        reading.span(node), None if name is None else reading.identifier(name), within
    )


def _body(reading: Reading, node: RawNode) -> ast.Block | ast.Expr:
    if node.rule == "block":
        return block(reading, node)
    return expression(reading, node.children[0])


def _param(reading: Reading, node: RawNode) -> ast.Param:
    frozen, name, type_, init, guard = node.children
    return ast.Param(
        reading.span(node),
        frozen is not None,
        reading.identifier(name),
        type_expression(reading, type_),
        None if init is None else _init(reading, init),
        _guard(reading, guard),
    )


def _init(reading: Reading, node: RawNode) -> ast.Init:
    drawn = node.rule == "init_draw"
    return ast.Init(reading.span(node), drawn, expression(reading, node.children[0]))


def _guard(reading: Reading, node: RawNode | None) -> ast.Expr | None:
    return None if node is None else expression(reading, node.children[0])


def _state(reading: Reading, node: RawNode) -> ast.State:
    name, type_, value, guard = node.children
    return ast.State(
        reading.span(node),
        reading.identifier(name),
        type_expression(reading, type_),
        expression(reading, value),
        _guard(reading, guard),
    )


def _submodule(reading: Reading, node: RawNode) -> ast.Submodule:
    frozen, remat, name, size, constructor, guard = node.children
    return ast.Submodule(
        reading.span(node),
        frozen is not None,
        remat is not None,
        reading.identifier(name),
        None if size is None else _list_size(reading, size),
        _constructor(reading, constructor),
        _guard(reading, guard),
    )


def _list_size(reading: Reading, node: RawNode) -> ast.ListSize:
    variable, count = node.children
    return ast.ListSize(
        reading.span(node),
        None if variable is None else reading.identifier(variable),
        expression(reading, count),
    )


def _constructor(reading: Reading, node: RawNode) -> ast.Constructor:
    path, sizes, given = node.children
    return ast.Constructor(
        reading.span(node),
        reading.identifiers(path.children),
        None if sizes is None else expressions(reading, sizes.children),
        None if given is None else arguments(reading, given.children),
    )


def _setting(reading: Reading, node: RawNode) -> ast.Setting:
    name, value = node.children
    return ast.Setting(reading.span(node), reading.identifier(name), expression(reading, value))


def _replace(reading: Reading, node: RawNode) -> ast.Replace:
    *selectors, constructor = node.children
    return ast.Replace(
        reading.span(node), strings(reading, selectors), _constructor(reading, constructor)
    )


def _optimizer(reading: Reading, node: RawNode) -> ast.Optimizer:
    name, kind, *items = node.children
    return ast.Optimizer(
        reading.span(node),
        reading.identifier(name),
        reading.identifier(kind),
        tuple(_optimizer_item(reading, item) for item in items if item is not None),
    )


def _optimizer_item(reading: Reading, node: RawNode) -> ast.Setting | ast.Group | ast.Broken:
    return _group(reading, node) if node.rule == "group" else _setting_or_broken(reading, node)


def _setting_or_broken(reading: Reading, node: RawNode) -> ast.Setting | ast.Broken:
    return reading.broken(node) if node.rule == "broken" else _setting(reading, node)


def _group(reading: Reading, node: RawNode) -> ast.Group:
    parts = [part for part in node.children if part is not None]
    selectors = [part for part in parts if isinstance(part, Token)]
    nodes = [part for part in parts if isinstance(part, RawNode)]
    condition = nodes.pop(0).children[0] if nodes and nodes[0].rule == "group_if" else None
    return ast.Group(
        reading.span(node),
        strings(reading, selectors),
        optional(reading, condition),
        tuple(_setting_or_broken(reading, part) for part in nodes),
    )


_MEMBERS: dict[str, Callable[[Reading, Any], ast.LayerMember]] = {
    "param": _param,
    "state": _state,
    "submodule": _submodule,
    "setting": _setting,
    "dims": dims,
    "const": const,
    "function": function,
    "entry": function,
    "optimizer": _optimizer,
    "replace": _replace,
    "assertion": assertion,
    "broken": Reading.broken,
}


def item(reading: Reading, node: RawNode) -> ast.Item:
    if node.rule in ONE_LINE and reading.is_doubtful(node):
        return reading.broken_with_names(node)
    return _ITEMS[node.rule](reading, node)


def _edition(reading: Reading, node: RawNode) -> ast.Edition:
    digits = node.children[0].text.replace("_", "")
    return ast.Edition(reading.span(node), int(digits[:9]))


def _import_names(reading: Reading, node: RawNode) -> ast.ImportNames:
    *names, path = node.children
    return ast.ImportNames(reading.span(node), reading.identifiers(names), string(reading, path))


def _import_module(reading: Reading, node: RawNode) -> ast.ImportModule:
    path, name = node.children
    return ast.ImportModule(reading.span(node), string(reading, path), reading.identifier(name))


def _dtype_alias(reading: Reading, node: RawNode) -> ast.DtypeAlias:
    name, dtype = node.children
    return ast.DtypeAlias(reading.span(node), reading.identifier(name), reading.identifier(dtype))


def _layer(reading: Reading, node: RawNode) -> ast.Layer:
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


def _test(reading: Reading, node: RawNode) -> ast.Test:
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
