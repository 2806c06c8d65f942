"""Computes nodes whose operands are all known, as ONNX's reference does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wgcc.from_onnx.context import permuted
from wgcc.from_onnx.infer import Environment
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Constant, Operand
from wgcc.lazy_numpy import np

# Larger results are not computed: a small file could ask for any amount of memory.
LARGEST_RESULT = 1 << 27
RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
# Operators whose output is the size that a number in an operand says.
SIZED = ("ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Pad", "OneHot", "Upsample")
# Weights of one byte stay so.
KEPT = ("DequantizeLinear",)
# Of so few elements, operators other than those make no large result.
FEW_ELEMENTS = 4096
INNER = ("Loop", "Scan", "If")


def fold(
    environment: Environment, node: Any, inputs: Sequence[Operand | None]
) -> list[Constant] | None:
    """The outputs, or None where they depend on what is not known yet."""
    if node.op_type == "Shape" and node.domain in ("", "ai.onnx"):
        return _shape(node, inputs[0])
    if node.op_type == "Size" and node.domain in ("", "ai.onnx") and inputs[0] is not None:
        return [Constant(np.array(np.prod(inputs[0].shape, dtype=np.int64)))]
    known = [item for item in inputs if isinstance(item, Constant)]
    if len(known) != sum(item is not None for item in inputs) or not _is_foldable(node):
        return None
    view = _view(node, known)
    return [view] if view is not None else _evaluated(environment, node, inputs)


def _is_foldable(node: Any) -> bool:
    return node.op_type not in (*RANDOM, *INNER, *KEPT)


def _shape(node: Any, operand: Operand | None) -> list[Constant]:
    if operand is None:
        raise CannotImport("its operand is missing")
    limits = {item.name: item.i for item in node.attribute}
    sizes = operand.shape[limits.get("start", 0) : limits.get("end", len(operand.shape))]
    return [Constant(np.array(sizes, np.int64))]


def _view(node: Any, known: Sequence[Constant]) -> Constant | None:
    """Views of an initialiser are still that initialiser."""
    if node.op_type == "Identity" and len(known) == 1:
        return known[0]
    if node.op_type != "Transpose":
        return None
    given = {item.name: tuple(item.ints) for item in node.attribute}
    rank = len(known[0].shape)
    return permuted(known[0], given.get("perm", tuple(reversed(range(rank)))))


def _evaluated(
    environment: Environment, node: Any, inputs: Sequence[Operand | None]
) -> list[Constant]:
    from onnx.helper import make_graph, make_model, make_tensor_value_info
    from onnx.reference import ReferenceEvaluator

    held = {
        name: item.array
        for name, item in zip(node.input, inputs, strict=False)
        if isinstance(item, Constant)
    }
    _check_size(environment, node, inputs)
    ports = [make_tensor_value_info(name, 0, None) for name in held]
    outputs = [make_tensor_value_info(name, 0, None) for name in node.output if name]
    graph = make_graph([node], "one", ports, outputs)
    model = make_model(
        graph, opset_imports=environment.model.opset_import, functions=environment.model.functions
    )
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, held)
    except Exception as error:
        reason = f"it cannot be computed: {type(error).__name__}: {error}".splitlines()[0]
        raise CannotImport(reason[:200]) from None
    by_name = dict(zip([name for name in node.output if name], found, strict=True))
    return [
        Constant(np.asarray(by_name[name])) if name else Constant(np.zeros(()))
        for name in node.output
    ]


def _check_size(environment: Environment, node: Any, inputs: Sequence[Operand | None]) -> None:
    from wgcc.from_onnx.infer import output_types

    known = sum(item.array.size for item in inputs if isinstance(item, Constant))
    if node.op_type not in SIZED and known < FEW_ELEMENTS:
        return
    try:
        types = output_types(environment, node, inputs)
    except CannotImport:
        return
    if any(np.prod(item.shape, dtype=float) > LARGEST_RESULT for item in types):
        raise CannotImport("its result is too large to be computed now")
