"""Traces one entry of a model into a graph."""

from __future__ import annotations

from wgcc.elaborate.declarations.signatures import Signature, type_of
from wgcc.elaborate.evaluation.functions import match_results
from wgcc.elaborate.evaluation.statements import Returned, return_help, run_block
from wgcc.elaborate.index_ranges.input_ranges import check_ranges
from wgcc.elaborate.report import ENTRY, Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    Failed,
    LayerValue,
    Scope,
    Tensor,
    TupleValue,
)
from wgcc.errors import Diagnostic
from wgcc.ir.graph import FLOATS, Graph, Value
from wgcc.ir.places import DRAWS_STATE
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk


def trace_entry(context: Context, model: LayerValue, entry: ast.Function) -> Graph | None:
    """None if an error was reported.

    `training` decides what is traced, and what is traced decides whether the entry trains: if the
    first guess was wrong and something depended on it, the entry is traced again.
    """
    guess, attempt = _may_train(entry), Attempt(context)
    graph = _trace(context, model, entry, guess)
    if (
        graph is None
        or attempt.has_failed
        or not attempt.depends_on_training
        or graph.entry.trains == guess
    ):
        return graph
    attempt.undo()
    return _trace(context, model, entry, graph.entry.trains)


def _may_train(entry: ast.Function) -> bool:
    return any(
        isinstance(piece, ast.Minimize) or (isinstance(piece, ast.Name) and piece.text == "grad")
        for piece in walk(entry)
    )


def _trace(
    context: Context, model: LayerValue, entry: ast.Function, training: bool
) -> Graph | None:
    context.budget.node(entry.name, False, ENTRY)
    scope = Scope(model.scope)
    trace = TracedGraph(context.parts.names)
    for optimizer in context.parts.optimizers.values():
        optimizer.results.clear()
    context.parts.minimized.pop(entry.name.text, None)
    with context.separate(context.parts, trace, scope):
        context.entry, context.training = entry, training
        try:
            _refuse_sizes(context, entry)
            _bind_inputs(context, entry)
            with context.catch_deep_nesting(entry.name.span):
                outputs = _outputs(context, entry, _run(context, entry))
            _count_draws(context)
            graph = trace.finish(entry.name.text, outputs)
            return check_ranges(graph, trace.lookups, context.report) if trace.lookups else graph
        except Stop:
            return None
        finally:
            context.entry = None


def _refuse_sizes(context: Context, entry: ast.Function) -> None:
    if entry.sizes:
        text = "an entry has fixed sizes and cannot take size parameters"
        problem = context.report.error("WG0604", text, entry.sizes[0])
        raise Stop(problem.help("entries are compiled for one set of shapes; use dims"))


def _bind_inputs(context: Context, entry: ast.Function) -> None:
    seen: set[str] = set()
    for parameter in entry.values:
        name = parameter.name.text
        context.scope.bind(name, FAILED)
        try:
            if name in seen:
                text = f"input `{name}` is listed twice"
                raise Stop(context.report.error("WG0204", text, parameter.name))
            seen.add(name)
            context.scope.bind(name, _input(context, parameter))
        except Stop:
            continue


def _input(context: Context, parameter: ast.ValueParam) -> Tensor:
    name, kind, report = parameter.name, parameter.kind, context.report
    if not isinstance(kind, ast.TypeExpr):
        text = "an entry's inputs are tensors and numbers"
        problem = report.error("WG0604", text, parameter)
        if isinstance(kind, ast.TupleType):
            problem.help("give each tensor of the tuple a name of its own")
        raise Stop(problem)
    if parameter.default is not None:
        text = "an input of an entry has no default: every call gives it"
        raise Stop(report.error("WG0604", text, parameter.default))
    stored = context.parts.params.get(name.text) or context.parts.states.get(name.text)
    if stored is not None:
        text = f"input `{name.text}` has the name of a parameter or state of the model"
        problem = report.error("WG0606", text, name).also(stored.span, "declared here")
        raise Stop(problem.help("give the input another name"))
    dtype, dims = type_of(context, kind)
    if kind.any_float and dtype not in FLOATS:
        text = f"`?` is for floats: {dtype} has neither NaN nor infinity"
        mark = kind.any_float.span
        raise Stop(report.error("WG0611", text, mark).help("leave it out", (mark, "")))
    return context.trace.input(name.text, dtype, dims, kind.any_float is not None)


