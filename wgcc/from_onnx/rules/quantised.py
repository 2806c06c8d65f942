"""Numbers of one byte with a scale: stored as bytes, computed in f32."""

from __future__ import annotations

from dataclasses import replace

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.images import conv
from wgcc.from_onnx.rules.products import matmul
from wgcc.from_onnx.rules.rule import Rule, axis_of, dtype
from wgcc.from_onnx.values import Constant, Operand, Shape, TensorType, Value
from wgcc.lazy_numpy import Array, np

RANGES = {"u8": (0, 255), "i8": (-128, 127)}
FLOAT = 1
# Smaller constants are not worth a scale of their own.
FEWEST_BYTES = 64
# What a user is told.
STORED = "weights stay bytes, and become f32 as products load them"
SMALL = "so few weights, or weights that are no bytes, are stored as f32"
COMPUTED = "values are rounded to bytes as in the file, but computed in f32"
SUMMED = "products of bytes are computed in f32, exact up to sums of 16,777,216"


def dequantize(op: Op) -> Operand:
    """(x - zero point) · scale."""
    axis = axis_of(op.attribute("axis", 1), max(len(op.operand(0).shape), 1))
    if op.attribute("block_size", 0):
        raise CannotImport("it has a scale for each block of an axis")
    zero = op.operand(2) if op.has(2) else None
    return as_floats(op, op.operand(0), op.operand(1), zero, axis)


def as_floats(op: Op, x: Operand, scale: Operand, zero: Operand | None, axis: int) -> Operand:
    """Stored bytes stay bytes; products unpack them while they load them."""
    is_small = isinstance(x, Constant) and (x.array.size < FEWEST_BYTES or x.dtype not in RANGES)
    if is_small and isinstance(x, Constant) and isinstance(scale, Constant):
        op.remark(SMALL)
        return Constant(_floats(x, scale, zero, axis))
    op.remark(STORED if isinstance(x, Constant) else COMPUTED)
    source = op.tensor(x if isinstance(x, Constant) else op.ordered(x, None))
    shape = x.shape
    factor = spread(op, scale, shape, axis)
    if zero is None or (isinstance(zero, Constant) and not zero.array.any()):
        return op.emit("f32({0}) * {1}", source, factor, shape=shape, dtype="f32")
    offset = spread(op, float_of(op, zero), shape, axis)
    return op.emit("(f32({0}) - {2}) * {1}", source, factor, offset, shape=shape, dtype="f32")


def _floats(x: Constant, scale: Constant, zero: Operand | None, axis: int) -> Array:
    offset = zero.array.astype(np.float32) if isinstance(zero, Constant) else np.float32(0)
    shape = [-1 if a == axis else 1 for a in range(x.array.ndim)]
    parts = [item.reshape(shape) if item.size > 1 else item for item in (scale.array, offset)]
    found: Array = (x.array.astype(np.float32) - parts[1]) * parts[0]
    return found.astype(np.float32)


def float_of(op: Op, item: Operand) -> Operand:
    if isinstance(item, Constant):
        return Constant(item.array.astype(np.float32))
    return op.emit("f32({0})", item, shape=item.shape, dtype="f32")


def spread(op: Op, item: Operand, shape: Shape, axis: int) -> Operand:
    """One number, or one for each place along an axis, to be broadcast to `shape`."""
    size = int(np.prod(item.shape))
    if size == 1:
        return op.reshaped(item, ())
    return op.reshaped(item, (size, *(1,) * (len(shape) - 1 - axis)))


def quantize(op: Op) -> Operand:
    """round(x / scale) + zero point, within the range of a byte."""
    if op.attribute("block_size", 0):
        raise CannotImport("it has a scale for each block of an axis")
    if op.type.dtype not in RANGES:
        raise CannotImport(f"it rounds to {op.type.dtype}, not to bytes")
    axis = axis_of(op.attribute("axis", 1), max(len(op.operand(0).shape), 1))
    zero = op.operand(2) if op.has(2) else None
    op.remark(COMPUTED)
    return as_bytes(op, op.plain(0), op.operand(1), zero, axis)


def as_bytes(op: Op, x: Operand, scale: Operand, zero: Operand | None, axis: int) -> Operand:
    low, high = RANGES[op.type.dtype]
    factor = spread(op, scale, x.shape, axis)
    offset = spread(op, float_of(op, zero), x.shape, axis) if zero is not None else 0.0
    text = "{5}(clamp(round({0} / {1}) + {2}, {3}, {4}))"
    kind = dtype(op.type.dtype)
    return op.result(text, x, factor, offset, float(low), float(high), kind)


def inner(op: Op, inputs: list[Operand | None], shape: Shape) -> Op:
    """The same node with floats."""
    return replace(op, inputs=inputs, types=[TensorType("f32", shape, FLOAT)])


def matmul_integer(op: Op) -> Operand:
    op.remark(SUMMED)
    a = shifted(op, 0, 2, -2)
    b = shifted(op, 1, 3, -1)
    found = matmul(inner(op, [a, b], op.type.shape))
    assert isinstance(found, Value)
    return op.result("i32(round({0}))", found)


def shifted(op: Op, place: int, zero_place: int, axis: int) -> Operand:
    """Bytes less their zero point, as floats."""
    x = op.operand(place)
    one = Constant(np.float32(1))
    zero = op.operand(zero_place) if op.has(zero_place) else None
    return as_floats(op, x, one, zero, axis_of(axis, len(x.shape)))


def conv_integer(op: Op) -> Operand:
    op.remark(SUMMED)
    x, w = shifted(op, 0, 2, 1), shifted(op, 1, 3, 0)
    found = conv(inner(op, [x, w], op.type.shape))
    assert isinstance(found, Value)
    return op.result("i32(round({0}))", found, order=found.order)


def qlinear_matmul(op: Op) -> Operand:
    x = as_floats(op, op.operand(0), op.operand(1), op.operand(2), len(op.operand(0).shape) - 2)
    w = as_floats(op, op.operand(3), op.operand(4), op.operand(5), len(op.operand(3).shape) - 1)
    found = matmul(inner(op, [x, w], op.type.shape))
    assert isinstance(found, Value)
    return as_bytes(op, found, op.operand(6), op.operand(7), 1)


def qlinear_conv(op: Op) -> Operand:
    x = as_floats(op, op.operand(0), op.operand(1), op.operand(2), 1)
    w = as_floats(op, op.operand(3), op.operand(4), op.operand(5), 0)
    given: list[Operand | None] = [x, w]
    if op.has(8):
        scales = op.constant(1, "scale") * op.constant(4, "scale")
        given.append(Constant((op.constant(8, "bias") * scales).astype(np.float32)))
    found = conv(inner(op, given, op.type.shape))
    plain = op.ordered(found, None)
    return as_bytes(op, plain, op.operand(6), op.operand(7), 1)


RULES: dict[str, Rule] = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
}
