"""Inputs for an ONNX model and what was made of it, and how far the outputs are from each other.

The sentences that say so claim no more than was compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.literals import LARGEST
from wgcc.from_onnx.values import Computed, ModelMember, Shape, Stored, Traced
from wgcc.ir.dtypes import F16, FLOATS
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast

DATA_FOLDER = "test_data_set_0"
# Statements that move numbers or copy them.
SAME_NUMBERS = ("reshape", "rearrange", "expand", "i32")


def own_inputs(path: Path, converted: Converted) -> dict[str, Array] | None:
    """Inputs that are stored beside a model, as collections of ONNX models do."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    arrays: dict[str, Array] = {}
    stored = {tensor.name for tensor in converted.model.graph.initializer}
    ports = [port.name for port in converted.model.graph.input if port.name not in stored]
    for place, name in enumerate(ports):
        if name not in converted.traced.inputs:
            continue
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
        arrays[name] = array
    return arrays


def given_inputs(path: Path, converted: Converted) -> dict[str, Array]:
    """Arrays of a file, by the names of the ONNX file or of the model file."""
    from wgcc_runtime.data.array_files import read_arrays

    arrays = read_arrays(path)
    own, kinds = converted.written.inputs, _element_types(converted.model)
    used: dict[str, Array] = {}
    for name, value in converted.traced.inputs.items():
        key = name if name in arrays else own[name]
        if key not in arrays:
            raise WgError(f"{path} has no array `{name}`; it has {', '.join(arrays) or 'none'}")
        array = arrays.pop(key)
        if tuple(array.shape) != value.shape:
            raise WgError(
                f"{path}: `{key}` is {list(array.shape)}, but the input is {list(value.shape)}"
            )
        used[name] = _as_kind(array, kinds[name], f"{path}: `{key}`")
    if arrays:
        raise WgError(f"{path}: no input is called {', '.join(arrays)}: they are {', '.join(own)}")
    return used


def _as_kind(array: Array, kind: Any, what: str) -> Array:
    """Whole numbers may be given for floats, but not the other way."""
    if array.dtype.kind not in "fiub" or (np.dtype(kind).kind in "iub" and array.dtype.kind == "f"):
        raise WgError(f"{what} has elements of {array.dtype}, but the input has {np.dtype(kind)}")
    return array.astype(kind)


def random_inputs(converted: Converted, limits: Mapping[str, tuple[int, int]]) -> dict[str, Array]:
    """`limits`: the least and the largest whole number that an input may hold."""
    generator = np.random.default_rng(0)
    kinds = _element_types(converted.model)
    arrays: dict[str, Array] = {}
    for name, value in converted.traced.inputs.items():
        array = draw(generator, value.dtype, value.shape, limits.get(name))
        arrays[name] = array.astype(kinds[name])
    return arrays


def draw(generator: Any, dtype: str, shape: Shape, limits: tuple[int, int] | None) -> Array:
    """Random numbers for an input: normal floats, whole numbers within limits, 0 and 1 without."""
    if dtype in FLOATS:
        return np.asarray(generator.standard_normal(shape))
    low, high = limits or (0, 1)
    return np.asarray(generator.integers(low, high, shape, endpoint=True))


def compared_numbers(traced: Traced) -> dict[str, tuple[int, int]]:
    """The least and the largest number that a model compares an input of whole numbers with.

    A table of all codes, which many models make a 1 and zeros of a code with, says what codes are.
    """
    ranges: dict[str, tuple[int, int]] = {}
    origin = {value: name for name, value in traced.inputs.items() if value.dtype != "f32"}
    for item in traced.statements:
        sources = [
            origin[part] for part in item.parts if isinstance(part, Computed) and part in origin
        ]
        if not sources:
            continue
        if item.alias_of is not None or item.function in SAME_NUMBERS:
            origin |= dict.fromkeys(item.outputs, sources[0])
        if isinstance(item.tree, ast.Binary) and item.tree.op == "==":
            for table in (part.arrays[""] for part in item.parts if isinstance(part, ModelMember)):
                ranges[sources[0]] = int(table.min()), int(table.max())
    return ranges


def _element_types(model: Any) -> dict[str, Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    return {
        port.name: tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        for port in model.graph.input
    }


# Ten roundings of a float with so few bits; of bytes that onnxruntime chooses at run time.
ROUNDING = {F16: 5e-3, "bf16": 4e-2, "bytes": 5e-2}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from ONNX's: the largest difference, and the largest number there.

    `finite` is how many numbers there are that are neither infinite nor NaN. `tolerance` is a part
    of the largest number: files that compute with fewer bits are less exact themselves. `caveat`
    says why the comparison means little.
    """

    output: str
    largest: float
    scale: float
    finite: int
    tolerance: float = 1e-4
    caveat: str = ""

    @property
    def is_small(self) -> bool:
        return self.largest <= self.tolerance * max(1.0, self.scale)

    def sentence(self, runner: str, inputs: str) -> str:
        if not self.finite:
            return f"{self.output}: not compared: {self.caveat}"
        text = (
            f"{self.output}: differs by at most {self.largest:.3g} from {runner} on {inputs} "
            f"(largest number {self.scale:.3g})"
        )
        return f"{text}; {self.caveat}" if self.caveat else text

    def row(self) -> str:
        """A row of a table."""
        numbers = f"{self.largest:.3g} | {self.scale:.3g}" if self.finite else "– | –"
        return f"| `{self.output}` | {numbers} | {self.caveat} |"


def differences(
    converted: Converted, results: Mapping[str, Array], wanted: Mapping[str, Array]
) -> list[Difference]:
    """`results` by the names of the model file, `wanted` by ONNX's."""
    compared = []
    tolerance = max([1e-4, *(ROUNDING[kind] for kind in converted.traced.narrow)])
    for name, own in converted.written.outputs.items():
        right, got = (np.asarray(x).astype(np.float64) for x in (wanted[name], results[own]))
        if got.shape != right.shape:
            raise WgError(f"`{name}` is {list(got.shape)}, but {list(right.shape)} in the original")
        is_constant = isinstance(converted.traced.outputs[name], Stored)
        item = replace(_difference(name, got, right), tolerance=tolerance)
        compared.append(replace(item, caveat=_caveat(right, is_constant)))
    return compared


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


def _caveat(right: Array, is_constant: bool) -> str:
    finite = right[np.isfinite(right)]
    if not finite.size:
        return "every number of the original is NaN or infinite for these inputs"
    if is_constant:
        return "it does not depend on the inputs"
    if right.size > 1 and finite.size == right.size and finite.min() == finite.max():
        return f"every number of it is {finite.min():.4g} for these inputs, which shows little"
    if finite.size < right.size:
        rest = right.size - finite.size
        return f"{rest:,} of {right.size:,} numbers are NaN or infinite in the original"
    return ""