def _run(context: Context, entry: ast.Function) -> Returned | None:
    if isinstance(entry.body, ast.Block):
        return run_block(context, entry.body)
    return Returned(context.evaluate(entry.body), entry.body.span)


def _outputs(context: Context, entry: ast.Function, returned: Returned | None) -> dict[str, Value]:
    if returned is not None and isinstance(returned.value, Failed):
        raise Stop
    if entry.result is None:
        _refuse_value(context, entry, returned)
        return {}
    fields = _named_fields(context, entry, entry.result)
    if returned is None:
        raise Stop(_never_returns(context, entry))
    name = entry.name.text
    value = match_results(context, Signature(name), entry.result, returned.value, returned.at)
    values = value.items if isinstance(value, TupleValue) else (value,)
    outputs = {}
    for field, item in zip(fields, values, strict=True):
        assert field.name is not None
        tensor = _as_tensor(context, item, field, returned)
        context.name(tensor, field.name.text)
        outputs[field.name.text] = tensor.value
    return outputs


def _as_tensor(
    context: Context, value: AnyValue, field: ast.TupleField, returned: Returned
) -> Tensor:
    if isinstance(value, Tensor):
        context.check_size(value.value.type, str(value), field.type)
        return value
    assert isinstance(field.type, ast.TypeExpr)
    dtype, dims = type_of(context, field.type)
    return context.fit(value, dtype, dims, returned.at)


def _refuse_value(context: Context, entry: ast.Function, returned: Returned | None) -> None:
    """An entry without outputs may end with a call that returns nothing."""
    name = entry.name.text
    value = returned.value if returned is not None else TupleValue()
    if returned is None or (isinstance(value, TupleValue) and not value.items):
        return
    text = f"entry `{name}` returns a value but declares no outputs"
    problem = context.report.error("WG0602", text, returned.at)
    raise Stop(problem.help(f"add `-> (name: type)` after `{name}(...)`"))


def _named_fields(
    context: Context, entry: ast.Function, result: ast.TypeExpr | ast.TupleType
) -> tuple[ast.TupleField, ...]:
    if isinstance(result, ast.TypeExpr):
        problem = context.report.error("WG0605", "an entry's outputs need names", result)
        raise Stop(problem.help(f"write `-> (out: {result.span.text})`"))
    seen: set[str] = set()
    for field in result.fields:
        if isinstance(field.type, ast.TupleType):
            problem = context.report.error("WG0605", "an output of an entry is one tensor", field)
            raise Stop(problem.help("give each tensor of the tuple a name of its own"))
        if field.name is None:
            problem = context.report.error("WG0605", "an entry's outputs need names", field)
            raise Stop(problem.help("write `(name: type, ...)`"))
        if field.name.text in seen:
            text = f"output `{field.name.text}` is listed twice"
            raise Stop(context.report.error("WG0204", text, field.name))
        seen.add(field.name.text)
    return result.fields


def _never_returns(context: Context, entry: ast.Function) -> Diagnostic | None:
    if any(isinstance(piece, ast.Broken) for piece in walk(entry)):
        return None
    assert entry.result is not None
    text = f"entry `{entry.name.text}` never returns its outputs"
    problem = context.report.error("WG0601", text, entry.name)
    return return_help(problem.also(entry.result.span, "declared here"), entry)


def _count_draws(context: Context) -> None:
    """An entry that draws random numbers draws different ones in its next call."""
    if DRAWS_STATE not in context.trace.state:
        return
    step = context.generator_state(DRAWS_STATE)
    now = context.trace.read(step)
    one = context.constant(1, "u32")
    context.trace.write(step, context.emit("add", now, one, dims=(), dtype="u32"))


class Attempt:
    """Begins when it is created; `undo` discards what has been traced and reported since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._problems = len(context.report.diagnostics.items)
        self._counters = context.sites, context.remat_regions
        self._called = set(context.called)
        context.asked_for_training = False

    @property
    def depends_on_training(self) -> bool:
        """Whether something depended on `training`."""
        return self._context.asked_for_training

    @property
    def has_failed(self) -> bool:
        problems = self._context.report.diagnostics.items[self._problems :]
        return any(problem.severity == "error" for problem in problems)

    def undo(self) -> None:
        context = self._context
        context.report.diagnostics.forget(self._problems)
        context.sites, context.remat_regions = self._counters
        context.called = self._called
