"""Checks a whole program: its files, its models, its tests, and the code that nothing uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.evaluation.calls import call
from wgcc.elaborate.evaluation.expressions import value_of
from wgcc.elaborate.program.check_unused import check_unused, warn_of_names
from wgcc.elaborate.program.files import Loader
from wgcc.elaborate.program.models import LARGEST_SEED, elaborate_model
from wgcc.elaborate.program.run_test_blocks import Prepare, check_test
from wgcc.elaborate.report import Exhausted, Report
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Builtin,
    LoadedFile,
    Number,
    Scope,
    TrainingFlag,
)
from wgcc.errors import Diagnostics, Source, Span, WgError
from wgcc.ir.program import Program
from wgcc.spelling import did_you_mean
from wgcc.syntax import ast

Observe = Callable[[ast.Expr, AnyValue, Scope], None]


def elaborate(
    root: str | Path | Source,
    diagnostics: Diagnostics,
    *,
    sizes: Mapping[str, int] | None = None,
    model: str | None = None,
    seed: int | None = None,
    strict_dims: bool = False,
) -> Program | None:
    """The program of one model of a file: the one called `model`, or the only one.

    None if there are errors. `sizes` are values for dims; `seed` overrides the model's own.
    """
    programs = check(root, diagnostics, sizes=sizes, seed=seed, strict_dims=strict_dims)
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
    sizes: Mapping[str, int] | None = None,
    seed: int | None = None,
    prepare: Prepare | None = None,
    strict_dims: bool = False,
    observe: Observe | None = None,
) -> dict[str, Program]:
    """Check everything in a file, tests included; returns the programs of models without errors.

    Assertions about values in tests are computed only with `prepare`, which turns a graph with
    `grad` into one that can be evaluated. `strict_dims`: see `Report`. `observe` sees the value of
    each expression, each time that it is evaluated, and the scope in which it was.
    """
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise WgError(f"the seed must be a whole number from 0 to {LARGEST_SEED}, not {seed}")
    programs: dict[str, Program] = {}
    try:
        context, loader, file = load(root, diagnostics, sizes or {}, strict_dims, observe)
        for definition in file.models:
            program = elaborate_model(context, definition, seed)
            if program is not None:
                programs[definition.name] = program
        for test in file.tests:
            check_test(context, file, test, prepare)
        check_unused(context, file)
        if not diagnostics.errors:
            for loaded in loader.files:
                warn_of_names(context, loaded)
    except Exhausted:
        pass
    return programs


def load(
    root: str | Path | Source,
    diagnostics: Diagnostics,
    sizes: Mapping[str, int],
    strict_dims: bool = False,
    observe: Observe | None = None,
) -> tuple[Context, Loader, LoadedFile]:
    """A file with all it imports, declared, and the context in which its models are traced."""
    report = Report(diagnostics, strict_dims)
    context = Context(report, Span(Source("", ""), 0, 0), _base_scope())
    context.value = partial(value_of, context)
    if observe is not None:
        context.value = partial(_observed, context, observe)
    context.call = partial(call, context)
    loader = Loader(context, sizes)
    file = loader.load_root(root if isinstance(root, Source) else Path(root))
    _refuse_unused_sizes(loader, file)
    return context, loader, file


def _observed(context: Context, observe: Observe, expr: ast.Expr) -> AnyValue:
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
        near = did_you_mean(name, file.places)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"there is no dim {name} to set in {file.source.name}{advice}")


def _name(root: str | Path | Source) -> str:
    return root.name if isinstance(root, Source) else Path(root).name
