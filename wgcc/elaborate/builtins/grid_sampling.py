"""`grid_sample`: pixels of an image at positions that a tensor gives, channels-last."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.tensor_expr import TensorExpr
from wgcc.elaborate.operators import views
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


def grid_sample(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x `[N, H, W, C]` at grid `[N, H', W', 2]`: (x, y) from -1 to 1, the edges of the image."""
    image = expect.tensor(tracer, args, "x", FLOATS, rank=4)
    grid = expect.tensor(tracer, args, "grid", ("f32",), rank=4)
    _check_grid(tracer, args, at, image, grid)
    mode = expect.choice(tracer, args, "mode", MODES)
    padding = expect.choice(tracer, args, "padding_mode", PADDINGS)
    align = expect.flag(tracer, args, "align_corners")
    columns, rows = (
        _position(tracer, grid, k, image.dims[2 - k].size, padding, align) for k in (0, 1)
    )
    batch, _, _, channels = image.dims
    found = tracer.emit(
        "grid_sample", image, rows, columns, dims=(batch, rows.dims[1], channels),
        dtype=image.dtype, mode=mode,
    )  # fmt: skip
    return views.reshape(tracer, found, (batch, *grid.dims[1:3], channels))


def _check_grid(tracer: Tracer, args: BoundArgs, at: Span, image: Tensor, grid: Tensor) -> None:
    if grid.dims[3].size != 2 and not tracer.generic:
        text = f"grid_sample: `grid` has a position (x, y) for each sample, but this is {grid}"
        raise Stop(tracer.report.error("WG0406", text, args.span("grid"), str(grid)))
    if not tracer.same_size(image.dims[0], grid.dims[0], at, "grid_sample"):
        text = f"grid_sample: {image.dims[0].full} images, but grids for {grid.dims[0].full}"
        found = tracer.report.error("WG0406", text, at)
        raise Stop(found.also(args.span("x"), str(image)).also(args.span("grid"), str(grid)))


def _position(tracer: Tracer, grid: Tensor, k: int, size: int, padding: str, align: bool) -> Tensor:
    """In pixels, `[N, samples]`."""
    part = TensorExpr(tracer, views.part(tracer, grid, 3, k, Dim.literal(1)))
    unit = part.reshape([grid.dims[0], product(grid.dims[1:3])])
    scale = 0.5 * (size - 1) if align else 0.5 * size
    at = unit * scale + (scale if align else scale - 0.5)
    if padding == "zeros":
        return at.tensor
    if padding == "reflection":
        at = _reflected(at, *((0.0, size - 1.0) if align else (-0.5, float(size))))
    # At the edges themselves no gradient passes, as in PyTorch.
    last = at.of(size - 1.0)
    below = at.compare("le", 0.0).choose(at.of(0.0), at)
    return below.compare("ge", last).choose(last, below).tensor


def _reflected(at: TensorExpr, low: float, span: float) -> TensorExpr:
    """Back and forth between `low` and `low + span`."""
    if span == 0.0:
        return at * 0.0
    away = (at - low).apply("abs")
    reflections = (away * (1.0 / span)).apply("floor")
    rest = away - reflections * span
    is_even = reflections.apply("mod", 2.0).compare("eq", 0.0)
    return is_even.choose(rest, span - rest) + low


FUNCTIONS = (
    BuiltinFunction(
        "grid_sample",
        'x, grid, mode="bilinear", padding_mode="zeros", align_corners=false',
        grid_sample,
    ),
)
