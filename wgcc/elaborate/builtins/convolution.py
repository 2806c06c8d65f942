"""`conv2d` and `causal_conv1d`, out of shifted slices and matrix products (channels-last)."""

from __future__ import annotations

from wgcc.elaborate import views
from wgcc.elaborate.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.builtins import parameters
from wgcc.elaborate.builtins.windows import Windows, windows_over
from wgcc.elaborate.dims import DIFF, Dim, compare, product
from wgcc.elaborate.report import Stop
from wgcc.elaborate.terms import Term
from wgcc.elaborate.tracer import LARGEST_TENSOR, Tracer
from wgcc.elaborate.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS

# Each step of a window is a term of its own.
LONGEST_WINDOW = 256


def conv2d(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x `[N, H, W, I]` with kernels w `[KH, KW, I / groups, O]`; no kernel is flipped."""
    x = parameters.tensor(tracer, args, "x", FLOATS, rank=4)
    w = parameters.tensor(tracer, args, "w", (x.dtype,), rank=4)
    stride = parameters.pair(tracer, args, "stride")
    dilation = parameters.pair(tracer, args, "dilation")
    pad = parameters.pair(tracer, args, "pad", least=0)
    groups = parameters.whole(tracer, args, "groups")
    _check_channels(tracer, args, at, x, w, groups)
    windows = windows_over(tracer, at, x.dims[1:3], w.dims[:2], stride, pad, dilation)
    dims = (x.dims[0], *windows.out, w.dims[3])
    if tracer.generic:
        return tracer.emit("conv2d", x, w, dims=dims, dtype=x.dtype)
    image = Term(tracer, _padded(tracer, x, pad))
    return _convolve(image, Term(tracer, w), windows, groups).reshape(dims).tensor


def _padded(tracer: Tracer, x: Tensor, pad: tuple[Dim, Dim]) -> Tensor:
    """`x` with so many rows and columns of zeros on each side."""
    two = Dim.literal(2)
    rows, columns = x.dims[1] + two * pad[0], x.dims[2] + two * pad[1]
    starts = (0, pad[0].size, pad[1].size, 0)
    return views.place(tracer, x, starts, (x.dims[0], rows, columns, x.dims[3]), (1, 1, 1, 1))


def _convolve(image: Term, w: Term, windows: Windows, groups: Dim) -> Term:
    """Rows of one matrix: every pixel of the result with all it sees, place after place."""
    if groups.size > 1 and w.dims[2].size == 1 and w.dims[3].size == groups.size:
        return _depthwise(image, w, windows)
    kernels = w.reshape([w.dims[0] * w.dims[1], w.dims[2], w.dims[3]])
    if windows.are_tiles:
        tiles = windows.tiles(image).transpose([0, 1, 3, 2, 4, 5])
        pixels = [image.dims[0], *windows.out]
        return _product(tiles.reshape([*pixels, kernels.dims[0], image.dims[3]]), kernels, groups)
    places = windows.places
    seen = product((image.dims[0], *windows.out, image.dims[3])).size
    most = max(1, LARGEST_TENSOR // seen)
    total: Term | None = None
    for first in range(0, len(places), most):
        columns = windows.stacked(image, places[first : first + most])
        part = views.part(image.tracer, kernels.tensor, 0, first, columns.dims[3])
        result = _product(columns, Term(image.tracer, part), groups)
        total = result if total is None else total + result
    assert total is not None
    return total


def _product(columns: Term, kernels: Term, groups: Dim) -> Term:
    """`[N, H', W', places, I]` times `[places, I / groups, O]`, each group for itself."""
    tracer = columns.tracer
    pixels = product(columns.dims[:3])
    count, channels, out = kernels.dims
    inner = count * channels
    if groups.size == 1:
        left, right = columns.reshape([pixels, inner]), kernels.reshape([inner, out])
        dims: tuple[Dim, ...] = (pixels, out)
        result = tracer.emit("matmul", left.tensor, right.tensor, dims=dims, dtype=columns.dtype)
        return Term(tracer, result)
    each = out.divided_by(groups)
    assert each is not None
    left = columns.reshape([pixels, count, groups, channels]).transpose([2, 0, 1, 3])
    right = kernels.reshape([count, channels, groups, each]).transpose([2, 0, 1, 3])
    left, right = left.reshape([groups, pixels, inner]), right.reshape([groups, inner, each])
    dims = (groups, pixels, each)
    stack = tracer.emit("matmul", left.tensor, right.tensor, dims=dims, dtype=columns.dtype)
    return Term(tracer, stack).transpose([1, 0, 2]).reshape([pixels, out])


def _depthwise(image: Term, w: Term, windows: Windows) -> Term:
    """Every channel has its own kernel: no matrix, a sum of shifted products."""
    tracer = image.tracer
    kernels = w.reshape([w.dims[0] * w.dims[1], w.dims[3]])
    total: Term | None = None
    for number, place in enumerate(windows.places):
        factor = Term(tracer, views.part(tracer, kernels.tensor, 0, number, Dim.literal(1)))
        result = windows.seen_from(image, place) * factor.reshape([w.dims[3]])
        total = result if total is None else total + result
    assert total is not None
    return total


def _check_channels(
    tracer: Tracer, args: BoundArgs, at: Span, x: Tensor, w: Tensor, groups: Dim
) -> None:
    each, outputs = x.dims[3].divided_by(groups), w.dims[3].divided_by(groups)
    if each is None or outputs is None:
        channels = f"{x.dims[3].full} and {w.dims[3].full}"
        text = f"conv2d: {groups.size} groups do not divide the channels, {channels}"
        raise Stop(tracer.report.error("WG0406", text, args.span("groups")))
    if not tracer.same_size(each, w.dims[2], at, "conv2d"):
        text = (
            f"conv2d: the input has {x.dims[3].full} channels, "
            f"the kernel expects {(w.dims[2] * groups).full}"
        )
        found = tracer.report.error("WG0406", text, at)
        raise Stop(found.also(args.span("x"), str(x)).also(args.span("w"), str(w)))


def causal_conv1d(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """y_t = Σ_i w_i x_{t - K + 1 + i}, each channel for itself; before the beginning x is zero."""
    x = parameters.tensor(tracer, args, "x", FLOATS)
    w = parameters.tensor(tracer, args, "w", (x.dtype,), rank=2)
    if x.rank < 2 or compare(x.dims[-1], w.dims[1]) is DIFF:
        channels = x.dims[-1].full if x.dims else "no"
        text = f"causal_conv1d: {x} has {channels} channels, the window has {w.dims[1].full}"
        raise Stop(tracer.report.error("WG0406", text, at))
    tracer.same_size(x.dims[-1], w.dims[1], at, "causal_conv1d")
    if w.dims[0].size > LONGEST_WINDOW and not tracer.generic:
        text = f"a window of {w.dims[0].full} is too long, at most {LONGEST_WINDOW} are possible"
        raise Stop(tracer.report.error("WG0417", text, args.span("w")))
    if tracer.generic:
        return tracer.emit("causal_conv1d", x, w, dims=x.dims, dtype=x.dtype)
    total: Term | None = None
    for number in range(w.dims[0].size):
        late = w.dims[0].size - 1 - number
        if late >= x.dims[-2].size:
            continue
        factor = Term(tracer, views.part(tracer, w, 0, number, Dim.literal(1)))
        term = _delayed(Term(tracer, x), late) * factor.reshape([w.dims[1]])
        total = term if total is None else total + term
    assert total is not None
    return total.tensor


def _delayed(x: Term, steps: int) -> Term:
    """x moved `steps` towards the end of its second-last axis; zeros come in."""
    axis = x.rank - 2
    starts, ones = [0] * x.rank, [1] * x.rank
    kept = views.part(x.tracer, x.tensor, axis, 0, Dim.literal(x.dims[axis].size - steps))
    starts[axis] = steps
    return Term(x.tracer, views.place(x.tracer, kept, starts, x.dims, ones))


FUNCTIONS = (
    BuiltinFunction("conv2d", "x, w, stride=1, pad=0, dilation=1, groups=1", conv2d),
    BuiltinFunction("causal_conv1d", "x, w", causal_conv1d),
)
