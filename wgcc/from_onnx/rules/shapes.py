"""Operators that move elements and compute nothing."""

from __future__ import annotations

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.literals import literal, number_of, real
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.indexing import window
from wgcc.from_onnx.rules.rule import Rule, at_axis, axes_of, axis_of, common_order, part_of
from wgcc.from_onnx.values import Computed, Operand, Stored, plain_order
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.lazy_numpy import np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE

ZERO = ast.Float(NOWHERE, 0.0)
BLOCKS = "rearrange({0}, {1}, a = {2}, b = {3})"


def reshape(op: OnnxOp) -> Operand:
    """Also Flatten, Squeeze and Unsqueeze: the shape is known."""
    return op.view(op.operand(0), op.type.shape)


def transpose(op: OnnxOp) -> Operand:
    x = op.operand(0)
    axes = tuple(op.attribute("perm", tuple(reversed(range(len(x.shape))))))
    if axes == plain_order(x.shape):
        return x
    return op.permute(x, axes)


def concat(op: OnnxOp) -> Operand:
    operands = [op.operand(place) for place in range(len(op.inputs))]
    operands = [item for item in operands if 0 not in item.shape]
    if len(operands) == 1:
        return operands[0]
    order = common_order(operands)
    tensors = [op.tensor(op.with_order(item, order)) for item in operands]
    axis = axis_of(op.attribute("axis", 1), len(op.type.shape))
    place = order.index(axis) if order else axis
    return op.result("concat({0}, axis = {1})", tensors, place, order=order)


def split(op: OnnxOp) -> list[Operand | None]:
    x = op.operand(0)
    axis = axis_of(op.attribute("axis", 0), len(x.shape))
    order = x.order
    sizes = [kind.shape[axis] for kind in op.types]
    parts: list[Operand | None] = [
        op.output(place, order) if size else Stored(np.zeros(op.types[place].shape, np.float32))
        for place, size in enumerate(sizes)
    ]
    values = tuple(item for item in parts if isinstance(item, Computed))
    sizes = [size for size in sizes if size]
    if len(values) == 1:
        return [x if item is values[0] else item for item in parts]
    place = order.index(axis)
    if len(set(sizes)) == 1:
        op.emit_many("chunk({0}, {1}, axis = {2})", x, len(sizes), place, values=values)
    else:
        op.emit_many("split({0}, {1}, axis = {2})", x, sizes, place, values=values)
    return parts


def slice_(op: OnnxOp) -> Operand:
    x = op.operand(0)
    rank = len(x.shape)
    if op.has(1) and isinstance(op.operand(1), Computed):
        return window(op)
    if op.has(1):
        starts, ends = op.numbers(1, "starts"), op.numbers(2, "ends")
        axes = op.numbers(3, "axes") if op.has(3) else list(range(len(starts)))
        steps = op.numbers(4, "steps") if op.has(4) else [1] * len(starts)
    else:
        starts, ends = list(op.attribute("starts")), list(op.attribute("ends"))
        axes = list(op.attribute("axes", range(len(starts))))
        steps = [1] * len(starts)
    ranges = {
        axis_of(axis, rank): slice(start, end, step).indices(x.shape[axis_of(axis, rank)])
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }
    return slice_axes(op, x, ranges)


def slice_axes(op: OnnxOp, x: Operand, ranges: dict[int, tuple[int, int, int]]) -> Operand:
    """Cuts ranges out of axes; a range is what `slice.indices` gives."""
    order = x.order
    cut = [axis for axis, held in ranges.items() if held != (0, x.shape[axis], 1)]
    if not cut:
        return x
    last = max(order.index(axis) for axis in cut)
    items = [_range(ranges.get(axis), x.shape[axis]) for axis in order[: last + 1]]
    return op.index(x, items, order=order, element=element_of(x))


def _range(bounds: tuple[int, int, int] | None, size: int) -> ast.Slice:
    start, end, step = bounds or (0, size, 1)
    if step == 1:
        return part_of(start, end if end < size else None)
    # Backwards: -1 as an end is one before the first element.
    return part_of(start, None if end < 0 else end, step)


def pad(op: OnnxOp) -> Operand:
    x = op.operand(0)
    rank = len(x.shape)
    widths = op.numbers(1, "widths") if op.has(1) else list(op.attribute("pads"))
    axes = op.numbers(3, "axes") if op.has(3) else list(range(rank))
    axes = [axis_of(axis, rank) for axis in axes]
    half = len(axes)
    pairs = {axis: (widths[place], widths[place + half]) for place, axis in enumerate(axes)}
    mode = op.attribute("mode", "constant")
    value = _pad_value(op)
    return pad_axes(op, x, pairs, mode, value)


