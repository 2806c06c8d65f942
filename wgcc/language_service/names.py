"""Finds the names that a file defines, and where each of them is used.

Scopes are those of the language: the file, a layer or model, a function or entry. What `x.name`
means depends on what `x` is, which the checker saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.elaborate.tracing.values import AnyValue, LayerType, LayerValue, ListValue
from wgcc.errors import Span
from wgcc.syntax import ast
from wgcc.syntax.tree_text import field_names

# Kinds of symbols.
DIM, CONST, DTYPE, LAYER, MODEL, FUNCTION, ENTRY, IMPORT = (
    "dim", "const", "dtype", "layer", "model", "fn", "entry", "import",
)  # fmt: skip
SIZE, OPTION, PARAM, STATE, SUBMODULE, OPTIMIZER, LOCAL = (
    "size", "argument", "param", "state", "layer member", "optimizer", "local",
)  # fmt: skip

Values = Mapping[tuple[int, int], AnyValue]


@dataclass(slots=True, eq=False)
class Symbol:
    """`node` declares it, `place` is its name there; `uses` include that place."""

    name: str
    kind: str
    node: ast.Syntax
    place: Span
    scope: NameScope
    uses: list[Span] = field(default_factory=list)
    # What is defined inside it.
    members: NameScope | None = None


@dataclass(slots=True, eq=False)
class NameScope:
    """The names of one scope, which is the text of `span`; names of `outer` are visible, too."""

    outer: NameScope | None = None
    span: Span | None = None
    symbols: dict[str, Symbol] = field(default_factory=dict)
    inner: list[NameScope] = field(default_factory=list)

    def find(self, name: str) -> Symbol | None:
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.outer
        return None

    def at(self, offset: int) -> NameScope:
        """The innermost scope at a place."""
        for scope in self.inner:
            if scope.span is not None and scope.span.start <= offset <= scope.span.end:
                return scope.at(offset)
        return self

    def everything(self) -> Iterable[Symbol]:
        yield from self.symbols.values()
        for scope in self.inner:
            yield from scope.everything()

    def used_at(self, offset: int) -> tuple[Symbol, Span] | None:
        for symbol in self.everything():
            for use in symbol.uses:
                if use.start <= offset <= use.end:
                    return symbol, use
        return None


def find_names(tree: ast.File, values: Values) -> NameScope:
    names = NameScope(span=tree.span)
    finder = _Finder(values)
    for item in tree.items:
        finder.declare(item, names)
    for item in tree.items:
        finder.visit(item, names)
    for member in finder.members:
        finder.resolve_member(member)
    return names


class _Finder:
    def __init__(self, values: Values) -> None:
        self.values = values
        # By the place of their names, because the checker has a tree of its own.
        self.layers: dict[int, NameScope] = {}
        self.members: list[ast.Member] = []

    def define(
        self, name: ast.Identifier | ast.Name, kind: str, node: ast.Syntax, scope: NameScope
    ) -> Symbol:
        known = scope.symbols.get(name.text)
        if known is None:
            known = Symbol(name.text, kind, node, name.span, scope)
            scope.symbols[name.text] = known
        known.uses.append(name.span)
        return known

    def use(self, name: ast.Identifier | ast.Name, scope: NameScope) -> Symbol | None:
        symbol = scope.find(name.text)
        if symbol is not None:
            symbol.uses.append(name.span)
        return symbol

    def declare(self, node: Any, scope: NameScope) -> None:
        """Items and members are visible in their whole scope, also above their line."""
        if isinstance(node, ast.Dims):
            for dim in node.dims:
                self.define(dim.name, DIM, dim, scope)
        elif isinstance(node, ast.ImportNames):
            for name in node.names:
                self.define(name, IMPORT, node, scope)
        elif isinstance(node, ast.Function):
            self.define(node.name, ENTRY if node.is_entry else FUNCTION, node, scope)
        elif isinstance(node, ast.Layer):
            symbol = self.define(node.name, MODEL if node.is_model else LAYER, node, scope)
            symbol.members = NameScope(scope, node.span)
            scope.inner.append(symbol.members)
            self.layers[node.name.span.start] = symbol.members
        elif (kind := _DECLARATIONS.get(type(node))) is not None:
            self.define(node.name, kind, node, scope)

    def visit(self, node: Any, scope: NameScope) -> None:
        """Find the uses in a node; what it declares for itself is in a scope of its own."""
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(self, node, scope)
        else:
            self.visit_parts(node, scope)

    def visit_parts(self, node: ast.Syntax, scope: NameScope) -> None:
        kind: Any = type(node)
        for name in field_names(kind):
            part = getattr(node, name)
            for piece in part if isinstance(part, tuple) else (part,):
                if isinstance(piece, ast.Syntax):
                    self.visit(piece, scope)

    def name(self, node: ast.Name, scope: NameScope) -> None:
        self.use(node, scope)

    def type(self, node: ast.TypeExpr, scope: NameScope) -> None:
        self.use(node.name, scope)
        for dim in node.dims:
            self.visit(dim, scope)

    def layer(self, node: ast.Layer, scope: NameScope) -> None:
        inside = self.layers[node.name.span.start]
        for size in node.sizes:
            self.define(size, SIZE, size, inside)
        self.options(node.values, inside)
        for member in node.members:
            self.declare(member, inside)
        for member in node.members:
            self.visit(member, inside)

    def options(self, values: Iterable[ast.ValueParam], scope: NameScope) -> None:
        for value in values:
            self.define(value.name, OPTION, value, scope)
            for part in (value.kind, value.default):
                if isinstance(part, ast.Syntax):
                    self.visit(part, scope)

    def function(self, node: ast.Function, scope: NameScope) -> None:
        if node.name.text not in scope.symbols:
            # A function inside another is visible from its line on.
            self.declare(node, scope)
        inside = NameScope(scope, node.span)
        scope.inner.append(inside)
        scope.symbols[node.name.text].members = inside
        for size in node.sizes:
            self.define(size, SIZE, size, inside)
        self.options(node.values, inside)
        if node.result is not None:
            self.visit(node.result, inside)
        for name in node.averages[:1]:
            self.use(name, inside)
        self.visit(node.body, inside)
        if node.gradient is not None:
            gradient = NameScope(inside, node.gradient.span)
            inside.inner.append(gradient)
            for name in node.gradient.names:
                self.define(name, LOCAL, name, gradient)
            self.visit(node.gradient.body, gradient)

    def test(self, node: ast.Test, scope: NameScope) -> None:
        inside = NameScope(scope, node.span)
        scope.inner.append(inside)
        self.visit(node.body, inside)

    def submodule(self, node: ast.Submodule, scope: NameScope) -> None:
        inside = scope
        if node.list_size is not None:
            self.visit(node.list_size.count, scope)
            if node.list_size.variable is not None:
                inside = NameScope(scope, node.span)
                scope.inner.append(inside)
                self.define(node.list_size.variable, LOCAL, node.list_size, inside)
        self.visit(node.constructor, inside)
        if node.guard is not None:
            self.visit(node.guard, inside)

    def constructor(self, node: ast.Constructor, scope: NameScope) -> None:
        layer = self.use(node.path[0], scope)
        for size in node.sizes or ():
            self.visit(size, scope)
        self.arguments(node.arguments or (), layer, scope)

    def call(self, node: ast.Call, scope: NameScope) -> None:
        self.visit(node.function, scope)
        named = node.function if isinstance(node.function, ast.Name) else None
        self.arguments(node.arguments, scope.find(named.text) if named else None, scope)

    def arguments(
        self, arguments: Iterable[ast.Argument], called: Symbol | None, scope: NameScope
    ) -> None:
        """A named argument is a use of the parameter that it is given for."""
        for argument in arguments:
            if argument.name is not None and called is not None and called.members is not None:
                option = called.members.symbols.get(argument.name.text)
                if option is not None and option.kind == OPTION:
                    option.uses.append(argument.name.span)
            self.visit(argument.value, scope)

    def bind(self, node: ast.Bind, scope: NameScope) -> None:
        for value in node.values:
            self.visit(value, scope)
        if node.type is not None:
            self.visit(node.type, scope)
        for target in node.targets:
            self.target(target, node, scope)

    def target(self, target: ast.Expr, node: ast.Bind, scope: NameScope) -> None:
        if isinstance(target, ast.TupleExpr):
            for item in target.items:
                self.target(item, node, scope)
        elif isinstance(target, ast.Name):
            self.define(target, LOCAL, node, scope)
        else:
            self.visit(target, scope)

    def loop(self, node: ast.For, scope: NameScope) -> None:
        self.visit(node.iterable, scope)
        for name in (node.index, node.item):
            if name is not None:
                self.define(name, LOCAL, node, scope)
        self.visit(node.body, scope)

    def member(self, node: ast.Member, scope: NameScope) -> None:
        self.visit(node.value, scope)
        self.members.append(node)

    def resolve_member(self, node: ast.Member) -> None:
        layer = self.layer_of(node.value)
        symbol = layer.symbols.get(node.name.text) if layer is not None else None
        if symbol is not None:
            symbol.uses.append(node.name.span)

    def layer_of(self, node: ast.Expr) -> NameScope | None:
        """The scope of the layer that an expression is, if this file defines it."""
        value = self.values.get((node.span.start, node.span.end))
        if isinstance(value, ListValue) and value.items:
            value = value.items[0]
        if isinstance(value, (LayerValue, LayerType)):
            declared = value.definition.node
            scope = self.layers.get(declared.name.span.start)
            is_here = declared.span.source.text == node.span.source.text
            return scope if is_here else None
        return None


_DECLARATIONS: dict[type, str] = {
    ast.Const: CONST,
    ast.DtypeAlias: DTYPE,
    ast.ImportModule: IMPORT,
    ast.Param: PARAM,
    ast.State: STATE,
    ast.Submodule: SUBMODULE,
    ast.Optimizer: OPTIMIZER,
}

_RULES: dict[type, Any] = {
    ast.Name: _Finder.name,
    ast.TypeExpr: _Finder.type,
    ast.Layer: _Finder.layer,
    ast.Function: _Finder.function,
    ast.Test: _Finder.test,
    ast.Submodule: _Finder.submodule,
    ast.Constructor: _Finder.constructor,
    ast.Call: _Finder.call,
    ast.Bind: _Finder.bind,
    ast.For: _Finder.loop,
    ast.Member: _Finder.member,
}
