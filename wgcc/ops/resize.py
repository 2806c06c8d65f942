"""resize(x; axis, size, mode, align): an axis resampled to `size`; resize_back is its transpose.

`mode` is nearest, linear or cubic. Positions follow PyTorch: with `align` the first and last pixels
of input and output are at the same places, otherwise the edges of the image are. Positions are
fractions of whole numbers, so that no rounding selects another pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import (
    Expand,
    Op,
    Pointwise,
    Sample,
    ShapeError,
    check_axis,
    check_dtype,
    check_sizes,
)

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"
# Input pixels that an output pixel is made of, and how many of them come before its position.
TAPS = {NEAREST: (1, 0), LINEAR: (2, 0), CUBIC: (4, 1)}
# The free constant of the cubic kernel (Keys, 1981), as PyTorch chooses it.
SHARPNESS = -0.75


def infer(x: TensorType, axis: int, size: int, mode: str, align: bool) -> TensorType:
    check_axis("resize", x, axis)
    check_dtype("resize", x, FLOATS)
    check_sizes("resize", (size,))
    if mode not in TAPS:
        raise ShapeError(f"resize: mode is one of {', '.join(TAPS)}, not {mode}")
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Turns `before` pixels into `after`: output o is at (o · step + first) / unit of the input."""

    before: int
    after: int
    mode: str
    align: bool

    @property
    def position(self) -> tuple[int, int, int]:
        """`step, first, unit`."""
        if self.mode == NEAREST:
            return self.before, 0, self.after
        if self.align:
            return (self.before - 1, 0, self.after - 1) if self.after > 1 else (0, 0, 1)
        return 2 * self.before, self.before - self.after, 2 * self.after

    def first_output(self, pixel: int) -> int:
        """The first output whose position is not before this pixel."""
        step, first, unit = self.position
        return max(0, -((first - pixel * unit) // step)) if step else 0

    def outputs(self, pixel: int) -> range:
        """All outputs that are made of this pixel (and perhaps some that are not)."""
        taps, before = TAPS[self.mode]
        step, _, _ = self.position
        end = self.first_output(pixel + before + 1) if step else self.after
        # Pixels beyond the edges count as those at the edges.
        end = self.after if pixel == self.before - 1 else end
        begin = 0 if pixel == 0 else self.first_output(pixel - taps + 1 + before)
        return range(begin, min(end, self.after))


# ---- in numpy: a matrix


def reference(x: Array, axis: int, size: int, mode: str, align: bool) -> Array:
    matrix = _matrix(Sampling(x.shape[axis], size, mode, align)).astype(x.dtype)
    return _multiply(matrix, x, axis)


def reference_back(x: Array, axis: int, size: int, mode: str, align: bool) -> Array:
    matrix = _matrix(Sampling(size, x.shape[axis], mode, align)).astype(x.dtype)
    return _multiply(matrix.T, x, axis)


def _multiply(matrix: Array, x: Array, axis: int) -> Array:
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def _matrix(sampling: Sampling) -> Array:
    """[after, before]: the weight of each pixel."""
    (step, first, unit), (taps, before) = sampling.position, TAPS[sampling.mode]
    matrix = np.zeros((sampling.after, sampling.before))
    outputs = np.arange(sampling.after)
    numerator = outputs * step + first
    if sampling.mode == LINEAR:
        numerator = np.maximum(numerator, 0)
    for tap in range(taps):
        pixels = np.clip(numerator // unit + tap - before, 0, sampling.before - 1)
        distance = np.abs(numerator % unit / unit + before - tap)
        np.add.at(matrix, (outputs, pixels), reference_weight(distance, sampling.mode))
    return matrix


def reference_weight(distance: Array, mode: str) -> Array:
    """The weight of a pixel at this distance from the position."""
    if mode == NEAREST:
        return np.ones_like(distance)
    if mode == LINEAR:
        return np.asarray(1 - distance)
    near = ((SHARPNESS + 2) * distance - (SHARPNESS + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * SHARPNESS - 4 * SHARPNESS
    return np.asarray(np.where(distance <= 1, near, far))


# ---- as formulas: each output looks up its taps, each gradient the outputs it is a tap of


def expand(b: Builder, node: Node) -> Sequence[Value]:
    x, axis = Term(b, node.inputs[0]), node.attrs["axis"]
    sampling = _sampling(node, x.shape[axis], node.attrs["size"])
    outputs = Term(b, b.apply("iota", n=sampling.after, dtype="i32"))
    pixels, weights = _taps(sampling, outputs)
    only = sampling.mode == NEAREST
    return [_weighted_sum(x, axis, pixels, None if only else weights).value]


def expand_back(b: Builder, node: Node) -> Sequence[Value]:
    g, axis = Term(b, node.inputs[0]), node.attrs["axis"]
    sampling = _sampling(node, node.attrs["size"], g.shape[axis])
    outputs, weights = _outputs(b, sampling)
    return [_weighted_sum(g, axis, outputs, weights).value]


def _sampling(node: Node, before: int, after: int) -> Sampling:
    return Sampling(before, after, node.attrs["mode"], node.attrs["align"])


def _taps(sampling: Sampling, outputs: Term) -> tuple[Term, Term]:
    """For each output its pixels (i32) and their weights: [outputs …, taps]."""
    (step, first, unit), (taps, before) = sampling.position, TAPS[sampling.mode]
    numerator = outputs * step + first
    if sampling.mode == LINEAR:
        numerator = numerator.apply("maximum", numerator.like(0))
    shape = (*outputs.shape, taps)
    tap = Term(outputs.b, outputs.b.apply("iota", n=taps, dtype="i32")).broadcast(shape) - before
    spread = numerator.reshape((*outputs.shape, 1)).broadcast(shape)
    pixel = spread.apply("div", spread.like(unit)) + tap
    # `gather` clamps its indices, so pixels beyond the edges are those at the edges.
    pixels = Term(outputs.b, outputs.b.apply("iota", n=sampling.before, dtype="i32"))
    edge = pixels.apply("gather", pixel)
    fraction = spread.apply("mod", spread.like(unit)).cast("f32") / unit
    distance = (fraction - tap.cast("f32")).apply("abs")
    return edge, distance.apply("resize_weight", mode=sampling.mode)


def _outputs(b: Builder, sampling: Sampling) -> tuple[Term, Term]:
    """For each pixel the outputs it is a tap of (i32), and its weights there: [before, most]."""
    ranges = [sampling.outputs(pixel) for pixel in range(sampling.before)]
    shape = (sampling.before, max(map(len, ranges)))
    step, first, unit = sampling.position
    pixels = Term(b, b.apply("iota", n=sampling.before, dtype="i32"))
    taps, before = TAPS[sampling.mode]
    # ceil(((pixel - taps + 1 + before) unit - first) / step)
    begin = pixels * unit + ((before + 1 - taps) * unit - first)
    begin = -((-begin).apply("div", begin.like(step))) if step else begin.like(0)
    begin = pixels.equals(0).choose(begin.like(0), begin).apply("maximum", begin.like(0))
    number = Term(b, b.apply("iota", n=shape[1], dtype="i32")).broadcast(shape)
    output = begin.reshape((shape[0], 1)).broadcast(shape) + number
    exists = output.apply("lt", output.like(sampling.after))
    output = output.apply("minimum", output.like(sampling.after - 1))
    tap_ids, weights = _taps(sampling, output)
    own = pixels.reshape((shape[0], 1, 1)).broadcast(tap_ids.shape)
    total = tap_ids.equals(own).choose(weights, 0.0).sum((2,))
    return output, exists.choose(total, 0.0)


def _weighted_sum(x: Term, axis: int, ids: Term, weights: Term | None) -> Term:
    """y[o] = Σ weights[o, t] x[ids[o, t]] along an axis; without weights of the only tap."""
    count, taps = ids.shape
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    ones = (1,) * len(after)
    places = ids.reshape((count * taps, *ones)).broadcast((*before, count * taps, *after))
    pixels = x.apply("take_along", places, axis=axis)
    if weights is None:
        return pixels
    parts = pixels.reshape((*before, count, taps, *after))
    scale = weights.cast(x.dtype).reshape((count, taps, *ones))
    return (parts * scale.broadcast(parts.shape)).sum((axis + 1,))


def infer_weight(distance: TensorType, mode: str) -> TensorType:
    check_dtype("resize_weight", distance, ("f32",))
    return distance


def weight_wgsl(node: Node) -> str:
    return {NEAREST: "1.0f", LINEAR: "(1.0f - {0})", CUBIC: "wg_cubic({0})"}[node.attrs["mode"]]


def weight_functions(node: Node) -> tuple[str, ...]:
    return ("cubic",) if node.attrs["mode"] == CUBIC else ()


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the transposed resampling of g
    return [_apply_adjoint(b, "resize_back", node, gs[0])]


def grad_back(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # dx = the resampling of g
    return [_apply_adjoint(b, "resize", node, gs[0])]


def _apply_adjoint(b: Builder, op: str, node: Node, g: Value | None) -> Value | None:
    if g is None:
        return None
    return b.apply(op, g, **{**node.attrs, "size": node.inputs[0].shape[node.attrs["axis"]]})


# x, axis, size, align
_CASES = (
    ((1, 1), 0, 3, False),
    ((3, 5, 2), 1, 8, False),
    ((2, 7), 1, 3, False),
    ((6, 5), 0, 6, True),
    ((4, 3), 0, 9, True),
    ((7, 2), 0, 3, True),
    ((5, 3), 0, 1, True),
    ((5, 3), 0, 1, False),
    ((3, 2), 0, 40, False),
)


def _samples() -> list[Sample]:
    return [
        Sample([x], {"axis": axis, "size": size, "mode": mode, "align": align})
        for x, axis, size, align in _CASES
        for mode in TAPS
        if not (align and mode == NEAREST)
    ]


# Not `cheap`, so that tables of weights are computed by the compiler.
_WEIGHT = Pointwise(weight_wgsl, weight_functions, cheap=False)
_DISTANCES = [Sample([(65,)], {"mode": mode}, low=0.0, high=2.0) for mode in TAPS]

OPS = (
    Op(
        "resize_weight",
        infer_weight,
        reference_weight,
        _WEIGHT,
        samples=_DISTANCES,
        stops_gradient=True,
    ),
    Op("resize", infer, reference, Expand(expand), grad, _samples()),
    Op("resize_back", infer, reference_back, Expand(expand_back), grad_back, _samples()),
)
