"""What each item between the brackets of `x[…]` selects along its axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, describe
from wgcc.ir.graph import INTEGERS
from wgcc.syntax import ast

ONE = Dim.literal(1)
ZERO = Dim.literal(0)


@dataclass(frozen=True, eq=False)
class Selection:
    """`dim.size` elements of an axis, from `start` (or, at run time, from `at`) in steps of `step`.

    `kept` is false for a single index, whose axis is removed; `whole` marks an unindexed axis.
    """

    dim: Dim
    start: int = 0
    step: int = 1
    at: Tensor | None = None
    kept: bool = True
    whole: bool = False


@dataclass(frozen=True, eq=False)
class Selections:
    """One selection per axis of the indexed tensor, and the dims of the result."""

    axes: Sequence[Selection]
    dims: tuple[Dim, ...]


def select(tracer: Tracer, x: Tensor, node: ast.Index) -> Selections:
    """Match the items with the axes of `x`; `..` (or the end) stands for all other axes."""
    items = list(node.items)
    used = sum(not isinstance(item, (ast.Rest, ast.NewAxis)) for item in items)
    rests = [item for item in items if isinstance(item, ast.Rest)]
    if used > x.rank:
        axes = "1 axis" if x.rank == 1 else f"{x.rank} axes"
        text = f"{used} indices for {axes}"
        raise Stop(tracer.report.error("WG0413", text, node.span, str(x)))
    if len(rests) > 1:
        raise Stop(tracer.report.error("WG0413", "`..` can be used only once", rests[1].span))
    if not rests:
        items.append(ast.Rest(node.span))
    axes_left = iter(x.dims)
    chosen: list[Selection] = []
    dims: list[Dim] = []
    for item in items:
        if isinstance(item, ast.NewAxis):
            dims.append(ONE)
            continue
        count = x.rank - used if isinstance(item, ast.Rest) else 1
        for _ in range(count):
            selection = _select_one(tracer, next(axes_left), item)
            chosen.append(selection)
            dims += [selection.dim] if selection.kept else []
    return Selections(chosen, tuple(dims))


def _select_one(tracer: Tracer, axis: Dim, item: ast.IndexItem) -> Selection:
    if isinstance(item, ast.Rest):
        return Selection(axis, whole=True)
    if isinstance(item, ast.Slice):
        return _slice(tracer, axis, item)
    if isinstance(item, ast.Window):
        return _window(tracer, axis, item)
    assert not isinstance(item, ast.NewAxis)
    return _single(tracer, axis, item)


def _slice(tracer: Tracer, axis: Dim, item: ast.Slice) -> Selection:
    if item.start is None and item.stop is None and item.step is None:
        return Selection(axis, whole=True)
    start = _from_end(_bound(tracer, item.start, ZERO), axis)
    stop = _from_end(_bound(tracer, item.stop, axis), axis)
    step = _bound(tracer, item.step, ONE)
    if step.size < 1:
        text = f"the step of a slice must be at least 1, but it is {step.size}"
        raise Stop(tracer.report.error("WG0413", text, item.step or item))
    if not tracer.generic and not 0 <= start.size <= stop.size <= axis.size:
        text = f"the slice {start.size} : {stop.size} is outside an axis of {axis.full}"
        raise Stop(tracer.report.error("WG0413", text, item))
    length = stop - start
    if length.size == 0:
        raise Stop(tracer.report.error("WG0413", "this slice is empty", item))
    if step.size > 1:
        length = _stepped(length, step)
    return Selection(length, start.size, step.size)


def _stepped(length: Dim, step: Dim) -> Dim:
    """`x[::2]` of an axis D is D / 2 where that is exact."""
    exact = length.divided_by(step)
    return exact if exact is not None else Dim.literal(-(-length.size // step.size))


def _bound(tracer: Tracer, item: ast.Expr | None, default: Dim) -> Dim:
    if item is None:
        return default
    value = tracer.evaluate(item)
    if not isinstance(value, Dim):
        text = f"a slice needs bounds known at compile time, but this is {describe(value)}"
        found = tracer.report.error("WG0414", text, item)
        raise Stop(
            found.help("for a fixed-size window at a run-time position write `x[start +: length]`")
        )
    return value


def _from_end(bound: Dim, axis: Dim) -> Dim:
    return axis + bound if bound.size < 0 else bound


def _window(tracer: Tracer, axis: Dim, item: ast.Window) -> Selection:
    start, length = tracer.evaluate(item.start), tracer.evaluate(item.length)
    if not isinstance(length, Dim):
        text = (
            f"the length of a window must be known at compile time, but this is {describe(length)}"
        )
        raise Stop(tracer.report.error("WG0414", text, item.length))
    if length.size < 1:
        text = f"the length of a window must be at least 1, but it is {length.size}"
        raise Stop(tracer.report.error("WG0413", text, item.length))
    if length.size > axis.size and not tracer.generic:
        text = f"a window of {length.full} does not fit in an axis of {axis.full}"
        raise Stop(tracer.report.error("WG0413", text, item))
    if isinstance(start, Dim):
        first = _from_end(start, axis).size
        if not 0 <= first <= axis.size - length.size and not tracer.generic:
            text = f"a window of {length.full} from {start.size} is outside an axis of {axis.full}"
            raise Stop(tracer.report.error("WG0413", text, item))
        return Selection(length, first)
    if not isinstance(start, Tensor) or start.dims or start.dtype not in INTEGERS:
        text = f"a window starts at one whole number, but this is {describe(start)}"
        raise Stop(tracer.report.error("WG0413", text, item.start))
    tracer.here = item.span
    return Selection(length, at=tracer.cast(start, "i32"))


def _single(tracer: Tracer, axis: Dim, item: ast.Expr) -> Selection:
    value = tracer.evaluate(item)
    if isinstance(value, Dim):
        if not -axis.size <= value.size < axis.size and not tracer.generic:
            text = f"index {value.size} is outside an axis of {axis.full}"
            raise Stop(tracer.report.error("WG0413", text, item))
        return Selection(ONE, _from_end(value, axis).size, kept=False)
    if not isinstance(value, Tensor) or value.dtype not in INTEGERS:
        text = f"an index must be a whole number, but this is {describe(value)}"
        raise Stop(tracer.report.error("WG0413", text, item))
    if value.dims:
        found = tracer.report.error("WG0413", "an index must be one number", item, str(value))
        raise Stop(found.help("to look up many rows use `gather(x, ids)`"))
    tracer.here = item.span
    return Selection(ONE, at=tracer.cast(value, "i32"), kept=False)
