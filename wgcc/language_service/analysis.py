"""One check of a program, with what the checker saw at each place of its text."""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.elaborate import check
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Failed,
    ListValue,
    ParamRef,
    Scope,
    StateRef,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.ir.program import Program
from wgcc.language_service.names import NameScope, find_names
from wgcc.syntax import ast
from wgcc.syntax.parser import parse

# Types that are kept of an expression that is evaluated often, in different sizes.
MOST_TYPES = 3


@dataclass(slots=True)
class Observation:
    """An expression as it was evaluated: its first value, and its types."""

    value: AnyValue
    types: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Analysis:
    """`problem` is an error without a place. `programs` are the models without errors."""

    source: Source
    tree: ast.File
    names: NameScope
    diagnostics: Diagnostics
    observations: dict[tuple[int, int], Observation] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    problem: str = ""

    def observe(self, expr: ast.Expr, value: AnyValue, scope: Scope) -> None:
        span = expr.span
        if span.source is not self.source or isinstance(value, Failed):
            return
        seen = self.observations.get((span.start, span.end))
        if seen is None:
            seen = self.observations[span.start, span.end] = Observation(value)
        if len(seen.types) < MOST_TYPES:
            text = type_of(value, scope)
            if text not in seen.types:
                seen.types.append(text)

    def at(self, node: ast.Syntax) -> Observation | None:
        return self.observations.get((node.span.start, node.span.end))


def analyse(source: Source) -> Analysis:
    """Check a program. Imports are looked for beside `source.name`, which is a path here."""
    tree = parse(source, Diagnostics())
    analysis = Analysis(source, tree, NameScope(), Diagnostics())
    try:
        analysis.programs = check(source, analysis.diagnostics, observe=analysis.observe)
    except WgError as error:
        analysis.diagnostics.extend(error.diagnostics)
        analysis.problem = "" if error.diagnostics.items else str(error)
    values = {key: seen.value for key, seen in analysis.observations.items()}
    analysis.names = find_names(tree, values)
    return analysis


def type_of(value: AnyValue, scope: Scope | None = None) -> str:
    """`f32[N, D]`, with the names that sizes have in the function or layer that is evaluated."""
    return _text(value, _own_names(scope) if scope is not None else {})


def _text(value: AnyValue, names: dict[str, str]) -> str:
    if isinstance(value, (Tensor, ParamRef, StateRef)):
        dims = [names.get(str(dim), str(dim)) for dim in value.dims]
        return f"{value.dtype}[{', '.join(dims)}]" if dims else value.dtype
    if isinstance(value, TupleValue):
        return f"({', '.join(_text(item, names) for item in value.items)})"
    if isinstance(value, ListValue):
        inner = [_text(item, names) for item in value.items[:2]]
        return f"[{', '.join(inner)}{', …' if len(value.items) > len(inner) else ''}]"
    return describe(value).removeprefix("the number ")


def _own_names(scope: Scope) -> dict[str, str]:
    """Texts of sizes → the names they have here: those of the function before those of the file."""
    names: dict[str, str] = {}
    inner: Scope | None = scope
    while inner is not None and inner.parent is not None:
        sizes = [(str(v), name) for name, v in inner.names.items() if isinstance(v, Dim)]
        texts = [text for text, _ in sizes]
        for text, name in sizes:
            if name[:1].isupper() and not text.isdigit() and texts.count(text) == 1:
                names.setdefault(text, name)
        inner = inner.parent
    return names
