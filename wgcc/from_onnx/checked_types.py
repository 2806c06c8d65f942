"""Types of what statements compute, as the language's own checker finds them."""

from __future__ import annotations

from functools import cache
from typing import Any

from wgcc.elaborate.elaborate import load
from wgcc.elaborate.report import Budget, Stop
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import Scope, Tensor
from wgcc.errors import Diagnostics, Source
from wgcc.from_onnx.literals import replace_infinity
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Computed, Leaf, ModelMember, Shape, dtype_of
from wgcc.syntax import ast
from wgcc.syntax.templates import name, rewrite


def checked_type(tree: ast.Expr) -> tuple[str, Shape]:
    """The element type and the stored shape of one tensor."""
    names: dict[Computed | ModelMember, str] = {}

    def change(node: ast.Syntax) -> ast.Syntax | None:
        if isinstance(node, Leaf):
            return name(names.setdefault(node.part, f"x{len(names)}"))
        if isinstance(node, ast.TypeExpr):  # as the parser reads it among arguments
            dims: Any = node.dims
            return ast.Index(node.span, ast.Dtype(node.span, node.name.text), dims)
        return replace_infinity(node) if isinstance(node, ast.Float) else None

    renamed: Any = rewrite(tree, change)
    context, diagnostics, scope = _checker()
    context.budget = Budget(context.report)
    with context.separate(Parts(), TracedGraph(), Scope(scope)):
        for part, own in names.items():
            context.scope.bind(own, context.trace.input(own, *_type_of(part)))
        try:
            value = context.evaluate(renamed)
        except Stop:
            value = None
    if not isinstance(value, Tensor):
        reasons = [item.message for item in diagnostics.errors]
        diagnostics.forget(0)
        raise CannotImport(reasons[0] if reasons else "it is no tensor")
    return value.dtype, tuple(dim.size for dim in value.dims)


@cache
def _checker() -> tuple[Context, Diagnostics, Scope]:
    diagnostics = Diagnostics()
    context, _, file = load(Source("", "wg 1\n"), diagnostics, {})
    return context, diagnostics, file.scope


def _type_of(part: Computed | ModelMember) -> tuple[str, tuple[Dim, ...]]:
    if isinstance(part, Computed):
        dtype, shape = part.dtype, part.stored_shape
    else:
        dtype, shape = dtype_of(part.arrays[""].dtype), tuple(part.arrays[""].shape)
    return dtype, tuple(map(Dim.literal, shape))
