"""Values known at compile time: dims, constants, conditions and assertions, warnings about
sizes, and initial values of parameters and state (a distribution, a number, or a constant
tensor)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import sqrt

from wgcc.elaborate.declarations.constructors import gather_arguments
from wgcc.elaborate.declarations.signatures import coerce
from wgcc.elaborate.report import MOST_EFFORT, Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, bind, plain_number
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    BoolValue,
    DtypeValue,
    Failed,
    LayerDefinition,
    ListValue,
    Number,
    Tensor,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostic, Span
from wgcc.evaluate import effort, evaluate
from wgcc.ir.dtypes import FLOATS, LARGEST_FLOAT
from wgcc.ir.program import Init
from wgcc.lazy_numpy import np
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk

LARGEST_DIM = 2**31 - 1


def declare_dim(context: Context, decl: ast.DimDecl, given: float | None = None) -> AnyValue:
    """The size of a `dim`; `given` (by `--set`) overrides the declaration."""
    name, report = decl.name.text, context.report
    if given is None and decl.value is None:
        problem = report.error("WG0205", f"dim `{name}` has no value", decl.name)
        problem.help(f"give it one here, or build with `--set {name}=...`")
        return FAILED
    value = _literal(given) if given is not None else _dim_value(context, decl)
    if isinstance(value, Failed):
        return FAILED
    at = decl.name if decl.value is None or given is not None else decl.value
    if not isinstance(value, Dim):
        text = f"a dim must be a whole number, but this is {describe(value)}"
        report.error("WG0401", text, at)
        return FAILED
    if value.size <= 0:
        report.error("WG0401", f"a dim must be positive, but `{name}` is {value.size}", at)
        return FAILED
    if value.size > LARGEST_DIM and not value.generic:
        text = f"a dim must be below 2**31, but `{name}` is {value.size}"
        report.error("WG0401", text, at)
        return FAILED
    if not value.is_literal:
        return value.with_name(name)
    span = decl.name.span
    return Dim.of_name(name, value.size, f"{span.source.name}:{span.start}")


def declare_const(context: Context, decl: ast.Const, given: float | None = None) -> AnyValue:
    """The value of a `const`; `given` (by `--set`) overrides a number."""
    value = context.value(decl.value)
    if isinstance(value, Failed):
        return FAILED
    value = context.read(value)
    if given is not None:
        if not isinstance(value, (Dim, Number)):
            text = f"`{decl.name.text}` cannot be set: it is {describe(value)}, not a number"
            context.report.error("WG0221", text, decl.value)
            return FAILED
        value = Number(float(given)) if isinstance(value, Number) else _literal(given)
    if decl.type is not None:
        try:
            return coerce(context, value, decl.type, decl.value, f"`{decl.name.text}`")
        except Stop:
            return FAILED
    if not _is_known(value):
        text = f"a constant must be known at compile time, but this is {describe(value)}"
        context.report.error("WG0221", text, decl.value)
        return FAILED
    return value


def _literal(given: float) -> Dim | Number:
    return Dim.literal(int(given)) if float(given).is_integer() else Number(given)


def check_assertion(context: Context, node: ast.Assert) -> None:
    """`assert`. An assertion about values at run time can only be checked in a test."""
    value = context.evaluate(node.condition)
    if isinstance(value, BoolValue):
        if not value.value and not context.generic:
            raise Stop(report_failed_assertion(context, node))
        return
    if isinstance(value, Tensor) and value.dtype == "bool" and not value.dims and context.in_test:
        context.assertions.append((node, value))
        return
    text = f"`assert` needs a condition known at compile time, but this is {describe(value)}"
    problem = context.report.error("WG0403", text, node.condition)
    if isinstance(value, Tensor) and value.dtype == "bool":
        problem.help("assertions about values belong in a `test`; reduce them with `all(...)`")


def report_failed_assertion(context: Context, node: ast.Assert) -> Diagnostic:
    text = node.text.value if node.text is not None else "this assertion does not hold"
    names = {name.text for name in walk(node.condition) if isinstance(name, ast.Name)}
    about = [given.span for name, given in context.call_arguments.items() if name in names]
    if len(about) == 1 and context.functions and context.functions[-1].is_built_in:
        problem = context.report.error("WG0403", text, about[0])
        problem.also(node.condition.span, "the rule")
    else:
        problem = context.report.error("WG0403", text, node.condition, "does not hold")
    if problem.span is not node.condition.span and context.building:
        rule = context.building[-1].name
        problem.label = f"`{problem.span.text}` breaks a rule of `{rule}`"
        problem.others[:] = [(node.condition.span, "the rule")]
    sizes = _sizes_in(context, node.condition)
    return problem.note(f"here {sizes}") if sizes else problem


def _dim_value(context: Context, decl: ast.DimDecl) -> AnyValue:
    return context.read(context.value(decl.value)) if decl.value is not None else FAILED


def _sizes_in(context: Context, condition: ast.Expr) -> str:
    names = sorted({node.text for node in walk(condition) if isinstance(node, ast.Name)})
    bindings = [(name, context.scope.find(name)) for name in names]
    known = [(name, value) for name, value in bindings if isinstance(value, (Dim, Number))]
    return ", ".join(f"{name} = {plain_number(value):g}" for name, value in known)


def _is_known(value: AnyValue) -> bool:
    if isinstance(value, (TupleValue, ListValue)):
        return all(_is_known(item) for item in value.items)
    return isinstance(value, (Dim, Number, BoolValue, Text, DtypeValue))


def is_true(context: Context, condition: ast.Expr) -> bool:
    value = context.evaluate(condition)
    if isinstance(value, BoolValue):
        return value.value
    text = f"this condition must be known at compile time, but it is {describe(value)}"
    problem = context.report.error("WG0306", text, condition)
    raise Stop(
        problem.help("to choose element by element at run time use `where(condition, a, b)`")
    )


def lint_sizes(context: Context, definition: LayerDefinition) -> None:
    """Once per layer of the user's own files; not for a layer that did not parse."""
    node = definition.node
    if id(node) in context.linted or definition.file.source in context.report.library:
        return
    context.linted.add(id(node))
    pieces = list(walk(node))
    if any(isinstance(piece, ast.Broken) for piece in pieces):
        return
    _report_repeated(context, definition)
    for size in node.sizes:
        if not any(_mentions(piece, size.text) for piece in pieces):
            text = f"size `{size.text}` of `{definition.name}` is never used"
            context.report.warning("WG0902", text, size)
    for member in node.members:
        if isinstance(member, ast.Function):
            _report_hidden(context, definition, member)


