"""Checks code that no entry runs: layers and functions that nothing uses, and `test` blocks.

Unused code gets placeholder sizes. So libraries are checked, too, but for what depends on actual
numbers (divisibility, bounds). In a `test`, assertions about shapes are checked while tracing,
those about values in numpy; where it is missing, only shapes are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from wgcc.elaborate.declarations.constants import report_failed_assertion
from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.signatures import ANY_FLOAT, dim_of, dtype_of
from wgcc.elaborate.evaluation.functions import call_function
from wgcc.elaborate.evaluation.statements import run_block
from wgcc.elaborate.index_ranges.input_ranges import check_ranges
from wgcc.elaborate.report import MOST_EFFORT, Stop
from wgcc.elaborate.tracing.arguments import Arguments, Given
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    DtypeValue,
    FunctionValue,
    LayerDefinition,
    LayerType,
    LoadedFile,
    Number,
    ParamRef,
    Scope,
    StateRef,
    Tensor,
    TupleValue,
)
from wgcc.evaluate import effort, evaluate
from wgcc.ir.graph import FLOATS, INTEGERS, Graph, TensorType, Value
from wgcc.lazy_numpy import Array, has_numpy
from wgcc.syntax import ast


def check_layer(context: Context, definition: LayerDefinition) -> None:
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
                check_function(context, value)


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
    if isinstance(kind, (ast.TupleType, ast.OneOf)):
        return None
    word = kind if isinstance(kind, str) else kind.name.text
    if word == "dim" or word in INTEGERS:
        return Dim.placeholder(parameter.name.text)
    if word in FLOATS:
        return Number(0.5)
    return BoolValue(True) if word == "bool" else None


def check_function(context: Context, function: FunctionValue) -> None:
    scope = Scope(function.scope)
    if scope.find(ANY_FLOAT) is None:
        scope.bind(ANY_FLOAT, DtypeValue("f32"))
    for size in function.node.sizes:
        scope.bind(size.text, Dim.placeholder(size.text))
    try:
        with context.within(scope, ""):
            arguments = _placeholder_arguments(context, function.node)
        if arguments is not None:
            at = function.node.name.span
            call_function(context, function, Arguments(arguments), at, function.name)
    except Stop:
        return


def _placeholder_arguments(context: Context, node: ast.Function) -> list[Given] | None:
    """Tensors for the arguments, up to the first with a default that may decide what is traced."""
    rest = Dim.placeholder("..")
    arguments: list[Given] = []
    for parameter in node.values:
        name, kind = parameter.name, parameter.kind
        if parameter.default is not None and _decides(kind):
            return arguments
        if isinstance(kind, (str, ast.OneOf)):
            return None
        arguments.append(Given(_placeholder(context, name.text, kind, rest), name.span))
    return arguments


def _decides(kind: ast.Kind) -> bool:
    """A flag, a number or a size is mostly used as one that is known at compile time."""
    return not isinstance(kind, ast.TupleType) and not (
        isinstance(kind, ast.TypeExpr) and kind.dims
    )


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


Prepare = Callable[[Graph], Graph]
TEST_SEED = 0


def check_test(context: Context, file: LoadedFile, test: ast.Test, prepare: Prepare | None) -> None:
    """`prepare` replaces markers (`grad`) by nodes that can be evaluated; without it assertions
    about values are not computed."""
    parts, trace = Parts(), TracedGraph()
    before = len(context.report.diagnostics.errors)
    with context.separate(parts, trace, Scope(file.scope)):
        context.in_test, context.assertions = True, []
        try:
            with context.catch_deep_nesting(test.name.span):
                run_block(context, test.body)
        except Stop:
            return
        finally:
            context.in_test = False
        if prepare is not None and len(context.report.diagnostics.errors) == before:
            _check_values(context, test, prepare)


def _check_values(context: Context, test: ast.Test, prepare: Prepare) -> None:
    if not context.assertions or not has_numpy():
        return
    outputs = {str(i): tensor.value for i, (_, tensor) in enumerate(context.assertions)}
    traced = context.trace.finish(f"test {test.name.value}", outputs)
    graph = prepare(check_ranges(traced, context.trace.lookups, context.report))
    steps = effort(graph) + sum(_drawing_effort(context, value) for value in graph.sources)
    if not context.budget.afford(steps):
        _refuse_effort(context, test, steps)
        return
    sources = {value.name: _initial_values(context, value) for value in graph.sources}
    try:
        results = evaluate(graph, sources).outputs
    except ValueError as error:
        text = f"the assertions of this test cannot be computed: {error}"
        context.report.error("WG0421", text, test.name)
        return
    for i, (assertion, _) in enumerate(context.assertions):
        if not bool(results[str(i)]):
            report_failed_assertion(context, assertion)


def _refuse_effort(context: Context, test: ast.Test, steps: int) -> None:
    text = f"this test needs about {steps:,} steps of computation"
    problem = context.report.error("WG0421", text, test.name)
    problem.note(f"all tests together may take {MOST_EFFORT:,}")
    problem.help("test with smaller sizes")


def _drawing_effort(context: Context, value: Value) -> int:
    """The cost of initial values; an orthogonal matrix needs a decomposition."""
    ref = context.parts.params.get(value.name)
    if ref is not None and ref.init.kind == "orthogonal":
        return value.type.size * min(value.shape)
    return 20 * value.type.size


def _initial_values(context: Context, value: Value) -> Array:
    # Imported here: numpy is not needed to compile a model.
    from wgcc_runtime.drawn import initial_values

    parts = context.parts
    ref: ParamRef | StateRef | None
    ref = parts.params.get(value.name) or parts.states.get(value.name)
    init = asdict(ref.init) if ref is not None else {"kind": "value", "values": (0.0,)}
    return initial_values(init, value.shape, TEST_SEED, value.name, value.dtype)
