"""Functions that make tensors: constants, ranges and random numbers; those that look elements up
by index, or add them up by it: `gather take_along_axis scatter_add segment_sum`."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.reductions import SUMMABLE, arg_reduce
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import TensorExpr, iota
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import DtypeValue, Number, Tensor, TypeValue, describe, type_text
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, TensorType

# Random numbers have 24 bits: more numbers would not be equally likely.
MOST_DRAWN = 2**24
EXAMPLES = {"randint": "randint(0, 10, i32[2, 3])"}


def _fill(name: str, number: int) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        dtype, dims = _type(tracer, name, args)
        tracer.check_size(TensorType(sizes_of(dims), dtype), type_text(dtype, dims), at)
        return tracer.broadcast(tracer.constant(number, dtype), dims)

    return BuiltinFunction(name, "type", call)


def _random(name: str, kind: str) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        dtype, dims = _type(tracer, name, args)
        if dtype not in FLOATS:
            text = f"`{name}` makes floats, not {dtype}"
            raise Stop(tracer.report.error("WG0501", text, args.span("type")))
        return tracer.cast(tracer.random(dims, kind, at), dtype)

    return BuiltinFunction(name, "type", call)


def _type(tracer: Tracer, name: str, args: BoundArgs) -> tuple[str, tuple[Dim, ...]]:
    value = args["type"]
    if isinstance(value, DtypeValue):
        return value.name, ()
    if isinstance(value, TypeValue):
        return value.dtype, value.dims
    text = f"`{name}` takes a type: `{EXAMPLES.get(name, f'{name}(f32[2, 3])')}`"
    raise Stop(tracer.report.error("WG0415", text, args.span("type")))


def _filled_like(name: str, number: int) -> BuiltinFunction:
    def call(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
        x = expect.tensor(tracer, args, "x")
        return tracer.broadcast(tracer.constant(number, x.dtype), x.dims)

    return BuiltinFunction(name, "x", call)


def full_like(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """One number, known now or at run time, in the shape and element type of x."""
    x = expect.tensor(tracer, args, "x")
    return tracer.broadcast(expect.scalar(tracer, args, "value", x.dtype), x.dims)


def arange(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """start, start + step, … up to `stop`, which is not included; from 0 if `stop` is not given."""
    first, step = (expect.whole(tracer, args, name, -(2**31)) for name in ("start", "step"))
    start, stop = Dim.literal(0), first
    if args["stop"] is not None:
        start, stop = first, expect.whole(tracer, args, "stop", -(2**31))
    count = _count(tracer, args, start, stop, step)
    tracer.check_size(TensorType((count.size,), "i32"), type_text("i32", (count,)), at)
    for number in (start.size, start.size + (count.size - 1) * step.size):
        tracer.check_fits(number, "i32", at)
    numbers = iota(tracer, count)
    numbers = numbers if step.size == 1 else numbers.apply("mul", step.size)
    return (numbers if start.size == 0 else numbers.apply("add", start.size)).tensor


def _count(tracer: Tracer, args: BoundArgs, start: Dim, stop: Dim, step: Dim) -> Dim:
    """How many numbers `arange` makes: at least one, because no axis is empty."""
    if step.size == 0:
        raise Stop(tracer.report.error("WG0503", "`step` must not be 0", args.span("step")))
    count = (
        stop - start if step.is_one else Dim.literal(len(range(start.size, stop.size, step.size)))
    )
    if count.size < 1 and not count.generic:
        text = f"`arange` counts from {start.full} to {stop.full} by {step.full}: no number at all"
        raise Stop(tracer.report.error("WG0503", text, args.call))
    return count


def randint(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Whole numbers from `low` to `high - 1`, all equally likely."""
    dtype, dims = _type(tracer, "randint", args)
    if dtype not in INTEGERS:
        text = f"`randint` makes whole numbers, not {dtype}"
        raise Stop(tracer.report.error("WG0501", text, args.span("type")))
    low, high = (_bound(tracer, args, name, dtype) for name in ("low", "high"))
    count = high - low
    if count < 1 and not tracer.generic:
        text = f"`randint` needs low < high, but they are {low} and {high}"
        raise Stop(tracer.report.error("WG0503", text, args.span("high")))
    if count > MOST_DRAWN and not tracer.generic:
        text = f"`randint` draws from at most {MOST_DRAWN:,} numbers, but these are {count:,}"
        raise Stop(tracer.report.error("WG0503", text, args.span("high")))
    draw = TensorExpr(tracer, tracer.random(dims, "uniform", at))
    # A draw is below 1, so its multiple is below `count`; the bounds say so to checks of indices.
    numbers = (draw * float(count)).cast("i32").apply("minimum", count - 1).apply("maximum", 0)
    return numbers.cast(dtype).apply("add", low).tensor


