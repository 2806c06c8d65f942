"""Optimizers as declared in a model: checks their settings and those of parameter groups; and
the selectors of parameters and layers by path, `"blocks.*.attn.wq"`, in which a `*` also matches
dots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate

from wgcc.elaborate.declarations.constants import is_true
from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.context import Context, LayerReplacement
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    OptimizerValue,
    Scope,
    StateRef,
    Tensor,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostic
from wgcc.ir.dtypes import FLOATS
from wgcc.ir.places import STEP, OptimizerState
from wgcc.ir.program import Init
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.ops.optimizers.kind import GROUP_SETTINGS, SETTINGS, OptimizerKind
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk

Chosen = float | int | bool | str | tuple[float, ...]
# How many numbers a setting of this form has.
_TUPLES = {"pair": (2, "two"), "triple": (3, "three")}


@dataclass
class WrittenSettings:
    """`known` at compile time; `dynamic` are f32 scalars of the graph."""

    known: dict[str, Chosen] = field(default_factory=dict)
    dynamic: dict[str, Tensor] = field(default_factory=dict)

    def put(self, name: str, value: Chosen | Tensor) -> None:
        self.known.pop(name, None)
        self.dynamic.pop(name, None)
        if isinstance(value, Tensor):
            self.dynamic[name] = value
        else:
            self.known[name] = value


def check_optimizer(context: Context, optimizer: OptimizerValue) -> None:
    """Check everything about an optimizer that does not depend on the entry that uses it."""
    node, report = optimizer.node, context.report
    before = len(report.diagnostics.errors)
    if node.kind.text not in OPTIMIZERS:
        problem = report.unknown("WG0218", "optimizer", node.kind.text, OPTIMIZERS, node.kind)
        problem.note("optimizers: " + ", ".join(sorted(OPTIMIZERS)))
        return
    with context.scratch():
        settings = settings_of(context, optimizer)
        for item in node.items:
            if isinstance(item, ast.Group):
                _check_group(context, optimizer, item)
    check_nesterov(context, optimizer, settings, node.name)
    names = {item.name.text for item in node.items if isinstance(item, ast.Setting)}
    complete = names == settings.known.keys() | settings.dynamic.keys()
    damaged = any(isinstance(item, ast.Broken) for item in node.items) or not complete
    optimizer.usable = len(report.diagnostics.errors) == before and not damaged
    if "lr" not in names and optimizer.usable:
        problem = report.error(
            "WG0218", f"optimizer `{optimizer.name}` has no learning rate", node.name
        )
        problem.help("add `lr = 1e-3`")
        optimizer.usable = False


def check_nesterov(
    context: Context, optimizer: OptimizerValue, settings: WrittenSettings, at: Place
) -> None:
    """Nesterov momentum has the same requirements as in PyTorch."""
    known = {**OPTIMIZERS[optimizer.node.kind.text].defaults, **settings.known}
    if known.get("nesterov") and (not known["momentum"] or known.get("dampening")):
        text = "Nesterov momentum needs `momentum` above 0, and no `dampening`"
        context.report.error("WG0218", text, at)


def settings_of(context: Context, optimizer: OptimizerValue) -> WrittenSettings:
    """The settings, evaluated in the current graph; wrong ones are reported and left out."""
    settings, scope = WrittenSettings(), Scope(optimizer.scope)
    with context.within(scope, optimizer.name):
        if any(
            isinstance(piece, ast.Name) and piece.text == "step" for piece in walk(optimizer.node)
        ):
            scope.bind("step", step_number(context, optimizer))
        for item in optimizer.node.items:
            if isinstance(item, ast.Setting):
                _evaluate(context, optimizer, settings, item)
    return settings


def require_setting(context: Context, optimizer: OptimizerValue, name: str, at: Place) -> None:
    kind = optimizer.node.kind.text
    settings = OPTIMIZERS[kind].settings
    if name in settings:
        return
    what = f"setting of {kind}:"
    problem = context.report.unknown("WG0218", what, name, settings, at, "no such setting")
    raise Stop(problem.note(f"{kind} takes " + ", ".join(sorted(settings))))


def put_setting(
    context: Context,
    optimizer: OptimizerValue,
    settings: WrittenSettings,
    name: str,
    value: AnyValue,
    at: Place,
) -> None:
    """Check the value of a setting and store it."""
    if isinstance(value, Tensor):
        settings.put(name, _dynamic(context, name, value, at))
    else:
        kind = OPTIMIZERS[optimizer.node.kind.text]
        settings.put(name, _known_setting(context, name, kind, value, at))


def step_state(optimizer: OptimizerValue) -> StateRef:
    """Counts the updates made so far."""
    span = optimizer.node.name.span
    path = OptimizerState(optimizer.name, STEP).name
    return StateRef(path, "u32", (), Init("value", values=(0.0,)), span, span)


def step_number(context: Context, optimizer: OptimizerValue) -> Tensor:
    """`step` in settings: the number of the update being made, 1 for the first."""
    context.here = optimizer.node.name.span
    done = context.trace.read(step_state(optimizer))
    number = context.emit("add", done, context.constant(1, "u32"), dims=(), dtype="u32")
    return context.cast(number, "f32")


def _evaluate(
    context: Context, optimizer: OptimizerValue, settings: WrittenSettings, item: ast.Setting
) -> None:
    name = item.name.text
    try:
        require_setting(context, optimizer, name, item.name)
        if any(other.name.text == name for other in _before(optimizer.node.items, item)):
            text = f"setting `{name}` is given twice"
            raise Stop(context.report.error("WG0204", text, item.name))
        put_setting(context, optimizer, settings, name, context.evaluate(item.value), item.value)
    except Stop:
        return


def _before(items: Iterable[object], item: ast.Setting) -> Iterable[ast.Setting]:
    for other in items:
        if other is item:
            return
        if isinstance(other, ast.Setting):
            yield other


def _dynamic(context: Context, name: str, value: Tensor, at: Place) -> Tensor:
    if not SETTINGS[name].dynamic:
        text = f"`{name}` must be known at compile time, but this is {describe(value)}"
        raise Stop(context.report.error("WG0218", text, at))
    if value.dims or value.dtype not in FLOATS:
        text = f"`{name}` must be one number, but this is {describe(value)}"
        raise Stop(context.report.error("WG0218", text, at))
    return context.cast(value, "f32")


def _known_setting(
    context: Context, name: str, kind: OptimizerKind, value: AnyValue, at: Place
) -> Chosen:
    setting = kind.setting(name)
    form = setting.form
    if form == "bool":
        if not isinstance(value, BoolValue):
            text = f"`{name}` must be `true` or `false`, but this is {describe(value)}"
            raise Stop(context.report.error("WG0218", text, at))
        return value.value
    if form == "word":
        if not isinstance(value, Text) or value.value not in setting.words:
            choice = " or ".join(f'"{word}"' for word in setting.words)
            description = f'"{value.value}"' if isinstance(value, Text) else describe(value)
            text = f"`{name}` must be {choice}, but this is {description}"
            raise Stop(context.report.error("WG0218", text, at))
        return value.value
    if form in _TUPLES:
        return _numbers(context, name, kind, value, at)
    number = _number(context, name, value, at)
    if form != "whole":
        return number
    if not isinstance(value, Dim):
        text = f"`{name}` must be a whole number, but this is {describe(value)}"
        raise Stop(context.report.error("WG0218", text, at))
    return value.size


def _numbers(
    context: Context, name: str, kind: OptimizerKind, value: AnyValue, at: Place
) -> tuple[float, ...]:
    items = value.items if isinstance(value, (TupleValue, ListValue)) else ()
    count, words = _TUPLES[kind.setting(name).form]
    if len(items) != count:
        example = ", ".join(f"{number:g}" for number in kind.defaults[name])
        text = f"`{name}` are {words} numbers, e.g. `({example})`, but this is {describe(value)}"
        raise Stop(context.report.error("WG0218", text, at))
    return tuple(_number(context, name, item, at) for item in items)


def _number(context: Context, name: str, value: AnyValue, at: Place) -> float:
    if not isinstance(value, (Dim, Number)):
        text = f"`{name}` must be a number known at compile time, but this is {describe(value)}"
        raise Stop(context.report.error("WG0218", text, at))
    number = float(value.size if isinstance(value, Dim) else value.value)
    context.check_fits(number, "f32", at)
    bounds = SETTINGS[name].bounds
    if not bounds.allow(number):
        text = f"`{name}` must be {bounds}, but it is {number:g}"
        raise Stop(context.report.error("WG0218", text, at))
    return number


def _check_group(context: Context, optimizer: OptimizerValue, group: ast.Group) -> None:
    try:
        chosen = frozenset(_params_of_group(context, optimizer, group))
    except Stop:
        chosen = frozenset()
    settings: dict[str, float] = {}
    scope = Scope(optimizer.scope, {"step": step_number(context, optimizer)})
    with context.within(scope, optimizer.name):
        for item in group.settings:
            if isinstance(item, ast.Setting):
                settings |= _group_setting(context, item)
    optimizer.groups.append((chosen, settings))


def _group_setting(context: Context, item: ast.Setting) -> dict[str, float]:
    name = item.name.text
    if name not in GROUP_SETTINGS:
        problem = context.report.unknown(
            "WG0218", "group setting", name, GROUP_SETTINGS, item.name, "no such setting"
        )
        problem.note("a group can set " + ", ".join(GROUP_SETTINGS))
        return {}
    try:
        return {name: _number(context, name, context.evaluate(item.value), item.value)}
    except Stop:
        return {}


def _params_of_group(
    context: Context, optimizer: OptimizerValue, group: ast.Group
) -> Iterable[str]:
    for selector in group.selectors:
        yield from select(context, selector)
    if group.condition is None:
        return
    for path, param in context.parts.params.items():
        facts: dict[str, AnyValue] = {
            "axes": Dim.literal(len(param.dims)),
            "size": Dim.literal(product(param.dims).size),
        }
        with context.within(Scope(optimizer.scope, facts), optimizer.name):
            if is_true(context, group.condition):
                yield path


SHOWN = 6
LONGEST = 1000
# Matching so many names takes as long as evaluating an expression.
NAMES_PER_STEP = 8


def select(context: Context, selector: ast.String) -> frozenset[str]:
    """The parameters that a selector matches; if there are none, that is an error."""
    names = list(context.parts.params)
    if not is_short(context, selector):
        return frozenset()
    context.budget.step(selector, context.generic, len(names) // NAMES_PER_STEP)
    matches = re.compile(translate(selector.value)).match
    selection = frozenset(filter(matches, names))
    if not selection:
        raise Stop(_no_parameter(context, selector, names))
    return selection


def is_short(context: Context, selector: ast.String) -> bool:
    """Whether a selector can be matched in time; reports it if not."""
    if len(selector.value) <= LONGEST:
        return True
    context.report.error("WG0219", f"a selector has at most {LONGEST:,} characters", selector)
    return False


def report_unmatched(context: Context, replacement: LayerReplacement) -> None:
    """Report a `replace` that matched no layer."""
    selector = replacement.selector
    problem = context.report.error("WG0219", f'no layer matches "{selector.value}"', selector)
    near = context.report.similar_names(selector.value.replace("*", "0"), _layers(context))
    if near:
        best = re.sub(r"\.\d+(?=\.|$)", ".*", near[0])
        problem.help(f'did you mean "{best}"?', (selector.span, f'"{best}"'))


def _layers(context: Context) -> Iterator[str]:
    """Paths of layers; a generator, because they are seldom needed."""
    names = (name for name in [*context.parts.params, *context.parts.states] if "." in name)
    yield from sorted({name.rpartition(".")[0] for name in names})


def listing(names: Iterable[str], most: int = 3) -> str:
    """`` `a`, `b`, `c` and 4 more ``."""
    every = [f"`{name}`" for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _no_parameter(context: Context, selector: ast.String, names: list[str]) -> Diagnostic:
    pattern = selector.value
    problem = context.report.error("WG0219", f'no parameter matches "{pattern}"', selector)
    shown = ", ".join(names[:SHOWN]) + (
        f", ... ({len(names)} in all)" if len(names) > SHOWN else ""
    )
    problem.note(f"parameters: {shown}" if names else "this model has no parameters")
    best = _similar_param(context, pattern, names)
    if best:
        problem.help(f'did you mean "{best}"?', (selector.span, f'"{best}"'))
    return problem


def _similar_param(context: Context, pattern: str, names: list[str]) -> str:
    """A member of the same layer whose name begins alike (`bias` for `b`), or a similar path."""
    context.budget.step(context.here, context.generic, len(names) // NAMES_PER_STEP)
    stem, _, leaf = pattern.rpartition(".")
    siblings = [name for name in names if fnmatchcase(name.rpartition(".")[0], stem)]
    near = [name for name in siblings if leaf.startswith(name.rpartition(".")[2])]
    near = near or context.report.similar_names(pattern.replace("*", "0"), names)
    if not near:
        return ""
    return f"{stem}.{near[0].rpartition('.')[2]}" if "*" in pattern and siblings else near[0]
