"""Runs an ONNX model and what was made of it on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.lazy_numpy import Array, np

DATA_FOLDER = "test_data_set_0"


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from ONNX's: the largest difference, and the largest number there."""

    output: str
    largest: float
    scale: float

    @property
    def is_small(self) -> bool:
        return self.largest <= 1e-4 * max(1.0, self.scale)


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
            array = to_array(TensorProto.FromString(file.read_bytes()))
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
        if value.dtype == "f32":
            array = generator.standard_normal(value.shape)
        elif value.dtype == "bool":
            array = generator.integers(0, 2, value.shape).astype(np.float64)
        else:
            low, high = limits.get(name, (0, 1))
            array = generator.integers(low, high + 1, value.shape).astype(np.float64)
        found[name] = array.astype(kinds[name])
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


def _by_onnxruntime(model: Any, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
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
    for name, own in converted.written.outputs.items():
        right = np.asarray(wanted[name]).astype(np.float64)
        gap = np.abs(np.asarray(found[own]).astype(np.float64) - right)
        same = np.isnan(right) | np.isinf(right)
        gap = np.where(same, 0.0, gap)
        scale = float(np.abs(np.where(same, 0.0, right)).max(initial=0.0))
        result.append(Difference(name, float(gap.max(initial=0.0)), scale))
    return result