def _bound(tracer: Tracer, args: BoundArgs, name: str, dtype: str) -> int:
    bound = expect.whole(tracer, args, name, least=-(2**31)).size
    tracer.check_fits(bound - int(name == "high"), dtype, args.span(name))
    return bound


def bernoulli(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """1 with probability p, else 0, for each element of p."""
    if isinstance(args["p"], (Dim, Number)):
        rate = expect.number(tracer, args, "p")
        if not 0 <= rate <= 1:
            text = f"`p` must be a probability, from 0 to 1, but it is {rate:g}"
            raise Stop(tracer.report.error("WG0503", text, args.span("p")))
    p = TensorExpr(tracer, expect.tensor(tracer, args, "p", FLOATS))
    draw = TensorExpr(tracer, tracer.random(p.dims, "uniform", at))
    return draw.compare("lt", p.cast("f32")).cast(p.dtype).tensor


def one_hot(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """f32 rows of `size` numbers: 1 at the id, 0 elsewhere."""
    ids = TensorExpr(tracer, expect.tensor(tracer, args, "ids", INTEGERS)).cast("i32")
    size = expect.whole(tracer, args, "size")
    tracer.look_up(ids.tensor, size.size, "an id")
    classes = iota(tracer, size)
    return ids.new_axis(-1).compare("eq", classes).cast("f32").tensor


# Half the generator's resolution: keeps the logarithm of an exponential draw finite.
SMALLEST_DRAW = 2.0**-25
# Dividing by this gives the argmax, and does not overflow for realistic scores.
LOWEST_TEMPERATURE = 1e-6


def sample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """A class number per row, with probability softmax(logits / temperature).

    `top_k` keeps only the k largest scores, `top_p` only the largest ones that together reach
    this probability. With `seed` the draw depends on that number alone.
    """
    logits = expect.tensor(tracer, args, "logits", FLOATS)
    if not logits.dims:
        text = f"`logits` needs an axis of classes, but this is {describe(logits)}"
        raise Stop(tracer.report.error("WG0415", text, args.span("logits")))
    scores = _with_temperature(tracer, args, TensorExpr(tracer, logits).cast("f32"))
    scores = _with_top_only(tracer, args, scores)
    draw = TensorExpr(tracer, tracer.random(scores.dims, "uniform", at, _seed(tracer, args)))
    # -log(1 - u) is exponentially distributed, and minus its logarithm is Gumbel noise.
    waiting = (-(-draw).apply("log1p")).apply("maximum", SMALLEST_DRAW)
    with_noise = scores - waiting.apply("log")
    return arg_reduce("argmax", with_noise, with_noise.rank - 1).tensor


def _with_temperature(tracer: Tracer, args: BoundArgs, scores: TensorExpr) -> TensorExpr:
    value = args["temperature"]
    if isinstance(value, (Dim, Number)):
        number = expect.number(tracer, args, "temperature")
        if number < 0:
            text = f"`temperature` must not be negative, but it is {number:g}"
            raise Stop(tracer.report.error("WG0503", text, args.span("temperature")))
        return scores if number == 1 else scores / max(number, LOWEST_TEMPERATURE)
    temperature = TensorExpr(tracer, expect.scalar(tracer, args, "temperature", "f32"))
    return scores / temperature.apply("maximum", LOWEST_TEMPERATURE)


def _with_top_only(tracer: Tracer, args: BoundArgs, scores: TensorExpr) -> TensorExpr:
    classes = scores.dims[-1]
    count = expect.whole(tracer, args, "top_k") if args["top_k"] is not None else None
    if count is not None and count.size < classes.size:
        kept = tracer.emit("keep_top_k", scores.tensor, dims=scores.dims, dtype="f32", k=count.size)
        scores = TensorExpr(tracer, kept)
    mass = _mass(tracer, args)
    if mass is not None:
        kept = tracer.emit("keep_top_p", scores.tensor, mass, dims=scores.dims, dtype="f32")
        scores = TensorExpr(tracer, kept)
    return scores


def _mass(tracer: Tracer, args: BoundArgs) -> Tensor | None:
    value = args["top_p"]
    if value is None:
        return None
    if not isinstance(value, (Dim, Number)):
        return expect.scalar(tracer, args, "top_p", "f32")
    number = expect.number(tracer, args, "top_p")
    if not 0 < number <= 1:
        text = f"`top_p` must be above 0 and at most 1, but it is {number:g}"
        raise Stop(tracer.report.error("WG0503", text, args.span("top_p")))
    return tracer.constant(number, "f32") if number < 1 else None


def _seed(tracer: Tracer, args: BoundArgs) -> Tensor | None:
    if args["seed"] is None:
        return None
    if isinstance(args["seed"], Dim):
        return expect.scalar(tracer, args, "seed", "u32")
    seed = expect.tensor(tracer, args, "seed", INTEGERS, rank=0)
    return tracer.cast(seed, "u32")


def gather(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The rows of a table that `ids` name."""
    table = expect.tensor(tracer, args, "table")
    if not table.dims:
        text = "`table` must have rows, but this is a single number"
        raise Stop(tracer.report.error("WG0415", text, args.span("table"), str(table)))
    ids = args["ids"]
    if isinstance(ids, Dim):
        return _row(tracer, args, table, ids)
    places = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    tracer.look_up(places, table.dims[0].size, "an id")
    dims = (*places.dims, *table.dims[1:])
    return tracer.emit("gather", table, places, dims=dims, dtype=table.dtype)


def _row(tracer: Tracer, args: BoundArgs, table: Tensor, number: Dim) -> Tensor:
    rows = table.dims[0]
    if not 0 <= number.size < rows.size and not tracer.generic:
        text = f"row {number.size} is outside a table of {rows.full} rows"
        raise Stop(tracer.report.error("WG0413", text, args.span("ids")))
    row = broadcasting.part(tracer, table, 0, number.size, Dim.literal(1))
    return broadcasting.reshape(tracer, row, table.dims[1:])


def take_along_axis(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Along an axis, the elements that `ids` name, in each row by itself."""
    x = expect.tensor(tracer, args, "x")
    axis = expect.axis(tracer, args, x)
    ids = _places(tracer, args, x.rank)
    dims = _common(tracer, args, x, ids, axis)
    rows = tracer.broadcast(x, [*dims[:axis], x.dims[axis], *dims[axis + 1 :]])
    places = tracer.broadcast(ids, [*dims[:axis], ids.dims[axis], *dims[axis + 1 :]])
    tracer.look_up(ids, x.dims[axis].size, "an id")
    return tracer.emit("take_along", rows, places, dims=places.dims, dtype=x.dtype, axis=axis)


def scatter_add(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x, and to each of its elements along an axis the values whose id names it."""
    x = expect.tensor(tracer, args, "x", SUMMABLE)
    axis = expect.axis(tracer, args, x)
    values = expect.tensor(tracer, args, "values", (x.dtype,), rank=x.rank)
    _check_beside(tracer, args, "values", x, values, axis)
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    wanted = values.dims if ids.rank == values.rank else values.dims[axis : axis + 1]
    _check_ids(tracer, args, "values", values, ids, wanted)
    size = x.dims[axis].size
    tracer.look_up(ids, size, "an id")
    if ids.rank == 1 and axis == 0:
        # Whole rows have one id each, which large tables make use of.
        sums = tracer.emit("gather_grad", values, ids, dims=x.dims, dtype=x.dtype, rows=size)
        return tracer.emit("add", x, sums, dims=x.dims, dtype=x.dtype)
    along = [*(Dim.literal(1) for _ in range(axis)), ids.dims[0]] if ids.rank == 1 else ids.dims
    along = [*along, *(Dim.literal(1) for _ in range(values.rank - len(along)))]
    places = tracer.broadcast(broadcasting.reshape(tracer, ids, along), values.dims)
    sums = tracer.emit(
        "add_along", values, places, dims=x.dims, dtype=x.dtype, axis=axis, size=size
    )
    return tracer.emit("add", x, sums, dims=x.dims, dtype=x.dtype)


def segment_sum(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`size` rows: each the sum of the rows of `x` that have its number as id."""
    x = expect.tensor(tracer, args, "x", SUMMABLE)
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    size = expect.whole(tracer, args, "size")
    if ids.rank == 0 or ids.rank > x.rank:
        text = f"`ids` must be one id for each row of `x`, but this is {ids}"
        raise Stop(tracer.report.error("WG0415", text, args.span("ids"), str(ids)))
    _check_ids(tracer, args, "x", x, ids, x.dims[: ids.rank])
    tracer.look_up(ids, size.size, "an id")
    dims = (size, *x.dims[ids.rank :])
    return tracer.emit("gather_grad", x, ids, dims=dims, dtype=x.dtype, rows=size.size)


def _places(tracer: Tracer, args: BoundArgs, rank: int) -> Tensor:
    ids = tracer.cast(expect.tensor(tracer, args, "ids", INTEGERS), "i32")
    if ids.rank == rank:
        return ids
    text = f"`ids` must have as many axes as `x`, {rank}, but this is {ids}"
    problem = tracer.report.error("WG0415", text, args.span("ids"), str(ids))
    raise Stop(
        problem.help("`gather(x, ids)` looks up whole rows, `x[rows, cols]` single elements")
    )


def _common(tracer: Tracer, args: BoundArgs, x: Tensor, ids: Tensor, axis: int) -> tuple[Dim, ...]:
    """The sizes beside `axis`; one of size 1 is repeated."""
    dims = []
    for number, (a, b) in enumerate(zip(x.dims, ids.dims, strict=True)):
        stretches = a.is_one or b.is_one or number == axis
        if not stretches and not tracer.same_size(a, b, args.span("ids"), "`take_along_axis`"):
            text = f"axis {number} of `x` is {a.full}, but of `ids` it is {b.full}"
            problem = tracer.report.error("WG0406", text, args.span("ids"), str(ids))
            raise Stop(problem.also(args.span("x"), str(x)))
        dims.append(b if a.is_one else a)
    return tuple(dims)


def _check_beside(
    tracer: Tracer, args: BoundArgs, name: str, x: Tensor, other: Tensor, axis: int
) -> None:
    """Two tensors must have equal sizes in all axes but one."""
    for number, (a, b) in enumerate(zip(x.dims, other.dims, strict=True)):
        same = number == axis or tracer.same_size(a, b, args.span(name), "`scatter_add`")
        if not same:
            text = f"axis {number} of `x` is {a.full}, but of `{name}` it is {b.full}"
            problem = tracer.report.error("WG0406", text, args.span(name), str(other))
            raise Stop(problem.also(args.span("x"), str(x)))


def _check_ids(
    tracer: Tracer,
    args: BoundArgs,
    name: str,
    values: Tensor,
    ids: Tensor,
    wanted: tuple[Dim, ...],
) -> None:
    """One id for each element, or for each row, of the argument `name`."""
    fits = ids.rank == len(wanted) and all(
        tracer.same_size(a, b, args.span("ids"), "ids")
        for a, b in zip(ids.dims, wanted, strict=True)
    )
    if not fits:
        text = f"`ids` must have an id for each row or each element of `{name}`, but this is {ids}"
        problem = tracer.report.error("WG0406", text, args.span("ids"), str(ids))
        raise Stop(problem.also(args.span(name), str(values)))


FUNCTIONS = (
    _fill("zeros", 0),
    _fill("ones", 1),
    _filled_like("zeros_like", 0),
    _filled_like("ones_like", 1),
    BuiltinFunction("full_like", "x, value", full_like),
    BuiltinFunction("arange", "start, stop=none, step=1", arange),
    _random("rand", "uniform"),
    _random("randn", "normal"),
    BuiltinFunction("randint", "low, high, type", randint),
    BuiltinFunction("bernoulli", "p", bernoulli),
    BuiltinFunction("one_hot", "ids, size", one_hot),
    BuiltinFunction("sample", "logits, temperature=1.0, top_k=none, top_p=none, seed=none", sample),
    BuiltinFunction("gather", "table, ids", gather),
    BuiltinFunction("take_along_axis", "x, ids, axis=-1", take_along_axis),
    BuiltinFunction("scatter_add", "x, ids, values, axis=0", scatter_add),
    BuiltinFunction("segment_sum", "x, ids, size", segment_sum),
)