def _pad_value(op: OnnxOp) -> ast.Expr:
    if op.has(2):
        return literal(op.constant(2, "value"))
    return real(op.attribute("value", 0.0))


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def pad_axes(
    op: OnnxOp, x: Operand, pairs: dict[int, tuple[int, int]], mode: str = "constant",
    value: ast.Expr = ZERO,
) -> Operand:  # fmt: skip
    """Pads one axis after the other; negative widths cut elements off."""
    order = x.order
    for axis, (before, after) in pairs.items():
        if min(before, after) < 0:
            start, end = max(-before, 0), x.shape[axis] - max(-after, 0)
            part = at_axis(order.index(axis), _range((start, end, 1), x.shape[axis]))
            x = op.index(x, part, order=order)
            before, after = max(before, 0), max(after, 0)
        if not before and not after:
            continue
        number = number_of(value) or 0.0
        filling = value if x.dtype == "f32" else int(number)
        text = "pad({0}, {1}, axis = {2}, mode = {3}, value = {4})"
        options = (MODES[mode] if mode != "constant" else None, filling if number else None)
        x = op.emit(text, x, (before, after), order.index(axis), *options, order=order)
    return x


def expand(op: OnnxOp) -> Operand:
    x = op.plain(0)
    if x.shape == op.type.shape:
        return x
    return op.result("expand({0}, {1})", x, list(op.type.shape))


def tile(op: OnnxOp) -> Operand:
    x = op.plain(0)
    counts = op.numbers(1, "counts")
    if set(counts) == {1}:
        return x
    return op.result("tile({0}, {1})", x, axes_of(counts))


def depth_to_space(op: OnnxOp) -> Operand:
    x, block = op.channels_last(0), int(op.attribute("blocksize"))
    names = "a b c" if op.attribute("mode", "DCR") == "DCR" else "c a b"
    pattern = f"n h w ({names}) -> n (h a) (w b) c"
    return op.result(BLOCKS, x, pattern, block, block, order=(0, 2, 3, 1))


def space_to_depth(op: OnnxOp) -> Operand:
    x, block = op.channels_last(0), int(op.attribute("blocksize"))
    names = "a b c" if op.attribute("mode", "DCR") == "DCR" else "c a b"
    pattern = f"n (h a) (w b) c -> n h w ({names})"
    return op.result(BLOCKS, x, pattern, block, block, order=(0, 2, 3, 1))


def constant_of_shape(op: OnnxOp) -> Operand:
    raise CannotImport("its shape is computed at run time")


def eye_like(op: OnnxOp) -> Operand:
    rows, columns = op.type.shape
    kind = DTYPE_TABLE[op.type.dtype].numpy
    return Stored(np.eye(rows, columns, int(op.attribute("k", 0))).astype(kind))


def reverse_sequence(op: OnnxOp) -> Operand:
    """Rows of different lengths, each turned round: by the positions that it reads."""
    x, lengths = op.plain(0), op.numbers(1, "lengths")
    time, batch = int(op.attribute("time_axis", 0)), int(op.attribute("batch_axis", 1))
    size = x.shape[time]
    places = np.stack([np.r_[np.arange(n)[::-1], np.arange(n, size)] for n in lengths])
    shape = [1] * len(x.shape)
    shape[time], shape[batch] = size, len(lengths)
    table = places if batch < time else places.transpose()
    ids = np.broadcast_to(table.reshape(shape), x.shape).astype(np.int32)
    return op.result("take_along_axis({0}, {1}, axis = {2})", x, op.parameter_of(ids), time)


def center_crop_pad(op: OnnxOp) -> Operand:
    x, wanted = op.operand(0), op.numbers(1, "shape")
    axes = [axis_of(a, len(x.shape)) for a in op.attribute("axes", range(len(x.shape)))]
    pairs: dict[int, tuple[int, int]] = {}
    for axis, size in zip(axes, wanted, strict=True):
        missing = size - x.shape[axis]
        before = missing // 2 if missing >= 0 else -((-missing) // 2)
        pairs[axis] = (before, missing - before)
    return pad_axes(op, x, pairs)


RULES: dict[str, Rule] = {
    "Reshape": reshape,
    "Flatten": reshape,
    "Squeeze": reshape,
    "Unsqueeze": reshape,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "ReverseSequence": reverse_sequence,
    "CenterCropPad": center_crop_pad,
}
