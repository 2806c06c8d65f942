"""Checks arguments of built-ins: `expect.tensor(tracer, args, "x")` returns it or raises `Stop`."""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.elaborate.operators.operands import CALLABLE, as_scalar, unpack_help
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, Given, one_of
from wgcc.elaborate.tracing.dims import SAME, Dim, compare
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.dtypes import FLOATS, INTEGERS, NUMBERS

WANTED = {FLOATS: "floats", INTEGERS: "whole numbers (i32)", NUMBERS: "numbers", ("bool",): "bools"}


def argument(args: BoundArgs, name: str) -> Given:
    value = args[name]
    assert value is not None
    return Given(value, args.span(name))


def tensor(
    tracer: Tracer, args: BoundArgs, name: str, dtypes: Sequence[str] = (), rank: int | None = None
) -> Tensor:
    """The argument as a tensor of one of these dtypes (any, if none are named)."""
    return as_tensor(tracer, argument(args, name), name, dtypes, rank)


def as_tensor(
    tracer: Tracer, got: Given, name: str, dtypes: Sequence[str] = (), rank: int | None = None
) -> Tensor:
    value = got.value
    if isinstance(value, (Number, Dim, BoolValue)) and rank in (None, 0):
        value = as_scalar(tracer, got, _own_dtype(value, dtypes))
    if isinstance(value, ListValue):
        value = tracer.literal(value, dtypes, got.span)
    if not isinstance(value, Tensor):
        text = f"`{name}` must be a tensor, but this is {describe(value)}"
        problem = tracer.report.error("WG0501", text, got.span)
        if isinstance(value, TupleValue):
            problem.help(unpack_help(got.span.text))
        raise Stop(problem.help("call it first") if isinstance(value, CALLABLE) else problem)
    if dtypes and value.dtype not in dtypes:
        text = f"`{name}` must be {WANTED.get(tuple(dtypes), dtypes[0])}, but this is {value}"
        problem = tracer.report.error("WG0501", text, got.span, str(value))
        raise Stop(problem.help(f"convert it: `{dtypes[0]}({got.span.text})`"))
    if rank is not None and value.rank != rank:
        text = f"`{name}` must have {plural_axes(rank)}, but this is {value}"
        raise Stop(tracer.report.error("WG0415", text, got.span, str(value)))
    return value


def _own_dtype(value: Number | Dim | BoolValue, dtypes: Sequence[str]) -> str:
    """The dtype of a number that is not combined with a tensor."""
    if isinstance(value, BoolValue):
        return "bool"
    whole = isinstance(value, Dim) and tuple(dtypes) != FLOATS
    return "i32" if whole else "f32"


def plural_axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def axes(tracer: Tracer, args: BoundArgs, x: Tensor, name: str = "axis") -> list[int]:
    """The axes given by a position, a dim's name or several of them; all axes if not given."""
    value = args[name]
    if value is None:
        return list(range(x.rank))
    items = value.items if isinstance(value, (TupleValue, ListValue)) else (value,)
    at = args.span(name)
    by_position: dict[int, AnyValue] = {}
    for item in items:
        position = axis_of(tracer, x, item, at)
        if position in by_position:
            raise same_axis(tracer, x, position, (by_position[position], item), at)
        by_position[position] = item
    return sorted(by_position)


def same_axis(
    tracer: Tracer, x: Tensor, position: int, values: tuple[AnyValue, AnyValue], at: Span
) -> Stop:
    """`values` are what the user wrote twice for the axis at `position`."""
    first, second = map(str, values)
    problem = tracer.report.error("WG0408", f"axis {position} of {x} is given twice", at)
    same = f"`{first}` and `{second}` are the same axis"
    return Stop(problem.note(same) if first != second else problem)


def axis(tracer: Tracer, args: BoundArgs, x: Tensor, name: str = "axis") -> int:
    """The axis given by a position or a dim's name."""
    value = args[name]
    assert value is not None
    return axis_of(tracer, x, value, args.span(name))


