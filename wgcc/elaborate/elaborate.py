"""Checks a whole program: its files, its models, its tests, and the code that nothing uses; and
traces one entry once more with another number of rows, as `--set` would make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.evaluation.expressions import call, value_of
from wgcc.elaborate.evaluation.own_kernels import own_kernel
from wgcc.elaborate.program.check_unused import Prepare, check_function, check_layer, check_test
from wgcc.elaborate.program.files import Loader, Trees
from wgcc.elaborate.program.models import LARGEST_SEED, elaborate_model, trace_one
from wgcc.elaborate.program.warnings import warn_of_names
from wgcc.elaborate.report import Exhausted, Report
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Builtin,
    LayerDefinition,
    LoadedFile,
    Number,
    Scope,
    TrainingFlag,
)
from wgcc.errors import Diagnostics, Source, Span, WgError
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.spelling import did_you_mean
from wgcc.syntax import ast

Observe = Callable[[ast.Expr, AnyValue, Scope], None]


def elaborate(
    root: str | Path | Source,
    diagnostics: Diagnostics,
    *,
    sizes: Mapping[str, float] | None = None,
    model: str | None = None,
    seed: int | None = None,
    strict_dims: bool = False,
    trees: Trees | None = None,
) -> Program | None:
    """The program of one model of a file: the one called `model`, or the only one.

    None if there are errors. `sizes` are for dims and consts; `seed` overrides the model's own.
    `trees` receives what is parsed, for `trace_again`.
    """
    programs = check(
        root, diagnostics, sizes=sizes, seed=seed, strict_dims=strict_dims, trees=trees
    )
    if diagnostics.errors:
        return None
    names = ", ".join(programs)
    if model is not None and model not in programs:
        near = did_you_mean(model, programs)
        advice = f"; did you mean {near[0]}?" if near else f"; it has {names}" if names else ""
        raise WgError(f"there is no model {model} in {_name(root)}{advice}")
    if not programs:
        raise WgError(f"there is no model in {_name(root)}, so there is nothing to build")
    if model is None and len(programs) > 1:
        raise WgError(f"{_name(root)} has {len(programs)} models ({names}): choose one by its name")
    return programs[model] if model is not None else next(iter(programs.values()))


def check(
    root: str | Path | Source,
    diagnostics: Diagnostics,
    *,
    sizes: Mapping[str, float] | None = None,
    seed: int | None = None,
    prepare: Prepare | None = None,
    strict_dims: bool = False,
    observe: Observe | None = None,
    trees: Trees | None = None,
) -> dict[str, Program]:
    """Check everything in a file, tests included; returns the programs of models without errors.

    Assertions about values in tests are computed only with `prepare`, which turns a graph with
    `grad` into one that can be evaluated. `strict_dims`: see `Report`. `observe` sees the value of
    each expression, each time that it is evaluated, and the scope in which it was. `trees` receives
    what is parsed.
    """
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise WgError(f"the seed must be a whole number from 0 to {LARGEST_SEED}, not {seed}")
    programs: dict[str, Program] = {}
    try:
        context, loader, file = load(root, diagnostics, sizes or {}, strict_dims, observe, trees)
        for definition in file.models:
            program = elaborate_model(context, definition, seed)
            if program is not None:
                programs[definition.name] = program
        for test in file.tests:
            check_test(context, file, test, prepare)
        _check_unused(context, file)
        if not diagnostics.errors:
            for loaded in loader.files:
                warn_of_names(context, loaded)
    except Exhausted:
        pass
    return programs


def _check_unused(context: Context, file: LoadedFile) -> None:
    """Layers and functions that no entry has reached."""
    for definition in file.layers:
        functions = [m for m in definition.node.members if isinstance(m, ast.Function)]
        reached = all(id(function) in context.called for function in functions)
        if id(definition.node) not in context.instantiated or not reached:
            check_layer(context, definition)
    for function in file.functions:
        if id(function.node) not in context.called:
            with context.separate(Parts(), TracedGraph(dry=True), file.scope):
                check_function(context, function)


def load(
    root: str | Path | Source,
    diagnostics: Diagnostics,
    sizes: Mapping[str, float],
    strict_dims: bool = False,
    observe: Observe | None = None,
    trees: Trees | None = None,
) -> tuple[Context, Loader, LoadedFile]:
    """A file with all it imports, declared, and the context in which its models are traced."""
    report = Report(diagnostics, strict_dims)
    context = Context(report, Span(Source("", ""), 0, 0), _base_scope())
    context.value = partial(value_of, context)
    if observe is not None:
        context.value = partial(_observe_value, context, observe)
    context.call = partial(call, context)
    loader = Loader(context, sizes, {} if trees is None else trees)
    context.built_in = loader.built_in
    context.own_kernel = partial(own_kernel, context)
    context.own_functions = loader.own_functions
    context.file_of = loader.file_of
    file = loader.load_root(root if isinstance(root, Source) else Path(root))
    _refuse_unused_sizes(loader, file)
    return context, loader, file


def _observe_value(context: Context, observe: Observe, expr: ast.Expr) -> AnyValue:
    value = value_of(context, expr)
    observe(expr, value, context.scope)
    return value


def _base_scope() -> Scope:
    scope = Scope()
    for name, number in (("pi", math.pi), ("e", math.e), ("inf", math.inf)):
        scope.bind(name, Number(number))
    scope.bind("training", TrainingFlag())
    for name, function in BUILTINS.items():
        scope.bind(name, Builtin(name, function))
    return scope


def _refuse_unused_sizes(loader: Loader, file: LoadedFile) -> None:
    for name in loader.sizes:
        if name in loader.used_sizes:
            continue
        near = did_you_mean(name, file.places) or _settings_called(name, file)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"there is no dim or const {name} to set in {file.source.name}{advice}")


def _settings_called(name: str, file: LoadedFile) -> list[str]:
    """`opt.lr` for `lr`, if an optimizer `opt` has that setting."""
    members = (member for model in file.models for member in model.node.members)
    return [
        f"{member.name.text}.{name}"
        for member in members
        if isinstance(member, ast.Optimizer)
        and any(isinstance(item, ast.Setting) and item.name.text == name for item in member.items)
    ]


def _name(root: str | Path | Source) -> str:
    return root.name if isinstance(root, Source) else Path(root).name


def trace_again(
    root: str | Path | Source,
    sizes: Mapping[str, float],
    model: str,
    entry: str,
    literal: tuple[int, int] | None = None,
    trees: Trees | None = None,
) -> Graph | None:
    """The graph of an entry with other `sizes`; None if it cannot be built with them.

    `literal`: a leading size written as the first number in the entry's types becomes the second.
    `trees`: what the first trace parsed.
    """
    diagnostics = Diagnostics()
    try:
        context, _, file = load(root, diagnostics, sizes, trees=trees)
        if diagnostics.errors:
            return None
        (definition,) = [each for each in file.models if each.name == model]
        chosen = definition if literal is None else _with_rows(definition, entry, *literal)
        graph = trace_one(context, chosen, entry)
    except (Exhausted, WgError):
        return None
    if graph is None or diagnostics.errors:
        return None
    return graph.with_facts(choices=tuple(context.choices))


def _with_rows(definition: LayerDefinition, entry: str, old: int, new: int) -> LayerDefinition:
    members = tuple(
        _entry_with_rows(member, old, new)
        if isinstance(member, ast.Function) and member.is_entry and member.name.text == entry
        else member
        for member in definition.node.members
    )
    return replace(definition, node=replace(definition.node, members=members))


def _entry_with_rows(entry: ast.Function, old: int, new: int) -> ast.Function:
    values = tuple(
        replace(value, kind=_type_with_rows(value.kind, old, new))
        if isinstance(value.kind, ast.TypeExpr)
        else value
        for value in entry.values
    )
    result = entry.result
    if isinstance(result, ast.TupleType):
        fields = tuple(
            replace(field, type=_type_with_rows(field.type, old, new))
            if isinstance(field.type, ast.TypeExpr)
            else field
            for field in result.fields
        )
        result = replace(result, fields=fields)
    return replace(entry, values=values, result=result)


def _type_with_rows(type_: ast.TypeExpr, old: int, new: int) -> ast.TypeExpr:
    first = type_.dims[0] if type_.dims else None
    if not isinstance(first, ast.Int) or first.value != old:
        return type_
    return replace(type_, dims=(replace(first, value=new), *type_.dims[1:]))
