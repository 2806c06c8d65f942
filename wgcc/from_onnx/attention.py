"""Recognises attention: a softmax of scaled products of queries and keys, times values.

Scores may be changed by masks between the products and the softmax. `attention` adds one mask, so
the same changes are made to it. Where a row sees no key at all, exporters' -inf or least float
gives all keys the same weight; LOW does, too, because no score is large enough to change it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

from wgcc.elaborate.index_ranges.intervals import ARITHMETIC
from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.literals import is_infinite, real
from wgcc.from_onnx.patterns import match, matches, number
from wgcc.from_onnx.values import Computed, Leaf, ModelMember, Operand, Part, Shape
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast

# A little above the number that hides a key from `attention`.
LOW = -1e29
# With this one it is hidden, and a row without any key gives zeros, as replacing the NaN of a row
# of -inf does.
HIDDEN = -1e30
# So many statements are followed: each may have two operands.
MOST_STEPS = 8
# What replaces a score must be so low that its weight is 0; beside other masks, so low that the
# score itself does not count.
LOWEST_SCORE, WITHOUT_SCORE = -1e4, -1e20


@dataclass(frozen=True, slots=True)
class Added:
    """A mask that is added to the scores."""

    mask: Part


@dataclass(frozen=True, slots=True)
class Replaced:
    """Scores are `low` where `condition` is `hides`."""

    condition: Part
    hides: bool
    low: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Scaled products, with the changes that were made to them, the last one first."""

    q: Computed
    keys: Computed
    scale: float
    changes: tuple[Added | Replaced, ...] = ()

    @property
    def shape(self) -> Shape:
        return (*self.q.shape[:-1], self.keys.shape[-1])


