"""Operators of onnxruntime (`com.microsoft`) by ONNX's own: a function for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.from_onnx.microsoft.body import Definition, OperatorBody
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Operand, Stored
from wgcc.lazy_numpy import Array, np

DOMAIN = "com.microsoft"
CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def function_body(node: Any, inputs: Sequence[Operand | None]) -> Any:
    """The function that an operator is; None for one that is not known."""
    if node.domain != DOMAIN or node.op_type not in DEFINITIONS:
        return None
    body = OperatorBody(node, inputs)
    return body.function(DEFINITIONS[node.op_type](body))


def gelu(body: OperatorBody) -> list[str]:
    return [body.add("Gelu", body.input(0))]


def bias_gelu(body: OperatorBody) -> list[str]:
    return [body.add("Gelu", body.add("Add", body.input(0), body.input(1)))]


def fast_gelu(body: OperatorBody) -> list[str]:
    x = body.add("Add", body.input(0), body.input(1)) if body.has(1) else body.input(0)
    return [body.add("Gelu", x, approximate="tanh")]


def quick_gelu(body: OperatorBody) -> list[str]:
    x = body.input(0)
    scaled = body.add("Mul", x, body.number(body.attribute("alpha", 1.702)))
    return [body.add("Mul", x, body.add("Sigmoid", scaled))]


def fused_matmul(body: OperatorBody) -> list[str]:
    if body.attribute("transBatchA", 0) or body.attribute("transBatchB", 0):
        raise CannotImport("it moves the first axis of an operand")
    sides = []
    for place, name in ((0, "transA"), (1, "transB")):
        x, rank = body.input(place), len(body.shape(place))
        if body.attribute(name, 0) and rank > 1:
            x = body.add("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(x)
    product: str = body.add("MatMul", *sides)
    alpha = float(body.attribute("alpha", 1.0))
    return [product if alpha == 1 else body.add("Mul", product, body.number(alpha))]


def fused_gemm(body: OperatorBody) -> list[str]:
    kept = ("alpha", "beta", "transA", "transB")
    given = {name: body.attributes[name] for name in kept if name in body.attributes}
    inputs = [body.optional(place) for place in range(len(body.operands))]
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    numbers = [float(body.attributes[name]) for name in names if name in body.attributes]
    return [_activation(body, body.add("Gemm", *inputs, **given), numbers)]


def fused_conv(body: OperatorBody) -> list[str]:
    given = {name: body.attributes[name] for name in CONV if name in body.attributes}
    y = body.add("Conv", body.input(0), body.input(1), body.optional(2), **given)
    y = body.add("Add", y, body.input(3)) if body.has(3) else y
    return [_activation(body, y, list(body.attribute("activation_params", [])))]


def _activation(body: OperatorBody, x: str, numbers: list[float]) -> str:
    kind = body.attribute("activation", "")
    if not kind:
        return x
    y: str
    if kind in ("Relu", "Tanh", "Sigmoid"):
        y = body.add(kind, x)
    elif kind == "LeakyRelu":
        y = body.add(kind, x, alpha=numbers[0] if numbers else 0.01)
    elif kind == "HardSigmoid" and len(numbers) > 1:
        y = body.add(kind, x, alpha=numbers[0], beta=numbers[1])
    elif kind == "Clip" and len(numbers) > 1:
        y = body.add(kind, x, body.number(numbers[0]), body.number(numbers[1]))
    else:
        raise CannotImport(f"its activation is {kind}")
    return y


@dataclass(frozen=True, slots=True)
class HeadSizes:
    rows: int
    queries: int
    keys: int
    heads: int
    width: int


def attention(body: OperatorBody) -> list[str]:
    """One product makes queries, keys and values. Caches are another form."""
    body.refuse(4, 6)
    if body.attribute("do_rotary", 0):
        raise CannotImport("it rotates queries and keys")
    rows, length, _ = body.shape(0)
    widths = list(body.attribute("qkv_hidden_sizes", [])) or [body.shape(1)[1] // 3] * 3
    if widths[0] != widths[1]:
        raise CannotImport(f"its queries and keys have different widths: {widths}")
    joined = body.add("MatMul", body.input(0), body.input(1))
    joined = body.add("Add", joined, body.input(2)) if body.has(2) else joined
    parts = body.add("Split", joined, body.whole(*widths), outputs=3, axis=-1)
    sizes = HeadSizes(rows, length, length, int(body.attribute("num_heads")), widths[0])
    return [_attend(body, parts, sizes, widths[2], mask=3, bias=5)]


def multi_head_attention(body: OperatorBody) -> list[str]:
    body.refuse(6, 7)
    if any(len(body.shape(place)) != 3 for place in range(3)):
        raise CannotImport("its queries, keys and values are not of three axes each")
    rows, queries, width = body.shape(0)
    keys, out = body.shape(1)[1], body.shape(2)[2]
    parts = [body.input(place) for place in range(3)]
    if body.has(3):
        biases = body.add("Split", body.input(3), body.whole(width, width, out), outputs=3)
        parts = [body.add("Add", x, b) for x, b in zip(parts, biases, strict=True)]
    sizes = HeadSizes(rows, queries, keys, int(body.attribute("num_heads")), width)
    return [_attend(body, parts, sizes, out, mask=4, bias=5)]


def _attend(
    body: OperatorBody, parts: list[str], sizes: HeadSizes, out: int, mask: int, bias: int
) -> str:
    rows, heads = sizes.rows, sizes.heads
    q = _heads(body, parts[0], rows, sizes.queries, heads, sizes.width)
    k = _heads(body, parts[1], rows, sizes.keys, heads, sizes.width)
    v = _heads(body, parts[2], rows, sizes.keys, heads, out)
    scale = float(body.attribute("scale", 0.0)) or (sizes.width // heads) ** -0.5
    scores = body.add("MatMul", q, body.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = body.add("Mul", scores, body.number(scale))
    scores = body.add("Add", scores, body.input(bias)) if body.has(bias) else scores
    scores = body.add("Add", scores, _mask(body, mask, sizes)) if body.has(mask) else scores
    if body.attribute("unidirectional", 0):
        later = np.triu(np.ones((sizes.queries, sizes.keys), bool), 1 + sizes.keys - sizes.queries)
        scores = body.add("Where", body.constant(later), body.number(-1e29), scores)
    mixed = body.add("MatMul", body.add("Softmax", scores, axis=-1), v)
    turned = body.add("Transpose", mixed, perm=[0, 2, 1, 3])
    y: str = body.add("Reshape", turned, body.whole(rows, sizes.queries, out))
    return y


def _heads(body: OperatorBody, x: str, rows: int, length: int, heads: int, width: int) -> str:
    apart = body.add("Reshape", x, body.whole(rows, length, heads, width // heads))
    y: str = body.add("Transpose", apart, perm=[0, 2, 1, 3])
    return y


def _mask(body: OperatorBody, place: int, sizes: HeadSizes) -> str:
    """The numbers added to scores, from a mask with 1 for seen keys or from lengths of rows."""
    shape = body.shape(place)
    shown = {
        (sizes.rows, sizes.keys): (sizes.rows, 1, 1, sizes.keys),
        (sizes.rows, sizes.queries, sizes.keys): (sizes.rows, 1, sizes.queries, sizes.keys),
    }.get(shape)
    if shape == (sizes.rows,):
        ends = body.add("Reshape", body.input(place), body.whole(sizes.rows, 1, 1, 1))
        ends = body.add("Cast", ends, to=7)
        places = body.constant(np.arange(sizes.keys).reshape(1, 1, 1, -1))
        seen = body.add("Less", places, ends)
    elif shown is not None:
        seen = body.add("Reshape", body.input(place), body.whole(*shown))
    else:
        raise CannotImport(f"its mask is {list(shape)}")
    hidden = body.add("Sub", body.number(1.0), body.add("Cast", seen, to=1))
    low = float(body.attribute("mask_filter_value", -10000.0))
    y: str = body.add("Mul", hidden, body.number(low))
    return y


def skip_layer_norm(body: OperatorBody) -> list[str]:
    """The norm of input + skip (+ bias); the fourth output is that sum."""
    total = _sum(body, 0, 1, 4)
    return [_layer_norm(body, total, body.input(2), body.optional(3)), "", "", total]


def skip_rms_norm(body: OperatorBody) -> list[str]:
    total = _sum(body, 0, 1, 3)
    return [_rms_norm(body, total, body.input(2)), "", "", total]


def _sum(body: OperatorBody, *places: int) -> str:
    total = body.input(places[0])
    for place in places[1:]:
        total = body.add("Add", total, body.input(place)) if body.has(place) else total
    return total


def _layer_norm(body: OperatorBody, x: str, gain: str, shift: str) -> str:
    y: str = body.add(
        "LayerNormalization", x, gain, shift, epsilon=float(body.attribute("epsilon", 1e-12))
    )
    return y


def _rms_norm(body: OperatorBody, x: str, gain: str) -> str:
    square = body.add("Pow", x, body.number(2.0))
    mean = body.add("ReduceMean", square, body.whole(-1))
    shifted = body.add("Add", mean, body.number(float(body.attribute("epsilon", 1e-12))))
    scaled = body.add("Div", x, body.add("Sqrt", shifted))
    y: str = body.add("Mul", scaled, gain)
    return y


def embed_layer_norm(body: OperatorBody) -> list[str]:
    """Words, positions and segments; the second output counts the mask's ones in each row."""
    rows, length = body.shape(0)
    words = body.add("Gather", body.input(2), body.input(0))
    places = body.input(8) if body.has(8) else body.whole(*range(length))
    total = body.add("Add", words, body.add("Gather", body.input(3), places))
    if body.has(4) and body.has(1):
        total = body.add("Add", total, body.add("Gather", body.input(4), body.input(1)))
    normed = _layer_norm(body, total, body.input(5), body.input(6))
    if body.has(7):
        counted = body.add("ReduceSum", body.input(7), body.whole(1), keepdims=0)
    else:
        counted = body.whole(*[0] * rows)
    return [normed, counted, total]


POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
LSTM = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
        "input_forget")  # fmt: skip


def _floats(body: OperatorBody, place: int) -> str:
    """An operand with its scale and zero point behind it."""
    y: str = body.add("DequantizeLinear", *(body.optional(place + n) for n in range(3)))
    return y


def _bytes(body: OperatorBody, x: str, place: int) -> list[str]:
    return [body.add("QuantizeLinear", x, body.input(place), body.optional(place + 1))]


def of_two(kind: str) -> Definition:
    def definition(body: OperatorBody) -> list[str]:
        return _bytes(body, body.add(kind, _floats(body, 0), _floats(body, 3)), 6)

    return definition


def of_one(kind: str, *names: str) -> Definition:
    def definition(body: OperatorBody) -> list[str]:
        if body.attribute("channels_last", 0):
            raise CannotImport("its channels are last")
        given = {name: body.attributes[name] for name in names if name in body.attributes}
        return _bytes(body, body.add(kind, _floats(body, 0), **given), 3)

    return definition


def concat(body: OperatorBody) -> list[str]:
    parts = [_floats(body, place) for place in range(2, len(body.operands), 3)]
    return _bytes(body, body.add("Concat", *parts, axis=int(body.attribute("axis"))), 0)


def gemm(body: OperatorBody) -> list[str]:
    """The bias is whole numbers of both scales."""
    c = ""
    if body.has(6):
        scale = body.add("Mul", body.input(1), body.input(4))
        c = body.add("Mul", body.add("Cast", body.input(6), to=1), scale)
    given = {name: body.attributes[name] for name in ("alpha", "transA", "transB")
             if name in body.attributes}  # fmt: skip
    y = body.add("Gemm", _floats(body, 0), _floats(body, 3), c, **given)
    return _bytes(body, y, 7) if body.has(7) else [y]


