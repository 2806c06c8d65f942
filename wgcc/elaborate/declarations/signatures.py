"""Types as written: their meaning, and whether a value has such a type.

A size of a function that is not known yet is bound by the first argument that has it (`N` in
`fn f[N](x: f32[N])`); `..` stands for the same leading axes everywhere in one signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from wgcc.elaborate.report import Place, Stop, place
from wgcc.elaborate.tracing.arguments import one_of
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import (
    COINCIDENCE,
    DIFF,
    Dim,
    compare,
    shape_text,
    sizes_note,
    sizes_of,
)
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    Builtin,
    DtypeValue,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    Number,
    Tensor,
    TupleValue,
    describe,
    type_text,
)
from wgcc.errors import Diagnostic, Span
from wgcc.ir.dtypes import OTHER_NAMES
from wgcc.ir.graph import DTYPES, FLOATS, INTEGERS, TensorType
from wgcc.syntax import ast

# A type of arguments: f32 or f16, the same for all of one call.
ANY_FLOAT = "float"


@dataclass
class Signature:
    """The sizes of one call: `unbound` are still to be inferred, `rest` are the axes of `..`."""

    name: str
    unbound: set[str] = field(default_factory=set)
    rest: tuple[Dim, ...] | None = None
    layer: LayerValue | None = None
    has_any_float: bool = False


def dtype_of(context: Context, name: ast.Identifier) -> str:
    if name.text in DTYPES:
        return name.text
    value = context.scope.find(name.text)
    if isinstance(value, DtypeValue):
        return value.name
    scope = context.scope
    aliases = (n for n in scope.visible() if isinstance(scope.find(n), DtypeValue))
    problem = context.report.unknown("WG0203", "type", name.text, chain(DTYPES, aliases), name)
    if name.text in OTHER_NAMES:
        problem.helps.clear()
        problem.help(f"write `{OTHER_NAMES[name.text]}`", (name.span, OTHER_NAMES[name.text]))
    elif name.text == "Tensor":
        problem.helps.clear()
        problem.help("a tensor's type has its shape: `f32[B, 8]`, or `f32[..]` for any")
    raise Stop(problem)


def dim_of(context: Context, expr: ast.Expr) -> Dim:
    """A whole number known at compile time."""
    value = context.evaluate(expr)
    if not isinstance(value, Dim):
        text = f"a size must be a whole number known at compile time, but this is {describe(value)}"
        raise Stop(context.report.error("WG0401", text, expr))
    return value


def size_of(context: Context, expr: ast.Expr) -> Dim:
    """A size of a tensor: positive."""
    dim = dim_of(context, expr)
    if dim.size <= 0:
        text = f"a size must be positive, but this is {dim.full}"
        raise Stop(context.report.error("WG0401", text, expr))
    return dim


def type_of(context: Context, type_: ast.TypeExpr) -> tuple[str, tuple[Dim, ...]]:
    """A type that is fully known: of parameters, state, inputs, local names."""
    dims = []
    for item in type_.dims:
        if isinstance(item, ast.Rest):
            text = "`..` may only be used in the signature of a function"
            raise Stop(context.report.error("WG0404", text, item))
        dims.append(size_of(context, item))
    dtype = dtype_of(context, type_.name)
    context.check_axes(dims, type_.name.text, type_)
    tensor = TensorType(sizes_of(dims), dtype)
    context.check_size(tensor, type_text(dtype, tuple(dims)), type_)
    return dtype, tuple(dims)


def coerce(
    context: Context,
    value: AnyValue,
    kind: ast.Kind,
    at: Place,
    what: str,
) -> AnyValue:
    """A compile-time value as the option or constant `what` of this kind."""
    if isinstance(kind, ast.OneOf):
        options = [option.value for option in kind.options]
        return one_of(context.report, value, options, what, place(at))
    if isinstance(kind, ast.TupleType):

        def match(type_: ast.TypeExpr, item: AnyValue, what: str) -> AnyValue:
            return coerce(context, item, type_, at, what)

        return match_type(context, kind, value, at, what, match)
    word = kind if isinstance(kind, str) else dtype_of(context, kind.name)
    if word in FLOATS and isinstance(value, Dim):
        return Number(float(value.size))
    wanted, words = _OPTIONS[word]
    if not isinstance(value, wanted) or (isinstance(kind, ast.TypeExpr) and kind.dims):
        text = f"{what} must be {words}, but this is {describe(value)}"
        raise Stop(context.report.error("WG0209", text, at))
    return value


_OPTIONS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "dim": (Dim, "a whole number known at compile time"),
    "layer": (LayerType, "a layer type"),
    "fn": ((FunctionValue, Builtin), "a function"),
    "bool": (BoolValue, "`true` or `false`"),
    **{dtype: (Number, f"a number ({dtype})") for dtype in FLOATS},
    **{dtype: (Dim, f"a number ({dtype})") for dtype in INTEGERS},
}


def match_argument(
    context: Context, signature: Signature, parameter: ast.ValueParam, value: AnyValue, at: Span
) -> AnyValue:
    """`value` as the argument `parameter`; binds sizes into the current scope."""
    kind, what = parameter.kind, f"argument `{parameter.name.text}` of `{signature.name}`"
    if isinstance(kind, (str, ast.OneOf)):
        # A function can be given a layer itself, beside its type: it is called like a function.
        is_layer = isinstance(value, LayerValue) and kind != "dim"
        return value if is_layer else coerce(context, value, kind, at, what)

    def match(type_: ast.TypeExpr, item: AnyValue, what: str) -> AnyValue:
        return _match_tensor(context, signature, type_, item, at, what)

    return match_type(context, kind, value, at, what, match)


def match_type(
    context: Context,
    type_: ast.TypeExpr | ast.TupleType,
    value: AnyValue,
    at: Place,
    what: str,
    match: Callable[[ast.TypeExpr, AnyValue, str], AnyValue],
) -> AnyValue:
    """`match` for each tensor of a tuple and of the tuples in it. `(f32)` is `f32`."""
    if isinstance(type_, ast.TypeExpr):
        return match(type_, value, what)
    items = value.items if isinstance(value, TupleValue) else (value,)
    if len(items) != len(type_.fields):
        description = (
            f"a tuple of {len(items)}" if isinstance(value, TupleValue) else describe(value)
        )
        text = f"{what} must be a tuple of {len(type_.fields)}, but this is {description}"
        problem = context.report.error("WG0501", text, at)
        raise Stop(problem.also(type_.span, "declared here"))
    results = tuple(
        match_type(context, field.type, item, at, _part(what, field, position), match)
        for position, (field, item) in enumerate(zip(type_.fields, items, strict=True))
    )
    return results[0] if len(results) == 1 else TupleValue(results)


def _part(what: str, field: ast.TupleField, position: int) -> str:
    return f"part {f'`{field.name.text}`' if field.name else position} of {what}"


def _match_tensor(
    context: Context, signature: Signature, kind: ast.TypeExpr, value: AnyValue, at: Span, what: str
) -> AnyValue:
    value = context.read(value)
    dtype = _argument_dtype(context, signature, kind.name, value)
    known = adapt_number(value, dtype) if _takes_numbers(signature, kind) else None
    if known is not None:
        signature.rest = () if kind.dims else signature.rest
        return known
    report, where = context.report, _declared_at(context, signature, kind)
    if isinstance(value, ListValue):
        value = context.literal(value, (dtype,), at)
    if not isinstance(value, Tensor):
        text = f"{what} must be {kind.span.text}, but this is {describe(value)}"
        raise Stop(report.error("WG0501", text, at).also(*where))
    if value.dtype != dtype:
        wanted = "floats" if kind.name.text == ANY_FLOAT and value.dtype not in FLOATS else dtype
        text = f"{what} must be {wanted}, but this is {value}"
        mismatch = report.error("WG0501", text, at, str(value)).also(*where)
        raise Stop(mismatch.help(f"convert it: `{dtype}({at.text})`"))
    problem, dims = _match_dims(context, signature, kind, value, at, what)
    if problem:
        raise Stop(report.error("WG0406", f"{what}: {problem}", at, str(value)).also(*where))
    return Tensor(value.value, dims)


def _argument_dtype(
    context: Context, signature: Signature, name: ast.Identifier, value: AnyValue
) -> str:
    """The first tensor of floats decides what `float` is in the function."""
    scope = context.scope
    if name.text == ANY_FLOAT and scope.find(ANY_FLOAT) is None:
        signature.has_any_float = True
        if not isinstance(value, Tensor) or value.dtype not in FLOATS:
            return "f32"
        scope.bind(ANY_FLOAT, DtypeValue(value.dtype))
    return dtype_of(context, name)


def _takes_numbers(signature: Signature, kind: ast.TypeExpr) -> bool:
    """Whether it is the type of a scalar; `f32[..]` is, if `..` stands for no axes."""
    is_rest = len(kind.dims) == 1 and isinstance(kind.dims[0], ast.Rest)
    return not kind.dims or (is_rest and not signature.rest)


def adapt_number(value: AnyValue, dtype: str) -> AnyValue | None:
    """A compile-time number or bool stays one where a scalar of `dtype` is expected."""
    if dtype in FLOATS and isinstance(value, Dim):
        return Number(float(value.size))
    wanted = Number if dtype in FLOATS else BoolValue if dtype == "bool" else Dim
    return value if isinstance(value, wanted) else None


def _match_dims(
    context: Context,
    signature: Signature,
    kind: ast.TypeExpr,
    value: Tensor,
    at: Span,
    what: str,
) -> tuple[str, tuple[Dim, ...]]:
    """The problem with the axes (empty if nothing), and their dims inside the function."""
    fixed = [item for item in kind.dims if not isinstance(item, ast.Rest)]
    has_rest = len(fixed) < len(kind.dims)
    extra = value.rank - len(fixed)
    if extra < 0 or (extra and not has_rest):
        more, noun = " or more" if has_rest else "", "axis" if len(fixed) == 1 else "axes"
        text = f"expected {len(fixed)}{more} {noun} ({kind.span.text}), found {value.rank}"
        return text, ()
    dims: list[Dim] = []
    for item in kind.dims:
        have = value.dims[len(dims)] if len(dims) < value.rank else Dim.literal(1)
        if isinstance(item, ast.Rest):
            rest = value.dims[len(dims) : len(dims) + extra]
            problem, rest_dims = _match_rest(signature, rest, bool(fixed))
            for one, other in zip(rest, rest_dims, strict=False):
                context.same_size(one, other, at, what)
            dims.extend(rest_dims)
        else:
            problem, wanted = _match_axis(context, signature, item, have, len(dims))
            if not problem:
                context.same_size(have, wanted, at, what)
            dims.append(wanted)
        if problem:
            return problem, ()
    return "", tuple(dims)


def _match_rest(
    signature: Signature, dims: tuple[Dim, ...], is_part: bool
) -> tuple[str, tuple[Dim, ...]]:
    if signature.rest is None:
        signature.rest = dims
    if sizes_of(dims) == sizes_of(signature.rest):
        return "", signature.rest
    have, wanted = shape_text(dims), shape_text(signature.rest)
    axes = "leading axes" if is_part else "axes"
    return f"its {axes} [{have}] differ from [{wanted}] of an earlier argument", dims


def _match_axis(
    context: Context, signature: Signature, item: ast.Expr, have: Dim, axis: int
) -> tuple[str, Dim]:
    name = item.text if isinstance(item, ast.Name) else ""
    if name == "_":
        return "", have
    if name in signature.unbound:
        signature.unbound.discard(name)
        context.scope.bind(name, have)
        return "", have
    wanted = dim_of(context, item)
    if compare(have, wanted) is DIFF:
        return f"axis {axis} must be {wanted.full}, but it is {have.full}", wanted
    return "", have if wanted.is_literal else wanted


def _declared_at(context: Context, signature: Signature, kind: ast.TypeExpr) -> tuple[Span, str]:
    """The place that shows what is expected: the user's line that creates a library's layer."""
    layer, library = signature.layer, context.report.library
    if layer is None or kind.span.source not in library or layer.span.source in library:
        return kind.span, "declared here"
    sizes = [(size.text, layer.scope.names.get(size.text)) for size in layer.definition.node.sizes]
    words = ", ".join(f"{name} = {dim}" for name, dim in sizes if isinstance(dim, Dim))
    return layer.span, f"takes {kind.span.text}" + (f" with {words}" if words else "")


def match_result(
    context: Context,
    signature: Signature,
    type_: ast.TypeExpr,
    value: AnyValue,
    at: Place,
    what: str,
) -> AnyValue:
    """`value` as the declared result `what`. Compile-time numbers stay what they are."""
    dtype = dtype_of(context, type_.name)
    value = context.read(value)
    known = adapt_number(value, dtype) if _takes_numbers(signature, type_) else None
    if known is not None:
        return known
    wanted = _wanted_dims(context, signature, type_)
    if isinstance(value, ListValue):
        value = context.literal(value, (dtype,), at)
    if not isinstance(value, Tensor):
        text = f"{what} must be {type_.span.text}, but this is {describe(value)}"
        raise Stop(context.report.error("WG0407", text, at).also(type_.span, "declared here"))
    fits = len(wanted) == value.rank and not any(
        dim is not None and compare(have, dim) is DIFF
        for have, dim in zip(value.dims, wanted, strict=True)
    )
    if not fits or value.dtype != dtype:
        raise Stop(_wrong_result(context, type_, dtype, wanted, value, at, what))
    return Tensor(value.value, _result_dims(context, value, wanted, at, what))


def _result_dims(
    context: Context, value: Tensor, wanted: Sequence[Dim | None], at: Place, what: str
) -> tuple[Dim, ...]:
    dims = []
    for have, dim in zip(value.dims, wanted, strict=True):
        if dim is not None and compare(have, dim) is COINCIDENCE:
            context.same_size(have, dim, at, what)
        dims.append(have if dim is None or dim.is_literal else dim)
    return tuple(dims)


def _wanted_dims(
    context: Context, signature: Signature, type_: ast.TypeExpr
) -> tuple[Dim | None, ...]:
    """None where `_` leaves a size open."""
    wanted: list[Dim | None] = []
    for item in type_.dims:
        if isinstance(item, ast.Rest):
            wanted.extend(signature.rest or ())
        elif isinstance(item, ast.Name) and item.text == "_":
            wanted.append(None)
        else:
            wanted.append(dim_of(context, item))
    return tuple(wanted)


def _wrong_result(
    context: Context,
    type_: ast.TypeExpr,
    dtype: str,
    wanted: Sequence[Dim | None],
    value: Tensor,
    at: Place,
    what: str,
) -> Diagnostic:
    shown = ", ".join("_" if dim is None else str(dim) for dim in wanted)
    text = f"{dtype}[{shown}]" if wanted else dtype
    message = f"{what} must be {text}, but this is {value}"
    problem = context.report.error("WG0407", message, place(at), str(value))
    problem.also(type_.span, "declared here")
    note = sizes_note([dim for dim in wanted if dim is not None], value.dims)
    if note:
        problem.note(note)
    if value.dtype != dtype and len(wanted) == value.rank:
        problem.help(f"convert it: `{dtype}(...)`")
    return problem
