"""Functions about shapes: `reshape transpose concat stack split chunk unbind shape axes size`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product, shape_text, sizes_note
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import AnyValue, ListValue, Tensor, TupleValue
from wgcc.errors import Span

# The same limit as for iterations of a loop: every part is a separate value.
MOST_PARTS = 4096


def shape(tracer: Tracer, args: BoundArgs, at: Span) -> ListValue:
    """The sizes of all axes, as a list."""
    return ListValue(expect.tensor(tracer, args, "x").dims)


def axes(tracer: Tracer, args: BoundArgs, at: Span) -> Dim:
    """The number of axes."""
    return Dim.literal(expect.tensor(tracer, args, "x").rank)


def size(tracer: Tracer, args: BoundArgs, at: Span) -> Dim:
    """The number of elements."""
    return product(expect.tensor(tracer, args, "x").dims)


def reshape(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The same elements in order, in another shape; one size may be -1."""
    x = expect.tensor(tracer, args, "x")
    wanted = expect.dims(tracer, args, "shape")
    total = product(x.dims)
    holes = [dim for dim in wanted if dim.is_literal and dim.size == -1]
    known = product(dim for dim in wanted if dim not in holes)
    if len(holes) > 1:
        text = "at most one size may be -1"
        raise Stop(tracer.report.error("WG0415", text, args.span("shape")))
    if known.size < 1:
        text = f"every size must be at least 1, but this is [{shape_text(wanted)}]"
        raise Stop(tracer.report.error("WG0415", text, args.span("shape")))
    if holes:
        filled = total.divided_by(known)
        if filled is None:
            text = f"cannot reshape {x} ({total.size} values) into rows of {known.size}"
            raise Stop(tracer.report.error("WG0409", text, args.span("shape")))
        wanted = [filled if dim in holes else dim for dim in wanted]
    elif not tracer.generic and total.size != known.size:
        raise _other_count(tracer, args, x, wanted)
    return broadcasting.reshape(tracer, x, wanted)


def _other_count(tracer: Tracer, args: BoundArgs, x: Tensor, wanted: list[Dim]) -> Stop:
    before, after = product(x.dims).size, product(wanted).size
    text = f"reshape cannot turn {before} values into {after}"
    label = f"[{shape_text(wanted)}] holds {after}"
    problem = tracer.report.error("WG0409", text, args.span("shape"), label)
    problem.also(args.span("x"), f"{x} holds {before}")
    note = sizes_note(x.dims, wanted)
    return Stop(problem.note(note) if note else problem)


