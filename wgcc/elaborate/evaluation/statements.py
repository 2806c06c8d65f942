"""Statements of functions, entries and tests. Loops are unrolled; conditions are compile-time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.elaborate.declarations.constants import check_assertion, is_true
from wgcc.elaborate.declarations.signatures import type_of
from wgcc.elaborate.evaluation.foreign import explain_extremes
from wgcc.elaborate.evaluation.iteration import LoopRounds, iterations
from wgcc.elaborate.evaluation.minimize import minimize
from wgcc.elaborate.operators import indexing
from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.context import Context, has_failed
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, sizes_note
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    BoolValue,
    FunctionValue,
    LayerContents,
    ListValue,
    Number,
    ParamRef,
    Scope,
    StateRef,
    Tensor,
    TupleValue,
    describe,
    difference,
    holds_layers,
    layer_tensors,
    stored_in,
    type_text,
)
from wgcc.errors import Diagnostic, Span
from wgcc.syntax import ast


@dataclass(frozen=True)
class Returned:
    """The value of a `return` (FAILED after an error), and its place."""

    value: AnyValue
    at: Span


def run_block(context: Context, block: ast.Block) -> Returned | None:
    """Run the statements up to a `return`; after an error in one the others are still checked."""
    for statement in block.statements:
        try:
            returned = _RULES[type(statement)](context, statement)
        except Stop:
            returned = _give_up(context, statement)
        if returned is not None:
            return returned
    return None


def _give_up(context: Context, statement: ast.Statement) -> Returned | None:
    """Bind the names of a failed statement to FAILED, so that they cause no more errors."""
    if isinstance(statement, ast.Bind):
        for name in _names_in(statement.targets):
            if not _is_stored(context.scope.find(name)):
                context.scope.bind(name, FAILED)
    if isinstance(statement, ast.Return):
        return Returned(FAILED, statement.span)
    return None


def _names_in(targets: Sequence[ast.Expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.text
        elif isinstance(target, ast.TupleExpr):
            yield from _names_in(target.items)


def _is_stored(value: AnyValue | None) -> bool:
    return isinstance(value, (ParamRef, StateRef))


def _bind(context: Context, node: ast.Bind) -> None:
    targets, at = node.targets, _whole(node.values)
    for target in targets:
        _check_target(context, target)
    if node.type is not None and (len(targets) > 1 or not isinstance(targets[0], ast.Name)):
        text = "a type can be given to one name only"
        raise Stop(context.report.error("WG0302", text, node.type))
    values = [context.read(context.value(value)) for value in node.values]
    if len(targets) == 1 and len(values) == 1:
        value, only = context.require(values[0]), targets[0]
        if isinstance(value, TupleValue) and not value.items:
            raise Stop(context.report.error("WG0309", "this call returns nothing", at))
        if node.type is not None and isinstance(only, ast.Name):
            value = _check_type(context, only.text, node.type, value, at)
        _assign(context, only, value)
        return
    items = values if len(values) > 1 else _unpack(context, targets, values[0], node.values[0])
    if len(items) != len(targets):
        text = f"{len(targets)} names on the left, but {len(items)} values on the right"
        raise Stop(_parts_for_sizes(context.report.error("WG0302", text, at), node))
    for target, value in zip(targets, items, strict=True):
        _assign(context, target, value)


def _parts_for_sizes(problem: Diagnostic, node: ast.Bind) -> Diagnostic:
    """Whoever unpacks `a, b = split(x, 2, …)` means two parts, not parts of size 2."""
    value = node.values[0]
    call = value.target if isinstance(value, ast.Pipe) else value
    named = call.function if isinstance(call, ast.Call) else None
    name = named.name if isinstance(named, ast.Member) else named
    if not isinstance(name, (ast.Name, ast.Identifier)) or name.text != "split":
        return problem
    advice = "`split` takes the size of the parts, as in PyTorch; `chunk` takes their number"
    return problem.help(advice, (name.span, "chunk"))


def _assign(context: Context, target: ast.Expr, value: AnyValue) -> None:
    """Bind a name, or the names of a tuple to its parts."""
    if isinstance(target, ast.Name):
        _name(context, target.text, value)
        return
    assert isinstance(target, ast.TupleExpr)
    names = target.items
    items = value.items if isinstance(value, (TupleValue, ListValue)) else None
    if items is None or len(items) != len(names):
        context.require(value)
        description = describe(value) if items is None else f"{describe(value)} of {len(items)}"
        text = f"these are {len(names)} names, but their value is {description}"
        raise Stop(context.report.error("WG0302", text, target))
    for name, item in zip(names, items, strict=True):
        _assign(context, name, item)


def _unpack(
    context: Context, targets: Sequence[ast.Expr], value: AnyValue, node: ast.Expr
) -> Sequence[AnyValue]:
    if isinstance(value, (TupleValue, ListValue)):
        return value.items
    context.require(value)
    text = f"{len(targets)} names on the left, but the right side is {describe(value)}"
    problem = context.report.error("WG0302", text, node)
    explain_extremes(context, problem, node, len(targets))
    raise Stop(problem)


def _name(context: Context, name: str, value: AnyValue) -> None:
    context.scope.bind(name, value)
    in_built_in = bool(context.functions) and context.functions[-1].is_built_in
    if name != "_" and not in_built_in:
        context.name(value, name)


def _check_target(context: Context, target: ast.Expr) -> None:
    report = context.report
    if isinstance(target, ast.TupleExpr):
        for item in target.items:
            _check_target(context, item)
        return
    if not isinstance(target, ast.Name):
        problem = report.error("WG0302", "only a name can be bound with `=`", target)
        if isinstance(target, (ast.Index, ast.Member)):
            problem.help("to write state (or part of it) use `:=`")
        raise Stop(problem)
    current, name = context.scope.find(target.text), target.text
    if isinstance(current, StateRef):
        text = f"`{name}` is state; `=` would only make a local name that hides it"
        problem = report.error("WG0301", text, target).also(current.span, "declared as state here")
        raise Stop(problem.help("write it with `:=`", (target.span, f"{name} :=")))
    if isinstance(current, ParamRef):
        text = f"`{name}` is a parameter; `=` would only make a local name that hides it"
        problem = report.error("WG0301", text, target).also(current.span, "declared here")
        raise Stop(problem.help("use another name for the local value"))


def _check_type(
    context: Context, name: str, type_: ast.TypeExpr, value: AnyValue, at: Place
) -> AnyValue:
    """`name: type = value`."""
    dtype, dims = type_of(context, type_)
    if isinstance(value, (Dim, Number, BoolValue)):
        return context.fit(value, dtype, dims, at)
    if isinstance(value, ListValue):
        value = context.literal(value, (dtype,), at)
    tensor = value if isinstance(value, Tensor) else None
    fits = tensor is not None and tensor.dtype == dtype and tensor.rank == len(dims)
    if tensor is None or not fits or _differ(tensor.dims, dims):
        shown = str(tensor) if tensor is not None else describe(value)
        text = f"`{name}` is declared {type_text(dtype, dims)}, but this is {shown}"
        problem = context.report.error("WG0407", text, at, str(tensor) if tensor else "")
        problem.also(type_.span, "declared here")
        note = sizes_note(dims, tensor.dims if tensor else ())
        raise Stop(problem.note(note) if note else problem)
    for have, wanted in zip(tensor.dims, dims, strict=True):
        context.same_size(have, wanted, at, f"`{name}`")
    return Tensor(tensor.value, dims)


def _differ(have: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    return any(compare(a, b) is DIFF for a, b in zip(have, wanted, strict=True))


def _write(context: Context, node: ast.Write) -> None:
    """`state := value`, `state[i] := value`, `layer := other_layer`."""
    index = node.target if isinstance(node.target, ast.Index) else None
    base = index.value if index is not None else node.target
    target = context.require(context.value(base))
    if index is not None and isinstance(target, ListValue):
        target, base, index = context.require(context.value(index)), index, None
    if index is None and holds_layers(target):
        _write_layer(context, node, target)
        return
    if not isinstance(target, (ParamRef, StateRef)):
        raise Stop(_not_state(context, base, target))
    value = context.evaluate(node.value)
    current = context.trace.read(target)
    context.here = node.span
    if index is not None:
        new = indexing.index_write(context, current, index, value, node.value.span)
    else:
        new = context.fit(value, target.dtype, target.dims, node.value)
    if context.trace.is_stored(new):
        new = context.emit("copy", new, dims=new.dims, dtype=new.dtype)
    context.trace.write(target, new)


def _write_layer(context: Context, node: ast.Write, target: AnyValue) -> None:
    """All parameters and state at once; `target` is a layer or a list of layers.

    What is stored is a constant: no gradient passes through the copy, as in PyTorch.
    """
    value = context.require(context.value(node.value))
    if not (holds_layers(value) or isinstance(value, LayerContents)):
        text = f"`{node.target.span.text}` is {describe(target)}, but this is {describe(value)}"
        mismatch = context.report.error("WG0315", text, node.value)
        advice = "store a whole layer (`target := net`), or one of its parameters"
        raise Stop(mismatch.help(advice))
    stored, tensors = stored_in(target), layer_tensors(context, value)
    problem = difference(stored, tensors)
    if problem:
        text = f"a layer is stored in one with the same parameters and state, but {problem}"
        raise Stop(context.report.error("WG0315", text, node))
    context.here = node.span
    for name, ref in stored.items():
        new = tensors[name]
        context.trace.write(ref, context.emit("stop_grad", new, dims=new.dims, dtype=new.dtype))


def _not_state(context: Context, base: ast.Expr, value: AnyValue) -> Diagnostic:
    name = base.span.text
    text = f"`{name}` is not state, so it cannot be written with `:=`"
    problem = context.report.error("WG0303", text, base, describe(value))
    if isinstance(base, ast.Name):
        problem.help(
            f"bind a new value: `{name} = ...`, or declare `state {name}: ...` "
            "to keep it between calls"
        )
    return problem


def _call(context: Context, node: ast.CallStatement) -> Returned | None:
    value = context.value(node.call) if isinstance(node.call, ast.Call) else None
    if value is not None:
        context.require(value)
        if isinstance(value, TupleValue) and not value.items:
            return None
    what = "value is computed but" if value is None else "result is"
    if _ends_function(context, node):
        problem = context.report.error("WG0309", f"this {what} not returned", node.call)
        code = f"return {node.call.span.text}"
        problem.help(f"write `{code}`", (node.call.span, code))
        return Returned(FAILED, node.span)
    problem = context.report.error("WG0309", f"this {what} not used", node.call)
    problem.help("bind it (`x = ...`), return it or remove it")
    return None


def _ends_function(context: Context, node: ast.Statement) -> bool:
    """Whether this is the last statement of a function or entry that has a result."""
    function = context.functions[-1].node if context.functions else context.entry
    if function is None or function.result is None or not isinstance(function.body, ast.Block):
        return False
    return function.body.statements[-1:] == (node,)


def return_help(problem: Diagnostic, function: ast.Function) -> Diagnostic:
    """Add to the error of a body without `return` the line that is missing, if it is clear."""
    body, result = function.body, function.result
    last = body.statements[-1] if isinstance(body, ast.Block) and body.statements else None
    count = len(result.fields) if isinstance(result, ast.TupleType) else 1
    if not isinstance(last, ast.Bind) or len(last.targets) != count:
        return problem
    names = ", ".join(target.span.text for target in last.targets)
    return problem.help(f"add `return {names}` as the last line")


def _return(context: Context, node: ast.Return) -> Returned:
    values = tuple(context.read(context.value(value)) for value in node.values)
    value = values[0] if len(values) == 1 else TupleValue(values)
    return Returned(FAILED if has_failed(value) else value, _whole(node.values))


def _function(context: Context, node: ast.Function) -> None:
    """A function inside another sees the locals as they are here."""
    scope = Scope(context.scope.parent, context.scope.names)
    around = context.functions[-1] if context.functions else None
    file = around.file if around is not None else context.file_of(node.span.source)
    owner = around.owner if around is not None else None
    function = FunctionValue(node.name.text, node, scope, file, owner, is_inner=True)
    scope.bind(node.name.text, function)
    context.scope.bind(node.name.text, function)


def _for(context: Context, node: ast.For) -> Returned | None:
    items = iterations(context, node)
    rounds = LoopRounds(context, node, items)
    for position, item in enumerate(items):
        rounds.begin()
        if node.index is not None:
            context.scope.bind(node.index.text, Dim.literal(position))
        context.scope.bind(node.item.text, item)
        returned = run_block(context, node.body)
        if returned is not None:
            return returned
    rounds.end()
    return None


def _if(context: Context, node: ast.If) -> Returned | None:
    if is_true(context, node.condition):
        return run_block(context, node.then)
    if isinstance(node.otherwise, ast.If):
        return _if(context, node.otherwise)
    return run_block(context, node.otherwise) if node.otherwise is not None else None


def _broken(context: Context, node: ast.Broken) -> None:
    for name in node.names:
        if context.scope.find(name) is None:
            context.scope.bind(name, FAILED)


def _whole(values: Sequence[ast.Expr]) -> Span:
    first, last = values[0].span, values[-1].span
    return Span(first.source, first.start, last.end)


_RULES: dict[type, Callable[[Context, Any], Returned | None]] = {
    ast.Bind: _bind,
    ast.Write: _write,
    ast.CallStatement: _call,
    ast.Return: _return,
    ast.Minimize: minimize,
    ast.For: _for,
    ast.If: _if,
    ast.Assert: check_assertion,
    ast.Function: _function,
    ast.Broken: _broken,
}