def _report_repeated(context: Context, definition: LayerDefinition) -> None:
    seen: set[str] = set()
    for size in definition.node.sizes:
        if size.text in seen:
            text = f"size `{size.text}` of `{definition.name}` is listed twice"
            context.report.error("WG0204", text, size)
        seen.add(size.text)


def _report_hidden(context: Context, definition: LayerDefinition, function: ast.Function) -> None:
    own = {size.text: size for size in definition.node.sizes}
    for size in function.sizes:
        if size.text in own:
            text = (
                f"size `{size.text}` of `{function.name.text}` hides the size `{size.text}` "
                f"of `{definition.name}`"
            )
            problem = context.report.warning("WG0903", text, size)
            problem.also(own[size.text].span, "hidden here")


def _mentions(piece: ast.Syntax, name: str) -> bool:
    if isinstance(piece, ast.String):
        return re.search(rf"\b{re.escape(name)}\b", piece.value) is not None
    return isinstance(piece, ast.Name) and piece.text == name


DISTRIBUTIONS: Mapping[str, str] = {
    "zeros": "",
    "ones": "",
    "normal": "mean=0.0, std=1.0",
    "trunc_normal": "mean=0.0, std=1.0",
    "uniform": "low, high",
    "kaiming_uniform": "fan, a=0.0",
    "kaiming_normal": "fan",
    "xavier_uniform": "fan_in, fan_out",
    "orthogonal": "gain=1.0",
    "external": "",
}
# What integers and bools can start as.
WHOLE = ("zeros", "ones", "external")
# The least value of each argument; `low`, `high` and `mean` have no bound.
LOWER_BOUNDS = {"std": 0.0, "fan": 1.0, "fan_in": 1.0, "fan_out": 1.0, "gain": 0.0}

# The cost of a number that is written into the plan.
WRITTEN = 20
FROM_FILE = "write `~ external`, and give them in a file of weights"


def param_init(context: Context, param: ast.Param, dtype: str, dims: tuple[Dim, ...]) -> Init:
    if param.init is None:
        text = f"parameter `{param.name.text}` has no initial value"
        problem = context.report.error("WG0220", text, param.name)
        advice = "add `~ normal(0.0, 0.02)` or `= 0.0`; `~ external` if a file of weights has them"
        raise Stop(problem.help(advice))
    if param.init.drawn:
        return _distribution(context, param.init.value, dtype, dims)
    return value_init(context, param.init.value, dtype, dims)


def value_init(context: Context, expr: ast.Expr, dtype: str, dims: tuple[Dim, ...]) -> Init:
    """`= expr`: a number, or a tensor that can be computed at compile time."""
    with context.scratch() as trace:
        value = context.evaluate(expr)
        tensor = context.fit(value, dtype, dims, expr)
        if isinstance(value, (Dim, Number, BoolValue)):
            return Init("value", values=(float(_number(value)),))
        return Init(
            "value", values=() if context.generic else _compute(context, trace, tensor, expr)
        )


