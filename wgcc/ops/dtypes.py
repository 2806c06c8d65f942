"""What each dtype is called in numpy and in WGSL, and how a number is written in WGSL."""

from __future__ import annotations

from math import isfinite
from typing import Any

from wgcc.lazy_numpy import np
from wgcc.ops.registry import ShapeError

_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "i32": "int32",
    "u32": "uint32",
    "u8": "uint8",
    "bool": "bool",
}
_WGSL = {"f32": "f32", "f16": "f32", "i32": "i32", "u32": "u32", "u8": "u32", "bool": "bool"}
_RANGES = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "u8": (0, 255)}
LARGEST_FLOAT = 3.4028234663852886e38


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(_NUMPY[dtype])


def wgsl_type(dtype: str) -> str:
    """The type of an element inside WGSL expressions (in memory each takes one 32-bit word)."""
    return _WGSL[dtype]


def check_number(value: float | int | bool, dtype: str) -> None:
    """Refuse numbers that WGSL cannot write: infinities, NaN, and integers out of range."""
    if dtype in _RANGES:
        low, high = _RANGES[dtype]
        if value != int(value) or not low <= value <= high:
            raise ShapeError(f"{value} does not fit {dtype} ({low} to {high})")
    elif dtype != "bool" and not (isfinite(value) and abs(value) <= LARGEST_FLOAT):
        raise ShapeError(f"a constant must be finite, and {value} is not a finite {dtype}")


def literal(value: float | int | bool, dtype: str) -> str:
    """`value` as a WGSL literal; negative numbers come in parentheses."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in ("u32", "u8"):
        return f"{int(value)}u"
    if dtype == "i32":
        # -2147483648i would be the negation of a number that does not exist.
        return f"{int(value)}i" if value >= 0 else f"i32({int(value)})"
    text = f"{float(value)!r}f"
    return f"({text})" if text.startswith("-") else text