def attention(op: OnnxOp, weights: Operand, v: Operand) -> Computed | None:
    """`attention(q, k, v)`, if this is the product of such weights and values."""
    softmax = _softmax(op, weights)
    if softmax is None or not isinstance(v, Computed):
        return None
    scores = _scores(op, softmax.scores)
    if scores is None or not _fits(scores, v) or not softmax.guards(scores):
        return None
    mask = _mask(op, scores, softmax.is_guarded)
    if mask is None:
        return None
    rank = len(scores.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    q, k, v = (
        _plain(op, value, name)
        for value, name in ((scores.q, "q"), (op.permute(scores.keys, swapped), "k"), (v, "v"))
    )
    plain = math.isclose(scores.scale, q.shape[-1] ** -0.5, rel_tol=1e-5)
    return op.result(
        "attention({0}, {1}, {2}, mask = {3}, causal = {4}, offset = {5}, scale = {6})",
        q, k, v, mask.added, mask.is_causal or None, mask.offset or None,
        None if plain else scores.scale,
    )  # fmt: skip


def _plain(op: OnnxOp, item: Operand, name: str) -> Computed:
    """Heads before rows, under the name that everybody uses."""
    assert isinstance(item, Computed)
    value = _before_move(op, item)
    rank = len(value.shape)
    if value.order == tuple(range(rank)):
        return value
    letters = [*"bac"[: rank - 3], *"htd"]
    before, after = (
        " ".join(letters[axis] for axis in order) for order in (value.order, range(rank))
    )
    pattern = f"{before} -> {after}"
    return op.emit("rearrange({0}, {1})", value, pattern, name=name)


@dataclass(frozen=True, slots=True)
class SoftmaxOfScores:
    """A softmax of scores.

    `is_guarded`: rows that see no key are 0; they are found by `mask`, if given.
    """

    scores: Part
    is_guarded: bool = False
    mask: Part | None = None

    def guards(self, scores: Scores) -> bool:
        added = [change.mask for change in scores.changes if isinstance(change, Added)]
        return self.mask is None or (added == [self.mask] and len(scores.changes) == 1)


def _softmax(op: OnnxOp, weights: Operand) -> SoftmaxOfScores | None:
    guard = match(op, weights, "where({0}, {1}, {2})")
    softmax = match(op, guard[2] if guard else weights, "softmax({0})")
    if softmax is None:
        return None
    (scores,) = softmax
    if guard is None:
        return SoftmaxOfScores(scores) if weights in op.writer.used_once else None
    test, nothing, inner = guard
    if number(nothing) != 0:
        return None
    if isinstance(test, ModelMember):
        return None if test.arrays[""].any() else SoftmaxOfScores(scores)
    undefined = match(op, test, "isnan({0})")
    if undefined is not None:
        return SoftmaxOfScores(scores, True) if undefined[0] is inner else None
    mask = _tested_mask(op, test)
    return SoftmaxOfScores(scores, True, mask) if mask is not None else None


def _tested_mask(op: OnnxOp, test: Part) -> Part | None:
    """The mask, if this asks which of its rows are -inf."""
    parts = match(op, test, "max({0}, axis = {1}, keep = true) == {2}")
    if parts is None or exact_number(parts[2]) != -math.inf:
        return None
    mask: Part = parts[0]
    return mask if number(parts[1]) == len(_shape(mask)) - 1 else None


def _scores(op: OnnxOp, part: object, steps: int = MOST_STEPS) -> Scores | None:
    """The scores that a value holds, if it is computed from the product of two tensors."""
    if not steps:
        return None
    product = match(op, part, "{0} @ {1}")
    if product is not None:
        return _products(op, *product)
    scaled = _factor(op, part)
    if scaled is not None:
        inner = _scores(op, scaled[0], steps - 1)
        if inner is None or inner.changes:
            return None
        return replace(inner, scale=inner.scale * scaled[1])
    for change, rest in _changes(op, part):
        inner = _scores(op, rest, steps - 1)
        if inner is not None:
            return replace(inner, changes=(change, *inner.changes))
    return None


def _products(op: OnnxOp, q: Part, keys: Part) -> Scores | None:
    if not isinstance(q, Computed) or not isinstance(keys, Computed):
        return None
    q, a = _without_factors(op, q)
    keys, b = _without_factors(op, keys)
    return Scores(q, keys, a * b)


def _without_factors(op: OnnxOp, value: Computed) -> tuple[Computed, float]:
    """Exporters multiply queries and keys with the root of the scale."""
    factor = 1.0
    while True:
        value = _before_move(op, value)
        product = _factor(op, value)
        if (
            product is None
            or not isinstance(product[0], Computed)
            or product[0].shape != value.shape
        ):
            return value, factor
        value, factor = product[0], factor * product[1]


def _before_move(op: OnnxOp, value: Computed) -> Computed:
    """The same tensor before its axes were stored in another order."""
    made = op.writer.made_by.get(value)
    before = made.operand if made is not None and made.function == "rearrange" else None
    is_moved = before is not None and before.shape == value.shape and before.order != value.order
    return before if before is not None and is_moved else value


def _factor(op: OnnxOp, part: object) -> tuple[Part, float] | None:
    """A tensor and the number that it is multiplied with."""
    for value, factor in matches(op, part, "{0} * {1}"):
        if (multiplier := number(factor)) is not None:
            return value, multiplier
    quotient = match(op, part, "{0} / {1}")
    divisor = number(quotient[1]) if quotient is not None else None
    return (quotient[0], 1.0 / divisor) if quotient is not None and divisor else None


def _changes(op: OnnxOp, part: object) -> list[tuple[Added | Replaced, Part]]:
    """How a value may have been made of scores, and which they are."""
    sums = list(matches(op, part, "{0} + {1}"))
    if sums:
        return [(Added(mask), scores) for scores, mask in sums]
    choice = match(op, part, "where({0}, {1}, {2})")
    if choice is None:
        return []
    condition, a, b = choice
    sides = [(exact_number(a), True, b), (exact_number(b), False, a)]
    return [
        (Replaced(condition, hides, low), scores)
        for low, hides, scores in sides
        if low is not None and low <= LOWEST_SCORE
    ]


def _fits(scores: Scores, v: Computed) -> bool:
    """Leading axes are the same, and masks have at most those of the scores."""
    q, keys = scores.q.shape, scores.keys.shape
    if len(q) < 3 or not q[:-2] == keys[:-2] == v.shape[:-2] or keys[-1] != v.shape[-2]:
        return False
    masks = [c.mask if isinstance(c, Added) else c.condition for c in scores.changes]
    return all(_broadcasts(_shape(mask), scores.shape) for mask in masks)


def _shape(part: Part) -> Shape:
    if isinstance(part, ModelMember):
        return tuple(part.arrays[""].shape)
    return part.shape if isinstance(part, Computed) else ()


def _broadcasts(shape: Shape, whole: Shape) -> bool:
    ends = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(shape, ends, strict=True))


@dataclass(frozen=True, slots=True)
class Mask:
    """Options of `attention`."""

    added: Part | None = None
    is_causal: bool = False
    offset: int = 0


def _mask(op: OnnxOp, scores: Scores, is_guarded: bool) -> Mask | None:
    if not scores.changes:
        return Mask()
    if len(scores.changes) == 1:
        hidden = _hidden(scores.changes[0])
        if hidden is not None and not hidden.any():
            return Mask()
        offset = _causal_offset(hidden, scores.shape[-2:]) if hidden is not None else None
        if offset is not None:
            return Mask(is_causal=True, offset=offset)
    elif any(isinstance(c, Replaced) and c.low > WITHOUT_SCORE for c in scores.changes):
        return None
    mask: Part | None = None
    for change in reversed(scores.changes):
        mask = _change_mask(op, mask, change, _low(op, change) if is_guarded else LOW)
    return Mask(mask)


