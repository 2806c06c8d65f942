"""Arguments of calls: what was given, and how it is matched with the parameters of a built-in.

A built-in states its parameters as text: `"x, axis=none, keep=false"`. `none` means "not given"
(Python's None), a word in double quotes is a string; `*tensors` takes any number of arguments,
`**sizes` any other named ones; what comes after `*` alone is given by name.

An argument that is a list stays a list until it is used where a tensor is expected, because
`[2, 3]` may be a shape; `[[1.0, 2.0], [3.0, 4.0]]` is f32[2, 2].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NoReturn

from wgcc.elaborate.report import Place, Report, Stop
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    RangeValue,
    Text,
    TupleValue,
    describe,
)
from wgcc.errors import Span

if TYPE_CHECKING:
    from wgcc.elaborate.tracing.tracer import Tracer


Sequences = ListValue | TupleValue | RangeValue


def as_sequence(tracer: Tracer, value: AnyValue | None, at: Place) -> Sequences | None:
    """None for a value that cannot be iterated over."""
    if isinstance(value, Dim):
        if value.size < 0 and not value.generic:
            text = f"a loop cannot run {value.full} times"
            raise Stop(tracer.report.error("WG0308", text, at))
        return RangeValue(range(tracer.repetitions(value)))
    return value if isinstance(value, Sequences) else None


# A plan holds the numbers.
MOST_NUMBERS = 2**16


class RaggedList(Exception):
    """The lists inside a list differ in length, or one is empty."""


def list_contents(value: AnyValue) -> tuple[tuple[int, ...], list[AnyValue]]:
    """The sizes of a list of lists, and what it holds, in order."""
    if not isinstance(value, ListValue):
        return (), [value]
    parts = [list_contents(item) for item in value.items]
    if not parts or any(sizes != parts[0][0] for sizes, _ in parts):
        raise RaggedList
    return (len(parts), *parts[0][0]), [item for _, items in parts for item in items]


def has_fraction(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return any(map(has_fraction, value.items))
    return isinstance(value, Number)


def has_bool(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return any(map(has_bool, value.items))
    return isinstance(value, BoolValue)


def common_dtype(items: Sequence[AnyValue]) -> str:
    """The dtype of numbers, if nothing else says it: whole ones are i32."""
    if any(isinstance(item, BoolValue) for item in items):
        return "bool"
    return "f32" if any(isinstance(item, Number) for item in items) else "i32"


def plain_number(item: Dim | Number | BoolValue) -> float | int | bool:
    return item.size if isinstance(item, Dim) else item.value


@dataclass(frozen=True, eq=False)
class Given:
    """One argument as given: its value, its place, and the place of `name` in `name = value`."""

    value: AnyValue
    span: Span
    name_span: Span | None = None


@dataclass(frozen=True, eq=False)
class Arguments:
    """All arguments of one call."""

    positional: Sequence[Given] = ()
    named: Mapping[str, Given] = field(default_factory=dict)

    def after(self, first: Given) -> Arguments:
        """The same with one more argument in front: `x |> f(a)`, `x.f(a)`."""
        return Arguments((first, *self.positional), self.named)


@dataclass(frozen=True, eq=False)
class BoundArgs:
    """The arguments of a built-in by parameter name.

    `args["axis"]` is the value (parameters and state are read already: they are tensors), or None
    where the default is `none`. `args.span("axis")` is its place, or the call's where it was not
    given. `args.rest` are the arguments of `*name`, `args.extra` those of `**name`.
    """

    call: Span
    values: Mapping[str, AnyValue | None]
    spans: Mapping[str, Span]
    rest: Sequence[Given] = ()
    extra: Mapping[str, Given] = field(default_factory=dict)

    def __getitem__(self, name: str) -> AnyValue | None:
        return self.values[name]

    def span(self, name: str) -> Span:
        return self.spans.get(name, self.call)

    def is_given(self, name: str) -> bool:
        return name in self.spans

    def text(self, name: str) -> str:
        """The source text of an argument, for suggestions that can be pasted."""
        return self.span(name).text


@dataclass(frozen=True)
class BuiltinFunction:
    """A built-in. `call(tracer, args, at)` reports its errors and raises `Stop`."""

    name: str
    parameters: str
    call: Callable[[Tracer, BoundArgs, Span], AnyValue]
    doc: str = ""

    @property
    def signature(self) -> str:
        parts = [
            name if default is None else f"{name} = {default}"
            for name, default in _parameters(self.parameters)
        ]
        return f"{self.name}({', '.join(parts)})"


def bind(report: Report, function: BuiltinFunction, arguments: Arguments, at: Span) -> BoundArgs:
    """Match arguments with parameters; reports arity and spelling mistakes."""
    listed = _parameters(function.parameters)
    plain = {name: default for name, default in listed if not name.startswith("*")}
    stars = {name.count("*") for name, _ in listed if name.startswith("*") and name != "*"}
    names = [name for name, _ in listed]
    most = names.index("*") if "*" in names else len(plain)
    positional, rest = arguments.positional[:most], arguments.positional[most:]
    if rest and most < len(plain):
        _only_by_name(report, function, list(plain)[most:], rest)
    if rest and 1 not in stars:
        _too_many(report, function, len(plain), arguments)
    extra = {name: given for name, given in arguments.named.items() if name not in plain}
    if extra and 2 not in stars:
        _unknown(report, function, list(plain), extra)
    by_name = dict(zip(plain, positional, strict=False))
    for name in by_name.keys() & arguments.named.keys():
        text = f"argument `{name}` of `{function.name}` is given twice"
        raise Stop(report.error("WG0207", text, arguments.named[name].span))
    by_name |= {name: given for name, given in arguments.named.items() if name in plain}
    values = {
        name: by_name[name].value
        if name in by_name
        else _default(report, function, name, default, at)
        for name, default in plain.items()
    }
    spans = {name: given.span for name, given in by_name.items()}
    return BoundArgs(at, values, spans, rest, extra)


def _unknown(
    report: Report, function: BuiltinFunction, names: Sequence[str], extra: Mapping[str, Given]
) -> NoReturn:
    name, given = next(iter(extra.items()))
    what, place = f"argument of `{function.name}`:", given.name_span or given.span
    problem = report.unknown("WG0207", what, name, names, place, "no such argument")
    raise Stop(problem.note(function.signature))


def _too_many(report: Report, function: BuiltinFunction, most: int, given: Arguments) -> NoReturn:
    count = len(given.positional)
    text = f"`{function.name}` takes {plural(most, 'argument')}, but {count} were given"
    problem = report.error("WG0207", text, given.positional[most].span)
    raise Stop(problem.note(function.signature))


def _only_by_name(
    report: Report, function: BuiltinFunction, names: Sequence[str], given: Sequence[Given]
) -> NoReturn:
    """PyTorch has these in another order, so that a number alone would mean something else."""
    listed = ", ".join(f"`{name}`" for name in names)
    text = f"`{function.name}` takes {listed} by name"
    problem = report.error("WG0207", text, given[0].span)
    raise Stop(problem.help(f"write `{names[0]} = {given[0].span.text}`").note(function.signature))


def _default(
    report: Report, function: BuiltinFunction, name: str, default: str | None, at: Span
) -> AnyValue | None:
    if default is None:
        text = f"`{function.name}` needs the argument `{name}`"
        raise Stop(report.error("WG0208", text, at).note(function.signature))
    if default in ("none", "true", "false"):
        return None if default == "none" else BoolValue(default == "true")
    if default.startswith('"'):
        return Text(default.strip('"'), at)
    fraction = "." in default or "e" in default
    return Number(float(default)) if fraction else Dim.literal(int(default))


@cache
def _parameters(text: str) -> tuple[tuple[str, str | None], ...]:
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return tuple((name.strip(), default.strip() if eq else None) for name, eq, default in parts)


def one_of(
    report: Report, value: AnyValue | None, options: Sequence[str], what: str, at: Span
) -> Text:
    """`value` as one of these words; `what` begins the message."""
    if isinstance(value, Text) and value.value in options:
        return value
    words = ", ".join(f'"{option}"' for option in options)
    shown = f'"{value.value}"' if isinstance(value, Text) else describe(value)
    problem = report.error("WG0209", f"{what} must be one of {words}, but this is {shown}", at)
    for near in report.similar_names(value.value, options)[:1] if isinstance(value, Text) else ():
        problem.help(f'did you mean "{near}"?', (at, f'"{near}"'))
    raise Stop(problem)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
