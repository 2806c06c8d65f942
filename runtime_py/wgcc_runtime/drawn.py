"""Numbers drawn from a seed: initial values, shuffles, random inputs of the self-test.

They depend only on the seed, the name and the position. The compiler and both runtimes agree on
them to the bit: all arithmetic is float64 with `+ - * /` and `sqrt`, which IEEE 754 defines.
Normal quantiles are Wichura's rational approximations (Algorithm AS 241, 1988; relative error
1e-16), with our own logarithm, because those of libraries differ in their last bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.arrays import MEMORY_TYPES
from wgcc_runtime.errors import WgccError

Words = npt.NDArray[np.uint32]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF


def checked_seed(seed: Any) -> int | None:
    """A caller's seed must fit into one word: a larger one would be truncated silently."""
    if seed is None:
        return None
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or not 0 <= seed <= MASK:
        text = f"`seed` is a whole number from 0 to {MASK}, not {seed!r}"
        raise WgccError("range", text, "seed")
    return int(seed)


def random_words(seed: int, name: str, count: int, step: int = 0, first: int = 0) -> Words:
    """`count` words that depend only on `seed`, `name`, `step` and their position from `first`."""
    positions = np.arange(first, first + count, dtype=np.uint32)
    return threefry2x32(seed, zlib.crc32(name.encode()), step, positions)


def threefry2x32(key0: int, key1: int, counter0: int, counter1: Any) -> Words:
    """First output word of Threefry-2x32 with 20 rounds, for every value of `counter1`."""
    keys = (key0 & MASK, key1 & MASK, (key0 ^ key1 ^ PARITY) & MASK)
    # At least one dimension, because numpy warns if a scalar overflows, but not for an array.
    b = np.array(counter1, np.uint32, ndmin=1) + np.uint32(keys[1])
    a = np.full_like(b, (counter0 + keys[0]) & MASK)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            a += b
            high = b >> np.uint32(32 - rotation)
            b <<= np.uint32(rotation)
            b |= high
            b ^= a
        a += np.uint32(keys[(group + 1) % 3])
        b += np.uint32((keys[(group + 2) % 3] + group + 1) & MASK)
    words: Words = a.reshape(np.shape(counter1))
    return words


Values = npt.NDArray[np.float64]

LN2 = 0.6931471805599453

# Coefficients from the constant term up: (numerator, denominator) per region.
CENTRE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)  # fmt: skip
NEAR_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833,
     7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
     0.296560571828504891230, 0.0265321895265761230930, 0.00124266094738807843860,
     2.71155556874348757815e-5,
     2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def normal_quantile(p: Values) -> Values:
    """x with P(X < x) = p for a standard normal X; `p` strictly between 0 and 1."""
    q = p - 0.5
    x = q * _ratio(CENTRE, 0.180625 - np.minimum(q * q, 0.180625))
    outside = np.abs(q) > 0.425
    x[outside] = _tail(p[outside], q[outside])
    return x


def _tail(p: Values, q: Values) -> Values:
    r = np.sqrt(-natural_log(np.minimum(p, 1.0 - p)))
    tail = np.where(r <= 5.0, _ratio(NEAR_TAIL, r - 1.6), _ratio(FAR_TAIL, r - 5.0))
    return np.where(q < 0, -tail, tail)


def natural_log(x: Values) -> Values:
    """log x = e log 2 + 2 atanh((m - 1) / (m + 1)) where x = m 2^e and m is near 1."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    m = np.where(low, mantissa * 2.0, mantissa)
    e = exponent - low
    s = (m - 1.0) / (m + 1.0)
    # |s| <= 0.172, so 12 terms of the series reach 1e-17.
    series = _polynomial([1.0 / (2 * k + 1) for k in range(12)], s * s)
    return e * LN2 + 2.0 * s * series


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Values) -> Values:
    above, below = coefficients
    return _polynomial(above, x) / _polynomial(below, x)


def _polynomial(coefficients: Sequence[float], x: Values) -> Values:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


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
        return _from_values(init.get("values") or (), shape, name, memory)
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
    numbers = np.empty(count, memory)
    for start in range(0, count, PIECE):
        numbers[start : start + PIECE] = rule(_unit(seed, name, min(PIECE, count - start), start))
    return numbers


def _from_values(values: Any, shape: Shape, name: str, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    count = prod(shape)
    if len(values) not in (1, count):
        raise WgccError("plan", f"`{name}`: {len(values)} initial values for {count}", name)
    array = np.empty(count, memory)
    array[...] = np.asarray(values, np.float64).astype(memory)
    return array.reshape(shape)


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
    """Bounded by 1 / sqrt(fan), as in PyTorch's Linear and Conv (leaky ReLU gain, a = sqrt 5)."""
    bound = 1.0 / sqrt(_fan(args, shape, name))
    return _uniform({"low": -bound, "high": bound}, shape, name)


def _kaiming_normal(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Standard deviation sqrt(2 / fan), which preserves the variance through ReLU."""
    return _normal({"std": sqrt(2.0 / _fan(args, shape, name))}, shape, name)


def _xavier_uniform(args: Mapping[str, float], shape: Shape, name: str) -> Rule:
    """Bounded by gain * sqrt(6 / (fan_in + fan_out)), which balances both directions."""
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


def drawn_input(
    spec: Mapping[str, Any], name: str, shape: tuple[int, ...], seed: int, step: int
) -> npt.NDArray[Any]:
    """`name` is `ENTRY/NAME`; `spec` gives the kind and the bounds, both included."""
    words = random_words(seed, name, prod(shape), step)
    if spec["kind"] == "integers":
        span = spec["high"] - spec["low"] + 1
        integers: npt.NDArray[Any] = spec["low"] + words.astype(np.int64) % span
        return integers.reshape(shape)
    unit = (words >> np.uint32(8)).astype(np.float64) * 2.0**-24
    scaled: npt.NDArray[Any] = spec["low"] + unit * (spec["high"] - spec["low"])
    return scaled.astype(np.float32).reshape(shape)
