"""Runs an ONNX model and what was made of it on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.literals import LARGEST
from wgcc.lazy_numpy import Array, np

DATA_FOLDER = "test_data_set_0"


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from ONNX's: the largest difference, and the largest number there.

    `finite` is how many numbers there are that are neither infinite nor NaN.
    """

    output: str
    largest: float
    scale: float
    finite: int

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
    for name, own in converted.written.outputs.items():
        right, got = (np.asarray(x).astype(np.float64) for x in (wanted[name], found[own]))
        if got.shape != right.shape:
            raise WgError(f"`{name}` is {list(got.shape)}, but {list(right.shape)} in the original")
        result.append(_difference(name, got, right))
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
