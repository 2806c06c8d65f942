"""Checks layers and functions that nothing uses, with placeholder sizes.

So libraries are checked, too, but for what depends on actual numbers (divisibility, bounds).

Warns of names: locals that nothing reads, and functions that hide built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.signatures import dim_of, dtype_of
from wgcc.elaborate.evaluation.functions import call_function
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    FunctionValue,
    LayerDefinition,
    LayerType,
    LoadedFile,
    Number,
    Scope,
    Tensor,
    TupleValue,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, TensorType, Value
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk


def check_unused(context: Context, file: LoadedFile) -> None:
    for definition in file.layers:
        functions = [m for m in definition.node.members if isinstance(m, ast.Function)]
        reached = all(id(function) in context.called for function in functions)
        if id(definition.node) not in context.instantiated or not reached:
            _check_layer(context, definition)
    for function in file.functions:
        if id(function.node) not in context.called:
            with context.separate(Parts(), TracedGraph(dry=True), file.scope):
                _check_function(context, function)


def _check_layer(context: Context, definition: LayerDefinition) -> None:
    node = definition.node
    options = _options(node.values)
    if options is None:
        return
    sizes = tuple(Dim.placeholder(size.text) for size in node.sizes)
    layer = LayerType(definition, sizes, options)
    with context.separate(Parts(), TracedGraph(dry=True), definition.file.scope):
        try:
            created = instantiate(context, layer, definition.name, False, node.name.span)
        except Stop:
            return
        for value in list(created.scope.names.values()):
            own = isinstance(value, FunctionValue) and value.owner is created
            if isinstance(value, FunctionValue) and own and id(value.node) not in context.called:
                _check_function(context, value)


def _options(parameters: tuple[ast.ValueParam, ...]) -> dict[str, Given] | None:
    """Placeholder options where there is no default; None if one has no placeholder."""
    options = {}
    for parameter in parameters:
        if parameter.default is not None and parameter.kind != "dim":
            continue
        value = _placeholder_option(parameter)
        if value is None:
            return None
        options[parameter.name.text] = Given(value, parameter.name.span)
    return options


def _placeholder_option(parameter: ast.ValueParam) -> AnyValue | None:
    kind = parameter.kind
    if isinstance(kind, ast.TupleType):
        return None
    word = kind if isinstance(kind, str) else kind.name.text
    if word == "dim" or word in INTEGERS:
        return Dim.placeholder(parameter.name.text)
    if word in FLOATS:
        return Number(0.5)
    return BoolValue(True) if word == "bool" else None


def _check_function(context: Context, function: FunctionValue) -> None:
    scope = Scope(function.scope)
    for size in function.node.sizes:
        scope.bind(size.text, Dim.placeholder(size.text))
    try:
        with context.within(scope, ""):
            given = _placeholder_arguments(context, function.node)
        if given is not None:
            at = function.node.name.span
            call_function(context, function, Arguments(given), at, function.name)
    except Stop:
        return


def _placeholder_arguments(context: Context, node: ast.Function) -> list[Given] | None:
    """Tensors for the arguments, up to the first with a default that may decide what is traced."""
    rest = Dim.placeholder("..")
    given: list[Given] = []
    for parameter in node.values:
        name, kind = parameter.name, parameter.kind
        if parameter.default is not None and _decides(kind):
            return given
        if isinstance(kind, str):
            return None
        given.append(Given(_placeholder(context, name.text, kind, rest), name.span))
    return given


def _decides(kind: ast.TypeExpr | ast.TupleType | str) -> bool:
    """A flag or a size is mostly used as one that is known at compile time."""
    return isinstance(kind, str) or (isinstance(kind, ast.TypeExpr) and kind.name.text == "bool")


def _placeholder(
    context: Context, name: str, kind: ast.TypeExpr | ast.TupleType, rest: Dim
) -> AnyValue:
    if isinstance(kind, ast.TupleType):
        items = tuple(_placeholder(context, name, field.type, rest) for field in kind.fields)
        return items[0] if len(items) == 1 else TupleValue(items)
    dims = tuple(
        rest if isinstance(item, ast.Rest) else dim_of(context, item) for item in kind.dims
    )
    value = Value(name, TensorType(sizes_of(dims), dtype_of(context, kind.name)))
    return Tensor(value, dims)


def warn_of_names(context: Context, file: LoadedFile) -> None:
    """For a file of the user without errors."""
    for piece in walk(file.tree):
        if isinstance(piece, ast.Function):
            _report_hidden(context, piece)
            _report_locals(context, piece)
        elif isinstance(piece, ast.Test):
            _report_locals(context, piece)


def _report_hidden(context: Context, function: ast.Function) -> None:
    name = function.name
    if name.text in BUILTINS and not function.is_entry:
        text = f"this function hides the built-in function `{name.text}`"
        problem = context.report.warning("WG0909", text, name)
        problem.help("give it another name, or remove it to use the built-in one")


def _report_locals(context: Context, owner: ast.Function | ast.Test) -> None:
    reads = _read_names(owner)
    for block in (piece for piece in walk(owner) if isinstance(piece, ast.Block)):
        for statement, replaced in _bindings(block):
            names = list(_targets(statement.targets))
            unused = all(name.text not in reads or name.text in replaced for name in names)
            if unused and not _is_private(names):
                _report_unused(context, statement, names)


def _bindings(block: ast.Block) -> Iterator[tuple[ast.Bind, frozenset[str]]]:
    """The bindings of a block, each with those of its names that a later one replaces unread."""
    replaced: set[str] = set()
    for statement in reversed(block.statements):
        if isinstance(statement, ast.Bind):
            names = {target.text for target in _targets(statement.targets)}
            yield statement, frozenset(names & replaced)
            replaced |= names
        else:
            replaced -= _bound_inside(statement)
        replaced -= _read_names(statement)


def _bound_inside(statement: ast.Statement) -> set[str]:
    """Names that a loop or a condition may bind."""
    pieces = (piece for piece in walk(statement) if isinstance(piece, ast.Bind))
    return {target.text for piece in pieces for target in _targets(piece.targets)}


def _is_private(names: Sequence[ast.Name]) -> bool:
    return not names or any(name.text.startswith("_") for name in names)


def _report_unused(context: Context, statement: ast.Bind, names: Sequence[ast.Name]) -> None:
    words = ", ".join(f"`{name.text}`" for name in names)
    at = Span(names[0].span.source, names[0].span.start, names[-1].span.end)
    problem = context.report.warning("WG0906", f"nothing uses {words}", at)
    if _has_effects(statement):
        edits = [(name.span, "_") for name in names]
        problem.help("remove it, or call it `_` if its calls have effects", *edits)
    else:
        problem.help("remove it", (_whole_line(statement.span), ""))


def _has_effects(statement: ast.Bind) -> bool:
    """Whether it may write state: built-in functions do not."""
    calls = (piece for value in statement.values for piece in walk(value))
    return any(_is_own_call(piece) for piece in calls)


def _is_own_call(piece: ast.Syntax) -> bool:
    """`scan` calls a function of the user."""
    if isinstance(piece, ast.Call):
        function = piece.function
    elif isinstance(piece, ast.Pipe):
        function = piece.target
    else:
        return False
    if isinstance(function, ast.Call):
        return False
    name = function.text if isinstance(function, ast.Name) else ""
    return not isinstance(function, ast.Dtype) and (name not in BUILTINS or name == "scan")


def _whole_line(span: Span) -> Span:
    """The statement with its line break, if the line holds nothing else."""
    text = span.source.text
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    if end < 0 or text[start : span.start].strip() or text[span.end : end].strip():
        return span
    return Span(span.source, start, end + 1)


def _read_names(piece: ast.Syntax) -> set[str]:
    """Names that it reads; words in strings count, because patterns name sizes."""
    pieces = list(walk(piece))
    bound = {
        id(target)
        for statement in pieces
        if isinstance(statement, ast.Bind)
        for target in _targets(statement.targets)
    }
    names = {each.text for each in pieces if isinstance(each, ast.Name) and id(each) not in bound}
    texts = (each.value for each in pieces if isinstance(each, ast.String))
    return names.union(*(re.findall(r"\w+", text) for text in texts))


def _targets(targets: Sequence[ast.Expr]) -> Iterator[ast.Name]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target
        elif isinstance(target, ast.TupleExpr):
            yield from _targets(target.items)
