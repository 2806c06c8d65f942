"""Operators that compute each element alone, with or without broadcasting, or draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wgcc.from_onnx import patterns
from wgcc.from_onnx.context import Given, OnnxOp
from wgcc.from_onnx.literals import LARGEST
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, align, dtype, zeros
from wgcc.from_onnx.values import Computed, Operand, Stored
from wgcc.ir.dtypes import NARROW_INTEGERS, SIGNED
from wgcc.lazy_numpy import np
from wgcc.syntax.templates import fill_form

# Factors that are as large as floats can be.
MASK_LIMIT = 1e38

FLOAT_FUNCTIONS = {
    "Acos": "acos({0})", "Asin": "asin({0})", "Atan": "atan({0})", "Ceil": "ceil({0})",
    "Cos": "cos({0})", "Cosh": "cosh({0})", "Erf": "erf({0})", "Exp": "exp({0})",
    "Floor": "floor({0})", "HardSwish": "hardswish({0})", "Log": "log({0})", "Mish": "mish({0})",
    "Reciprocal": "1.0 / {0}", "Relu": "relu({0})", "Round": "round({0})",
    "Sigmoid": "sigmoid({0})", "Sin": "sin({0})", "Sinh": "sinh({0})",
    "Softplus": "softplus({0})", "Softsign": "softsign({0})", "Sqrt": "sqrt({0})",
    "Tan": "tan({0})", "Tanh": "tanh({0})",
    "Acosh": "log({0} + sqrt({0} * {0} - 1.0))",
    "Asinh": "sign({0}) * log(abs({0}) + sqrt({0} * {0} + 1.0))",
    "Atanh": "0.5 * log((1.0 + {0}) / (1.0 - {0}))",
    "IsNaN": "isnan({0})",
}  # fmt: skip


def unary(text: str, **defaults: float) -> Callable[[OnnxOp], Computed]:
    """A function of one tensor and of attributes, which are numbers and fill `{1}`, `{2}` …."""

    def rule(op: OnnxOp) -> Computed:
        numbers = [float(op.attribute(name, value)) for name, value in defaults.items()]
        return of_one(op, text, *numbers)

    return rule


def of_one(op: OnnxOp, text: str, *parts: Given) -> Computed:
    x = op.operand(0)
    return op.result(text, x, *parts, order=x.order)


def binary(text: str) -> Rule:
    return lambda op: broadcast(op, text, [op.operand(0), op.operand(1)])


def broadcast(op: OnnxOp, text: str, operands: list[Operand], *others: Given) -> Computed:
    """`others` fill the holes behind those of the operands."""
    aligned_operands, order = align(op, operands)
    rank = len(op.type.shape)
    parts = [literal(item, aligned_operands, rank) for item in aligned_operands]
    return op.result(text, *parts, *others, order=order)


def literal(item: Operand, all_items: list[Operand], rank: int) -> Operand:
    """A constant of one element is a number, if another operand has the result's axes."""
    others = (other for other in all_items if other is not item)
    if not isinstance(item, Stored) or item.array.size != 1 or item.source:
        return item
    has_axes = any(len(other.shape) == rank for other in others)
    return Stored(item.array.reshape(())) if has_axes else item


def fold_operands(text: str) -> Rule:
    """The rule of an operator that combines any number of operands, two at a time."""

    def rule(op: OnnxOp) -> Operand:
        operands = [op.operand(place) for place in range(len(op.inputs))]
        aligned_operands, order = align(op, operands)
        return op.result("{0}", _of_all(op, text, aligned_operands), order=order)

    return rule


def _of_all(op: OnnxOp, text: str, operands: Sequence[Operand]) -> Given:
    whole: Given = op.tree(operands[0])
    for item in operands[1:]:
        whole = fill_form(text, whole, op.tree(item))
    return whole


def add(op: OnnxOp) -> Operand:
    a, b = op.operand(0), op.operand(1)
    if op.type.dtype == "f32":
        replacement = patterns.with_bias(op, a, b) or patterns.layer_norm(op, a, b)
        if replacement is not None:
            return replacement
    return broadcast(op, "{0} + {1}", [a, b])


def multiply(op: OnnxOp) -> Operand:
    a, b = op.operand(0), op.operand(1)
    if op.type.dtype == "f32":
        replacement = patterns.activation(op, a, b) or patterns.rms_norm(op, a, b)
        if replacement is not None:
            return replacement
        a, b = _mask_factor(op, a), _mask_factor(op, b)
    return broadcast(op, "{0} * {1}", [a, b])


def _mask_factor(op: OnnxOp, item: Operand) -> Operand:
    """Masks are often 1 - m times the least float: any m but 0 and 1 would make it infinite."""
    if not isinstance(item, Stored) or item.array.size != 1:
        return item
    if abs(float(item.array.reshape(-1)[0])) < MASK_LIMIT:
        return item
    op.note("a mask of -3.4e38 is written as -1e29, which does as well and cannot overflow")
    return Stored(np.sign(item.array) * np.float32(1e29))


