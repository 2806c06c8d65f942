"""Functions about shapes: `reshape transpose concat stack split chunk unbind shape axes size`,
and those that repeat, reverse, move or drop elements: `expand tile flip roll tril triu`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import TensorExpr, iota
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
        values = expect.argument(args, "a").value, expect.argument(args, "b").value
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
    return concatenate(tracer, tensors, axis)


def stack(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    tensors = _tensors(tracer, args, "stack")
    _check_joins(tracer, "stack", tensors, None, args.span("tensors"))
    longer = [broadcasting.new_axis(tracer, tensor, 0) for tensor in tensors]
    axis = expect.axis(tracer, args, longer[0])
    return concatenate(
        tracer, [broadcasting.new_axis(tracer, tensor, axis) for tensor in tensors], axis
    )


def _tensors(tracer: Tracer, args: BoundArgs, name: str) -> list[Tensor]:
    value, place = args["tensors"], args.span("tensors")
    if not isinstance(value, (ListValue, TupleValue)) or not value.items:
        text = f"`{name}` joins a list of tensors: `{name}([a, b], axis = -1)`"
        raise Stop(tracer.report.error("WG0415", text, place))
    return [expect.as_tensor(tracer, Given(item, place), "tensors") for item in value.items]


def concatenate(tracer: Tracer, tensors: list[Tensor], axis: int) -> Tensor:
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
    """The parts of a placeholder size; if their number is unknown, checking ends here."""
    count = axis.divided_by(each)
    if count is None or not count.is_literal:
        raise Stop
    return [each] * count.size


ONE = Dim.literal(1)


def expand(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x in a larger shape: axes of size 1 are repeated, and new ones come in front."""
    x = expect.tensor(tracer, args, "x")
    wanted = expect.dims(tracer, args, "shape")
    new = len(wanted) - x.rank
    if new < 0:
        text = f"`expand` keeps all axes: {x} has {expect.plural_axes(x.rank)}"
        raise Stop(tracer.report.error("WG0415", text, args.span("shape")))
    dims = [_new_size(tracer, args, x, number - new, dim) for number, dim in enumerate(wanted)]
    return tracer.broadcast(x, dims)


def _new_size(tracer: Tracer, args: BoundArgs, x: Tensor, axis: int, wanted: Dim) -> Dim:
    """-1 keeps the size of an axis."""
    have, at = x.dims[axis] if axis >= 0 else None, args.span("shape")
    if wanted.is_literal and wanted.size == -1:
        if have is not None:
            return have
        text = "-1 keeps the size of an axis, but this axis is new"
        raise Stop(tracer.report.error("WG0415", text, at))
    if wanted.size < 1:
        text = f"every size must be at least 1, or -1 to keep it, but this is {wanted.size}"
        raise Stop(tracer.report.error("WG0415", text, at))
    if have is None or have.size == 1 or tracer.same_size(have, wanted, at, "`expand`"):
        return wanted
    text = f"axis {axis} of {x} is {have.full}; only an axis of size 1 becomes {wanted.full}"
    problem = tracer.report.error("WG0406", text, at)
    raise Stop(problem.also(args.span("x"), str(x)))


def tile(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x repeated as a whole along each axis; fewer numbers than axes are those of the last axes."""
    x = expect.tensor(tracer, args, "x")
    counts = _numbers(tracer, args, "counts", 1)
    new = max(len(counts) - x.rank, 0)
    sizes = [*[ONE] * new, *x.dims]
    counts = [*[ONE] * (len(sizes) - len(counts)), *counts]
    # [a, b] is repeated as [1, a, 1, b].
    apart = [dim for size in sizes for dim in (ONE, size)]
    together = [dim for pair in zip(counts, sizes, strict=True) for dim in pair]
    repeated = tracer.broadcast(broadcasting.reshape(tracer, x, apart), together)
    dims = [product(pair) for pair in zip(counts, sizes, strict=True)]
    return broadcasting.reshape(tracer, repeated, dims)


def flip(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The elements in reverse order along the axes, all of them if none are given."""
    x = expect.tensor(tracer, args, "x")
    return broadcasting.flip(tracer, x, expect.axes(tracer, args, x))


def roll(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Elements moved on along an axis; what leaves at the end enters in front."""
    x = expect.tensor(tracer, args, "x")
    if args["axis"] is None:
        flat = broadcasting.reshape(tracer, x, [product(x.dims)])
        (shift,) = _shifts(tracer, args, 1)
        return broadcasting.reshape(tracer, _roll(tracer, flat, 0, shift), x.dims)
    axes = _axes_as_given(tracer, args, x)
    for axis, shift in zip(axes, _shifts(tracer, args, len(axes)), strict=True):
        x = _roll(tracer, x, axis, shift)
    return x


def _roll(tracer: Tracer, x: Tensor, axis: int, shift: Dim) -> Tensor:
    by = shift.size % x.dims[axis].size
    if by == 0:
        return x
    return tracer.emit("roll", x, dims=x.dims, dtype=x.dtype, axis=axis, shift=by)


def _axes_as_given(tracer: Tracer, args: BoundArgs, x: Tensor) -> list[int]:
    """The axes in the order of the source, because each has its own shift."""
    value = args["axis"]
    if not isinstance(value, (TupleValue, ListValue)):
        return [expect.axis(tracer, args, x)]
    expect.axes(tracer, args, x)
    return [expect.axis_of(tracer, x, item, args.span("axis")) for item in value.items]


def _shifts(tracer: Tracer, args: BoundArgs, count: int) -> list[Dim]:
    shifts = _numbers(tracer, args, "shift", -(2**31))
    if len(shifts) == count:
        return shifts
    text = f"`roll` needs one shift for each axis, but there are {len(shifts)} for {count}"
    raise Stop(tracer.report.error("WG0415", text, args.span("shift")))


def _numbers(tracer: Tracer, args: BoundArgs, name: str, least: int) -> list[Dim]:
    """A whole number, or several of them."""
    value = args[name]
    items = value.items if isinstance(value, (TupleValue, ListValue)) else (value,)
    return [expect.checked_whole(tracer, item, name, args.span(name), least) for item in items]


def _triangle(name: str, comparison: str) -> BuiltinFunction:
    """`comparison` of column and row, moved by `diagonal`, says which elements stay."""

    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = TensorExpr(tracer, expect.tensor(tracer, args, "x"))
        if x.rank < 2:
            text = f"`{name}` needs rows and columns, but this is {x.tensor}"
            raise Stop(tracer.report.error("WG0415", text, args.span("x"), str(x.tensor)))
        diagonal = expect.whole(tracer, args, "diagonal", least=-(2**31)).size
        rows = iota(tracer, x.dims[-2]).new_axis(1)
        kept = (iota(tracer, x.dims[-1]) - diagonal).compare(comparison, rows)
        return kept.choose(x, 0).tensor

    return BuiltinFunction(name, "x, diagonal=0", call)


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
    BuiltinFunction("expand", "x, shape", expand),
    BuiltinFunction("tile", "x, counts", tile),
    BuiltinFunction("flip", "x, axis=none", flip),
    BuiltinFunction("roll", "x, shift, axis=none", roll),
    _triangle("tril", "le"),
    _triangle("triu", "ge"),
)
