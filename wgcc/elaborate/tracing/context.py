"""The state of elaborating one program: the tracer, the model being built, the current place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wgcc.elaborate.report import Report, Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Failed,
    FunctionValue,
    LayerDefinition,
    ListValue,
    LoadedFile,
    OptimizerValue,
    ParamRef,
    Scope,
    StateRef,
    Tensor,
    Text,
    TupleValue,
)
from wgcc.errors import Source, Span
from wgcc.kernel.own.read import OwnFunction
from wgcc.syntax import ast

if TYPE_CHECKING:
    from wgcc.elaborate.tracing.values import AnyValue


MOST_UNROLLED = 20_000


@dataclass
class LayerReplacement:
    """`replace "glob" with …`: its constructor is evaluated in `scope`.

    `depth` is that of the layer that says so: what an inner one replaces, an outer one may replace
    again.
    """

    pattern: str
    selector: ast.String
    constructor: ast.Constructor
    scope: Scope
    depth: int
    matched: bool = False


@dataclass(frozen=True)
class Minimized:
    """A `minimize` of an entry: its optimizer, and the paths of the parameters that it trains."""

    optimizer: str
    paths: tuple[str, ...]
    node: ast.Minimize


@dataclass
class Parts:
    """Parts that instantiating a model creates, by path; `minimized` by the name of the entry."""

    params: dict[str, ParamRef] = field(default_factory=dict)
    states: dict[str, StateRef] = field(default_factory=dict)
    optimizers: dict[str, OptimizerValue] = field(default_factory=dict)
    settings: dict[str, ast.Expr] = field(default_factory=dict)
    replacements: list[LayerReplacement] = field(default_factory=list)
    created: dict[str, int] = field(default_factory=dict)
    minimized: dict[str, list[Minimized]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [*self.params, *self.states]


class Context(Tracer):
    """A tracer with everything that user-written layers, functions and entries need.

    `value(expr)` is `evaluate` without exceptions: it returns FAILED if an error was reported, and
    parameters and state as references.
    """

    def __init__(self, report: Report, here: Span, base: Scope) -> None:
        super().__init__(report, TracedGraph(), here)
        self.base = base
        self.parts = Parts()
        self.value: Callable[[ast.Expr], AnyValue]
        self.evaluate = self._evaluate
        self.file_of: Callable[[Source], LoadedFile]
        self.own_functions: Callable[[LoadedFile, Text], Mapping[str, OwnFunction]]
        self.in_test = False
        self.assertions: list[tuple[ast.Assert, Tensor]] = []
        self.entry: ast.Function | None = None
        self.functions: list[FunctionValue] = []
        # The scopes in which the functions were called.
        self.callers: list[Scope] = []
        # The arguments of the innermost call.
        self.call_arguments: Mapping[str, Given] = {}
        self.precision = "f32"
        # Calls of `remat` layers are numbered; calls nested inside one are not marked again.
        self.remat_regions = 0
        self.in_remat = False
        self.building: list[LayerDefinition] = []
        self.called: set[int] = set()
        self.instantiated: set[int] = set()
        self.linted: set[int] = set()
        self._spent = 0
        self._spent_unused = 0

    @contextmanager
    def separate(self, parts: Parts, trace: TracedGraph, scope: Scope) -> Iterator[None]:
        """Work on another model or graph; the state of the current one is restored afterwards."""
        saved = self.parts, self.trace, self.training
        stacks = self.functions, self.building, self._spent
        self.parts, self.trace, self.training = parts, trace, False
        self.functions, self.building, self._spent = [], [], 0
        try:
            with self.within(scope, ""):
                yield
        finally:
            self.parts, self.trace, self.training = saved
            self.functions, self.building, self._spent = stacks

    @contextmanager
    def scratch(self) -> Iterator[TracedGraph]:
        """A temporary graph, for an expression whose nodes must not stay in the current one."""
        saved = self.trace
        self.trace = TracedGraph(dry=saved.dry)
        try:
            yield self.trace
        finally:
            self.trace = saved

    def spend(self, at: Span, amount: int = 1) -> None:
        """Count calls, layers and iterations: all are unrolled or inlined, so they are limited.

        All checks of unused code share one limit; beyond it they end silently.
        """
        if self.generic:
            self._spent_unused += amount
            if self._spent_unused > MOST_UNROLLED:
                raise Stop
            return
        self._spent += amount
        if self._spent > MOST_UNROLLED:
            text = f"this unrolls to more than {MOST_UNROLLED:,} calls, layers and loop iterations"
            raise Stop(self.report.error("WG0804", text, at))

    @contextmanager
    def catch_deep_nesting(self, at: Span) -> Iterator[None]:
        """Report nesting that is too deep for the stack as an error of the program, at `at`."""
        try:
            yield
        except RecursionError:
            text = "functions and layers are nested too deeply here"
            raise Stop(self.report.error("WG0803", text, at)) from None

    def fresh_path(self, name: str) -> str:
        """A path for a layer that a test creates inside an expression."""
        count = self.parts.created[name] = self.parts.created.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def require(self, value: AnyValue) -> AnyValue:
        """`value`; raises `Stop` if it or a part of it failed."""
        if has_failed(value):
            raise Stop
        return value

    def _evaluate(self, expr: ast.Expr) -> AnyValue:
        return self.read(self.require(self.value(expr)))


def has_failed(value: AnyValue) -> bool:
    if isinstance(value, (TupleValue, ListValue)):
        return any(has_failed(item) for item in value.items)
    return isinstance(value, Failed)
