"""Finds templates in what statements compute: `match(op, y, "{0} * sigmoid({0})")`.

A template is compared with the tree of a statement, and through the tensors in it with the trees of
the statements that made these. Sums and products may have their operands in any order, and products
in any grouping. A number of the template stands for all that are very near.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.literals import LARGEST, literal, number_of
from wgcc.from_onnx.values import Constant, Leaf, Member, Part, Statement, Value
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, Hole, form, template

# What fills a hole. Constants are operands of a node that has no statement yet.
Found: TypeAlias = Part | Constant
Holes: TypeAlias = Mapping[int, Found]


def match(op: Op, part: object, *texts: str) -> tuple[Any, ...] | None:
    """What fills the holes of the first template that fits; None if none does."""
    return next(matches(op, part, *texts), None)


def matches(op: Op, part: object, *texts: str) -> Iterator[tuple[Any, ...]]:
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
    if isinstance(part, Constant) and part.array.size == 1:
        return literal(part.array)
    if isinstance(part, Value | Member | Constant):
        return Leaf(NOWHERE, part)  # type: ignore[arg-type]
    return part if isinstance(part, ast.Syntax) else None


def statement_of(op: Op, part: object) -> Statement | None:
    """What computes a value, seen through other names of it that store it alike."""
    found = op.writer.made_by.get(_origin(op, part)) if isinstance(part, Value) else None
    return None if found is not None and found.alias_of is not None else found


def _origin(op: Op, value: Value) -> Value:
    made = op.writer.made_by.get(value)
    inner = made.alias_of if made is not None else None
    return _origin(op, inner) if inner is not None and inner.order == value.order else value


def number(part: object) -> float | None:
    """A number in a tree, or the only one of a parameter."""
    if isinstance(part, Member) and "" in part.arrays and part.arrays[""].size == 1:
        return float(part.arrays[""].reshape(()))
    held = number_of(part)
    return held if held is None else max(-LARGEST, min(LARGEST, held))


def _fits(op: Op, wanted: Any, target: Any, holes: Holes) -> Iterator[Holes]:
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


def _seen(op: Op, target: Any) -> Any:
    """The tree behind a tensor that one statement computes."""
    made = statement_of(op, target.part) if isinstance(target, Leaf) else None
    is_single = made is not None and len(made.outputs) == 1 and made.body is None
    return made.tree if made is not None and is_single else target


def _bound(op: Op, place: int, target: Any, holes: Holes) -> Iterator[Holes]:
    """Holes stand for tensors, members, numbers and lists, each for one."""
    part: Any = target.part if isinstance(target, Leaf) else target
    if isinstance(part, Value):
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


def _call(op: Op, wanted: ast.Call, tree: Any, holes: Holes) -> Iterator[Holes]:
    if not isinstance(tree, ast.Call) or len(tree.arguments) != len(wanted.arguments):
        return
    names = [[item.name.text if item.name else "" for item in node.arguments]
             for node in (wanted, tree)]  # fmt: skip
    if names[0] != names[1] or form(wanted.function) != form(tree.function):
        return
    pairs = [(a.value, b.value) for a, b in zip(wanted.arguments, tree.arguments, strict=True)]
    yield from _all(op, pairs, holes)


def _binary(op: Op, wanted: ast.Binary, tree: Any, holes: Holes) -> Iterator[Holes]:
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


def _all(op: Op, pairs: Sequence[tuple[Any, Any]], holes: Holes) -> Iterator[Holes]:
    if not pairs:
        yield holes
        return
    for found in _fits(op, *pairs[0], holes):
        yield from _all(op, pairs[1:], found)


def _any_order(op: Op, wanted: list[Any], targets: list[Any], holes: Holes) -> Iterator[Holes]:
    if not wanted:
        yield holes
        return
    for place, target in enumerate(targets):
        rest = targets[:place] + targets[place + 1 :]
        for found in _fits(op, wanted[0], target, holes):
            yield from _any_order(op, wanted[1:], rest, found)


def _flat(tree: Any) -> list[Any]:
    """The factors of a product, those that say most first."""
    is_product = isinstance(tree, ast.Binary) and tree.op == "*"
    parts = [*_flat(tree.left), *_flat(tree.right)] if is_product else [tree]
    return sorted(parts, key=lambda part: isinstance(part, Hole))


def _factors(op: Op, target: Any, count: int) -> Iterator[list[Any]]:
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
