"""Selections: each item between the brackets of `x[…]` selects something along its axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import ListValue, Tensor, describe
from wgcc.errors import Diagnostic
from wgcc.ir.graph import INTEGERS
from wgcc.ir.places import ceil_div
from wgcc.syntax import ast

ONE = Dim.literal(1)
ZERO = Dim.literal(0)


@dataclass(frozen=True, eq=False)
class Selection:
    """`dim.size` elements of an axis, from `start` (or, at run time, from `at`) in steps of `step`.

    `backwards`: the last of them comes first. `kept` is false for a single index, whose axis is
    removed; `whole` marks an axis of which all is selected. Of an axis with `ids` these elements
    are looked up, after everything else is selected.
    """

    dim: Dim
    start: int = 0
    step: int = 1
    backwards: bool = False
    at: Tensor | None = None
    kept: bool = True
    whole: bool = False
    ids: Given | None = None


@dataclass(frozen=True, eq=False)
class Selections:
    """One selection per axis of the indexed tensor, and the dims of the result.

    `ids` are looked up in neighbouring axes of it, from axis `first_id` on.
    """

    axes: Sequence[Selection]
    dims: tuple[Dim, ...]
    ids: Sequence[Given] = ()
    first_id: int = 0


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
    runs = _Runs()
    for item in items:
        if isinstance(item, ast.NewAxis):
            runs.add(None, item, len(dims))
            dims.append(ONE)
            continue
        count = x.rank - used if isinstance(item, ast.Rest) else 1
        for _ in range(count):
            selection = _select_one(tracer, next(axes_left), item)
            runs.add(selection, item, len(dims))
            chosen.append(selection)
            dims += [selection.dim] if selection.kept else []
    ids = [selection.ids for selection in chosen if selection.ids is not None]
    if ids and runs.separated is not None:
        raise Stop(_are_separated(tracer, runs.separated))
    return Selections(chosen, tuple(dims), ids, runs.first_id)


class _Runs:
    """Whether all indices are neighbours: numpy moves the axes of others to the front."""

    def __init__(self) -> None:
        self.first_id = 0
        self.separated: ast.IndexItem | None = None
        self._has_ids = self._began = self._ended = False

    def add(self, selection: Selection | None, item: ast.IndexItem, position: int) -> None:
        is_index = selection is not None and (not selection.kept or selection.ids is not None)
        if is_index and self._ended:
            self.separated = item
        self._ended = self._began and (self._ended or not is_index)
        self._began = self._began or is_index
        if selection is not None and selection.ids is not None and not self._has_ids:
            self._has_ids, self.first_id = True, position


def _are_separated(tracer: Tracer, item: ast.IndexItem) -> Diagnostic:
    text = "an index is separated from another by a slice or a new axis"
    problem = tracer.report.error("WG0413", text, item)
    return problem.help("index step by step, `x[i][:, ids]`, or bring the axes together first")


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
    step = _bound(tracer, item.step, ONE)
    if step.size == 0:
        text = "the step of a slice must not be 0"
        raise Stop(tracer.report.error("WG0413", text, item.step or item))
    if step.size < 0:
        return _backwards(tracer, axis, item, Dim.literal(-step.size))
    start = _from_end(_bound(tracer, item.start, ZERO), axis)
    stop = _from_end(_bound(tracer, item.stop, axis), axis)
    length = _length(tracer, axis, item, start, stop)
    if step.size > 1:
        length = _every_nth(length, step)
    return Selection(length, start.size, step.size)


def _backwards(tracer: Tracer, axis: Dim, item: ast.Slice, step: Dim) -> Selection:
    """`x[4 : 1 : -1]` is x[4], x[3], x[2]; without bounds it is the whole axis."""
    last = ZERO if item.stop is None else _from_end(_bound(tracer, item.stop, ZERO), axis) + ONE
    end = axis if item.start is None else _from_end(_bound(tracer, item.start, ZERO), axis) + ONE
    for bound, place in ((end, item.start), (last, item.stop)):
        if place is not None and not tracer.generic and not 1 <= bound.size <= axis.size:
            text = f"index {bound.size - 1} is outside an axis of {axis.full}"
            raise Stop(tracer.report.error("WG0413", text, place))
    if not tracer.generic and last.size > end.size:
        text = "this slice is empty: backwards it goes from a higher index to a lower one"
        raise Stop(tracer.report.error("WG0413", text, item))
    length = _length(tracer, axis, item, last, end)
    if step.size > 1:
        length = _every_nth(length, step)
    return Selection(length, end.size - 1 - (length.size - 1) * step.size, step.size, True)


def _length(tracer: Tracer, axis: Dim, item: ast.Slice, start: Dim, stop: Dim) -> Dim:
    if not tracer.generic and not 0 <= start.size <= stop.size <= axis.size:
        text = f"the slice {start.size} : {stop.size} is outside an axis of {axis.full}"
        raise Stop(tracer.report.error("WG0413", text, item))
    length = stop - start
    if length.size == 0:
        raise Stop(tracer.report.error("WG0413", "this slice is empty", item))
    return length


def _every_nth(length: Dim, step: Dim) -> Dim:
    """`x[::2]` of an axis D is D / 2 where that is exact."""
    exact = length.divided_by(step)
    return exact if exact is not None else Dim.literal(ceil_div(length.size, step.size))


def _bound(tracer: Tracer, item: ast.Expr | None, default: Dim) -> Dim:
    if item is None:
        return default
    value = tracer.evaluate(item)
    if not isinstance(value, Dim):
        text = f"a slice needs bounds known at compile time, but this is {describe(value)}"
        problem = tracer.report.error("WG0414", text, item)
        raise Stop(
            problem.help(
                "for a fixed-size window at a run-time position write `x[start +: length]`"
            )
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
    if isinstance(value, ListValue):
        value = tracer.literal(value, ("i32",), item.span)
    if not isinstance(value, Tensor) or value.dtype not in INTEGERS:
        text = f"an index must be a whole number, but this is {describe(value)}"
        problem = tracer.report.error("WG0413", text, item)
        if isinstance(value, Tensor) and value.dtype == "bool":
            problem.help(
                "shapes are fixed; to select by a condition use `where(condition, x, 0.0)`"
            )
        elif isinstance(item, ast.Range):
            parts = (item.low, item.high, item.step)
            code = ":".join(part.span.text for part in parts if part is not None)
            problem.help(f"a slice has colons: write `{code}`", (item.span, code))
        raise Stop(problem)
    tracer.here = item.span
    place = tracer.cast(value, "i32")
    if value.dims:
        return Selection(axis, whole=True, ids=Given(place, item.span))
    return Selection(ONE, at=place, kept=False)