def mean(op: OnnxOp) -> Operand:
    operands = [op.operand(place) for place in range(len(op.inputs))]
    aligned_operands, order = align(op, operands)
    total = _of_all(op, "{0} + {1}", aligned_operands)
    return op.result("{0} / {1}", total, float(len(aligned_operands)), order=order)


def divide(op: OnnxOp) -> Operand:
    """Whole numbers: ONNX drops the fraction, the language rounds down."""
    a, b = op.operand(0), op.operand(1)
    if op.type.dtype == "f32":
        return patterns.softmax(op, a, b) or broadcast(op, "{0} / {1}", [a, b])
    if op.type.dtype not in SIGNED or _is_known_positive(a):
        return broadcast(op, "{0} / {1}", [a, b])
    is_narrow = op.type.dtype in NARROW_INTEGERS
    a_, b_ = ("i32({0})", "i32({1})") if is_narrow else ("{0}", "{1}")
    size = f"abs({a_}) / abs({b_})"
    text = f"where({a_} * {b_} < 0, -({size}), {size})"
    return broadcast(op, f"{op.type.dtype}({text})" if is_narrow else text, [a, b])


def _is_known_positive(item: Operand) -> bool:
    return isinstance(item, Stored) and bool((item.array >= 0).all())


def modulo(op: OnnxOp) -> Operand:
    """`%` has the sign of the divisor; with fmod that of the dividend."""
    a, b = op.operand(0), op.operand(1)
    if op.type.dtype == "f32":
        if op.attribute("fmod", 0):
            return broadcast(op, "{0} - trunc({0} / {1}) * {1}", [a, b])
        text = "{0} - floor({0} / {1}) * {1}"
        if not isinstance(b, Stored):
            # Infinity has no multiples.
            text = f"where(abs({{1}}) > {{2}}, where({{0}} * {{1}} < 0.0, {{1}}, {{0}}), {text})"
        return broadcast(op, text, [a, b], LARGEST)
    if op.attribute("fmod", 0):
        return broadcast(op, "where({0} < 0, -(abs({0}) % abs({1})), abs({0}) % abs({1}))", [a, b])
    return broadcast(op, "{0} % {1}", [a, b])


def power(op: OnnxOp) -> Operand:
    a, b = op.operand(0), op.operand(1)
    if isinstance(b, Stored) and b.array.size == 1 and op.type.dtype == "f32":
        number = float(b.array.reshape(()))
        texts = {2.0: "square({0})", 0.5: "sqrt({0})", 1.0: "{0}"}
        if number in texts and len(b.shape) <= len(a.shape):
            return broadcast(op, texts[number], [a])
        b = Stored(b.array.astype(np.float32))
    kind = dtype(op.type.dtype)
    if a.dtype != b.dtype:
        wide = "f32({0}) ** f32({1})"
        return broadcast(op, wide if kind.name == "f32" else f"{{2}}({wide})", [a, b], kind)
    if kind.name != "f32":
        return broadcast(op, "{2}(round(f32({0}) ** f32({1})))", [a, b], kind)
    return broadcast(op, "{0} ** {1}", [a, b])


def clip(op: OnnxOp) -> Operand:
    x = op.operand(0)
    low = _limit(op, 1, "min")
    high = _limit(op, 2, "max")
    if low is not None and high is not None:
        return broadcast(op, "minimum(maximum({0}, {1}), {2})", [x, low, high])
    if low is not None:
        return broadcast(op, "maximum({0}, {1})", [x, low])
    return broadcast(op, "minimum({0}, {1})" if high else "{0}", [x, high] if high else [x])


def _limit(op: OnnxOp, place: int, name: str) -> Operand | None:
    if op.has(place):
        return op.operand(place)
    if name in op.attributes:
        return Stored(np.float32(op.attributes[name]))
    return None


def cast(op: OnnxOp) -> Operand:
    x, kind = op.operand(0), op.type.dtype
    if isinstance(x, Stored):
        return x
    if x.dtype == kind:
        return x if x.element == op.type.element else op.result("{0}", x, order=x.order)
    if kind == "bool":
        return op.result("{0} != {1}", x, 0.0 if x.dtype == "f32" else 0, order=x.order)
    return op.result("{1}({0})", x, dtype(kind), order=x.order)


def where(op: OnnxOp) -> Operand:
    return broadcast(op, "where({0}, {1}, {2})", [op.operand(0), op.operand(1), op.operand(2)])


def gelu(op: OnnxOp) -> Operand:
    is_rough = op.attribute("approximate") == "tanh"
    return of_one(op, "gelu({0}, approximate = {1})", is_rough or None)


def prelu(op: OnnxOp) -> Operand:
    return broadcast(op, "where({0} < 0.0, {1} * {0}, {0})", [op.operand(0), op.operand(1)])


