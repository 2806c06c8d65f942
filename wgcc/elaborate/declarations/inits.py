"""Initial values of parameters and state: a distribution, a number, or a constant tensor."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from wgcc.elaborate.declarations.constructors import gather_arguments
from wgcc.elaborate.report import MOST_EFFORT, Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, bind
from wgcc.elaborate.tracing.context import FAILED, Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import AnyValue, BoolValue, Number, Tensor, describe
from wgcc.errors import Span
from wgcc.evaluate import effort, evaluate
from wgcc.ir.dtypes import FLOATS, LARGEST_FLOAT
from wgcc.ir.program import Init
from wgcc.lazy_numpy import np
from wgcc.syntax import ast

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
            "value", values=() if context.generic else _computed(context, trace, tensor, expr)
        )


def _computed(
    context: Context, trace: TracedGraph, tensor: Tensor, expr: ast.Expr
) -> tuple[float, ...]:
    if trace.params or trace.state:
        text = "an initial value cannot depend on parameters, state or random numbers"
        problem = context.report.error("WG0220", text, expr)
        raise Stop(problem.help("random values are drawn with `~`: `~ normal(0.0, 0.02)`"))
    graph = trace.finish("initial value", {"value": tensor.value})
    asked = effort(graph)
    if not context.budget.afford(asked):
        text = f"this initial value needs about {asked:,} steps of computation"
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
    return _drawn(named.text, _settings(context, named.text, arguments, expr.span))


def _drawn(name: str, settings: dict[str, float]) -> Init:
    """What a plan says. Its own `kaiming_uniform` has the slope √5; others are plain bounds."""
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