def _compute(
    context: Context, trace: TracedGraph, tensor: Tensor, expr: ast.Expr
) -> tuple[float, ...]:
    if trace.params or trace.state:
        text = "an initial value cannot depend on parameters, state or random numbers"
        problem = context.report.error("WG0220", text, expr)
        raise Stop(problem.help("random values are drawn with `~`: `~ normal(0.0, 0.02)`"))
    graph = trace.finish("initial value", {"value": tensor.value})
    steps = effort(graph)
    if not context.budget.afford(steps):
        text = f"this initial value needs about {steps:,} steps of computation"
        problem = context.report.error("WG0220", text, expr)
        raise Stop(problem.note(f"all of them together may take {MOST_EFFORT:,}").help(FROM_FILE))
    try:
        array = evaluate(graph, {}).outputs["value"].reshape(-1)
    except ValueError as error:
        text = "this initial value cannot be computed at compile time"
        raise Stop(context.report.error("WG0220", text, expr)) from error
    if (not_finite := array[~(np.abs(array) <= LARGEST_FLOAT)]).size:
        text = f"an initial value must be finite, but this has {not_finite[0]}"
        raise Stop(context.report.error("WG0220", text, expr))
    if (array == array[0]).all():
        return (float(array[0]),)
    if not context.budget.afford(WRITTEN * array.size):
        text = f"these {array.size:,} numbers are too many to be written into a plan"
        raise Stop(context.report.error("WG0220", text, expr).help(FROM_FILE))
    return tuple(map(float, array.tolist()))


def _distribution(context: Context, expr: ast.Expr, dtype: str, dims: tuple[Dim, ...]) -> Init:
    named = expr.function if isinstance(expr, ast.Call) else expr
    if not isinstance(named, ast.Name):
        text = "after `~` comes a distribution such as `normal(0.0, 0.02)`"
        raise Stop(context.report.error("WG0212", text, expr))
    if named.text not in DISTRIBUTIONS:
        problem = context.report.unknown("WG0212", "distribution", named.text, DISTRIBUTIONS, named)
        if not problem.helps:
            problem.note("distributions: " + ", ".join(sorted(DISTRIBUTIONS)))
        raise Stop(problem)
    if dtype not in FLOATS and named.text not in WHOLE:
        text = f"`{named.text}` draws floats, but this parameter holds {dtype}"
        raise Stop(context.report.error("WG0502", text, expr).help(FROM_FILE))
    if named.text == "orthogonal" and len(dims) < 2:
        text = f"`orthogonal` needs at least two axes, but this has {len(dims)}"
        raise Stop(context.report.error("WG0415", text, expr))
    arguments = expr.arguments if isinstance(expr, ast.Call) else ()
    return _plan_distribution(named.text, _settings(context, named.text, arguments, expr.span))


def _plan_distribution(name: str, settings: dict[str, float]) -> Init:
    """A plan's own `kaiming_uniform` has the slope √5; others are plain bounds."""
    if name != "kaiming_uniform":
        return Init(name, settings)
    # The gain of a leaky ReLU of slope a is √(2 / (1 + a²)); a uniform number within b has the
    # standard deviation b / √3.
    bound = sqrt(6.0 / ((1.0 + settings["a"] ** 2) * settings["fan"]))
    return Init("uniform", {"low": -bound, "high": bound})


def _settings(
    context: Context, name: str, arguments: tuple[ast.Argument, ...], at: Span
) -> dict[str, float]:
    listed = gather_arguments(context, arguments)
    function = BuiltinFunction(name, DISTRIBUTIONS[name], _never_called)
    bound = bind(context.report, function, listed, at)
    settings = {key: _setting(context, bound, key) for key in bound.values}
    if name == "uniform" and not settings["low"] < settings["high"]:
        text = (
            f"`uniform` needs low < high, but they are {settings['low']:g} and {settings['high']:g}"
        )
        raise Stop(context.report.error("WG0503", text, at))
    return settings


def _setting(context: Context, bound: BoundArgs, key: str) -> float:
    value = context.read(context.require(bound.values[key] or FAILED))
    if not isinstance(value, (Dim, Number)):
        text = f"`{key}` must be a number known at compile time, but this is {describe(value)}"
        raise Stop(context.report.error("WG0212", text, bound.span(key)))
    number = float(_number(value))
    context.check_fits(number, "f32", bound.span(key))
    if key in LOWER_BOUNDS and number < LOWER_BOUNDS[key]:
        text = f"`{key}` must be at least {LOWER_BOUNDS[key]:g}, but it is {number:g}"
        raise Stop(context.report.error("WG0503", text, bound.span(key)))
    return number


def _number(value: Dim | Number | BoolValue) -> float | int | bool:
    return value.size if isinstance(value, Dim) else value.value


def _never_called(*_: object) -> AnyValue:
    raise AssertionError("a distribution is not a function")
