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

# Where a truncated normal is cut, in standard deviations, and the probability below that.
CUT = 2.0
BELOW_CUT = 0.022750131948179212


def initial_values(
    init: Mapping[str, Any], shape: Shape, seed: int, name: str, dtype: str = "f32"
) -> npt.NDArray[Any]:
    """The initial values of tensor `name`: float32, or exact integers for an integer `dtype`."""
    kind, args = init["kind"], dict(init.get("args") or {})
    shape = tuple(shape)
    if kind == "value":
        values = _given(init.get("values") or (), shape, name)
    elif kind in _DRAWS:
        allowed, draw = _DRAWS[kind]
        for arg in args:
            if arg not in allowed:
                raise WgccError("plan", f"`{name}`: initial values `{kind}` take no `{arg}`", name)
        values = draw(args, shape, seed, name)
    else:
        raise WgccError("plan", f"`{name}`: unknown kind of initial values `{kind}`", name)
    return values.astype(MEMORY_TYPES[dtype]).reshape(shape)


def _given(values: Any, shape: Shape, name: str) -> Values:
    count = prod(shape)
    if len(values) not in (1, count):
        raise WgccError("plan", f"`{name}`: {len(values)} initial values for {count}", name)
    return np.broadcast_to(np.asarray(values, np.float64), (count,))


def _unit(seed: int, name: str, count: int) -> Values:
    """Uniform in the open interval (0, 1): the middles of 2^32 equal cells."""
    return (random_words(seed, name, count).astype(np.float64) + 0.5) * 2.0**-32


def _constant(value: float) -> Callable[..., Values]:
    return lambda args, shape, seed, name: np.full(prod(shape), value, np.float64)


def _uniform(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    low, high = float(args.get("low", 0.0)), float(args.get("high", 1.0))
    return low + (high - low) * _unit(seed, name, prod(shape))


def _normal(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    mean, std = float(args.get("mean", 0.0)), float(args.get("std", 1.0))
    return mean + std * normal_quantile(_unit(seed, name, prod(shape)))


def _trunc_normal(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    """Normal, conditioned on lying within two standard deviations of the mean."""
    mean, std = float(args.get("mean", 0.0)), float(args.get("std", 1.0))
    inside = BELOW_CUT + (1.0 - 2.0 * BELOW_CUT) * _unit(seed, name, prod(shape))
    return mean + std * np.clip(normal_quantile(inside), -CUT, CUT)


def _kaiming_uniform(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    """Within 1 / sqrt(fan), as in PyTorch's Linear and Conv (leaky ReLU gain, a = sqrt 5)."""
    bound = 1.0 / sqrt(_fan(args, shape, name))
    return _uniform({"low": -bound, "high": bound}, shape, seed, name)


def _kaiming_normal(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    """Standard deviation sqrt(2 / fan), which preserves the variance through ReLU."""
    return _normal({"std": sqrt(2.0 / _fan(args, shape, name))}, shape, seed, name)


def _xavier_uniform(args: Mapping[str, float], shape: Shape, seed: int, name: str) -> Values:
    """Within gain * sqrt(6 / (fan_in + fan_out)): a balance of forward and backward variance."""
    fan_in, fan_out = _fans(shape)
    total = float(args.get("fan_in", fan_in)) + float(args.get("fan_out", fan_out))
    bound = float(args.get("gain", 1.0)) * sqrt(6.0 / _positive(total, name))
    return _uniform({"low": -bound, "high": bound}, shape, seed, name)


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
    matrix = _normal({}, shape, seed, name).reshape(rows, -1)
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


# Kind -> (arguments it may have, how its values are drawn). `external` tensors stay zero until
# weights are given; a runtime refuses to start without them.
_DRAWS: dict[str, tuple[tuple[str, ...], Callable[..., Values]]] = {
    "zeros": ((), _constant(0.0)),
    "ones": ((), _constant(1.0)),
    "external": ((), _constant(0.0)),
    "uniform": (("low", "high"), _uniform),
    "normal": (("mean", "std"), _normal),
    "trunc_normal": (("mean", "std"), _trunc_normal),
    "kaiming_uniform": (("fan",), _kaiming_uniform),
    "kaiming_normal": (("fan",), _kaiming_normal),
    "xavier_uniform": (("fan_in", "fan_out", "gain"), _xavier_uniform),
    "orthogonal": (("gain",), _orthogonal),
}
INIT_KINDS = ("value", *_DRAWS)
