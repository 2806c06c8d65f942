"""`pad`: more elements around a tensor, of a constant or taken from it."""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.shapes import joined
from wgcc.elaborate.operators import views
from wgcc.elaborate.operators.operands import as_scalar
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import ListValue, Tensor, TupleValue
from wgcc.errors import Span

MODES = ("constant", "reflect", "replicate", "circular")
# How many elements are added before and after those of an axis.
Widths = dict[int, tuple[Dim, Dim]]
Side = Callable[[Tracer, Tensor, int, Dim, bool], Tensor]
ONE = Dim.literal(1)


def pad(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Elements before and after those of some axes."""
    x = expect.tensor(tracer, args, "x")
    mode = expect.choice(tracer, args, "mode", MODES)
    widths = _widths(tracer, args, x)
    if mode == "constant":
        return _constant(tracer, args, x, widths)
    if args.given("value"):
        text = f'`value` is for the mode "constant"; "{mode}" repeats elements of `x`'
        raise Stop(tracer.report.error("WG0503", text, args.span("value")))
    for axis, width in widths.items():
        _check_width(tracer, args, mode, x.dims[axis], width)
        x = _extended(tracer, x, axis, width, _SIDES[mode])
    return x


def _widths(tracer: Tracer, args: BoundArgs, x: Tensor) -> Widths:
    """As PyTorch has them: pairs, the first one of the last axis; or those of the given axes."""
    value = args["width"]
    items = value.items if isinstance(value, (TupleValue, ListValue)) else (value, value)
    span = args.span("width")
    sizes = [expect.checked_whole(tracer, item, "width", span, least=0) for item in items]
    pairs = list(zip(sizes[::2], sizes[1::2], strict=False))
    if args["axis"] is not None:
        if len(sizes) != 2:
            text = f"with `axis`, `width` is one number or two (before, after), not {len(sizes)}"
            raise Stop(tracer.report.error("WG0415", text, span))
        return dict.fromkeys(expect.axes(tracer, args, x), pairs[0])
    if len(sizes) % 2 or len(pairs) > x.rank:
        these = f"but these are {len(sizes)} for {x}"
        text = f"`width` has two numbers for each axis, the last axis first, {these}"
        raise Stop(tracer.report.error("WG0415", text, span))
    return {x.rank - 1 - number: pair for number, pair in enumerate(pairs)}


def _constant(tracer: Tracer, args: BoundArgs, x: Tensor, widths: Widths) -> Tensor:
    dims, starts = list(x.dims), [0] * x.rank
    for axis, (before, after) in widths.items():
        dims[axis], starts[axis] = before + x.dims[axis] + after, before.size
    placed = views.place(tracer, x, starts, dims, [1] * x.rank)
    if not args.given("value"):
        return placed
    value = as_scalar(tracer, expect.given(args, "value"), x.dtype)
    true = tracer.broadcast(tracer.constant(True, "bool"), x.dims)
    inside = views.place(tracer, true, starts, dims, [1] * x.rank)
    outside = tracer.broadcast(value, dims)
    return tracer.emit("where", inside, placed, outside, dims=dims, dtype=x.dtype)


def _check_width(
    tracer: Tracer, args: BoundArgs, mode: str, size: Dim, width: tuple[Dim, Dim]
) -> None:
    most = {"reflect": size.size - 1, "circular": size.size}.get(mode)
    widest = max(dim.size for dim in width)
    if most is not None and widest > most and not tracer.generic:
        text = f'"{mode}" can add at most {most} elements to an axis of {size.full}, not {widest}'
        raise Stop(tracer.report.error("WG0503", text, args.span("width")))


def _extended(tracer: Tracer, x: Tensor, axis: int, width: tuple[Dim, Dim], side: Side) -> Tensor:
    before, after = width
    parts = [side(tracer, x, axis, before, True)] if before.size else []
    parts.append(x)
    parts += [side(tracer, x, axis, after, False)] if after.size else []
    return joined(tracer, parts, axis)


def _reflected(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    """The mirror image, without the element at the edge."""
    start = 1 if before else x.dims[axis].size - 1 - width.size
    return views.flip(tracer, views.part(tracer, x, axis, start, width), [axis])


def _replicated(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    edge = views.part(tracer, x, axis, 0 if before else x.dims[axis].size - 1, ONE)
    return tracer.broadcast(edge, [*x.dims[:axis], width, *x.dims[axis + 1 :]])


def _wrapped(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    start = x.dims[axis].size - width.size if before else 0
    return views.part(tracer, x, axis, start, width)


_SIDES: dict[str, Side] = {
    "reflect": _reflected,
    "replicate": _replicated,
    "circular": _wrapped,
}

FUNCTIONS = (BuiltinFunction("pad", 'x, width, axis=none, mode="constant", value=0', pad),)
