"""Index expressions: simplifications keep the value, and equal positions give equal expressions."""

from __future__ import annotations

import random

import pytest

from wgcc.ir.index import (
    Index,
    Quotient,
    Variable,
    constant,
    coordinates_of,
    linear,
    variable,
)


def value_of(index: Index, known: dict[str, int]) -> int:
    total = index.offset
    for atom, factor in index.terms:
        if isinstance(atom, Variable):
            part = known[atom.name]
        else:
            inner = value_of(atom.dividend, known)
            assert inner >= 0, "a dividend may not be negative"
            quotient, remainder = divmod(inner, atom.divisor)
            part = quotient if isinstance(atom, Quotient) else remainder
        total += factor * part
    return total


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_keep_their_value(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(800):
        extents = {name: rng.choice((2, 3, 4, 5, 8, 64)) for name in "abc"}
        known = {name: rng.randrange(extent) for name, extent in extents.items()}
        index, expected = constant(rng.randint(0, 5)), 0
        expected = index.offset
        for _ in range(rng.randint(1, 8)):
            number = rng.choice((1, 2, 3, 4, 5, 8, 12, 64))
            name = rng.choice("abc")
            step = rng.choice(("add", "scale", "divide", "remain", "shift"))
            if step == "add":
                index = index + variable(name, extents[name]) * number
                expected += known[name] * number
            elif step == "scale":
                index, expected = index * number, expected * number
            elif step == "divide":
                index, expected = index // number, expected // number
            elif step == "remain":
                index, expected = index % number, expected % number
            else:
                index, expected = index + number, expected + number
        assert value_of(index, known) == expected
        assert index.low <= expected <= index.high


def test_coordinates_come_back_from_a_position() -> None:
    shape = (12, 5, 64)
    at = tuple(variable(name, n) for name, n in zip("ijk", shape, strict=True))
    assert coordinates_of(linear(at, shape), shape) == at


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 64, 128), ["(o / 64u)", "(o % 64u)", "r"]),
        ((512, 128), ["o", "r"]),
        ((512, 4, 32), ["o", "(r / 32u)", "(r % 32u)"]),
    ],
)
def test_rows_stay_rows_in_other_shapes(shape: tuple[int, ...], expected: list[str]) -> None:
    position = linear((variable("o", 512), variable("r", 128)), (512, 128))
    assert [index.wgsl() for index in coordinates_of(position, shape)] == expected


def test_splitting_and_joining_an_axis_is_nothing() -> None:
    q = variable("q", 60)
    assert linear(coordinates_of(q, (12, 5)), (12, 5)) == q


def test_an_axis_of_one_has_one_place() -> None:
    assert variable("x", 1) == constant(0)
    assert constant(0).wgsl() == "0u"
    assert (variable("x", 9) - 3).wgsl() == "x - 3u"
