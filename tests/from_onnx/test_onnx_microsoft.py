"""Operators of onnxruntime's own (`com.microsoft`): the bundle gives its numbers on the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.folder import Imported, build
from wgcc.from_onnx.microsoft.operators import DEFINITIONS
from wgcc.from_onnx.problems import NotImportable

F32, U8, I8, I32 = np.float32, np.uint8, np.int8, np.int32
KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F32)


def whole(low: int, high: int, kind: Any, *shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(kind)


# Operator, operands (of which the first is the input x), attributes.
Case = tuple[str, list[Any], dict[str, Any]]
X3 = random(2, 3, 8)
SCALED = [F32(0.05), U8(120)]
BYTES = whole(0, 256, U8, 2, 3, 8)
PICTURE = whole(0, 256, U8, 1, 3, 6, 6)
CASES: dict[str, Case] = {
    "gelu": ("Gelu", [X3], {}),
    "bias_gelu": ("BiasGelu", [X3, random(8)], {}),
    "fast_gelu": ("FastGelu", [X3], {}),
    "fast_gelu_bias": ("FastGelu", [X3, random(8)], {}),
    "quick_gelu": ("QuickGelu", [X3], {"alpha": 1.5}),
    "fused_matmul": ("FusedMatMul", [X3, random(8, 5)], {"alpha": 0.5}),
    "fused_matmul_b": ("FusedMatMul", [X3, random(2, 4, 8)], {"transB": 1}),
    "fused_matmul_a": ("FusedMatMul", [X3, random(2, 3, 5)], {"transA": 1, "alpha": 2.0}),
    "fused_gemm": ("FusedGemm", [random(3, 8), random(5, 8), random(5)],
                   {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.2}),
    "fused_conv": ("FusedConv", [random(1, 3, 6, 6), random(4, 3, 3, 3), random(4)],
                   {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "fused_conv_sum": ("FusedConv", [random(1, 3, 6, 6), random(4, 3, 1, 1), random(4),
                                     random(1, 4, 6, 6)], {"activation": "Relu"}),
    "fused_conv_clip": ("FusedConv", [random(1, 3, 6, 6), random(4, 3, 1, 1)],
                        {"activation": "Clip", "activation_params": [0.0, 0.5]}),
    "skip": ("SkipLayerNormalization", [X3, random(2, 3, 8) * 2, random(8), random(8) + 1],
             {"epsilon": 1e-3}),
    "skip_bias": ("SkipLayerNormalization", [X3, X3 * 2, random(8), random(8), random(8) * 3], {}),
    "skip_rms": ("SkipSimplifiedLayerNormalization", [X3, X3 * 2, random(8), random(8) * 3],
                 {"epsilon": 1e-5}),
    "embed": ("EmbedLayerNormalization",
              [whole(0, 9, I32, 2, 5), whole(0, 2, I32, 2, 5), random(9, 8), random(7, 8),
               random(2, 8), random(8), random(8) + 1, whole(0, 2, I32, 2, 5)], {"epsilon": 1e-5}),
    "embed_plain": ("EmbedLayerNormalization",
                    [whole(0, 9, I32, 2, 5), None, random(9, 8), random(7, 8), None, random(8),
                     random(8) + 1], {}),
    "attention": ("Attention", [X3, random(8, 24), random(24)], {"num_heads": 2}),
    "attention_mask": ("Attention", [X3, random(8, 24), random(24),
                                     np.array([[1, 1, 0], [1, 1, 1]], I32)], {"num_heads": 4}),
    "attention_lengths": ("Attention", [X3, random(8, 24), random(24), np.array([2, 3], I32)],
                          {"num_heads": 2}),
    "attention_causal": ("Attention", [X3, random(8, 24), random(24)],
                         {"num_heads": 2, "unidirectional": 1, "scale": 0.3}),
    "heads": ("MultiHeadAttention", [X3, random(2, 5, 8), random(2, 5, 8)], {"num_heads": 2}),
    "heads_bias": ("MultiHeadAttention", [X3, random(2, 5, 8), random(2, 5, 8), random(24),
                                          np.array([[1, 1, 0, 1, 0], [1] * 5], I32),
                                          random(1, 2, 3, 5)], {"num_heads": 2}),
    "add": ("QLinearAdd", [BYTES, *SCALED, whole(0, 256, U8, 8), F32(0.02), U8(7), F32(0.08),
                           U8(128)], {}),
    "mul": ("QLinearMul", [BYTES, *SCALED, whole(0, 256, U8, 8), F32(0.02), U8(7), F32(0.2),
                           U8(128)], {}),
    "sigmoid": ("QLinearSigmoid", [BYTES, *SCALED, F32(1 / 256), U8(0)], {}),
    "leaky": ("QLinearLeakyRelu", [BYTES, *SCALED, F32(0.06), U8(30)], {"alpha": 0.1}),
    "pool": ("QLinearGlobalAveragePool", [PICTURE, *SCALED, F32(0.02), U8(100)],
             {"channels_last": 0}),
    "average": ("QLinearAveragePool", [PICTURE, *SCALED, F32(0.05), U8(120)],
                {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "q_gemm": ("QGemm", [whole(0, 256, U8, 3, 8), *SCALED, whole(-127, 128, I8, 8, 5), F32(0.01),
                         I8(0), whole(-900, 900, I32, 5), F32(0.1), U8(128)], {}),
    "q_gemm_float": ("QGemm", [whole(0, 256, U8, 3, 8), *SCALED, whole(-127, 128, I8, 8, 5),
                               F32(0.01), I8(0), whole(-900, 900, I32, 5)], {}),
    "dynamic": ("DynamicQuantizeMatMul", [X3, whole(-127, 128, I8, 8, 5), F32(0.01), I8(0),
                                          random(5)], {}),
    "to_float": ("MatMulIntegerToFloat", [whole(0, 256, U8, 3, 8), whole(-127, 128, I8, 8, 5),
                                          F32(0.05), F32(0.01), U8(120), I8(0), random(5)], {}),
    "lstm": ("DynamicQuantizeLSTM",
             [random(6, 2, 4), whole(-127, 128, I8, 1, 4, 20), whole(-127, 128, I8, 1, 5, 20),
              random(1, 40), None, None, None, None, np.array([0.004], F32), np.array([0], I8),
              np.array([0.003], F32), np.array([0], I8)], {"hidden_size": 5}),
    "lstm_both": ("DynamicQuantizeLSTM",
                  [random(6, 2, 4), whole(0, 256, U8, 2, 4, 20), whole(0, 256, U8, 2, 5, 20),
                   random(2, 40), None, None, None, None, np.array([0.004, 0.002], F32),
                   np.array([128, 120], U8), np.array([0.003, 0.004], F32),
                   np.array([128, 130], U8)], {"hidden_size": 5, "direction": "bidirectional"}),
}  # fmt: skip
# Bytes that lie between two may be rounded either way.
ROUNDED = ("add", "mul", "sigmoid", "leaky", "pool", "average", "q_gemm", "concat")


def saved(path: Path, kind: str, operands: list[Any], attributes: dict[str, Any]) -> Path:
    arrays = {f"a{place}": np.asarray(item) for place, item in enumerate(operands)
              if item is not None}  # fmt: skip
    names = [f"a{place}" if item is not None else "" for place, item in enumerate(operands)]
    output = 1 if kind in ("QGemm",) and len(operands) < 8 else 2 if kind[:2] in ("QL", "QG") else 1
    x = arrays.pop("a0")
    outputs = ["y", "counts"] if kind == "EmbedLayerNormalization" else ["y"]
    rank = x.ndim + (kind in ("EmbedLayerNormalization", "DynamicQuantizeLSTM"))
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)],
        "g",
        [helper.make_tensor_value_info("a0", KINDS[str(x.dtype)], x.shape)],
        [helper.make_tensor_value_info("y", output, [None] * rank)],
        initializer=[numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    return path


def imported(path: Path) -> Imported:
    found = build(path, convert_file(path, Wishes()))
    assert found.compared_with == "onnxruntime"
    assert all(item.finite for item in found.differences)
    return found


@pytest.mark.parametrize("name", CASES)
def test_operators_of_onnxruntime(name: str, tmp_path: Path) -> None:
    found = imported(saved(tmp_path / "m.onnx", *CASES[name]))
    (difference,) = found.differences
    assert difference.largest <= (1 if name in ROUNDED else difference.tolerance * 20)
    assert name in ROUNDED or difference.is_small


def test_every_definition_is_tested() -> None:
    alias = {"TransposeMatMul", "QLinearConcat"}
    assert {kind for kind, _, _ in CASES.values()} | alias == set(DEFINITIONS)


def test_bytes_are_joined(tmp_path: Path) -> None:
    names = ["ys", "yz", "x", "xs", "xz", "w", "ws", "wz"]
    held = {"ys": F32(0.06), "yz": U8(110), "xs": F32(0.05), "xz": U8(120),
            "w": whole(0, 256, U8, 2, 4), "ws": F32(0.02), "wz": U8(9)}  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("QLinearConcat", names, ["y"], domain="com.microsoft", axis=1)],
        "g",
        [helper.make_tensor_value_info("x", 2, [2, 3])],
        [helper.make_tensor_value_info("y", 2, [2, 7])],
        initializer=[numpy_helper.from_array(np.asarray(a), name) for name, a in held.items()],
    )
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    assert imported(path).differences[0].largest <= 1


def test_sums_that_a_norm_gives_back(tmp_path: Path) -> None:
    node = helper.make_node(
        "SkipLayerNormalization", ["x", "s", "g", "b"], ["n", "", "", "t"], domain="com.microsoft"
    )
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["n", "t"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3, 8])],
        [helper.make_tensor_value_info("y", 1, [2, 3, 8])],
        initializer=[
            numpy_helper.from_array(array, name)
            for name, array in {"s": X3, "g": random(8), "b": random(8) + 1}.items()
        ],
    )
    sets = [helper.make_opsetid("", 11), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    assert imported(path).differences[0].is_small


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (("Attention", [X3, random(8, 24), random(24), None, random(2, 2, 2, 3, 4)],
          {"num_heads": 2}), "its operand 5 has no meaning here yet"),
        (("FusedConv", [random(1, 3, 6, 6), random(4, 3, 1, 1)], {"activation": "Erf"}),
         "its activation is Erf"),
        (("FusedMatMul", [X3, X3], {"transBatchA": 1}), "it moves the first axis"),
        (("GroupQueryAttention", [X3, X3, X3], {}), "ONNX has no operator of this name"),
    ],
)  # fmt: skip
def test_other_forms_are_refused(case: Case, reason: str, tmp_path: Path) -> None:
    with pytest.raises(NotImportable) as caught:
        convert_file(saved(tmp_path / "m.onnx", *case), Wishes())
    assert f"y: com.microsoft.{case[0]} (opset 1): {reason}" in str(caught.value)
