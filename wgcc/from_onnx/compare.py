"""Runs an ONNX model and what was made of it on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.literals import LARGEST
from wgcc.from_onnx.values import Member, Shape, Traced, Value
from wgcc.lazy_numpy import Array, np

DATA_FOLDER = "test_data_set_0"
# Ten roundings of a float with so few bits.
ROUNDING = {"f16": 5e-3, "bf16": 4e-2}
# Statements that move numbers or copy them.
SAME_NUMBERS = ("reshape(", "rearrange(", "expand(", "i32(")


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from ONNX's: the largest difference, and the largest number there.

    `finite` is how many numbers there are that are neither infinite nor NaN. `tolerance` is a part
    of the largest number: files that compute with fewer bits are less exact themselves.
    """

    output: str
    largest: float
    scale: float
    finite: int
    tolerance: float = 1e-4

    @property
    def is_small(self) -> bool:
        return self.largest <= self.tolerance * max(1.0, self.scale)


def own_inputs(path: Path, converted: Converted) -> dict[str, Array] | None:
    """Inputs that are stored beside a model, as collections of ONNX models do."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    found: dict[str, Array] = {}
    for place, name in enumerate(converted.traced.inputs):
        file = path.parent / DATA_FOLDER / f"input_{place}.pb"
        if not file.is_file():
            return None
        try:
            tensor = TensorProto.FromString(file.read_bytes())
            if tensor.data_location == TensorProto.EXTERNAL:
                return None
            array = to_array(tensor)
        except Exception:
            return None
        if tuple(array.shape) != converted.traced.inputs[name].shape:
            return None
        found[name] = array
    return found


def random_inputs(converted: Converted, limits: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    """`limits`: the least and the largest whole number that an input may hold."""
    generator = np.random.default_rng(0)
    kinds = _element_types(converted.model)
    found: dict[str, Array] = {}
    for name, value in converted.traced.inputs.items():
        array = draw(generator, value.dtype, value.shape, limits.get(name))
        found[name] = array.astype(kinds[name])
    return found


def draw(generator: Any, dtype: str, shape: Shape, limits: tuple[int, int] | None) -> Array:
    """Random numbers for an input: normal floats, whole numbers within limits, 0 and 1 without."""
    if dtype in ("f32", "f16"):
        return np.asarray(generator.standard_normal(shape))
    low, high = limits or (0, 1)
    return np.asarray(generator.integers(low, high, shape, endpoint=True))


def compared_numbers(traced: Traced) -> dict[str, tuple[int, int]]:
    """The least and the largest number that a model compares an input of whole numbers with.

    A table of all codes, which many models make a 1 and zeros of a code with, says what codes are.
    """
    found: dict[str, tuple[int, int]] = {}
    origin = {value: name for name, value in traced.inputs.items() if value.dtype != "f32"}
    for item in traced.statements:
        sources = [
            origin[part] for part in item.parts if isinstance(part, Value) and part in origin
        ]
        if not sources:
            continue
        if item.text == "{0}" or item.text.startswith(SAME_NUMBERS):
            origin |= dict.fromkeys(item.outputs, sources[0])
        if item.text == "{0} == {1}":
            for table in (part.arrays[""] for part in item.parts if isinstance(part, Member)):
                found[sources[0]] = int(table.min()), int(table.max())
    return found


def _element_types(model: Any) -> dict[str, Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    return {
        port.name: tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        for port in model.graph.input
    }


def run_onnx(model: Any, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The outputs by name, and what computed them.

    That is onnxruntime; ONNX's own reference where it is not installed, or refuses the file.
    """
    names = [port.name for port in model.graph.output]
    model = _with_all_outputs(model)
    try:
        return dict(zip(names, _by_onnxruntime(model, names, inputs), strict=True)), "onnxruntime"
    except Exception as refused:
        from onnx.reference import ReferenceEvaluator

        try:
            with np.errstate(all="ignore"):
                found = ReferenceEvaluator(model).run(names, dict(inputs))
        except Exception as error:
            raise WgError(
                f"the model cannot be run for a comparison: onnxruntime: {_line(refused)}; "
                f"ONNX's reference: {_line(error)}"
            ) from None
        return dict(zip(names, found, strict=True)), "onnx.reference"


def _with_all_outputs(model: Any) -> Any:
    """With names for results of loops that nothing reads: onnxruntime crashes without them."""
    copy = type(model).FromString(model.SerializeToString())
    number = count()
    graphs = [copy.graph, *copy.functions]
    for graph in graphs:
        for node in graph.node:
            inner = [item.g for item in node.attribute if item.HasField("g")]
            graphs += inner
            if node.op_type == "Loop" and inner:
                missing = len(inner[0].output) - 1 - len(node.output)
                given = [*node.output, *[""] * missing]
                node.output[:] = [name or f"wgcc.unread.{next(number)}" for name in given]
    return copy


def _by_onnxruntime(model: Any, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its optimisations compute some products of bytes less exactly.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(names, dict(inputs)))


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def differences(
    converted: Converted, found: Mapping[str, Array], wanted: Mapping[str, Array]
) -> list[Difference]:
    """`found` by the names of the model file, `wanted` by ONNX's."""
    result = []
    tolerance = max([1e-4, *(ROUNDING[kind] for kind in converted.traced.narrow)])
    for name, own in converted.written.outputs.items():
        right, got = (np.asarray(x).astype(np.float64) for x in (wanted[name], found[own]))
        if got.shape != right.shape:
            raise WgError(f"`{name}` is {list(got.shape)}, but {list(right.shape)} in the original")
        result.append(replace(_difference(name, got, right), tolerance=tolerance))
    return result


def _difference(name: str, got: Array, right: Array) -> Difference:
    """NaN must meet NaN, and infinity what stands for it here: the largest number."""
    finite = np.isfinite(right)
    is_endless = (np.abs(got) >= LARGEST) & (np.sign(got) == np.sign(right))
    same = np.where(np.isnan(right), np.isnan(got), is_endless)
    with np.errstate(invalid="ignore"):
        gap = np.where(finite, np.abs(got - right), np.where(same, 0.0, np.inf))
    gap = np.where(np.isnan(gap), np.inf, gap)
    scale = float(np.abs(right[finite]).max(initial=0.0))
    return Difference(name, float(gap.max(initial=0.0)), scale, int(finite.sum()))