def swish(op: OnnxOp) -> Operand:
    alpha = float(op.attribute("alpha", 1.0))
    return of_one(op, "silu({0})" if alpha == 1 else "{0} * sigmoid({1} * {0})", alpha)


def is_infinite(op: OnnxOp) -> Operand:
    positive, negative = op.attribute("detect_positive", 1), op.attribute("detect_negative", 1)
    if not positive and not negative:
        raise CannotImport("it looks for no infinity at all")
    side = "" if positive and negative else " and {0} > 0.0" if positive else " and {0} < 0.0"
    return of_one(op, f"isinf({{0}}){side}")


def whole_number_shift(op: OnnxOp) -> Operand:
    direction = op.attribute("direction")
    if not isinstance(op.inputs[1], Stored):
        raise CannotImport("its number of bits is computed at run time")
    factors = Stored(2 ** op.inputs[1].array.astype(np.int64))
    text = "{0} * {1}" if direction == "LEFT" else "{0} / {1}"
    return broadcast(op, text, [op.operand(0), factors])


def identity(op: OnnxOp) -> Operand:
    return op.operand(0)


def dropout(op: OnnxOp) -> list[Operand | None]:
    """Models that are imported predict: nothing is dropped."""
    if op.has(2) and bool(op.constant(2, "training mode").reshape(())) and _ratio(op):
        raise CannotImport("it drops elements, as while training; export the model in eval mode")
    x = op.operand(0)
    mask = Stored(np.ones(x.shape, np.bool_ if op.opset >= 10 else np.float32))
    return [x, mask] if len(op.names) > 1 else [x]


def _ratio(op: OnnxOp) -> float:
    return float(op.constant(1, "ratio").reshape(())) if op.has(1) else 0.5


def normal(op: OnnxOp) -> Operand:
    return _draw(op, "randn", float(op.attribute("scale", 1.0)), float(op.attribute("mean", 0.0)))


def uniform(op: OnnxOp) -> Operand:
    low, high = float(op.attribute("low", 0.0)), float(op.attribute("high", 1.0))
    return _draw(op, "rand", high - low, low)


def _draw(op: OnnxOp, function: str, factor: float, offset: float) -> Operand:
    drawn = zeros("f32", op.type.shape, function)
    text = "{0}" if factor == 1 else "{1} * {0}"
    op.remark("random numbers are drawn anew in every call, by wgcc's own generator")
    if offset:
        text += " + {2}" if offset > 0 else " - {2}"
    return op.result(text, drawn, factor, abs(offset))


RULES: dict[str, Rule] = {
    **{name: unary(text) for name, text in FLOAT_FUNCTIONS.items()},
    "Abs": unary("abs({0})"),
    "Neg": unary("-{0}"),
    "Sign": unary("sign({0})"),
    "Not": unary("not {0}"),
    "Add": add,
    "Sub": binary("{0} - {1}"),
    "Mul": multiply,
    "Div": divide,
    "Mod": modulo,
    "Pow": power,
    "Greater": binary("{0} > {1}"),
    "GreaterOrEqual": binary("{0} >= {1}"),
    "Less": binary("{0} < {1}"),
    "LessOrEqual": binary("{0} <= {1}"),
    "Equal": binary("{0} == {1}"),
    "And": binary("{0} and {1}"),
    "Or": binary("{0} or {1}"),
    "Xor": binary("{0} != {1}"),
    "Sum": fold_operands("{0} + {1}"),
    "Max": fold_operands("maximum({0}, {1})"),
    "Min": fold_operands("minimum({0}, {1})"),
    "Mean": mean,
    "Where": where,
    "Clip": clip,
    "Cast": cast,
    "CastLike": cast,
    "Gelu": gelu,
    "PRelu": prelu,
    "Swish": swish,
    "IsInf": is_infinite,
    "BitShift": whole_number_shift,
    "Identity": identity,
    "Dropout": dropout,
    "Elu": unary("elu({0}, {1})", alpha=1.0),
    "Celu": unary("{1} * elu({0} / {1})", alpha=1.0),
    "LeakyRelu": unary("leaky_relu({0}, {1})", alpha=0.01),
    "HardSigmoid": unary("clamp({1} * {0} + {2}, 0.0, 1.0)", alpha=0.2, beta=0.5),
    "Selu": unary("{2} * elu({0}, {1})", alpha=1.6732631921768188, gamma=1.0507010221481323),
    "ThresholdedRelu": unary("where({0} > {1}, {0}, 0.0)", alpha=1.0),
    "Shrink": unary(
        "where({0} < -{2}, {0} + {1}, where({0} > {2}, {0} - {1}, 0.0))", bias=0.0, lambd=0.5
    ),
    "RandomNormal": normal,
    "RandomNormalLike": normal,
    "RandomUniform": uniform,
    "RandomUniformLike": uniform,
}  # fmt: skip