def dynamic_matmul(body: OperatorBody) -> list[str]:
    """Bytes of A are chosen by its numbers, as `DynamicQuantizeLinear` does."""
    a, scale, zero = body.add("DynamicQuantizeLinear", body.input(0), outputs=3)
    whole = body.add("MatMulInteger", a, body.input(1), zero, body.optional(3))
    return [_scale(body, whole, scale, body.input(2), 4)]


def matmul_to_float(body: OperatorBody) -> list[str]:
    operands = (body.input(0), body.input(1), body.optional(4), body.optional(5))
    whole = body.add("MatMulInteger", *operands)
    return [_scale(body, whole, body.input(2), body.input(3), 6)]


def _scale(body: OperatorBody, whole: str, a: str, b: str, bias: int) -> str:
    y: str = body.add("Mul", body.add("Cast", whole, to=1), body.add("Mul", a, b))
    return body.add("Add", y, body.input(bias)) if body.has(bias) else y


def dynamic_lstm(body: OperatorBody) -> list[str]:
    """Weights are [directions, inputs, gates], the others' transposed."""
    weights = [
        body.constant(_stored_floats(body, place, scale)) for place, scale in ((1, 8), (2, 10))
    ]
    given = {name: body.attributes[name] for name in LSTM if name in body.attributes}
    rest = (body.optional(place) for place in range(3, 8))
    outputs: list[str] = body.add("LSTM", body.input(0), *weights, *rest, outputs=3, **given)
    return outputs


def _stored_floats(body: OperatorBody, place: int, scale: int) -> Array:
    """Stored weights as floats; each direction, or each of its gates, has a scale."""
    held = [body.operands[n] if body.has(n) else None for n in (place, scale, scale + 1)]
    arrays = [item.array for item in held if isinstance(item, Stored)]
    if len(arrays) < 3:
        raise CannotImport("its weights are computed at run time")
    whole, factor, zero = (array.astype(np.float32) for array in arrays)
    spread: Callable[[Array], Array] = lambda x: x.reshape(len(whole), 1, -1)  # noqa: E731
    return np.ascontiguousarray(((whole - spread(zero)) * spread(factor)).transpose(0, 2, 1))


DEFINITIONS: dict[str, Definition] = {
    "Gelu": gelu,
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedGemm": fused_gemm,
    "FusedConv": fused_conv,
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "EmbedLayerNormalization": embed_layer_norm,
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
