"""Types of a node's outputs, by ONNX's own rules; their numbers, where all operands are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wgcc.from_onnx.context import permute_constant
from wgcc.from_onnx.microsoft.operators import function_body
from wgcc.from_onnx.problems import CannotImport, TooLarge
from wgcc.from_onnx.values import Computed, OnnxType, Operand, Stored, dtype_of
from wgcc.lazy_numpy import Array, np

# Operators whose output is like their first operand, which ONNX's rules do not say.
LIKE_FIRST = ("GroupNormalization", "MeanVarianceNormalization")
# A tensor of 1 GiB: a small file could ask for any amount of memory.
MOST_ELEMENTS = 1 << 28
# Constants of more elements cannot tell an output's shape.
LARGEST_SHAPE_DATA = 4096


@dataclass(slots=True)
class Environment:
    """The operator sets and functions of a model; a function may have its own `standard` set."""

    model: Any
    standard: int = 0

    def opset_imports(self) -> list[Any]:
        from onnx.helper import make_opsetid

        if not self.standard:
            return list(self.model.opset_import)
        others = [item for item in self.model.opset_import if item.domain not in ("", "ai.onnx")]
        return [make_opsetid("", self.standard), *others]

    def inside(self, function: Any) -> Environment:
        """For the nodes of a function, which says what version of operators it is written in."""
        own = [item.version for item in function.opset_import if item.domain in ("", "ai.onnx")]
        return Environment(self.model, own[0]) if own else self

    def opset(self, domain: str) -> int:
        if self.standard and domain in ("", "ai.onnx"):
            return self.standard
        for item in self.model.opset_import:
            if item.domain in _same_domain(domain):
                return int(item.version)
        return 1

    def schema(self, node: Any) -> Any:
        from onnx.defs import SchemaError, get_schema

        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            return get_schema(node.op_type, self.opset(node.domain), domain)
        except SchemaError:
            reason = "ONNX has no operator of this name in this set"
            raise CannotImport(reason) from None

    def own_function(self, node: Any) -> str:
        """The name of a function that the file defines, or ""."""
        own = {(function.domain, function.name) for function in self.model.functions}
        return node.op_type if (node.domain, node.op_type) in own else ""

    def function_of(self, node: Any, inputs: Sequence[Operand | None]) -> Any:
        """The operators that define this one: a function of the model or of ONNX itself."""
        for function in self.model.functions:
            if (function.domain, function.name) == (node.domain, node.op_type):
                return _bind_attributes(function, node)
        known = function_body(node, inputs)
        if known is not None:
            return known
        schema = self.schema(node)
        body = _standard_function(schema, node, inputs)
        if body is None:
            return None
        body.attribute_proto.extend(
            item.default_value for item in schema.attributes.values() if item.default_value.name
        )
        return _bind_attributes(body, node)


def _same_domain(domain: str) -> tuple[str, ...]:
    return ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)


def _standard_function(schema: Any, node: Any, inputs: Sequence[Operand | None]) -> Any:
    from onnx import FunctionProto

    if schema.has_context_dependent_function:
        types = [
            _onnx_type(item).SerializeToString() if item is not None else b"" for item in inputs
        ]
        text = schema.get_context_dependent_function(node.SerializeToString(), types)
        return FunctionProto.FromString(text)
    if schema.has_function:
        return FunctionProto.FromString(schema.function_body.SerializeToString())
    return None


def _bind_attributes(function: Any, node: Any) -> Any:
    """A copy of a function whose nodes have the caller's attributes."""
    body = type(function).FromString(function.SerializeToString())
    given = {item.name: item for item in body.attribute_proto}
    given |= {item.name: item for item in node.attribute}
    for inner in body.node:
        kept = []
        for attribute in inner.attribute:
            if not attribute.ref_attr_name:
                kept.append(attribute)
            elif attribute.ref_attr_name in given:
                copy = type(attribute).FromString(
                    given[attribute.ref_attr_name].SerializeToString()
                )
                copy.name = attribute.name
                kept.append(copy)
        del inner.attribute[:]
        inner.attribute.extend(kept)
    return body


def output_types(
    environment: Environment, node: Any, inputs: Sequence[Operand | None]
) -> list[OnnxType]:
    import onnx
    from onnx.numpy_helper import from_array
    from onnx.shape_inference import infer_node_outputs

    named = {name: item for name, item in zip(node.input, inputs, strict=False) if name and item}
    types = {name: _onnx_type(item) for name, item in named.items()}
    data = {
        name: from_array(item.array, name)
        for name, item in named.items()
        if isinstance(item, Stored) and item.array.size <= LARGEST_SHAPE_DATA
    }
    try:
        protos = infer_node_outputs(
            environment.schema(node), node, types, data,
            opset_imports=environment.opset_imports(),
            ir_version=environment.model.ir_version or onnx.IR_VERSION,
        )  # fmt: skip
    except CannotImport:
        raise
    except Exception as error:
        raise CannotImport(
            f"its operands do not fit: {(str(error).splitlines() or [''])[0][:200]}"
        ) from None
    first = next((item for item in inputs if item is not None), None)
    if node.op_type in LIKE_FIRST and isinstance(first, Computed):
        return [OnnxType(first.dtype, first.shape, first.element)]
    held = [type_of(protos[name], f"its output `{name}`") for name in node.output if name in protos]
    for item in held:
        if item.shape and min(item.shape) < 0:
            raise CannotImport(
                f"its operands are too small: its result would be {list(item.shape)}"
            )
        if (elements := math.prod(item.shape)) > MOST_ELEMENTS:
            raise TooLarge(
                f"its result has {elements:,} elements; at most {MOST_ELEMENTS:,} are imported"
            )
    return held


