"""Matrix products: with a stored matrix they are `Linear` layers. Bytes with a scale stay bytes,
and are computed with in f32."""

from __future__ import annotations

from dataclasses import replace

from wgcc.from_onnx.attention import attention
from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.images import conv
from wgcc.from_onnx.rules.rule import Rule, axis_of, dtype
from wgcc.from_onnx.values import Computed, ModelMember, OnnxType, Operand, Shape, Stored
from wgcc.ir.dtypes import INTEGER_RANGES, NARROW_INTEGERS
from wgcc.lazy_numpy import Array, np


def matmul(op: OnnxOp) -> Operand:
    a, b = op.plain(0), op.plain(1)
    if is_own_matrix(op, b):
        assert isinstance(b, Stored)
        return op.result("{1}({0})", a, linear(op, b.array, None))
    fused_attention = attention(op, op.operand(0), op.operand(1))
    if fused_attention is not None:
        return fused_attention
    if op.type.dtype != "f32":
        return _of_whole_numbers(op, a, b)
    if len(a.shape) == 1 or len(b.shape) == 1:
        return _with_vector(op, a, b)
    return op.result("{0} @ {1}", a, b)


def _of_whole_numbers(op: OnnxOp, a: Operand, b: Operand) -> Operand:
    if min(len(a.shape), len(b.shape)) < 2:
        raise CannotImport("a product of a vector of whole numbers")
    op.remark("products of whole numbers are computed in f32, exact up to sums of 16,777,216")
    kind = dtype(op.type.dtype)
    return op.result("{2}(round(f32({0}) @ f32({1})))", op.tensor(a), op.tensor(b), kind)


def is_own_matrix(op: OnnxOp, operand: Operand) -> bool:
    """A stored matrix that nothing else reads."""
    return (
        isinstance(operand, Stored)
        and len(operand.shape) == 2
        and operand.dtype == "f32"
        and operand.source not in op.writer.shared
    )


def linear(op: OnnxOp, matrix: Array, bias: Array | None) -> ModelMember:
    """`Linear` with a matrix of [inputs, outputs]."""
    inputs, outputs = matrix.shape
    arrays = {"w": matrix} | ({"b": bias} if bias is not None else {})
    has_bias = None if bias is not None else False
    return op.layer("Linear", (inputs, outputs), op.layer_name("linear"), arrays, bias=has_bias)


def _with_vector(op: OnnxOp, a: Operand, b: Operand) -> Operand:
    left = op.reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = op.reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    return op.reshape(op.emit("{0} @ {1}", left, right), op.type.shape)


def gemm(op: OnnxOp) -> Operand:
    a, b = op.plain(0), op.plain(1)
    alpha, beta = float(op.attribute("alpha", 1.0)), float(op.attribute("beta", 1.0))
    if op.attribute("transA", 0):
        a = op.transpose(a, (1, 0))
    if op.attribute("transB", 0):
        b = op.transpose(b, (1, 0))
    c = op.operand(2) if op.has(2) and beta else None
    if is_own_matrix(op, b) and _is_bias(op, c):
        return _linear(op, a, b, c, alpha, beta)
    product = "{0} @ {1}" if alpha == 1 else "{3} * ({0} @ {1})"
    if c is None:
        return op.result(product, a, b, None, alpha)
    added = "{2}" if beta == 1 else "{4} * {2}"
    return op.result(f"{product} + {added}", a, b, op.with_order(c, None), alpha, beta)


def _is_bias(op: OnnxOp, c: Operand | None) -> bool:
    if c is None:
        return True
    if not isinstance(c, Stored) or c.source in op.writer.shared or not c.shape:
        return False
    return c.array.size == op.type.shape[1] == c.shape[-1]


def _linear(
    op: OnnxOp, a: Operand, b: Operand, c: Operand | None, alpha: float, beta: float
) -> Operand:
    assert isinstance(b, Stored)
    bias = c.array.reshape(-1) * np.float32(beta) if isinstance(c, Stored) else None
    layer = linear(op, b.array * np.float32(alpha), bias)
    return op.result("{1}({0})", a, layer)


