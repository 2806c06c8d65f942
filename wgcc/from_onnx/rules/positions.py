"""Operators about windows, positions and small matrices."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, axis_of, sizes_text, tuple_text
from wgcc.from_onnx.values import Operand
from wgcc.lazy_numpy import np


def col2im(op: Op) -> Operand:
    x, size, kernel = op.plain(0), op.numbers(1, "size"), op.numbers(2, "window")
    if len(size) != 2:
        raise CannotImport("it joins windows of other than images")
    pads = list(op.attribute("pads", [0] * 4))
    if pads[:2] != pads[2:]:
        raise CannotImport("its padding is uneven")
    given = [
        tuple_text(list(op.attribute("strides", [1, 1]))),
        f"pad = {tuple_text(pads[:2])}",
        f"dilation = {tuple_text(list(op.attribute('dilations', [1, 1])))}",
    ]
    a, b = kernel
    turned = f'rearrange({{0}}, "n (c a b) l -> n l (a b c)", a = {a}, b = {b})'
    text = f"fold({turned}, ({size[0]}, {size[1]}), ({a}, {b}), {', '.join(given)})"
    return op.result(text, x, order=(0, 2, 3, 1))


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
    return op.emit(f"{{0}}[{':, ' * axis}{{1}}]", op.tensor(x), ids, shape=shape, dtype=x.dtype)


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
    if op.has(2):
        raise CannotImport("its output has a shape of its own")
    total, count = int(np.prod(op.type.shape)), int(np.prod(x.shape))
    flat, places = op.reshaped(x, (count,)), op.reshaped(ids, (count,))
    text = f"reshape(scatter_add(zeros(f32[{total}]), {{1}}, {{0}}), {sizes_text(op.type.shape)})"
    return op.result(text, op.tensor(flat), op.tensor(places))


RULES: dict[str, Rule] = {
    "Col2Im": col2im,
    "Compress": compress,
    "Det": determinant,
    "MaxUnpool": max_unpool,
}
