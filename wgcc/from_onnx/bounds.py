"""Between which numbers a value is, as far as the statements that compute it show."""

from __future__ import annotations

import math
from typing import TypeAlias

from wgcc.elaborate.index_ranges.intervals import ARITHMETIC
from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import is_infinite
from wgcc.from_onnx.match import number
from wgcc.from_onnx.values import Leaf, Member, Value
from wgcc.syntax import ast

Bounds: TypeAlias = tuple[float, float]
UNKNOWN = (-math.inf, math.inf)
# So many statements are followed: each may have two operands.
MOST_STEPS = 8
WHOLE = {"bool": (0.0, 1.0), "i32": (-(2.0**31), 2.0**31), "u32": (0.0, 2.0**32)}
# By sign or function, the op whose rule for whole numbers holds for floats, too.
OPS = {"+": "add", "-": "sub", "*": "mul", "maximum": "maximum", "minimum": "minimum",
       "abs": "abs", "square": "square"}  # fmt: skip


def bounds(op: Op, part: object, steps: int = MOST_STEPS) -> Bounds:
    """Infinite only where a number of the file is, or nothing is known."""
    part = part.part if isinstance(part, Leaf) else part
    held = exact_number(part)
    if held is not None:
        return held, held
    if isinstance(part, Member):
        return _stored(part)
    made = op.writer.made_by.get(part) if isinstance(part, Value) else None
    if made is not None:
        return bounds(op, made.tree, steps - 1) if steps else UNKNOWN
    return _computed(op, part, steps)


def exact_number(part: object) -> float | None:
    """A number; infinity where the file has it, though the text has the largest float instead."""
    held = number(part)
    endless = is_infinite(part) or (isinstance(part, Member) and part.is_infinite)
    return math.copysign(math.inf, held) if held is not None and endless else held


def _stored(member: Member) -> Bounds:
    array = member.arrays.get("")
    if array is None or not array.size or member.is_infinite:
        return UNKNOWN
    return float(array.min()), float(array.max())


def _computed(op: Op, tree: object, steps: int) -> Bounds:
    name, operands = _form(tree)
    if name in ("reshape", "rearrange"):
        return bounds(op, operands[0], steps)
    if name == "f32" and isinstance(operands[0], Leaf):
        part = operands[0].part
        return WHOLE.get(part.dtype, UNKNOWN) if isinstance(part, Value) else UNKNOWN
    if name == "where":
        (a, b), (c, d) = (bounds(op, part, steps) for part in operands[1:])
        return min(a, c), max(b, d)
    if name not in OPS:
        return UNKNOWN
    known = [bounds(op, part, steps) for part in operands]
    if name == "*" and any(math.isinf(end) for pair in known for end in pair):
        return UNKNOWN
    ends: Bounds = ARITHMETIC[OPS[name]](known)
    return UNKNOWN if any(map(math.isnan, ends)) else ends


def _form(tree: object) -> tuple[str, list[object]]:
    """The sign or function of a tree, and its operands."""
    if isinstance(tree, ast.Binary):
        return tree.op, [tree.left, tree.right]
    if isinstance(tree, ast.Call) and isinstance(tree.function, ast.Name | ast.Dtype):
        head = tree.function
        operands: list[object] = [item.value for item in tree.arguments if item.name is None]
        return head.text if isinstance(head, ast.Name) else head.name, operands
    return "", []