def axis_of(tracer: Tracer, x: Tensor, value: AnyValue, at: Span) -> int:
    if not isinstance(value, Dim):
        text = f"an axis is a number or a dim's name, but this is {describe(value)}"
        raise Stop(tracer.report.error("WG0408", text, at))
    if value.is_literal:
        position = value.size + x.rank if value.size < 0 else value.size
        if not 0 <= position < x.rank:
            text = f"axis {value.size} is outside {x}, which has {plural_axes(x.rank)}"
            raise Stop(tracer.report.error("WG0408", text, at))
        return position
    hits = [
        position
        for position, dim in enumerate(x.dims)
        if not dim.is_literal and compare(dim, value) is SAME
    ]
    if len(hits) == 1:
        return hits[0]
    text = f"{x} has no axis `{value}`" if not hits else f"`{value}` names {len(hits)} axes of {x}"
    problem = tracer.report.error("WG0408", text, at)
    raise Stop(problem.help("give the position instead, e.g. `axis = -1`"))


def flag(tracer: Tracer, args: BoundArgs, name: str) -> bool:
    value = args[name]
    if not isinstance(value, BoolValue):
        text = f"`{name}` must be `true` or `false`, but this is {describe(value)}"
        raise Stop(tracer.report.error("WG0209", text, args.span(name)))
    return value.value


def whole(tracer: Tracer, args: BoundArgs, name: str, least: int = 1) -> Dim:
    """A whole number known at compile time."""
    return checked_whole(tracer, args[name], name, args.span(name), least)


def checked_whole(
    tracer: Tracer, value: AnyValue | None, name: str, at: Span, least: int = 1
) -> Dim:
    if not isinstance(value, Dim):
        text = (
            f"`{name}` must be a whole number known at compile time, but this is {describe(value)}"
        )
        raise Stop(tracer.report.error("WG0401", text, at))
    if value.size < least:
        text = f"`{name}` must be at least {least}, but it is {value.size}"
        raise Stop(tracer.report.error("WG0503", text, at))
    return value


def choice(tracer: Tracer, args: BoundArgs, name: str, options: Sequence[str]) -> str:
    """One of these words, as a string."""
    return one_of(tracer.report, args[name], options, f"`{name}`", args.span(name)).value


_AXES = {1: "one number", 2: "one number or two (rows, columns)", 3: "one number or three"}


def per_axis(
    tracer: Tracer, args: BoundArgs, name: str, axes: int, least: int = 1
) -> tuple[Dim, ...]:
    """One whole number for all axes of an image, or one for each in parentheses."""
    value = args[name]
    items = value.items if isinstance(value, (TupleValue, ListValue)) else (value,) * axes
    if len(items) != axes:
        text = f"`{name}` takes {_AXES[axes]}, but {len(items)} are given"
        raise Stop(tracer.report.error("WG0415", text, args.span(name)))
    return tuple(checked_whole(tracer, item, name, args.span(name), least) for item in items)


def number(tracer: Tracer, args: BoundArgs, name: str) -> float:
    """A number known at compile time, which f32 can hold."""
    value = args[name]
    if isinstance(value, (Dim, Number)):
        as_float = float(value.size if isinstance(value, Dim) else value.value)
        tracer.check_fits(as_float, "f32", args.span(name))
        return as_float
    text = f"`{name}` must be a number known at compile time, but this is {describe(value)}"
    raise Stop(tracer.report.error("WG0503", text, args.span(name)))


def scalar(tracer: Tracer, args: BoundArgs, name: str, dtype: str) -> Tensor:
    """One number, known now or at run time."""
    got = argument(args, name)
    value = got.value
    if isinstance(value, (Dim, Number)):
        return as_scalar(tracer, got, dtype)
    if not isinstance(value, Tensor) or value.dims:
        text = f"`{name}` must be one number, but this is {describe(value)}"
        raise Stop(tracer.report.error("WG0415", text, got.span))
    return as_tensor(tracer, got, name, (dtype,))


def dims(tracer: Tracer, args: BoundArgs, name: str) -> list[Dim]:
    """A list of sizes."""
    value = args[name]
    if isinstance(value, (ListValue, TupleValue)):
        sizes = [item for item in value.items if isinstance(item, Dim)]
        if len(sizes) == len(value.items):
            return sizes
    text = "a shape is a list of sizes, e.g. `[B, T, D]`"
    raise Stop(tracer.report.error("WG0415", text, args.span(name)))
