"""`conv2d` and `causal_conv1d`, out of shifted slices and matrix products (channels-last)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate import views
from wgcc.elaborate.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.builtins import parameters
from wgcc.elaborate.dims import DIFF, Dim, compare, product
from wgcc.elaborate.report import Stop
from wgcc.elaborate.terms import Term
from wgcc.elaborate.tracer import LARGEST_TENSOR, Tracer
from wgcc.elaborate.values import Tensor
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS


@dataclass(frozen=True, eq=False)
class Windows:
    """Where a kernel of `kernel` pixels lies over an image: once for each pixel of `out`."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    out: tuple[Dim, Dim]

    @property
    def places(self) -> list[tuple[int, int]]:
        """The first pixel that each place of the kernel sees, row by row."""
        rows, columns = self.kernel
        down, right = self.dilation
        return [(i * down, j * right) for i in range(rows) for j in range(columns)]

    def seen_from(self, tracer: Tracer, image: Tensor, place: tuple[int, int]) -> Tensor:
        """What one place of the kernel sees, as an image of the size of the result."""
        starts = (0, *place, 0)
        dims = (image.dims[0], *self.out, image.dims[3])
        return views.cut(tracer, image, starts, dims, (1, *self.stride, 1))


def conv2d(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """x `[N, H, W, I]` with kernels w `[KH, KW, I / groups, O]`; no kernel is flipped."""
    x = parameters.tensor(tracer, args, "x", FLOATS, rank=4)
    w = parameters.tensor(tracer, args, "w", (x.dtype,), rank=4)
    stride = parameters.pair(tracer, args, "stride")
    dilation = parameters.pair(tracer, args, "dilation")
    pad = parameters.pair(tracer, args, "pad", least=0)
    groups = parameters.whole(tracer, args, "groups")
    _check_channels(tracer, args, at, x, w, groups)
    image = padded(tracer, x, pad)
    kernel = (w.dims[0], w.dims[1])
    out = [
        result_dim(tracer, at, x.dims[1 + n], pad[n], kernel[n], stride[n], dilation[n])
        for n in (0, 1)
    ]
    dims = (x.dims[0], out[0], out[1], w.dims[3])
    if tracer.generic:
        return tracer.emit("conv2d", x, w, dims=dims, dtype=x.dtype)
    windows = Windows(
        (kernel[0].size, kernel[1].size),
        (stride[0].size, stride[1].size),
        (dilation[0].size, dilation[1].size),
        (out[0], out[1]),
    )
    result = _convolve(Term(tracer, image), Term(tracer, w), windows, groups)
    return result.reshape(dims).tensor


def padded(tracer: Tracer, x: Tensor, pad: tuple[Dim, Dim]) -> Tensor:
    """`x` with so many rows and columns of zeros on each side."""
    two = Dim.literal(2)
    rows, columns = x.dims[1] + two * pad[0], x.dims[2] + two * pad[1]
    starts = (0, pad[0].size, pad[1].size, 0)
    return views.place(tracer, x, starts, (x.dims[0], rows, columns, x.dims[3]), (1, 1, 1, 1))


def result_dim(
    tracer: Tracer, at: Span, size: Dim, pad: Dim, kernel: Dim, stride: Dim, dilation: Dim
) -> Dim:
    """How often a kernel fits along an axis; the axis itself if that is its own size."""
    span = size.size + 2 * pad.size - dilation.size * (kernel.size - 1) - 1
    if tracer.generic:
        same = span // stride.size + 1 == size.size
        return size if same else Dim(max(span, 0) // stride.size + 1, generic=True)
    if span < 0:
        text = f"the kernel of {kernel.size} pixels does not fit in {size.full}"
        found = tracer.report.error("WG0417", text, at)
        raise Stop(found.help("use a smaller kernel, or `pad`"))
    count = span // stride.size + 1
    if count == size.size:
        return size
    exact = size.divided_by(stride)
    return exact if exact is not None and exact.size == count else Dim.literal(count)


def _convolve(image: Term, w: Term, windows: Windows, groups: Dim) -> Term:
    """Rows of one matrix: every pixel of the result with all it sees, place after place."""
    channels = w.dims[2]
    if groups.size > 1 and channels.size == 1 and w.dims[3].size == groups.size:
        return _depthwise(image, w, windows)
    total: Term | None = None
    pixels = product((image.dims[0], *windows.out))
    most = max(1, LARGEST_TENSOR // (pixels.size * image.dims[3].size))
    for first in range(0, len(windows.places), most):
        places = windows.places[first : first + most]
        part = _matrix_product(image, w, windows, groups, first, places)
        total = part if total is None else total + part
    assert total is not None
    return total


def _matrix_product(
    image: Term, w: Term, windows: Windows, groups: Dim, first: int,
    places: Sequence[tuple[int, int]],
) -> Term:  # fmt: skip
    tracer = image.tracer
    count, channels, out = Dim.literal(len(places)), w.dims[2], w.dims[3]
    pixels = product((image.dims[0], *windows.out))
    seen = [views.new_axis(tracer, windows.seen_from(tracer, image.tensor, place), 3)
            for place in places]  # fmt: skip
    columns = Term(tracer, _joined(tracer, seen, 3))
    kernels = w.reshape([w.dims[0] * w.dims[1], channels, out])
    kernels = Term(tracer, views.part(tracer, kernels.tensor, 0, first, count))
    if groups.size == 1:
        left = columns.reshape([pixels, count * channels])
        right = kernels.reshape([count * channels, out])
        dims: tuple[Dim, ...] = (pixels, out)
        return Term(
            tracer, tracer.emit("matmul", left.tensor, right.tensor, dims=dims, dtype=w.dtype)
        )
    each = out.divided_by(groups)
    assert each is not None
    left = columns.reshape([pixels, count, groups, channels]).transpose([2, 0, 1, 3])
    right = kernels.reshape([count, channels, groups, each]).transpose([2, 0, 1, 3])
    left = left.reshape([groups, pixels, count * channels])
    right = right.reshape([groups, count * channels, each])
    dims = (groups, pixels, each)
    stacked = tracer.emit("matmul", left.tensor, right.tensor, dims=dims, dtype=w.dtype)
    return Term(tracer, stacked).transpose([1, 0, 2]).reshape([pixels, out])


def _joined(tracer: Tracer, parts: Sequence[Tensor], axis: int) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    dims = list(parts[0].dims)
    dims[axis] = Dim.literal(len(parts))
    return tracer.emit("concat", *parts, dims=dims, dtype=parts[0].dtype, axis=axis)


def _depthwise(image: Term, w: Term, windows: Windows) -> Term:
    """Every channel has its own kernel: no matrix, a sum of shifted products."""
    tracer = image.tracer
    kernels = w.reshape([w.dims[0] * w.dims[1], w.dims[3]])
    total: Term | None = None
    for number, place in enumerate(windows.places):
        factor = Term(tracer, views.part(tracer, kernels.tensor, 0, number, Dim.literal(1)))
        seen = Term(tracer, windows.seen_from(tracer, image.tensor, place))
        product_ = seen * factor.reshape([w.dims[3]])
        total = product_ if total is None else total + product_
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
