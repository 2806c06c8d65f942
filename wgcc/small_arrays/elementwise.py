"""Functions of single elements. At the borders they give infinities and NaN, as numpy does."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from wgcc.small_arrays.array import (
    SmallArray,
    asarray,
    broadcast_to,
    shape_of_all,
    type_of_both,
)
from wgcc.small_arrays.element_types import dtype

Function = Callable[..., SmallArray]


def _unary(compute: Callable[[Any], Any], element: str | None = None) -> Function:
    def apply(x: Any) -> SmallArray:
        array = asarray(x)
        wanted = dtype(element) if element else array.dtype
        return SmallArray(wanted.round_all(map(compute, array.numbers)), array.shape, wanted)

    return apply


def _of_floats(compute: Callable[[float], float]) -> Function:
    """A function that makes floats of integers, too."""

    def apply(x: Any) -> SmallArray:
        array = asarray(x)
        wanted = array.dtype if array.dtype.kind == "f" else dtype(float)
        return SmallArray(wanted.round_all(map(compute, array.numbers)), array.shape, wanted)

    return apply


def _binary(compute: Callable[[Any, Any], Any], element: str | None = None) -> Function:
    def apply(x: Any, z: Any) -> SmallArray:
        both = type_of_both(x, z)
        wanted = dtype(element) if element else both
        left, right = asarray(x), asarray(z)
        if both.kind == "f":
            left, right = left.astype(both), right.astype(both)
        shape = shape_of_all(left, right)
        columns = broadcast_to(left, shape).numbers, broadcast_to(right, shape).numbers
        return SmallArray(wanted.round_all(map(compute, *columns)), shape, wanted)

    return apply


def _divide_arrays(x: Any, z: Any) -> SmallArray:
    both = type_of_both(x, z)
    wanted = both if both.kind == "f" else dtype(float)
    return _binary(_divide)(asarray(x).astype(wanted), asarray(z).astype(wanted))


def invert(x: SmallArray) -> SmallArray:
    return SmallArray(x.dtype.round_all(map(operator.invert, x.numbers)), x.shape, x.dtype)


def clip(x: Any, low: Any, high: Any) -> SmallArray:
    array = asarray(x)
    if array.dtype.kind in "iu":
        low, high = int(low), int(high)
    bounded = ELEMENTWISE["minimum"](ELEMENTWISE["maximum"](array, low), high)
    return bounded.astype(array.dtype)


def polyval(coefficients: Iterable[float], x: SmallArray) -> SmallArray:
    total = ELEMENTWISE["zeros_like"](x)
    for coefficient in coefficients:
        total = ELEMENTWISE["add"](ELEMENTWISE["multiply"](total, x), coefficient)
    return total


def _guard(
    compute: Callable[[float], float], at_zero: float = math.nan
) -> Callable[[float], float]:
    """The function with infinities for overflows, and NaN outside its domain."""

    def catch_errors(x: float) -> float:
        try:
            return compute(x)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_zero if x == 0 else math.nan

    return catch_errors


def _divide(x: float, z: float) -> float:
    if z:
        return x / z
    return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * math.copysign(1, z)


def _power(x: Any, z: Any) -> Any:
    if isinstance(x, int) and isinstance(z, int) and z >= 0:
        return x**z
    try:
        return math.pow(x, z)
    except OverflowError:
        return -math.inf if x < 0 and z % 2 == 1 else math.inf
    except ValueError:
        return _infinite_power(x, z) if x == 0 else math.nan


def _infinite_power(x: float, z: float) -> float:
    """0 to a negative power: the sign of an odd one is that of the zero."""
    return math.copysign(math.inf, x) if z % 2 == 1 else math.inf


def _remainder(x: Any, z: Any) -> Any:
    if not z:
        return 0 if isinstance(x, int) else math.nan
    return x % z if math.isfinite(x) else math.nan


def _sinh(x: float) -> float:
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _sign(x: Any) -> Any:
    return x if x != x else (x > 0) - (x < 0)


def _whole(compute: Callable[[float], int]) -> Callable[[Any], Any]:
    """Rounding keeps infinities, NaN and the sign of zero."""

    def round_one(x: Any) -> Any:
        if isinstance(x, int) or not math.isfinite(x):
            return x
        return math.copysign(float(compute(x)), x) if not compute(x) else float(compute(x))

    return round_one


def greater_of(x: Any, z: Any) -> Any:
    return x if x != x or x > z else z


def smaller_of(x: Any, z: Any) -> Any:
    return x if x != x or x < z else z


def vectorize(compute: Callable[[Any], Any], otypes: list[Any]) -> Function:
    (element,) = otypes
    return _unary(compute, dtype(element).name)


def _log_of_sum(x: float, z: float) -> float:
    """log(eˣ + eᶻ), as numpy computes it."""
    if x == z:
        return x + math.log(2)
    if math.isnan(x) or math.isnan(z):
        return math.nan
    return max(x, z) + math.log1p(math.exp(-abs(x - z)))


def _comparison(compute: Callable[[Any, Any], bool]) -> Function:
    return _binary(compute, "bool")


ELEMENTWISE: dict[str, Function] = {
    "add": _binary(operator.add),
    "subtract": _binary(operator.sub),
    "multiply": _binary(operator.mul),
    "divide": _divide_arrays,
    "floor_divide": _binary(lambda x, z: x // z if z else 0),
    "power": _binary(_power),
    "mod": _binary(_remainder),
    "remainder": _binary(_remainder),
    "maximum": _binary(greater_of),
    "minimum": _binary(smaller_of),
    "arctan2": _binary(math.atan2),
    "logaddexp": _binary(_log_of_sum),
    "bitwise_and": _binary(operator.and_),
    "bitwise_or": _binary(operator.or_),
    "bitwise_xor": _binary(operator.xor),
    "left_shift": _binary(operator.lshift),
    "right_shift": _binary(operator.rshift),
    "equal": _comparison(operator.eq),
    "not_equal": _comparison(operator.ne),
    "less": _comparison(operator.lt),
    "less_equal": _comparison(operator.le),
    "greater": _comparison(operator.gt),
    "greater_equal": _comparison(operator.ge),
    "logical_and": _comparison(lambda x, z: bool(x and z)),
    "logical_or": _comparison(lambda x, z: bool(x or z)),
    "logical_not": _unary(operator.not_, "bool"),
    "isfinite": _unary(math.isfinite, "bool"),
    "isnan": _unary(math.isnan, "bool"),
    "negative": _unary(operator.neg),
    "abs": _unary(abs),
    "square": _unary(lambda x: x * x),
    "sign": _unary(_sign),
    "floor": _unary(_whole(math.floor)),
    "ceil": _unary(_whole(math.ceil)),
    "trunc": _unary(_whole(math.trunc)),
    "rint": _unary(_whole(round)),
    "reciprocal": _unary(lambda x: _divide(1.0, x)),
    "sqrt": _of_floats(_guard(math.sqrt)),
    "exp": _of_floats(_guard(math.exp)),
    "expm1": _of_floats(_guard(math.expm1)),
    "log": _of_floats(_guard(math.log, -math.inf)),
    "log1p": _of_floats(lambda x: -math.inf if x == -1 else _guard(math.log1p)(x)),
    "sin": _of_floats(_guard(math.sin)),
    "cos": _of_floats(_guard(math.cos)),
    "tan": _of_floats(_guard(math.tan)),
    "tanh": _of_floats(math.tanh),
    "arcsin": _of_floats(_guard(math.asin)),
    "arccos": _of_floats(_guard(math.acos)),
    "arctan": _of_floats(math.atan),
    "sinh": _of_floats(_sinh),
    "cosh": _of_floats(_guard(math.cosh)),
    "ones_like": _unary(lambda _: 1),
    "zeros_like": _unary(lambda _: 0),
}
