"""grid_sample(x, rows, columns; mode): pixels of images at positions between them.

x is [N, H, W, C], rows and columns are [N, S] (in pixels, f32), the result is [N, S, C]. `mode` is
bilinear or nearest (halves to the even one). What is outside an image is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import NUMPY_CALL, Expand, Op, Sample, ShapeError, check_dtype, check_same

BILINEAR, NEAREST = "bilinear", "nearest"


def infer(x: TensorType, rows: TensorType, columns: TensorType, mode: str) -> TensorType:
    check_dtype("grid_sample", x, FLOATS)
    check_dtype("grid_sample: positions", rows, ("f32",))
    check_same("grid_sample", rows, columns)
    if x.rank != 4 or rows.rank != 2 or x.shape[0] != rows.shape[0]:
        raise ShapeError(f"grid_sample takes [N, H, W, C] and [N, S], not {x} and {rows}")
    if mode not in (BILINEAR, NEAREST):
        raise ShapeError(f"grid_sample: mode is {BILINEAR} or {NEAREST}, not {mode}")
    return TensorType((x.shape[0], rows.shape[1], x.shape[3]), x.dtype)


def reference(x: Array, rows: Array, columns: Array, mode: str) -> Array:
    batch, height, width, channels = x.shape
    y = np.zeros((batch, rows.shape[1], channels), x.dtype)
    image = np.arange(batch)[:, None]
    for down in range(1 if mode == NEAREST else 2):
        for right in range(1 if mode == NEAREST else 2):
            r, a = _pixel_array(rows, mode, down)
            c, b = _pixel_array(columns, mode, right)
            exists = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            pixels = x[image, np.where(exists, r, 0), np.where(exists, c, 0)]
            y += pixels * np.where(exists, a * b, 0)[..., None].astype(x.dtype)
    return y


def _pixel_array(position: Array, mode: str, tap: int) -> tuple[Array, Array]:
    if mode == NEAREST:
        return np.rint(position).astype(np.int64), np.ones_like(position)
    first = np.floor(position)
    return (first + tap).astype(np.int64), 1 - np.abs(position - first - tap)


def effort(node: Node) -> int:
    return 4 * (node.output.type.size + 8 * NUMPY_CALL)


@dataclass(frozen=True, slots=True)
class _Taps:
    """For each sample and each of its pixels: [N, S, taps].

    `ids` are numbers of pixels in the flattened image; `weights` are 0 outside. `down` and `right`
    say how the weight changes with the position.
    """

    ids: Term
    weights: Term
    down: Term
    right: Term


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, rows, columns = (Term(b, value) for value in node.inputs)
    taps = _taps(node, rows, columns)
    pixels = _pixels(x, taps)
    weights = taps.weights.cast(x.dtype).reshape((*taps.weights.shape, 1))
    return [(pixels * weights.broadcast(pixels.shape)).sum((2,)).value]


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = g times its weights, added up by pixel; drow = Σ_taps (g · pixel) dweight / drow
    if gs[0] is None:
        return [None, None, None]
    x, rows, columns = (Term(b, value) for value in node.inputs)
    taps = _taps(node, rows, columns)
    shape = (*taps.ids.shape, x.shape[3])
    g = Term(b, gs[0]).spread((2,), shape)
    weights = taps.weights.cast(x.dtype).reshape((*taps.weights.shape, 1))
    dx = _added_by_pixel(g * weights.broadcast(shape), taps, x.shape)
    if node.attrs["mode"] == NEAREST:
        return [dx.value, None, None]
    each = (_pixels(x, taps) * g).cast("f32").sum((3,))
    return [dx.value, (each * taps.down).sum((2,)).value, (each * taps.right).sum((2,)).value]


def _added_by_pixel(values: Term, taps: _Taps, image: tuple[int, ...]) -> Term:
    _, height, width, channels = image
    ids = _flat_ids(taps, channels)
    flat = values.reshape(ids.shape)
    return flat.apply("add_along", ids, axis=1, size=height * width).reshape(image)


def _taps(node: Node, rows: Term, columns: Term) -> _Taps:
    _, height, width, _ = node.inputs[0].shape
    count = 1 if node.attrs["mode"] == NEAREST else 2
    shape = (*rows.shape, count * count)
    number = Term(rows.b, rows.b.apply("iota", n=count * count, dtype="i32"))
    steps = [number.apply(op, number.like(count)).cast("f32") for op in ("div", "mod")]
    (row, a), (column, b) = (
        _pixel(node, position.reshape((*position.shape, 1)).broadcast(shape), step.broadcast(shape))
        for position, step in zip((rows, columns), steps, strict=True)
    )
    exists = _inside(row, height).apply("logical_and", _inside(column, width))
    place = row.cast("i32") * width + column.cast("i32")
    ups = [step.broadcast(shape) * 2 - 1 for step in steps]
    weights = [exists.choose(weight, 0.0) for weight in (a * b, ups[0] * b, ups[1] * a)]
    return _Taps(exists.choose(place, 0), *weights)


def _pixel(node: Node, position: Term, step: Term) -> tuple[Term, Term]:
    """A pixel near a position (a whole number), and its weight along this axis."""
    if node.attrs["mode"] == NEAREST:
        return position.apply("round"), position.like(1.0)
    pixel = position.apply("floor") + step
    return pixel, 1 - (position - pixel).apply("abs")


def _inside(pixel: Term, size: int) -> Term:
    return pixel.exceeds(-1).apply("logical_and", pixel.apply("lt", pixel.like(size)))


def _pixels(x: Term, taps: _Taps) -> Term:
    """[N, S, taps, C]"""
    batch, height, width, channels = x.shape
    flat = x.reshape((batch, height * width, channels))
    pixels = flat.apply("take_along", _flat_ids(taps, channels), axis=1)
    return pixels.reshape((*taps.ids.shape, channels))


def _flat_ids(taps: _Taps, channels: int) -> Term:
    """[N, S · taps, C]"""
    batch, samples, count = taps.ids.shape
    shape = (batch, samples * count, channels)
    return taps.ids.reshape((*shape[:2], 1)).broadcast(shape)


def _samples() -> list[Sample]:
    shapes = (((1, 1, 1, 1), (1, 1)), ((2, 4, 5, 3), (2, 7)), ((3, 3, 4, 1), (3, 5)))
    # Rounding is not differentiable; the gradient with respect to the image is tested with PyTorch.
    return [
        Sample([x, at, at], {"mode": mode}, low=-1.5, high=5.0, differentiable=mode == BILINEAR)
        for x, at in shapes
        for mode in (BILINEAR, NEAREST)
    ]


OPS = (Op("grid_sample", infer, reference, Expand(expand), grad, _samples(), effort=effort),)
