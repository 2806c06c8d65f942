"""Products and convolutions with what follows them, and functions of single elements."""

from __future__ import annotations

from wgcc.from_onnx.microsoft.body import Body, Definition
from wgcc.from_onnx.problems import CannotImport

CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def gelu(body: Body) -> list[str]:
    return [body.add("Gelu", body.input(0))]


def bias_gelu(body: Body) -> list[str]:
    return [body.add("Gelu", body.add("Add", body.input(0), body.input(1)))]


def fast_gelu(body: Body) -> list[str]:
    x = body.add("Add", body.input(0), body.input(1)) if body.has(1) else body.input(0)
    return [body.add("Gelu", x, approximate="tanh")]


def quick_gelu(body: Body) -> list[str]:
    x = body.input(0)
    scaled = body.add("Mul", x, body.number(body.attribute("alpha", 1.702)))
    return [body.add("Mul", x, body.add("Sigmoid", scaled))]


def fused_matmul(body: Body) -> list[str]:
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


def fused_gemm(body: Body) -> list[str]:
    kept = ("alpha", "beta", "transA", "transB")
    given = {name: body.attributes[name] for name in kept if name in body.attributes}
    inputs = [body.optional(place) for place in range(len(body.operands))]
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    numbers = [float(body.attributes[name]) for name in names if name in body.attributes]
    return [_activated(body, body.add("Gemm", *inputs, **given), numbers)]


def fused_conv(body: Body) -> list[str]:
    given = {name: body.attributes[name] for name in CONV if name in body.attributes}
    y = body.add("Conv", body.input(0), body.input(1), body.optional(2), **given)
    y = body.add("Add", y, body.input(3)) if body.has(3) else y
    return [_activated(body, y, list(body.attribute("activation_params", [])))]


def _activated(body: Body, x: str, numbers: list[float]) -> str:
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


DEFINITIONS: dict[str, Definition] = {
    "Gelu": gelu,
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "QuickGelu": quick_gelu,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedGemm": fused_gemm,
    "FusedConv": fused_conv,
}
