"""Functions whose body is in WGSL: `fn f(x: f32[..]) -> f32[..] = wgsl("f.wgsl")`."""

from __future__ import annotations

from wgcc.elaborate.declarations.signatures import dtype_of
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, plural
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.values import (
    BoolValue,
    FunctionValue,
    Number,
    Tensor,
    Text,
    describe,
    type_text,
)
from wgcc.errors import Diagnostic, Span
from wgcc.kernel.own.read import MOST_OPERANDS, OwnFunction
from wgcc.ops.registry import wgsl_type
from wgcc.syntax import ast

FORM = '`fn f(x: f32[..]) -> f32[..] = wgsl("f.wgsl")`'
# The name of the result in the block that states the gradient.
RESULT = "y"


def own_kernel(context: Context, args: BoundArgs, at: Span) -> Tensor:
    """The function of the file, for each element of the arguments of the innermost call."""
    function = _caller(context, at)
    own = _function_of(context, function, args)
    operands = _operands(context, function, own, at)
    dtype = _result_dtype(context, function, own, at)
    dims = max((tensor.dims for tensor in operands), key=len)
    _refuse_shapes(context, function, operands, dims, at)
    wide = [context.broadcast(tensor, dims) for tensor in operands]
    result = context.emit("wgsl", *wide, dims=dims, dtype=dtype, function=own)
    if function.node.gradient is not None and RESULT not in context.scope.names:
        context.scope.bind(RESULT, result)
    return result


def _caller(context: Context, at: Span) -> FunctionValue:
    """The function whose whole body this call is."""
    function = context.functions[-1] if context.functions else None
    if (
        function is None
        or isinstance(function.node.body, ast.Block)
        or (function.node.body.span != at or function.node.is_entry)
    ):
        text = "`wgsl(...)` is the whole body of a function"
        raise Stop(context.report.error("WG0705", text, at).help(f"write {FORM}"))
    return function


def _function_of(context: Context, function: FunctionValue, args: BoundArgs) -> OwnFunction:
    file, name = args["file"], args["function"]
    for value, place in ((file, "file"), (name, "function")):
        if value is not None and not isinstance(value, Text):
            text = f"`wgsl` takes names in quotes, but this is {describe(value)}"
            raise Stop(context.report.error("WG0705", text, args.span(place)).help(f"write {FORM}"))
    assert isinstance(file, Text)
    known = context.own_functions(function.file, file)
    wanted = name.value if isinstance(name, Text) else function.name
    if wanted not in known:
        what, where = f'function in "{file.value}":', args.span("function" if name else "file")
        problem = context.report.unknown("WG0705", what, wanted, known, where, "not there")
        raise Stop(problem)
    return known[wanted]


def _operands(
    context: Context, function: FunctionValue, own: OwnFunction, at: Span
) -> list[Tensor]:
    parameters = function.node.values
    if len(parameters) != len(own.params):
        takes, has = plural(len(own.params), "argument"), plural(len(parameters), "argument")
        raise Stop(_mismatch(context, own, f"takes {takes}, but `{function.name}` has {has}", at))
    if not 1 <= len(parameters) <= MOST_OPERANDS:
        text = f"a function in WGSL has 1 to {MOST_OPERANDS} arguments, not {len(parameters)}"
        raise Stop(context.report.error("WG0705", text, function.node.name))
    pairs = zip(parameters, own.params, strict=True)
    return [_operand(context, own, parameter, kind) for parameter, kind in pairs]


def _operand(context: Context, own: OwnFunction, parameter: ast.ValueParam, kind: str) -> Tensor:
    name, type_ = parameter.name.text, parameter.kind
    if not isinstance(type_, ast.TypeExpr):
        text = f"argument `{name}` of a function in WGSL must be a tensor"
        raise Stop(context.report.error("WG0705", text, parameter))
    dtype = dtype_of(context, type_.name)
    if wgsl_type(dtype) != kind:
        text = f"has {kind} where `{name}` is {dtype}"
        raise Stop(_mismatch(context, own, text, parameter.span))
    value = context.read(context.scope.names[name])
    if isinstance(value, Tensor):
        return value
    assert isinstance(value, (Dim, Number, BoolValue))
    return context.constant(value.size if isinstance(value, Dim) else value.value, dtype)


def _result_dtype(context: Context, function: FunctionValue, own: OwnFunction, at: Span) -> str:
    result = function.node.result
    if not isinstance(result, ast.TypeExpr):
        text = f"`{function.name}` must declare one result, as `-> f32[..]`"
        raise Stop(context.report.error("WG0705", text, result or function.node.name))
    dtype = dtype_of(context, result.name)
    if wgsl_type(dtype) != own.result:
        text = f"gives {own.result}, but `{function.name}` gives {dtype}"
        raise Stop(_mismatch(context, own, text, result.span))
    return dtype


def _mismatch(context: Context, own: OwnFunction, text: str, at: Span) -> Diagnostic:
    problem = context.report.error("WG0705", f"the function {own} {text}", at)
    return problem.note("f16 is f32 there, i8 is i32 and u8 is u32")


def _refuse_shapes(
    context: Context,
    function: FunctionValue,
    operands: list[Tensor],
    dims: tuple[Dim, ...],
    at: Span,
) -> None:
    for tensor, parameter in zip(operands, function.node.values, strict=True):
        if tensor.dims and sizes_of(tensor.dims) != sizes_of(dims):
            shown, wanted = str(tensor), type_text(tensor.dtype, dims)
            text = f"argument `{parameter.name.text}` must be {wanted} or one number, not {shown}"
            raise Stop(context.report.error("WG0406", text, at))
