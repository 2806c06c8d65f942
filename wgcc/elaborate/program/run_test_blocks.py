"""`test` blocks: assertions about shapes are checked while tracing, those about values in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from wgcc.elaborate.declarations.constants import report_failed_assertion
from wgcc.elaborate.evaluation.statements import run_block
from wgcc.elaborate.index_ranges.input_ranges import check_ranges
from wgcc.elaborate.report import MOST_EFFORT, Stop
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import LoadedFile, ParamRef, Scope, StateRef
from wgcc.evaluate import effort, evaluate
from wgcc.ir.graph import Graph, Value
from wgcc.lazy_numpy import Array
from wgcc.syntax import ast

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
            with context.bounded(test.name.span):
                run_block(context, test.body)
        except Stop:
            return
        finally:
            context.in_test = False
        if prepare is not None and len(context.report.diagnostics.errors) == before:
            _check_values(context, test, prepare)


def _check_values(context: Context, test: ast.Test, prepare: Prepare) -> None:
    if not context.assertions:
        return
    outputs = {str(i): tensor.value for i, (_, tensor) in enumerate(context.assertions)}
    traced = context.trace.finish(f"test {test.name.value}", outputs)
    graph = prepare(check_ranges(traced, context.trace.lookups, context.report))
    asked = effort(graph) + sum(_drawing_effort(context, value) for value in graph.sources)
    if not context.budget.afford(asked):
        _refuse_effort(context, test, asked)
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


def _refuse_effort(context: Context, test: ast.Test, asked: int) -> None:
    text = f"this test needs about {asked:,} steps of computation"
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
