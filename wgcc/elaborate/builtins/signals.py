"""Functions of images and signals: padding, resizing, sampling at places of a grid, and discrete
Fourier transforms of power-of-two sizes.

There are no complex numbers: the real and the imaginary part are two tensors.
"""

from __future__ import annotations

from collections.abc import Callable

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.shapes import concatenate
from wgcc.elaborate.builtins.windows import new_size
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import TensorExpr
from wgcc.elaborate.operators.operands import as_scalar
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import ListValue, Tensor, TupleValue
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

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
    if args.is_given("value"):
        text = f'`value` is for the mode "constant"; "{mode}" repeats elements of `x`'
        raise Stop(tracer.report.error("WG0503", text, args.span("value")))
    for axis, width in widths.items():
        _check_width(tracer, args, mode, x.dims[axis], width)
        x = _extend(tracer, x, axis, width, _SIDES[mode])
    return x


def _widths(tracer: Tracer, args: BoundArgs, x: Tensor) -> Widths:
    """Pairs of widths by axis: as in PyTorch, the last axis first; or those of the given axes."""
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
    placed = broadcasting.place(tracer, x, starts, dims, [1] * x.rank)
    if not args.is_given("value"):
        return placed
    value = as_scalar(tracer, expect.argument(args, "value"), x.dtype)
    true = tracer.broadcast(tracer.constant(True, "bool"), x.dims)
    inside = broadcasting.place(tracer, true, starts, dims, [1] * x.rank)
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


def _extend(tracer: Tracer, x: Tensor, axis: int, width: tuple[Dim, Dim], side: Side) -> Tensor:
    before, after = width
    parts = [side(tracer, x, axis, before, True)] if before.size else []
    parts.append(x)
    parts += [side(tracer, x, axis, after, False)] if after.size else []
    return concatenate(tracer, parts, axis)


