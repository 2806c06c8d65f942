"""Matrix products: with a stored matrix they are `Linear` layers."""

from __future__ import annotations

from wgcc.from_onnx.attention import attention
from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, dtype
from wgcc.from_onnx.values import Constant, Member, Operand
from wgcc.lazy_numpy import Array, np


def matmul(op: Op) -> Operand:
    a, b = op.plain(0), op.plain(1)
    if is_own_matrix(op, b):
        assert isinstance(b, Constant)
        return op.result("{1}({0})", a, linear(op, b.array, None))
    found = attention(op, op.operand(0), op.operand(1))
    if found is not None:
        return found
    if op.type.dtype != "f32":
        return _of_whole_numbers(op, a, b)
    if len(a.shape) == 1 or len(b.shape) == 1:
        return _with_vector(op, a, b)
    return op.result("{0} @ {1}", a, b)


def _of_whole_numbers(op: Op, a: Operand, b: Operand) -> Operand:
    if min(len(a.shape), len(b.shape)) < 2:
        raise CannotImport("a product of a vector of whole numbers")
    op.remark("products of whole numbers are computed in f32, exact up to sums of 16,777,216")
    kind = dtype(op.type.dtype)
    return op.result("{2}(round(f32({0}) @ f32({1})))", op.tensor(a), op.tensor(b), kind)


def is_own_matrix(op: Op, operand: Operand) -> bool:
    """A stored matrix that nothing else reads."""
    return (
        isinstance(operand, Constant)
        and len(operand.shape) == 2
        and operand.dtype == "f32"
        and operand.source not in op.writer.shared
    )


def linear(op: Op, matrix: Array, bias: Array | None) -> Member:
    """`Linear` with a matrix of [inputs, outputs]."""
    inputs, outputs = matrix.shape
    arrays = {"w": matrix} | ({"b": bias} if bias is not None else {})
    has_bias = None if bias is not None else False
    return op.layer("Linear", (inputs, outputs), op.layer_name("linear"), arrays, bias=has_bias)


def _with_vector(op: Op, a: Operand, b: Operand) -> Operand:
    left = op.reshaped(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = op.reshaped(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    shape = list(op.type.shape)
    if len(a.shape) == 1:
        shape.insert(len(shape) - (len(b.shape) > 1), 1)
    if len(b.shape) == 1:
        shape.append(1)
    whole = op.emit("{0} @ {1}", left, right, shape=tuple(shape), dtype=op.type.dtype)
    return op.reshaped(whole, op.type.shape)


def gemm(op: Op) -> Operand:
    a, b = op.plain(0), op.plain(1)
    alpha, beta = float(op.attribute("alpha", 1.0)), float(op.attribute("beta", 1.0))
    if op.attribute("transA", 0):
        a = op.transposed(a, (1, 0))
    if op.attribute("transB", 0):
        b = op.transposed(b, (1, 0))
    c = op.operand(2) if op.has(2) and beta else None
    if is_own_matrix(op, b) and _is_bias(op, c):
        return _linear(op, a, b, c, alpha, beta)
    product = "{0} @ {1}" if alpha == 1 else "{3} * ({0} @ {1})"
    if c is None:
        return op.result(product, a, b, None, alpha)
    added = "{2}" if beta == 1 else "{4} * {2}"
    return op.result(f"{product} + {added}", a, b, op.ordered(c, None), alpha, beta)


def _is_bias(op: Op, c: Operand | None) -> bool:
    if c is None:
        return True
    if not isinstance(c, Constant) or c.source in op.writer.shared or not c.shape:
        return False
    return c.array.size == op.type.shape[1] == c.shape[-1]


def _linear(
    op: Op, a: Operand, b: Operand, c: Operand | None, alpha: float, beta: float
) -> Operand:
    assert isinstance(b, Constant)
    bias = c.array.reshape(-1) * np.float32(beta) if isinstance(c, Constant) else None
    layer = linear(op, b.array * np.float32(alpha), bias)
    return op.result("{1}({0})", a, layer)


def einsum(op: Op) -> Operand:
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


RULES: dict[str, Rule] = {"MatMul": matmul, "Gemm": gemm, "Einsum": einsum}