def _hidden(change: Added | Replaced) -> Array | None:
    """Which keys a stored mask hides; None if it does anything else."""
    part = change.mask if isinstance(change, Added) else change.condition
    if not isinstance(part, ModelMember) or set(part.arrays) != {""}:
        return None
    array = part.arrays[""]
    if isinstance(change, Replaced):
        return array if change.hides else ~array
    hidden: Array = array <= LOWEST_SCORE
    return hidden if (array[~hidden] == 0).all() else None


def _causal_offset(hidden: Array, scores: Shape) -> int | None:
    """How many keys are visible beside the first one in the first row, if a row adds one each."""
    if hidden.shape[-2:] != scores or not hidden.any():
        return None
    offset = int((~hidden.reshape(-1, *scores)[0, 0]).sum()) - 1
    wanted = np.arange(scores[1]) > np.arange(scores[0])[:, None] + offset
    return offset if offset >= 0 and (hidden == wanted).all() else None


def _low(op: OnnxOp, change: Added | Replaced) -> float:
    """Only -inf makes a row that is not a number: keys that a finite number hides count again."""
    least = change.low if isinstance(change, Replaced) else bounds(op, change.mask)[0]
    return HIDDEN if least == -math.inf else LOW


def _change_mask(op: OnnxOp, mask: Part | None, change: Added | Replaced, low: float) -> Part:
    """The mask after the change that was made to the scores."""
    if isinstance(change, Added):
        added = _bound_mask(op, change.mask, low)
        return added if mask is None else _emit(op, "{0} + {1}", mask, added)
    held = change.condition
    if mask is None and isinstance(held, ModelMember):
        hidden = held.arrays[""] if change.hides else ~held.arrays[""]
        return op.parameter_of(np.where(hidden, np.float32(low), np.float32(0)), "mask")
    before = real(0.0) if mask is None else mask
    sides = (real(low), before) if change.hides else (before, real(low))
    return _emit(op, "where({0}, {1}, {2})", held, *sides)


def _bound_mask(op: OnnxOp, mask: Part, low: float) -> Part:
    """Raises numbers of a mask that are so low that they would hide keys altogether."""
    if isinstance(mask, ModelMember):
        bounded = np.maximum(mask.arrays[""], np.float32(low))
        same = np.array_equal(bounded, mask.arrays[""])
        return mask if same else op.parameter_of(bounded, "mask")
    if not isinstance(mask, Computed) or bounds(op, mask)[0] >= low:
        return mask
    return _emit(op, "maximum({0}, {1})", mask, real(low))


def _emit(op: OnnxOp, text: str, *parts: Part) -> Computed:
    plain = [
        op.with_order(part, None) if isinstance(part, Computed) and len(part.shape) > 1 else part
        for part in parts
    ]
    return op.emit(text, *plain, name="mask")


Bounds: TypeAlias = tuple[float, float]
UNKNOWN = (-math.inf, math.inf)
WHOLE = {"bool": (0.0, 1.0), "i32": (-(2.0**31), 2.0**31), "u32": (0.0, 2.0**32)}
# By sign or function, the op whose rule for whole numbers holds for floats, too.
OPS = {"+": "add", "-": "sub", "*": "mul", "maximum": "maximum", "minimum": "minimum",
       "abs": "abs", "square": "square"}  # fmt: skip


def bounds(op: OnnxOp, part: object, steps: int = MOST_STEPS) -> Bounds:
    """Infinite only where a number of the file is, or nothing is known."""
    part = part.part if isinstance(part, Leaf) else part
    held = exact_number(part)
    if held is not None:
        return held, held
    if isinstance(part, ModelMember):
        return _stored_bounds(part)
    made = op.writer.made_by.get(part) if isinstance(part, Computed) else None
    if made is not None:
        return bounds(op, made.tree, steps - 1) if steps else UNKNOWN
    return _bounds_of_tree(op, part, steps)


def exact_number(part: object) -> float | None:
    """A number; infinity where the file has it, though the text has the largest float instead."""
    held = number(part)
    endless = is_infinite(part) or (isinstance(part, ModelMember) and part.is_infinite)
    return math.copysign(math.inf, held) if held is not None and endless else held


def _stored_bounds(member: ModelMember) -> Bounds:
    array = member.arrays.get("")
    if array is None or not array.size or member.is_infinite:
        return UNKNOWN
    return float(array.min()), float(array.max())


def _bounds_of_tree(op: OnnxOp, tree: object, steps: int) -> Bounds:
    name, operands = _form(tree)
    if name in ("reshape", "rearrange"):
        return bounds(op, operands[0], steps)
    if name == "f32" and isinstance(operands[0], Leaf):
        part = operands[0].part
        return WHOLE.get(part.dtype, UNKNOWN) if isinstance(part, Computed) else UNKNOWN
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
