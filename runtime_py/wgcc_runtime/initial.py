"""Initial values of parameters and state. The compiler and both runtimes agree on them to the bit.

They depend only on the seed, the tensor's name and its shape. All arithmetic is float64 with
`+ - * /` and `sqrt`, which IEEE 754 defines exactly, so that JavaScript computes the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.arrays import MEMORY_TYPES
from wgcc_runtime.errors import WgccError
from wgcc_runtime.normal import normal_quantile
from wgcc_runtime.threefry import random_words

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]
Rule = Callable[[Values], Values]
MakeRule = Callable[[Mapping[str, float], Shape, str], "Rule | float"]

# Numbers that are drawn at a time.
PIECE = 1 << 15

# Where a truncated normal is cut, in standard deviations, and the probability below that.
CUT = 2.0
BELOW_CUT = 0.022750131948179212


def initial_values(
    init: Mapping[str, Any], shape: Shape, seed: int, name: str, dtype: str = "f32"
) -> npt.NDArray[Any]:
    """The initial values of tensor `name`: float32, or exact integers for an integer `dtype`."""
    kind, args = init["kind"], dict(init.get("args") or {})
    shape = tuple(shape)
    memory = np.dtype(MEMORY_TYPES[dtype])
    if kind == "value":
        return _given(init.get("values") or (), shape, name, memory)
    if kind not in INIT_KINDS:
        raise WgccError("plan", f"`{name}`: unknown kind of initial values `{kind}`", name)
    allowed = _ORTHOGONAL[0] if kind == "orthogonal" else _RULES[kind][0]
    for arg in args:
        if arg not in allowed:
            raise WgccError("plan", f"`{name}`: initial values `{kind}` take no `{arg}`", name)
    if kind == "orthogonal":
        return _orthogonal(args, shape, seed, name).astype(memory).reshape(shape)
    value = _RULES[kind][1](args, shape, name)
    if isinstance(value, float):
        return np.full(shape, value, memory)
    return _each(value, seed, name, prod(shape), memory).reshape(shape)


def _each(rule: Rule, seed: int, name: str, count: int, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    """Piece by piece: intermediate numbers take many times the memory, and stay in the cache."""
    found = np.empty(count, memory)
    for start in range(0, count, PIECE):
        found[start : start + PIECE] = rule(_unit(seed, name, min(PIECE, count - start), start))
    return found


def _given(values: Any, shape: Shape, name: str, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    count = prod(shape)
    if len(values) not in (1, count):
        raise WgccError("plan", f"`{name}`: {len(values)} initial values for {count}", name)
    found = np.empty(count, memory)
    found[...] = np.asarray(values, np.float64).astype(memory)
    return found.reshape(shape)


def _unit(seed: int, name: str, count: int, first: int = 0) -> Values:
    """Uniform in the open interval (0, 1): the middles of 2^32 equal cells."""
    return (random_words(seed, name, count, first=first).astype(np.float64) + 0.5) * 2.0**-32


def _constant(value: float) -> MakeRule:
    return lambda args, shape, name: value


def _uniform(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    low, high = float(args.get("low", 0.0)), float(args.get("high", 1.0))
    return lambda unit: low + (high - low) * unit


def _normal(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    mean, std = float(args.get("mean", 0.0)), float(args.get("std", 1.0))
    return lambda unit: mean + std * normal_quantile(unit)


def _trunc_normal(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Normal, conditioned on lying within two standard deviations of the mean."""
    mean, std = float(args.get("mean", 0.0)), float(args.get("std", 1.0))

    def rule(unit: Values) -> Values:
        inside = BELOW_CUT + (1.0 - 2.0 * BELOW_CUT) * unit
        return mean + std * np.clip(normal_quantile(inside), -CUT, CUT)

    return rule


def _kaiming_uniform(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Within 1 / sqrt(fan), as in PyTorch's Linear and Conv (leaky ReLU gain, a = sqrt 5)."""
    bound = 1.0 / sqrt(_fan(args, shape, name))
    return _uniform({"low": -bound, "high": bound}, shape, name)


def _kaiming_normal(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Standard deviation sqrt(2 / fan), which preserves the variance through ReLU."""
    return _normal({"std": sqrt(2.0 / _fan(args, shape, name))}, shape, name)


def _xavier_uniform(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Within gain * sqrt(6 / (fan_in + fan_out)): a balance of forward and backward variance."""
    fan_in, fan_out = _fans(shape)
    total = float(args.get("fan_in", fan_in)) + float(args.get("fan_out", fan_out))
    bound = float(args.get("gain", 1.0)) * sqrt(6.0 / _positive(total, name))
    return _uniform({"low": -bound, "high": bound}, shape, name)


def _fan(args: Mapping[str, float], shape: Shape, name: str) -> float:
    return _positive(float(args.get("fan", _fans(shape)[0])), name)


def _fans(shape: Shape) -> tuple[int, int]:
    """Inputs and outputs of one unit: the last axis holds outputs, the one before it inputs."""
    if len(shape) < 2:
        return prod(shape), prod(shape)
    window = prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _positive(fan: float, name: str) -> float:
    if fan <= 0:
        raise WgccError("plan", f"`{name}`: there are no initial values for a fan of {fan:g}", name)
    return fan


def _orthogonal(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    """Rows (or columns, whichever are fewer) orthonormal, times `gain`; uniform over rotations."""
    rows = shape[0] if shape else 1
    matrix = normal_quantile(_unit(seed, name, prod(shape))).reshape(rows, -1)
    wide = matrix.shape[0] < matrix.shape[1]
    basis = _orthonormal_columns(matrix.T if wide else matrix)
    return np.ravel((basis.T if wide else basis) * float(args.get("gain", 1.0)))


def _orthonormal_columns(matrix: Values) -> Values:
    """Modified Gram-Schmidt; sums use index order (`cumsum`), because BLAS guarantees none."""
    columns = np.array(matrix, np.float64, order="C")
    for j in range(columns.shape[1]):
        length = np.sqrt(np.cumsum(columns[:, j] * columns[:, j])[-1])
        unit = columns[:, j] / length
        columns[:, j] = unit
        rest = columns[:, j + 1 :]
        if rest.size:
            along = np.cumsum(unit[:, None] * rest, axis=0)[-1]
            rest -= unit[:, None] * along
    return columns


# Kind -> (arguments it may have, what makes its value, or the rule from a number between 0 and 1
# to a value). `external` tensors stay zero until weights are given; a runtime refuses to start
# without them.
_RULES: dict[str, tuple[tuple[str, ...], MakeRule]] = {
    "zeros": ((), _constant(0.0)),
    "ones": ((), _constant(1.0)),
    "external": ((), _constant(0.0)),
    "uniform": (("low", "high"), _uniform),
    "normal": (("mean", "std"), _normal),
    "trunc_normal": (("mean", "std"), _trunc_normal),
    "kaiming_uniform": (("fan",), _kaiming_uniform),
    "kaiming_normal": (("fan",), _kaiming_normal),
    "xavier_uniform": (("fan_in", "fan_out", "gain"), _xavier_uniform),
}
# All of its values depend on each other.
_ORTHOGONAL = (("gain",), _orthogonal)
INIT_KINDS = ("value", *_RULES, "orthogonal")
