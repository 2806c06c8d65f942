"""Operators about windows, positions and small matrices."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, at_axis, axis_of, per_axis, zeros
from wgcc.from_onnx.values import Constant, Operand, Shape, Value
from wgcc.lazy_numpy import np
from wgcc.syntax.templates import filled


def col2im(op: Op) -> Operand:
    x, size, kernel = op.plain(0), op.numbers(1, "size"), op.numbers(2, "window")
    if len(size) != 2:
        raise CannotImport("it joins windows of other than images")
    pads = list(op.attribute("pads", [0] * 4))
    if pads[:2] != pads[2:]:
        raise CannotImport("its padding is uneven")
    turned = 'rearrange({0}, "n (c a b) l -> n l (a b c)", a = {1}, b = {2})'
    text = f"fold({turned}, {{3}}, ({{1}}, {{2}}), stride = {{4}}, pad = {{5}}, dilation = {{6}})"
    strides, dilations = (op.attribute(name, [1, 1]) for name in ("strides", "dilations"))
    steps = map(per_axis, (strides, pads[:2], dilations))
    return op.result(text, x, *kernel, tuple(size), *steps, order=(0, 2, 3, 1))


def compress(op: Op) -> Operand:
    """Rows where a condition that is known holds."""
    x, kept = op.plain(0), np.flatnonzero(op.constant(1, "condition"))
    if "axis" not in op.attributes:
        x, axis = op.reshaped(x, (int(np.prod(x.shape)),)), 0
    else:
        axis = axis_of(op.attribute("axis"), len(x.shape))
    if not kept.size:
        raise CannotImport("it keeps nothing")
    shape = (*x.shape[:axis], kept.size, *x.shape[axis + 1 :])
    ids = op.parameter_of(kept, "kept")
    return op.index(op.tensor(x), at_axis(axis, ids), shape=shape, dtype=x.dtype)


def determinant(op: Op) -> Operand:
    x = op.plain(0)
    size = x.shape[-1]
    at = "{{0}}[.., {}, {}]".format
    if size == 1:
        return op.result(at(0, 0), x)
    if size == 2:
        return op.result(f"{at(0, 0)} * {at(1, 1)} - {at(0, 1)} * {at(1, 0)}", x)
    if size != 3:
        raise CannotImport(f"the determinant of {size} x {size} matrices")
    terms = [
        f"{at(0, a)} * ({at(1, b)} * {at(2, c)} - {at(1, c)} * {at(2, b)})"
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    ]
    return op.result(" + ".join(terms), x)


def max_unpool(op: Op) -> Operand:
    x, ids = op.plain(0), op.plain(1)
    small = _unpooled(op, x.shape)
    shape = tuple(op.numbers(2, "sizes")) if op.has(2) else small
    count = int(np.prod(x.shape))
    places = op.reshaped(ids, (count,))
    if shape != small:
        places = _in_larger(op, places, small[2:], shape[2:])
    flat = op.reshaped(x, (count,))
    total = int(np.prod(shape))
    return op.emit(
        "reshape(scatter_add({0}, {1}, {2}), {3})", zeros("f32", (total,)), op.tensor(places),
        op.tensor(flat), list(shape), shape=shape, dtype="f32",
    )  # fmt: skip


def _unpooled(op: Op, shape: Shape) -> Shape:
    """The size that was pooled."""
    kernel = list(op.attribute("kernel_shape"))
    strides = list(op.attribute("strides", [1] * len(kernel)))
    pads = list(op.attribute("pads", [0] * 2 * len(kernel)))
    axes = range(len(kernel))
    sizes = [(shape[a + 2] - 1) * strides[a] + kernel[a] - pads[a] - pads[a + len(kernel)]
             for a in axes]  # fmt: skip
    return (*shape[:2], *sizes)


def _in_larger(op: Op, places: Operand, before: Shape, after: Shape) -> Operand:
    """Positions in images as positions in larger ones."""
    x = op.tree(op.tensor(places))
    total = filled("{0} / {1} * {2}", x, int(np.prod(before)), int(np.prod(after)))
    for axis, size in enumerate(before):
        inner, outer = int(np.prod(before[axis + 1 :])), int(np.prod(after[axis + 1 :]))
        total = filled("{0} + {1} / {2} % {3} * {4}", total, x, inner, size, outer)
    return op.emit("{0}", total, shape=places.shape, dtype="i32")


def same(op: Op) -> Operand:
    """An optional tensor that is there."""
    return op.operand(0)


def binarizer(op: Op) -> Operand:
    x = op.operand(0)
    limit = float(op.attribute("threshold", 0.0))
    order = x.order if isinstance(x, Value) else None
    return op.emit("f32({0} > {1})", x, limit, shape=x.shape, dtype="f32", order=order)


def feature_extractor(op: Op) -> Operand:
    """Some columns."""
    x, ids = op.plain(0), op.plain(1)
    count = int(np.prod(ids.shape))
    flat = op.reshaped(ids, (count,))
    part = op.parameter_of(flat.array, "columns") if isinstance(flat, Constant) else flat
    items = at_axis(len(x.shape) - 1, part)
    return op.index(op.tensor(x), items, shape=(*x.shape[:-1], count), dtype=x.dtype)


RULES: dict[str, Rule] = {
    "Col2Im": col2im,
    "Compress": compress,
    "Det": determinant,
    "MaxUnpool": max_unpool,
    "OptionalGetElement": same,
}
# Of ONNX's operators for classic machine learning.
CLASSIC_RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": feature_extractor,
    "Binarizer": binarizer,
}