def _reflect(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    """The mirror image, without the element at the edge."""
    start = 1 if before else x.dims[axis].size - 1 - width.size
    return broadcasting.flip(tracer, broadcasting.part(tracer, x, axis, start, width), [axis])


def _replicate(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    edge = broadcasting.part(tracer, x, axis, 0 if before else x.dims[axis].size - 1, ONE)
    return tracer.broadcast(edge, [*x.dims[:axis], width, *x.dims[axis + 1 :]])


def _wrap(tracer: Tracer, x: Tensor, axis: int, width: Dim, before: bool) -> Tensor:
    start = x.dims[axis].size - width.size if before else 0
    return broadcasting.part(tracer, x, axis, start, width)


_SIDES: dict[str, Side] = {
    "reflect": _reflect,
    "replicate": _replicate,
    "circular": _wrap,
}


# PyTorch's names for two axes, and what is done along each.
RESIZE_MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def resize(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`[N, H, W, C]` (or 1 or 3 axes instead of H, W) resampled to a size, axis by axis."""
    x = expect.tensor(tracer, args, "x", FLOATS)
    if not 3 <= x.rank <= 5:
        text = f"`x` must be [N, size …, C] with 1 to 3 axes in between, but this is {x}"
        raise Stop(tracer.report.error("WG0415", text, args.span("x"), str(x)))
    size = expect.per_axis(tracer, args, "size", x.rank - 2)
    mode = RESIZE_MODES[expect.choice(tracer, args, "mode", tuple(RESIZE_MODES))]
    align = expect.flag(tracer, args, "align_corners")
    if align and mode == "nearest":
        text = "`align_corners` is for bilinear and bicubic; the nearest pixel has no corners"
        raise Stop(tracer.report.error("WG0503", text, args.span("align_corners")))
    for axis, wanted in enumerate(size, 1):
        if wanted.size != x.dims[axis].size:
            dims = (*x.dims[:axis], wanted, *x.dims[axis + 1 :])
            x = tracer.emit(
                "resize", x, dims=dims, dtype=x.dtype,
                axis=axis, size=wanted.size, mode=mode, align=align,
            )  # fmt: skip
            tracer.check_size(x.value.type, str(x), at)
    return Tensor(x.value, (x.dims[0], *size, x.dims[-1]))


def upsample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """Each pixel of `[N, H, W, C]` as a block of `factor` equal ones (nearest neighbour)."""
    x = expect.tensor(tracer, args, "x", rank=4)
    down, right = expect.per_axis(tracer, args, "factor", 2)
    batch, rows, columns, channels = x.dims
    one = Dim.literal(1)
    blocks = TensorExpr(tracer, x).reshape([batch, rows, one, columns, one, channels])
    spread = blocks.broadcast([batch, rows, down, columns, right, channels])
    dims = (batch, rows * down, columns * right, channels)
    result = spread.reshape(dims).tensor
    tracer.check_size(result.value.type, str(result), at)
    return result


SAMPLE_MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


def grid_sample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x `[N, H, W, C]` at grid `[N, H', W', 2]`: (x, y) from -1 to 1, the edges of the image."""
    image = expect.tensor(tracer, args, "x", FLOATS, rank=4)
    grid = expect.tensor(tracer, args, "grid", ("f32",), rank=4)
    _check_grid(tracer, args, at, image, grid)
    mode = expect.choice(tracer, args, "mode", SAMPLE_MODES)
    padding = expect.choice(tracer, args, "padding_mode", PADDINGS)
    align = expect.flag(tracer, args, "align_corners")
    columns, rows = (
        _position(tracer, grid, k, image.dims[2 - k].size, padding, align) for k in (0, 1)
    )
    batch, _, _, channels = image.dims
    samples = tracer.emit(
        "grid_sample", image, rows, columns, dims=(batch, rows.dims[1], channels),
        dtype=image.dtype, mode=mode,
    )  # fmt: skip
    return broadcasting.reshape(tracer, samples, (batch, *grid.dims[1:3], channels))


def _check_grid(tracer: Tracer, args: BoundArgs, at: Span, image: Tensor, grid: Tensor) -> None:
    if grid.dims[3].size != 2 and not tracer.generic:
        text = f"grid_sample: `grid` has a position (x, y) for each sample, but this is {grid}"
        raise Stop(tracer.report.error("WG0406", text, args.span("grid"), str(grid)))
    if not tracer.same_size(image.dims[0], grid.dims[0], at, "grid_sample"):
        text = f"grid_sample: {image.dims[0].full} images, but grids for {grid.dims[0].full}"
        problem = tracer.report.error("WG0406", text, at)
        raise Stop(problem.also(args.span("x"), str(image)).also(args.span("grid"), str(grid)))


def _position(tracer: Tracer, grid: Tensor, k: int, size: int, padding: str, align: bool) -> Tensor:
    """The positions of the samples in pixels, `[N, samples]`."""
    part = TensorExpr(tracer, broadcasting.part(tracer, grid, 3, k, Dim.literal(1)))
    unit = part.reshape([grid.dims[0], product(grid.dims[1:3])])
    scale = 0.5 * (size - 1) if align else 0.5 * size
    at = unit * scale + (scale if align else scale - 0.5)
    if padding == "zeros":
        return at.tensor
    if padding == "reflection":
        at = _reflected_place(at, *((0.0, size - 1.0) if align else (-0.5, float(size))))
    # At the edges themselves no gradient passes, as in PyTorch.
    last = at.of(size - 1.0)
    below = at.compare("le", 0.0).choose(at.of(0.0), at)
    return below.compare("ge", last).choose(last, below).tensor


def _reflected_place(at: TensorExpr, low: float, span: float) -> TensorExpr:
    """Back and forth between `low` and `low + span`."""
    if span == 0.0:
        return at * 0.0
    away = (at - low).apply("abs")
    reflections = (away * (1.0 / span)).apply("floor")
    rest = away - reflections * span
    is_even = reflections.apply("mod", 2.0).compare("eq", 0.0)
    return is_even.choose(rest, span - rest) + low


FORWARD, BACKWARD = -1, 1


def fft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """Σₙ xₙ exp(-2πi kn / N) along an axis."""
    parts, axis = _parts(tracer, args, at)
    return _pair(_transform(tracer, parts, axis, FORWARD))


def ifft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The inverse of `fft`, divided by N."""
    parts, axis = _parts(tracer, args, at)
    return _pair(_inverse(tracer, parts, axis))


def rfft(tracer: Tracer, args: BoundArgs, at: Span) -> TupleValue:
    """The first N / 2 + 1 of the `fft` of real numbers; the others are their mirror image."""
    x = expect.tensor(tracer, args, "x", ("f32",))
    axis = expect.axis(tracer, args, x)
    _check_size(tracer, x.dims[axis], at)
    half = new_size(tracer, x.dims[axis].size // 2 + 1)
    both = _transform(tracer, [x], axis, FORWARD)
    return _pair([broadcasting.part(tracer, part, axis, 0, half) for part in both])


def irfft(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """The inverse of `rfft`: real numbers."""
    parts, axis = _parts(tracer, args, at, check=False)
    half = parts[0].dims[axis].size
    whole = max(2 * (half - 1), 1)
    _check_size(tracer, Dim.literal(whole), at)
    if whole > 2:
        re, im = (_mirror(tracer, part, axis) for part in parts)
        conjugate = (re, (-TensorExpr(tracer, im)).tensor)
        parts = [
            concatenate(tracer, list(both), axis) for both in zip(parts, conjugate, strict=True)
        ]
    return _inverse(tracer, parts, axis)[0]


def _parts(
    tracer: Tracer, args: BoundArgs, at: Span, check: bool = True
) -> tuple[list[Tensor], int]:
    names = ["re"] if args["im"] is None else ["re", "im"]
    parts = [expect.tensor(tracer, args, name, ("f32",)) for name in names]
    axis = expect.axis(tracer, args, parts[0])
    if len(parts) > 1 and not _same_shape(*parts):
        text = f"real and imaginary parts have one shape, but these are {parts[0]} and {parts[1]}"
        raise Stop(tracer.report.error("WG0419", text, at))
    if check:
        _check_size(tracer, parts[0].dims[axis], at)
    return parts, axis


def _same_shape(re: Tensor, im: Tensor) -> bool:
    same = (compare(a, b) is not DIFF for a, b in zip(re.dims, im.dims, strict=False))
    return re.rank == im.rank and all(same)


def _check_size(tracer: Tracer, dim: Dim, at: Span) -> None:
    if dim.size & (dim.size - 1) and not tracer.generic:
        text = f"Fourier transforms need a power of two, but this axis has {dim.full}"
        longer = 1 << dim.size.bit_length()
        problem = tracer.report.error("WG0417", text, at)
        raise Stop(problem.help(f"pad it with zeros, to {longer}"))


def _transform(tracer: Tracer, parts: list[Tensor], axis: int, sign: int) -> list[Tensor]:
    rank = parts[0].rank
    last = [*(k for k in range(rank) if k != axis), axis]
    moved = [broadcasting.transpose(tracer, part, last) for part in parts]
    outputs = [(moved[0].dims, "f32")] * 2
    transforms = tracer.emit_many("dft", *moved, outputs=outputs, sign=sign)
    back = [last.index(k) for k in range(rank)]
    return [broadcasting.transpose(tracer, part, back) for part in transforms]


def _inverse(tracer: Tracer, parts: list[Tensor], axis: int) -> list[Tensor]:
    scale = 1.0 / parts[0].dims[axis].size
    unscaled = _transform(tracer, parts, axis, BACKWARD)
    return [(TensorExpr(tracer, part) * scale).tensor for part in unscaled]


def _mirror(tracer: Tracer, x: Tensor, axis: int) -> Tensor:
    """All but the first and the last, backwards."""
    inner = broadcasting.part(tracer, x, axis, 1, x.dims[axis] - Dim.literal(2))
    return broadcasting.flip(tracer, inner, [axis])


def _pair(parts: list[Tensor]) -> TupleValue:
    return TupleValue((parts[0], parts[1]))


FUNCTIONS = (
    BuiltinFunction("pad", 'x, width, axis=none, mode="constant", value=0', pad),
    BuiltinFunction("resize", 'x, size, mode="nearest", align_corners=false', resize),
    BuiltinFunction("upsample", "x, factor=2", upsample),
    BuiltinFunction(
        "grid_sample",
        'x, grid, mode="bilinear", padding_mode="zeros", align_corners=false',
        grid_sample,
    ),
    BuiltinFunction("fft", "re, im=none, axis=-1", fft),
    BuiltinFunction("ifft", "re, im=none, axis=-1", ifft),
    BuiltinFunction("rfft", "x, axis=-1", rfft),
    BuiltinFunction("irfft", "re, im, axis=-1", irfft),
)