def einsum(op: OnnxOp) -> Operand:
    operands = [op.plain(place) for place in range(len(op.inputs))]
    text = str(op.attribute("equation")).replace(" ", "")
    if "->" not in text:
        letters = sorted({c for c in text if c.isalpha()})
        text += "->" + "".join(c for c in letters if text.count(c) == 1)
    if "." in text:
        text = _without_dots(text, [len(item.shape) for item in operands])
    sides = text.split("->")
    if any(len(set(term)) < len(term) for term in sides[0].split(",")):
        raise CannotImport(f"`{text}` names an axis twice in one operand")
    pattern = " -> ".join(", ".join(" ".join(term) for term in side.split(",")) for side in sides)
    names = ", ".join(f"{{{place + 1}}}" for place in range(len(operands)))
    return op.result(f"einsum({{0}}, {names})", pattern, *operands)


def _without_dots(text: str, ranks: list[int]) -> str:
    """Leading axes by letters that the equation does not use."""
    left, right = text.split("->")
    free = [c for c in "zyxwvutsrq" if c not in text]
    terms = left.split(",")
    most = max(
        rank - len(term.replace(".", ""))
        for term, rank in zip(terms, ranks, strict=True)
        if "." in term
    )
    letters = "".join(free[:most])
    filled = []
    for term, rank in zip(terms, ranks, strict=True):
        own = rank - len(term.replace(".", ""))
        filled.append(term.replace("...", letters[most - own :] if own else ""))
    return ",".join(filled) + "->" + right.replace("...", letters)


RANGES = {dtype: INTEGER_RANGES[dtype] for dtype in NARROW_INTEGERS}
FLOAT = 1
# Smaller constants are not worth a scale of their own.
FEWEST_BYTES = 64
# What a user is told.
STORED = "weights stay bytes, and become f32 as products load them"
SMALL = "so few weights, or weights that are no bytes, are stored as f32"
COMPUTED = "values are rounded to bytes as in the file, but computed in f32"
SUMMED = "products of bytes are computed in f32, exact up to sums of 16,777,216"


def dequantize(op: OnnxOp) -> Operand:
    """(x - zero point) · scale."""
    axis = axis_of(op.attribute("axis", 1), max(len(op.operand(0).shape), 1))
    if op.attribute("block_size", 0):
        raise CannotImport("it has a scale for each block of an axis")
    zero = op.operand(2) if op.has(2) else None
    return as_floats(op, op.operand(0), op.operand(1), zero, axis)


def as_floats(op: OnnxOp, x: Operand, scale: Operand, zero: Operand | None, axis: int) -> Operand:
    """Stored bytes stay bytes; products unpack them while they load them."""
    is_small = isinstance(x, Stored) and (x.array.size < FEWEST_BYTES or x.dtype not in RANGES)
    if is_small and isinstance(x, Stored) and isinstance(scale, Stored):
        op.remark(SMALL)
        return Stored(_floats(x, scale, zero, axis))
    op.remark(STORED if isinstance(x, Stored) else COMPUTED)
    source = op.tensor(x if isinstance(x, Stored) else op.with_order(x, None))
    shape = x.shape
    factor = spread(op, scale, shape, axis)
    if zero is None or (isinstance(zero, Stored) and not zero.array.any()):
        return op.emit("f32({0}) * {1}", source, factor)
    offset = spread(op, float_of(op, zero), shape, axis)
    return op.emit("(f32({0}) - {2}) * {1}", source, factor, offset)


def _floats(x: Stored, scale: Stored, zero: Operand | None, axis: int) -> Array:
    offset = zero.array.astype(np.float32) if isinstance(zero, Stored) else np.float32(0)
    shape = [-1 if a == axis else 1 for a in range(x.array.ndim)]
    parts = [item.reshape(shape) if item.size > 1 else item for item in (scale.array, offset)]
    floats: Array = (x.array.astype(np.float32) - parts[1]) * parts[0]
    return floats.astype(np.float32)


def float_of(op: OnnxOp, item: Operand) -> Operand:
    if isinstance(item, Stored):
        return Stored(item.array.astype(np.float32))
    return op.emit("f32({0})", item)


