"""Intervals of expressions: each number that an expression can be is inside."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from kernel_threads import Number, computed
from wgcc.backends.wgsl.print_tree import print_expression
from wgcc.kernel.facts import Knowledge
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.ranges import Range, whole_range
from wgcc.kernel.rewrite.transform import Holes, substitute
from wgcc.kernel.tree import Binary, Call, Expr, Literal, Name


def knowledge_of(ranges: dict[str, Range | None], kind: str = "u32") -> tuple[Knowledge, Holes]:
    """Names with these ranges, and the symbols that they are."""
    knowledge = Knowledge()
    symbols = {name: knowledge.unknown(kind, name, True, known) for name, known in ranges.items()}
    return knowledge, symbols


LIMITED: dict[str, Range | None] = {"a": Range(0, 9), "b": None}


def known(text: str) -> Range:
    knowledge, names = knowledge_of(LIMITED)
    names = {**names, "c": knowledge.unknown("bool", "c", True)}
    return knowledge.range(substitute(parse_expression(text), names))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a + 1u", 1, 10),
        ("a % 4u", 0, 3),
        ("a / 2u", 0, 4),
        ("min(b, 5u)", 0, 5),
        ("a & 3u", 0, 3),
        ("select(a, 20u, c)", 0, 20),
    ],
)
def test_ranges(text: str, low: int, high: int):
    assert known(text) == Range(low, high)


@pytest.mark.parametrize("text", ["a - 1u", "b + 1u", "a * 4294967295u"])
def test_what_may_wrap_around_has_no_range(text: str):
    assert known(text) == whole_range("u32")


def test_truth():
    knowledge, names = knowledge_of(LIMITED)
    assert knowledge.truth(substitute(parse_expression("a < 10u && !(a >= 10u)"), names)) is True
    assert knowledge.truth(substitute(parse_expression("a > 9u || a == 11u"), names)) is False
    assert knowledge.truth(substitute(parse_expression("a < 9u"), names)) is None


NAMES = {"a": range(0, 6), "b": range(3, 9), "c": range(0, 2)}


def test_ranges_hold_for_all_numbers():
    """One name may be any number."""
    random = Random(7)
    narrow = 0
    for _ in range(1000):
        kind = random.choice(("u32", "u32", "i32"))
        expr = parse_expression(_random_expression(random, 3, kind))
        ranges = {name: Range(numbers[0], numbers[-1]) for name, numbers in NAMES.items()}
        knowledge, names = knowledge_of({**ranges, "unknown": None}, kind)
        claim = knowledge.range(substitute(expr, names))
        narrow += claim != whole_range(kind)
        for numbers in product(
            *NAMES.values(), (0, 5, (1 << 32) - 1) if kind == "u32" else (-7, 7)
        ):
            values = dict(zip((*NAMES, "unknown"), numbers, strict=True))
            result = _value(expr, values, kind)
            assert claim.low <= result <= claim.high, (print_expression(expr), values, claim)
    assert narrow > 300


def _random_expression(random: Random, depth: int, kind: str) -> str:
    if depth == 0 or random.random() < 0.2:
        suffix = "u" if kind == "u32" else "i"
        small = f"{random.choice((0, 1, 2, 3, 8, 31, 32, 33))}{suffix}"
        names = [*NAMES, "unknown"]
        return random.choice((small, random.choice(names)))
    a, b = (_random_expression(random, depth - 1, kind) for _ in range(2))
    if random.random() < 0.2:
        return f"{random.choice(('min', 'max'))}({a}, {b})"
    if random.random() < 0.1:
        return f"select({a}, {b}, {a} < {b})"
    op = random.choice(("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"))
    if op in ("<<", ">>"):
        b = f"{random.choice((0, 1, 5, 31, 32, 40))}u" if kind == "i32" else b
    return f"({a} {op} {b})"


def _value(expr: Expr, values: dict[str, int], kind: str) -> int:
    def number(inner: Expr) -> Number:
        match inner:
            case Literal(value, own):
                return Number(int(value), kind if own == "int" else own)
            case Name(name):
                return Number(values[name], kind)
            case Binary(op, left, right):
                return computed(op, number(left), number(right))
            case Call("select", (no, yes, condition)):
                return number(yes if number(condition).value else no)
            case Call(name, args):
                pick = min if name == "min" else max
                return Number(pick(number(arg).value for arg in args), kind)
        raise TypeError(inner)

    return number(expr).value