def transpose(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Two axes exchanged, the last two if none are named."""
    x = expect.tensor(tracer, args, "x")
    if x.rank < 2:
        text = f"`transpose` needs at least two axes, but this is {x}"
        raise Stop(tracer.report.error("WG0415", text, args.span("x"), str(x)))
    a, b = expect.axis(tracer, args, x, "a"), expect.axis(tracer, args, x, "b")
    if a == b:
        values = expect.given(args, "a").value, expect.given(args, "b").value
        place = args.span("a") if args.span("b") == args.call else args.span("b")
        raise expect.same_axis(tracer, x, a, values, place)
    order = list(range(x.rank))
    order[a], order[b] = b, a
    return broadcasting.transpose(tracer, x, order)


def concat(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Tensors joined along an axis."""
    tensors = _tensors(tracer, args, "concat")
    axis = expect.axis(tracer, args, tensors[0])
    _check_joins(tracer, "concat", tensors, axis, args.span("tensors"))
    return joined(tracer, tensors, axis)


def stack(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    tensors = _tensors(tracer, args, "stack")
    _check_joins(tracer, "stack", tensors, None, args.span("tensors"))
    longer = [broadcasting.new_axis(tracer, tensor, 0) for tensor in tensors]
    axis = expect.axis(tracer, args, longer[0])
    return joined(tracer, [broadcasting.new_axis(tracer, tensor, axis) for tensor in tensors], axis)


def _tensors(tracer: Tracer, args: BoundArgs, name: str) -> list[Tensor]:
    value, place = args["tensors"], args.span("tensors")
    if not isinstance(value, (ListValue, TupleValue)) or not value.items:
        text = f"`{name}` joins a list of tensors: `{name}([a, b], axis = -1)`"
        raise Stop(tracer.report.error("WG0415", text, place))
    return [expect.checked(tracer, Given(item, place), "tensors") for item in value.items]


def joined(tracer: Tracer, tensors: list[Tensor], axis: int) -> Tensor:
    first = tensors[0]
    total = first.dims[axis]
    for other in tensors[1:]:
        total = total + other.dims[axis]
    if len(tensors) == 1:
        return first
    dims = [*first.dims[:axis], total, *first.dims[axis + 1 :]]
    return tracer.emit("concat", *tensors, dims=dims, dtype=first.dtype, axis=axis)


def _check_joins(
    tracer: Tracer, name: str, tensors: list[Tensor], axis: int | None, at: Span
) -> None:
    """All must have equal sizes, but along `axis`."""
    report, first = tracer.report, tensors[0]
    for other in tensors[1:]:
        if first.dtype != other.dtype:
            problem = report.error("WG0501", f"`{name}` mixes {first} and {other}", at)
            raise Stop(problem.help(f"convert one of them: `{first.dtype}(...)`"))
        if first.rank != other.rank:
            counts = f"{first} has {expect.plural_axes(first.rank)}, {other} has {other.rank}"
            text = f"`{name}` joins tensors with equally many axes, but {counts}"
            raise Stop(report.error("WG0415", text, at).help("`x[new]` gives x one more axis"))
        for number, (a, b) in enumerate(zip(first.dims, other.dims, strict=True)):
            if number != axis and compare(a, b) is DIFF:
                sizes = f"axis {number} of {first} is {a.full}, of {other} it is {b.full}"
                where = "" if axis is None else f" along axis {axis}"
                raise Stop(report.error("WG0415", f"`{name}`{where}: {sizes}", at))
            if number != axis:
                tracer.same_size(a, b, at, f"`{name}`")


def split(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """Parts of one size along an axis, the last one maybe smaller, or parts of given sizes."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    return _parts(tracer, x, axis, _split_sizes(tracer, args, x.dims[axis]))


def chunk(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """A number of equal parts along an axis."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    parts = expect.whole(tracer, args, "parts")
    _limit_parts(tracer, args, "parts", parts)
    each = x.dims[axis].divided_by(parts)
    if each is None:
        text = f"{x.dims[axis].full} cannot be split into {parts.size} equal parts"
        problem = tracer.report.error("WG0402", text, args.span("parts"))
        raise Stop(problem.help("`split(x, [2, 1], axis = 0)` makes parts of the sizes given"))
    return _parts(tracer, x, axis, [each] * (parts.size if not parts.generic else 2))


def _parts(tracer: Tracer, x: Tensor, axis: int, sizes: list[Dim]) -> TupleValue:
    parts: list[AnyValue] = []
    start = 0
    for dim in sizes:
        parts.append(broadcasting.part(tracer, x, axis, start, dim))
        start += dim.size
    return TupleValue(tuple(parts))


def unbind(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The slices of a tensor along an axis, which disappears."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    count, one = x.dims[axis], Dim.literal(1)
    _limit_parts(tracer, args, "x", count)
    slices = (
        broadcasting.part(tracer, x, axis, number, one)
        for number in range(count.size if not count.generic else 2)
    )
    dims = [*x.dims[:axis], *x.dims[axis + 1 :]]
    return TupleValue(tuple(broadcasting.reshape(tracer, piece, dims) for piece in slices))


def _limit_parts(tracer: Tracer, args: BoundArgs, name: str, parts: Dim) -> None:
    if parts.size > MOST_PARTS and not parts.generic:
        text = f"{parts.size} parts are too many, at most {MOST_PARTS} are possible"
        raise Stop(tracer.report.error("WG0308", text, args.span(name)))


def _split_sizes(tracer: Tracer, args: BoundArgs, axis: Dim) -> list[Dim]:
    if isinstance(args["sizes"], Dim):
        return _equal_sizes(tracer, args, axis)
    sizes = expect.dims(tracer, args, "sizes")
    total = Dim.literal(0)
    for dim in sizes:
        total = total + dim
    if compare(total, axis) is DIFF or any(dim.size < 1 for dim in sizes):
        text = f"the parts add up to {total.full}, but the axis is {axis.full}"
        raise Stop(tracer.report.error("WG0409", text, args.span("sizes")))
    return sizes


def _equal_sizes(tracer: Tracer, args: BoundArgs, axis: Dim) -> list[Dim]:
    """All of the size given, but for the last, which has the rest."""
    each = expect.whole(tracer, args, "sizes")
    if axis.generic or each.generic:
        return _generic_sizes(axis, each)
    count, rest = Dim.literal(axis.size // each.size), axis.size % each.size
    _limit_parts(tracer, args, "sizes", count)
    return [each] * count.size + ([Dim.literal(rest)] if rest else [])


def _generic_sizes(axis: Dim, each: Dim) -> list[Dim]:
    """For placeholder sizes; where they leave the number of parts open, checking ends here."""
    count = axis.divided_by(each)
    if count is None or not count.is_literal:
        raise Stop
    return [each] * count.size


FUNCTIONS = (
    BuiltinFunction("shape", "x", shape),
    BuiltinFunction("axes", "x", axes),
    BuiltinFunction("size", "x", size),
    BuiltinFunction("reshape", "x, shape", reshape),
    BuiltinFunction("transpose", "x, a=-2, b=-1", transpose),
    BuiltinFunction("concat", "tensors, axis", concat),
    BuiltinFunction("stack", "tensors, axis=0", stack),
    BuiltinFunction("split", "x, sizes, axis", split),
    BuiltinFunction("chunk", "x, parts, axis", chunk),
    BuiltinFunction("unbind", "x, axis=0", unbind),
)
