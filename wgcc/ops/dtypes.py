"""Element types in numpy and in WGSL, how a number is written in WGSL, and the helper functions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from wgcc.ir.dtypes import DTYPE_TABLE, INTEGER_RANGES, INTEGERS, LARGEST_FLOAT
from wgcc.lazy_numpy import np
from wgcc.ops.registry import ShapeError


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(DTYPE_TABLE[dtype].numpy)


def wgsl_type(dtype: str) -> str:
    """The type of an element inside WGSL expressions: a word, even if memory holds bytes."""
    return DTYPE_TABLE[dtype].wgsl


def check_number(value: float | int | bool, dtype: str) -> None:
    """Refuse numbers that WGSL cannot write: infinities, NaN, and integers out of range."""
    if dtype in INTEGERS:
        low, high = INTEGER_RANGES[dtype]
        if value != int(value) or not low <= value <= high:
            raise ShapeError(f"{value} does not fit {dtype} ({low} to {high})")
    elif dtype != "bool" and not (isfinite(value) and abs(value) <= LARGEST_FLOAT):
        raise ShapeError(f"a constant must be finite, and {value} is not a finite {dtype}")


def literal(value: float | int | bool, dtype: str) -> str:
    """`value` as a WGSL literal; negative numbers are in parentheses."""
    type_ = wgsl_type(dtype)
    if type_ == "bool":
        return "true" if value else "false"
    if type_ == "u32":
        return f"{int(value)}u"
    if type_ == "i32":
        # -2147483648i would be the negation of a number that i32 cannot hold.
        return f"{int(value)}i" if value >= 0 else f"i32({int(value)})"
    text = f"{float(value)!r}f"
    return f"({text})" if text.startswith("-") else text


FOLDER = Path(__file__).parent / "wgsl"


def source_of(functions: Iterable[str]) -> str:
    """The text of these helper files, each once, sorted by name (WGSL allows any order)."""
    return "\n".join(_read(name) for name in sorted(set(functions)))


@cache
def _read(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")
