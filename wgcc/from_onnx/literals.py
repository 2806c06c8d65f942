"""Numbers as trees of the language."""

from __future__ import annotations

import math
from typing import Any

from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, tree_of

# A little below the largest 32-bit float, whose shortest text would be read as more than that.
LARGEST = 3.4028234e38


def real(number: float) -> ast.Expr:
    """The shortest number that is the same 32-bit float. Infinity stays, to be written as LARGEST:
    masks have it, and what they hide differs."""
    short = float(number) if np.isinf(number) else float(str(np.float32(number)))
    tree: Any = tree_of(short)
    return tree  # type: ignore[no-any-return]


def replace_infinity(tree: ast.Float) -> ast.Float | None:
    """The largest number in place of infinity; None for a number that can be written as it is."""
    return ast.Float(NOWHERE, LARGEST) if tree.value > LARGEST else None


def finite(array: Array) -> Array:
    """Infinity, as masks have it, is the largest number there is."""
    if array.dtype.kind in "iub":
        return array
    largest = np.finfo(np.float32).max
    return np.clip(array, -largest, largest)


def literal(array: Array) -> ast.Expr:
    """One number of any type."""
    item = array.reshape(-1)[0]
    if array.dtype.kind not in "iub":
        return real(float(item))
    tree: Any = tree_of(bool(item) if array.dtype.kind == "b" else int(item))
    return tree  # type: ignore[no-any-return]


def number_of(tree: object) -> float | None:
    """The number that a tree is."""
    if isinstance(tree, ast.Unary) and tree.op == "-":
        inner = number_of(tree.operand)
        return -inner if inner is not None else None
    return float(tree.value) if isinstance(tree, ast.Int | ast.Float) else None


def is_infinite(tree: object) -> bool:
    number = number_of(tree)
    return number is not None and math.isinf(number)
