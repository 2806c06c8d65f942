"""Operators on bytes: bytes to floats, the operator, and back."""

from __future__ import annotations

from collections.abc import Callable

from wgcc.from_onnx.microsoft.body import Body, Definition
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Constant
from wgcc.lazy_numpy import Array, np

POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
LSTM = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
        "input_forget")  # fmt: skip


def _floats(body: Body, place: int) -> str:
    """An operand with its scale and zero point behind it."""
    y: str = body.add("DequantizeLinear", *(body.optional(place + n) for n in range(3)))
    return y


def _bytes(body: Body, x: str, place: int) -> list[str]:
    return [body.add("QuantizeLinear", x, body.input(place), body.optional(place + 1))]


def of_two(kind: str) -> Definition:
    def definition(body: Body) -> list[str]:
        return _bytes(body, body.add(kind, _floats(body, 0), _floats(body, 3)), 6)

    return definition


def of_one(kind: str, *names: str) -> Definition:
    def definition(body: Body) -> list[str]:
        if body.attribute("channels_last", 0):
            raise CannotImport("its channels are last")
        given = {name: body.attributes[name] for name in names if name in body.attributes}
        return _bytes(body, body.add(kind, _floats(body, 0), **given), 3)

    return definition


def concat(body: Body) -> list[str]:
    parts = [_floats(body, place) for place in range(2, len(body.operands), 3)]
    return _bytes(body, body.add("Concat", *parts, axis=int(body.attribute("axis"))), 0)


def gemm(body: Body) -> list[str]:
    """The bias is whole numbers of both scales."""
    c = ""
    if body.has(6):
        scale = body.add("Mul", body.input(1), body.input(4))
        c = body.add("Mul", body.add("Cast", body.input(6), to=1), scale)
    given = {name: body.attributes[name] for name in ("alpha", "transA", "transB")
             if name in body.attributes}  # fmt: skip
    y = body.add("Gemm", _floats(body, 0), _floats(body, 3), c, **given)
    return _bytes(body, y, 7) if body.has(7) else [y]


def dynamic_matmul(body: Body) -> list[str]:
    """Bytes of A are chosen by its numbers, as `DynamicQuantizeLinear` does."""
    a, scale, zero = body.add("DynamicQuantizeLinear", body.input(0), outputs=3)
    whole = body.add("MatMulInteger", a, body.input(1), zero, body.optional(3))
    return [_scaled(body, whole, scale, body.input(2), 4)]


def matmul_to_float(body: Body) -> list[str]:
    operands = (body.input(0), body.input(1), body.optional(4), body.optional(5))
    whole = body.add("MatMulInteger", *operands)
    return [_scaled(body, whole, body.input(2), body.input(3), 6)]


def _scaled(body: Body, whole: str, a: str, b: str, bias: int) -> str:
    y: str = body.add("Mul", body.add("Cast", whole, to=1), body.add("Mul", a, b))
    return body.add("Add", y, body.input(bias)) if body.has(bias) else y


def dynamic_lstm(body: Body) -> list[str]:
    """Weights are [directions, inputs, gates], the others' transposed."""
    weights = [body.constant(_stored(body, place, scale)) for place, scale in ((1, 8), (2, 10))]
    given = {name: body.attributes[name] for name in LSTM if name in body.attributes}
    rest = (body.optional(place) for place in range(3, 8))
    outputs: list[str] = body.add("LSTM", body.input(0), *weights, *rest, outputs=3, **given)
    return outputs


def _stored(body: Body, place: int, scale: int) -> Array:
    """As floats: by a scale for each direction, or for each of its gates."""
    held = [body.operands[n] if body.has(n) else None for n in (place, scale, scale + 1)]
    arrays = [item.array for item in held if isinstance(item, Constant)]
    if len(arrays) < 3:
        raise CannotImport("its weights are computed at run time")
    whole, factor, zero = (array.astype(np.float32) for array in arrays)
    spread: Callable[[Array], Array] = lambda x: x.reshape(len(whole), 1, -1)  # noqa: E731
    return np.ascontiguousarray(((whole - spread(zero)) * spread(factor)).transpose(0, 2, 1))


DEFINITIONS: dict[str, Definition] = {
    "QLinearAdd": of_two("Add"),
    "QLinearMul": of_two("Mul"),
    "QLinearSigmoid": of_one("Sigmoid"),
    "QLinearLeakyRelu": of_one("LeakyRelu", "alpha"),
    "QLinearGlobalAveragePool": of_one("GlobalAveragePool"),
    "QLinearAveragePool": of_one("AveragePool", *POOL),
    "QLinearConcat": concat,
    "QGemm": gemm,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "MatMulIntegerToFloat": matmul_to_float,
    "DynamicQuantizeLSTM": dynamic_lstm,
}