def spread(op: OnnxOp, item: Operand, shape: Shape, axis: int) -> Operand:
    """One number, or one for each place along an axis, to be broadcast to `shape`."""
    size = int(np.prod(item.shape))
    if size == 1:
        return op.reshape(item, ())
    return op.reshape(item, (size, *(1,) * (len(shape) - 1 - axis)))


def quantize(op: OnnxOp) -> Operand:
    """round(x / scale) + zero point, within the range of a byte."""
    if op.attribute("block_size", 0):
        raise CannotImport("it has a scale for each block of an axis")
    if op.type.dtype not in RANGES:
        raise CannotImport(f"it rounds to {op.type.dtype}, not to bytes")
    axis = axis_of(op.attribute("axis", 1), max(len(op.operand(0).shape), 1))
    zero = op.operand(2) if op.has(2) else None
    op.remark(COMPUTED)
    return as_bytes(op, op.plain(0), op.operand(1), zero, axis)


def as_bytes(op: OnnxOp, x: Operand, scale: Operand, zero: Operand | None, axis: int) -> Operand:
    low, high = RANGES[op.type.dtype]
    factor = spread(op, scale, x.shape, axis)
    offset = spread(op, float_of(op, zero), x.shape, axis) if zero is not None else 0.0
    text = "{5}(clamp(round({0} / {1}) + {2}, {3}, {4}))"
    kind = dtype(op.type.dtype)
    return op.result(text, x, factor, offset, float(low), float(high), kind)


def inner(op: OnnxOp, inputs: list[Operand | None], shape: Shape) -> OnnxOp:
    """The same node with floats."""
    return replace(op, inputs=inputs, types=[OnnxType("f32", shape, FLOAT)])


def matmul_integer(op: OnnxOp) -> Operand:
    op.remark(SUMMED)
    a = subtract_zero_point(op, 0, 2, -2)
    b = subtract_zero_point(op, 1, 3, -1)
    product = matmul(inner(op, [a, b], op.type.shape))
    assert isinstance(product, Computed)
    return op.result("i32(round({0}))", product)


def subtract_zero_point(op: OnnxOp, place: int, zero_place: int, axis: int) -> Operand:
    """Subtracts the zero point from bytes, which become floats."""
    x = op.operand(place)
    one = Stored(np.float32(1))
    zero = op.operand(zero_place) if op.has(zero_place) else None
    return as_floats(op, x, one, zero, axis_of(axis, len(x.shape)))


def conv_integer(op: OnnxOp) -> Operand:
    op.remark(SUMMED)
    x, w = subtract_zero_point(op, 0, 2, 1), subtract_zero_point(op, 1, 3, 0)
    convolution = conv(inner(op, [x, w], op.type.shape))
    assert isinstance(convolution, Computed)
    return op.result("i32(round({0}))", convolution, order=convolution.order)


def qlinear_matmul(op: OnnxOp) -> Operand:
    x = as_floats(op, op.operand(0), op.operand(1), op.operand(2), len(op.operand(0).shape) - 2)
    w = as_floats(op, op.operand(3), op.operand(4), op.operand(5), len(op.operand(3).shape) - 1)
    product = matmul(inner(op, [x, w], op.type.shape))
    assert isinstance(product, Computed)
    return as_bytes(op, product, op.operand(6), op.operand(7), 1)


def qlinear_conv(op: OnnxOp) -> Operand:
    x = as_floats(op, op.operand(0), op.operand(1), op.operand(2), 1)
    w = as_floats(op, op.operand(3), op.operand(4), op.operand(5), 0)
    given: list[Operand | None] = [x, w]
    if op.has(8):
        scales = op.constant(1, "scale") * op.constant(4, "scale")
        given.append(Stored((op.constant(8, "bias") * scales).astype(np.float32)))
    convolution = conv(inner(op, given, op.type.shape))
    plain = op.with_order(convolution, None)
    return as_bytes(op, plain, op.operand(6), op.operand(7), 1)


RULES: dict[str, Rule] = {
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": qlinear_matmul,
    "QLinearConv": qlinear_conv,
}
