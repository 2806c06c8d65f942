"""Recognises what exporters have taken apart: a bias, GELU, softmax, layer norm, RMS norm.

In `match(op, y, "{0} * sigmoid({0})")` the template is compared with the tree of a statement, and
through the tensors in it with the trees of the statements that made these. Sums and products may
have their operands in any order, and products in any grouping. A number of the template stands for
all that are very near. What a pattern replaces is not needed any more, and is left out of the
model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.literals import LARGEST, literal, number_of
from wgcc.from_onnx.values import (
    Computed,
    Leaf,
    ModelMember,
    Operand,
    Part,
    Statement,
    Stored,
    plain_order,
)
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, Hole, form, template

# What fills a hole. Constants are operands of a node that has no statement yet.
Found: TypeAlias = Part | Stored
Holes: TypeAlias = Mapping[int, Found]


def match(op: OnnxOp, part: object, *texts: str) -> tuple[Any, ...] | None:
    """The parts that fill the holes of the first template that fits; None if none does."""
    return next(matches(op, part, *texts), None)


def matches(op: OnnxOp, part: object, *texts: str) -> Iterator[tuple[Any, ...]]:
    """All ways in which templates fit. A tuple `(sign, a, b)` stands for `a sign b`."""
    target = _target(part)
    for text in texts if target is not None else ():
        for holes in _fits(op, template(text), target, {}):
            yield tuple(holes[place] for place in sorted(holes))


def _target(part: object) -> ast.Syntax | None:
    if isinstance(part, tuple):
        sign, left, right = part[0], _target(part[1]), _target(part[2])
        sides: list[Any] = [left, right]
        return None if None in sides else ast.Binary(NOWHERE, sign, sides[0], sides[1], NOWHERE)
    if isinstance(part, Stored) and part.array.size == 1:
        return literal(part.array)
    if isinstance(part, Computed | ModelMember | Stored):
        return Leaf(NOWHERE, part)  # type: ignore[arg-type]
    return part if isinstance(part, ast.Syntax) else None


def statement_of(op: OnnxOp, part: object) -> Statement | None:
    """The statement that computes a value; aliases stored in the same order are looked through."""
    statement = op.writer.made_by.get(_origin(op, part)) if isinstance(part, Computed) else None
    return None if statement is not None and statement.alias_of is not None else statement


def _origin(op: OnnxOp, value: Computed) -> Computed:
    made = op.writer.made_by.get(value)
    inner = made.alias_of if made is not None else None
    return _origin(op, inner) if inner is not None and inner.order == value.order else value


def number(part: object) -> float | None:
    """A number in a tree, or the only one of a parameter."""
    if isinstance(part, ModelMember) and "" in part.arrays and part.arrays[""].size == 1:
        return float(part.arrays[""].reshape(()))
    held = number_of(part)
    return held if held is None else max(-LARGEST, min(LARGEST, held))


def _fits(op: OnnxOp, wanted: Any, target: Any, holes: Holes) -> Iterator[Holes]:
    if isinstance(wanted, Hole):
        yield from _bound(op, wanted.place, target, holes)
        return
    fixed = number_of(wanted)
    if fixed is not None:
        held = number(target.part if isinstance(target, Leaf) else target)
        if held is not None and math.isclose(held, fixed, rel_tol=1e-4):
            yield holes
        return
    tree = _seen(op, target)
    if isinstance(wanted, ast.Binary):
        yield from _binary(op, wanted, tree, holes)
    elif isinstance(wanted, ast.Call):
        yield from _call(op, wanted, tree, holes)
    elif form(wanted) == form(tree):
        yield holes


def _seen(op: OnnxOp, target: Any) -> Any:
    """The tree behind a tensor that one statement computes."""
    made = statement_of(op, target.part) if isinstance(target, Leaf) else None
    is_single = made is not None and len(made.outputs) == 1 and made.body is None
    return made.tree if made is not None and is_single else target


def _bound(op: OnnxOp, place: int, target: Any, holes: Holes) -> Iterator[Holes]:
    """Holes stand for tensors, members, numbers and lists, each for one."""
    part: Any = target.part if isinstance(target, Leaf) else target
    if isinstance(part, Computed):
        part = _origin(op, part)
    is_list = isinstance(part, ast.ListExpr) or match_list(part) is not None
    if not (isinstance(target, Leaf) or is_list or number_of(part) is not None):
        return
    if place not in holes:
        yield {**holes, place: part}
    elif holes[place] is part or (
        number(part) is not None and number(holes[place]) == number(part)
    ):
        yield holes


def match_list(tree: object) -> tuple[ast.Expr, ...] | None:
    """The numbers of `f32([1.0, 2.0])`."""
    if not isinstance(tree, ast.Call) or not isinstance(tree.function, ast.Dtype):
        return None
    first = tree.arguments[0].value if tree.arguments else None
    return first.items if isinstance(first, ast.ListExpr) else None


def _call(op: OnnxOp, wanted: ast.Call, tree: Any, holes: Holes) -> Iterator[Holes]:
    if not isinstance(tree, ast.Call) or len(tree.arguments) != len(wanted.arguments):
        return
    names = [[item.name.text if item.name else "" for item in node.arguments]
             for node in (wanted, tree)]  # fmt: skip
    if names[0] != names[1] or form(wanted.function) != form(tree.function):
        return
    pairs = [(a.value, b.value) for a, b in zip(wanted.arguments, tree.arguments, strict=True)]
    yield from _all(op, pairs, holes)


def _binary(op: OnnxOp, wanted: ast.Binary, tree: Any, holes: Holes) -> Iterator[Holes]:
    if not isinstance(tree, ast.Binary) or tree.op != wanted.op:
        return
    if wanted.op == "*":
        factors = _flat(wanted)
        for split in _factors(op, tree, len(factors)):
            yield from _any_order(op, factors, split, holes)
    elif wanted.op == "+":
        yield from _any_order(op, [wanted.left, wanted.right], [tree.left, tree.right], holes)
    else:
        yield from _all(op, [(wanted.left, tree.left), (wanted.right, tree.right)], holes)


def _all(op: OnnxOp, pairs: Sequence[tuple[Any, Any]], holes: Holes) -> Iterator[Holes]:
    if not pairs:
        yield holes
        return
    for filled_holes in _fits(op, *pairs[0], holes):
        yield from _all(op, pairs[1:], filled_holes)


def _any_order(op: OnnxOp, wanted: list[Any], targets: list[Any], holes: Holes) -> Iterator[Holes]:
    if not wanted:
        yield holes
        return
    for place, target in enumerate(targets):
        rest = targets[:place] + targets[place + 1 :]
        for filled_holes in _fits(op, wanted[0], target, holes):
            yield from _any_order(op, wanted[1:], rest, filled_holes)


def _flat(tree: Any) -> list[Any]:
    """The factors of a product, those that say most first."""
    is_product = isinstance(tree, ast.Binary) and tree.op == "*"
    parts = [*_flat(tree.left), *_flat(tree.right)] if is_product else [tree]
    return sorted(parts, key=lambda part: isinstance(part, Hole))


def _factors(op: OnnxOp, target: Any, count: int) -> Iterator[list[Any]]:
    """A product, taken apart into as many factors, in all groupings."""
    if count == 1:
        yield [target]
        return
    tree = _seen(op, target)
    if not isinstance(tree, ast.Binary) or tree.op != "*":
        return
    for left in range(1, count):
        for first in _factors(op, tree.left, left):
            for rest in _factors(op, tree.right, count - left):
                yield [*first, *rest]


GELU = (
    "0.5 * {0} * (1.0 + erf({0} / 1.4142135623730951))",
    "0.5 * {0} * (1.0 + erf({0} * 0.7071067811865476))",
)
TANH_GELU = tuple(
    f"0.5 * {{0}} * (1.0 + tanh(0.7978845608028654 * ({{0}} + 0.044715 * {cube})))"
    for cube in ("{0} ** 3.0", "{0} * square({0})", "{0} * {0} * {0}")
)
# For any m that is the same along the axis of the sum.
SOFTMAX = (
    "exp({0}) / sum(exp({0}), axis = {1}, keep = true)",
    "exp({0}) / reshape(sum(exp({0}), axis = {1}), {2})",
    "exp({0}) / reshape(sum(exp({0}), axis = {1}, keep = true), {2})",
)
CENTRED = "({0} - mean({0}, axis = {1}, keep = true))"
LAYER_NORM = tuple(
    f"{CENTRED} / sqrt(mean({square}, axis = {{1}}, keep = true) + {{2}}) * {{3}} + {{4}}"
    for square in (f"square({CENTRED})", f"{CENTRED} * {CENTRED}")
)
RMS_NORM = tuple(
    quotient.format(f"sqrt(mean({square}, axis = {{1}}, keep = true) + {{2}})") + " * {3}"
    for quotient in ("{{0}} / {0}", "{{0}} * (1.0 / {0})")
    for square in ("square({0})", "{0} * {0}")
)


def layer_call(op: OnnxOp, value: object, kind: str) -> ModelMember | None:
    """The layer of a kind that made a value which only this node reads."""
    made = statement_of(op, value)
    layer = made.layer if made is not None and value in op.writer.used_once else None
    return layer if layer is not None and layer.kind.startswith(kind) else None


def with_options(layer: ModelMember, arrays: dict[str, Array]) -> ModelMember:
    """The layer with a bias, and other numbers."""
    assert layer.layer is not None
    options = [
        item for item in layer.layer.arguments or () if item.name and item.name.text != "bias"
    ]
    return replace(
        layer, arrays=arrays, layer=replace(layer.layer, arguments=tuple(options) or None)
    )


def _input_of(op: OnnxOp, value: Computed) -> Part:
    made = statement_of(op, value)
    assert made is not None
    return next(part for part in made.parts if part is not made.layer)


def with_bias(op: OnnxOp, a: object, b: object) -> Computed | None:
    """`x @ w + b` as one `Linear`."""
    for value, other in ((a, b), (b, a)):
        if not isinstance(value, Computed) or not isinstance(other, Stored):
            continue
        layer = layer_call(op, value, "Linear")
        width = value.shape[-1] if value.shape else 0
        if layer is None or "b" in layer.arrays or other.source in op.writer.shared:
            continue
        is_row = other.array.size == width and other.shape[-1:] == (width,)
        if is_row and op.type.shape == value.shape:
            arrays = {**layer.arrays, "b": op.narrow(other.array.reshape(-1))}
            return op.result("{1}({0})", _input_of(op, value), with_options(layer, arrays))
    return None


def scaled_conv(op: OnnxOp, x: object, factor: Array, shift: Array) -> Computed | None:
    """Batch norm after a convolution: other weights of the convolution."""
    layer = layer_call(op, x, "Conv")
    if layer is None or not isinstance(x, Computed):
        return None
    before = layer.arrays.get("b", np.zeros_like(factor))
    arrays = {
        "w": (layer.arrays["w"] * factor).astype(np.float32),
        "b": (before * factor + shift).astype(np.float32),
    }
    return op.result("{1}({0})", _input_of(op, x), with_options(layer, arrays), order=x.order)


def activation(op: OnnxOp, a: Operand, b: Operand) -> Computed | None:
    """A product that is SiLU or GELU."""
    forms = {"silu({0})": ("{0} * sigmoid({0})",), "gelu({0})": GELU,
             "gelu({0}, approximate = true)": TANH_GELU}  # fmt: skip
    for text, templates in forms.items():
        parts = match(op, ("*", a, b), *templates)
        if parts is not None and isinstance(parts[0], Computed):
            return op.result(text, parts[0], order=parts[0].order)
    return None


def softmax(op: OnnxOp, a: Operand, b: Operand) -> Computed | None:
    """exp(x - m) / sum(exp(x - m)), for any m that is the same along the axis of the sum."""
    if (
        not isinstance(a, Computed)
        or not isinstance(b, Computed)
        or a.order != plain_order(a.shape)
    ):
        return None
    parts = match(op, ("/", a, b), *SOFTMAX)
    axis = number(parts[1]) if parts is not None else None
    if parts is None or axis is None or not isinstance(parts[0], Computed):
        return None
    x, along, rank = parts[0], int(axis), len(a.shape)
    if b.shape != (*a.shape[:along], 1, *a.shape[along + 1 :]):
        return None
    shifted = match(op, x, "{0} - {1}")
    if shifted is not None and _is_same_along(shifted[1], along, rank):
        inner = shifted[0]
        if isinstance(inner, Computed) and (inner.shape, inner.order) == (a.shape, a.order):
            x = inner
    return op.result("softmax({0}, axis = {1})", x, along if along != rank - 1 else None)


def _is_same_along(part: Part, axis: int, rank: int) -> bool:
    if isinstance(part, Computed):
        return len(part.shape) == rank and part.shape[axis] == 1
    return number(part) is not None


def layer_norm(op: OnnxOp, a: Operand, b: Operand) -> Computed | None:
    """`normalised · g + b` over the last axis, with stored vectors g and b of their own."""
    for x, axis, eps, gain, shift in matches(op, ("+", a, b), *LAYER_NORM):
        if not isinstance(x, Computed) or number(axis) != len(x.shape) - 1 or number(eps) is None:
            continue
        if not isinstance(gain, ModelMember) or gain.layer or gain.source in op.writer.shared:
            continue
        if gain.arrays[""].shape != x.shape[-1:] or not _is_own_vector(op, shift, x):
            continue
        arrays = {"g": gain.arrays[""], "b": shift.array}
        return _norm(op, "LayerNorm", x, _eps(number(eps)), arrays)
    return None


def rms_norm(op: OnnxOp, a: Operand, b: Operand) -> Computed | None:
    """x / sqrt(mean(x²) + eps) · gain over the last axis, with a stored gain of its own."""
    for x, axis, eps, gain in matches(op, ("*", a, b), *RMS_NORM):
        if not isinstance(x, Computed) or x.order != plain_order(x.shape) or number(eps) is None:
            continue
        if number(axis) != len(x.shape) - 1 or not _is_own_vector(op, gain, x):
            continue
        # What has the mean 0 is the start of a layer norm, of which the shift is missing yet.
        if match(op, x, CENTRED) is None and op.writer.is_weight(gain):
            return _norm(op, "RMSNorm", x, number(eps), {"g": gain.array})
    return None


def _is_own_vector(op: OnnxOp, item: object, x: Computed) -> bool:
    """A stored vector of the length of rows that nothing else reads."""
    is_vector = isinstance(item, Stored) and item.array.shape == x.shape[-1:]
    return is_vector and isinstance(item, Stored) and item.source not in op.writer.shared


def _eps(eps: float | None) -> float | None:
    """None if it is what layer norms have without one."""
    return None if eps is None or math.isclose(eps, 1e-5, rel_tol=1e-3) else eps


def _norm(
    op: OnnxOp, kind: str, x: Computed, eps: float | None, arrays: dict[str, Array]
) -> Computed:
    layer = op.layer(kind, x.shape[-1:], op.layer_name("norm"), arrays, eps=eps)
    return op.result("{1}({0})", x, layer)