def without_unread(environment: Environment, node: Any, uses: Mapping[str, int]) -> Any:
    """The node without optional outputs that nothing reads, whose shapes need not be known."""
    if len(node.output) < 2 or all(uses.get(name) for name in node.output[1:]):
        return node
    try:
        ports = environment.schema(node).outputs
    except CannotImport:
        return node
    optional = [str(port.option).endswith("Optional") for port in ports]
    optional += [False] * (len(node.output) - len(optional))
    copy = type(node)()
    copy.CopyFrom(node)
    copy.output[:] = [
        "" if may_miss and not uses.get(name) else name
        for name, may_miss in zip(node.output, optional, strict=False)
    ]
    while len(copy.output) > 1 and not copy.output[-1]:
        copy.output.pop()
    return copy


def type_of(proto: Any, what: str) -> OnnxType:
    from onnx.helper import tensor_dtype_to_np_dtype

    if not proto.HasField("tensor_type"):
        raise CannotImport(f"{what} is no tensor, but of {proto.WhichOneof('value')}")
    tensor = proto.tensor_type
    kind = dtype_of(tensor_dtype_to_np_dtype(tensor.elem_type))
    if not kind:
        raise CannotImport(f"{what} has elements of a kind that the language lacks")
    if not tensor.HasField("shape"):
        raise CannotImport(f"the shape of {what} depends on data")
    if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        raise CannotImport(f"the shape of {what} depends on data")
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    return OnnxType(kind, shape, tensor.elem_type)


def _onnx_type(item: Operand) -> Any:
    """As the language holds it, with integers as ONNX's shape rules want them."""
    from onnx.helper import make_tensor_type_proto

    return make_tensor_type_proto(element_of(item), item.shape)


def element_of(item: Operand) -> int:
    """ONNX's number of the element type."""
    from onnx.helper import np_dtype_to_tensor_dtype

    if isinstance(item, Computed):
        return item.element or _ELEMENTS[item.dtype]
    return int(np_dtype_to_tensor_dtype(item.array.dtype))


_ELEMENTS = {"f32": 1, "u8": 2, "i8": 3, "i32": 7, "bool": 9, "u32": 12}


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
RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")


def fold(
    environment: Environment, node: Any, inputs: Sequence[Operand | None]
) -> list[Stored] | None:
    """The outputs, or None where they depend on what is not known yet."""
    if node.op_type == "Shape" and node.domain in ("", "ai.onnx"):
        return _shape(node, inputs[0])
    if node.op_type == "Size" and node.domain in ("", "ai.onnx") and inputs[0] is not None:
        return [Stored(np.array(np.prod(inputs[0].shape, dtype=np.int64)))]
    known = [item for item in inputs if isinstance(item, Stored)]
    if len(known) != sum(item is not None for item in inputs) or not _is_foldable(node):
        return None
    view = _view(node, known)
    return [view] if view is not None else _evaluate(environment, node, inputs)


def _is_foldable(node: Any) -> bool:
    return node.op_type not in (*RANDOM, "Bernoulli", *INNER, *KEPT)


def _shape(node: Any, operand: Operand | None) -> list[Stored]:
    if operand is None:
        raise CannotImport("its operand is missing")
    limits = {item.name: item.i for item in node.attribute}
    sizes = operand.shape[limits.get("start", 0) : limits.get("end", len(operand.shape))]
    return [Stored(np.array(sizes, np.int64))]


def _view(node: Any, known: Sequence[Stored]) -> Stored | None:
    """Views of an initialiser are still that initialiser."""
    if node.op_type == "Identity" and len(known) == 1:
        return known[0]
    if node.op_type != "Transpose":
        return None
    given = {item.name: tuple(item.ints) for item in node.attribute}
    rank = len(known[0].shape)
    return permute_constant(known[0], given.get("perm", tuple(reversed(range(rank)))))


def _evaluate(
    environment: Environment, node: Any, inputs: Sequence[Operand | None]
) -> list[Stored]:
    held = {
        name: item.array
        for name, item in zip(node.input, inputs, strict=False)
        if isinstance(item, Stored)
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
        Stored(_tensor(by_name[name], name)) if name else Stored(np.zeros(()))
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
    arrays = [item.array for item in inputs if isinstance(item, Stored)]
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
    """Runs a node on which ONNX's reference fails; None if onnxruntime fails, too."""
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
    known = sum(item.array.size for item in inputs if isinstance(item, Stored))
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
