"""Computes nodes whose operands are all known, as ONNX's reference does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wgcc.from_onnx.context import permuted
from wgcc.from_onnx.infer import Environment
from wgcc.from_onnx.noise import RANDOM
from wgcc.from_onnx.problems import CannotImport, TooLarge
from wgcc.from_onnx.values import Constant, Operand
from wgcc.lazy_numpy import Array, np

# Larger results are not computed: a small file could ask for any amount of memory.
LARGEST_RESULT = 1 << 27
TOO_LARGE = "its result is too large to be computed now"
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
    return node.op_type not in (*RANDOM, "Bernoulli", *INNER, *KEPT)


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
    held = {
        name: item.array
        for name, item in zip(node.input, inputs, strict=False)
        if isinstance(item, Constant)
    }
    _check_size(environment, node, inputs)
    results = _own_results(node, inputs)
    if results is None:
        results = _by_reference(environment, node, held)
    if results is None:
        results = _by_onnxruntime(environment, node, held)
    if results is None:
        shapes = ", ".join(str(list(array.shape)) for array in held.values())
        raise CannotImport(f"its operands {shapes} are known, but ONNX cannot compute it of them")
    by_name = dict(zip([name for name in node.output if name], results, strict=True))
    return [
        Constant(_tensor(by_name[name], name)) if name else Constant(np.zeros(()))
        for name in node.output
    ]


def _tensor(result: Any, name: str) -> Array:
    """A sequence of tensors of one shape is held as one tensor, which other nodes read alike."""
    try:
        return np.asarray(result)
    except ValueError:
        reason = f"its output `{name}` is a sequence of tensors of different shapes"
        raise CannotImport(reason) from None


def _own_results(node: Any, inputs: Sequence[Operand | None]) -> list[Array] | None:
    """Operators that ONNX's reference computes wrongly or not at all for some shapes."""
    rule = OWN_RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    arrays = [item.array for item in inputs if isinstance(item, Constant)]
    return rule(node, arrays) if rule is not None else None


def _gather_elements(node: Any, arrays: Sequence[Array]) -> list[Array]:
    data, ids = arrays
    axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
    size = data.shape[axis] if -data.ndim <= axis < data.ndim else 0
    fits = data.ndim == ids.ndim and all(
        b <= a for n, (a, b) in enumerate(zip(data.shape, ids.shape, strict=True))
        if n != axis % data.ndim
    )  # fmt: skip
    if not fits or not ((ids >= -size) & (ids < size)).all():
        raise CannotImport(
            f"its ids {list(ids.shape)} do not fit axis {axis} of {list(data.shape)}"
        )
    part = data[tuple(slice(None) if n == axis % data.ndim else slice(b)
                      for n, b in enumerate(ids.shape))]  # fmt: skip
    return [np.take_along_axis(part, np.where(ids < 0, ids + size, ids), axis)]


OWN_RULES: dict[str, Callable[[Any, Sequence[Array]], list[Array]]] = {
    "GatherElements": _gather_elements,
}


def _single_node(environment: Environment, node: Any, held: dict[str, Array]) -> Any:
    from onnx import IR_VERSION, ValueInfoProto
    from onnx.helper import (
        make_graph,
        make_model,
        make_tensor_value_info,
        np_dtype_to_tensor_dtype,
    )

    ports = [
        make_tensor_value_info(name, np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in held.items()
    ]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    return make_model(
        make_graph([node], "one", ports, outputs),
        opset_imports=environment.opset_imports(),
        functions=environment.model.functions,
        ir_version=environment.model.ir_version or IR_VERSION,
    )


def _by_reference(environment: Environment, node: Any, held: dict[str, Array]) -> Any:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(_single_node(environment, node, held)).run(None, held)
    except Exception:
        return None


def _by_onnxruntime(environment: Environment, node: Any, held: dict[str, Array]) -> Any:
    """Where ONNX's reference has a fault or lacks the operator."""
    try:
        import onnxruntime
    except ImportError:
        return None
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        model = _single_node(environment, node, held).SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(None, held)
    except Exception:
        return None


def _check_size(environment: Environment, node: Any, inputs: Sequence[Operand | None]) -> None:
    from wgcc.from_onnx.infer import output_types

    known = sum(item.array.size for item in inputs if isinstance(item, Constant))
    if node.op_type not in SIZED and known < FEW_ELEMENTS:
        return
    try:
        types = output_types(environment, node, inputs)
    except TooLarge:
        raise CannotImport(TOO_LARGE) from None
    except CannotImport:
        return
    if any(np.prod(item.shape, dtype=float) > LARGEST_RESULT for item in types):
        raise CannotImport(TOO_LARGE)
