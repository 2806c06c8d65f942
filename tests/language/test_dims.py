"""Sizes remember how they were made."""

from __future__ import annotations

import pytest

from wgcc.elaborate.tracing.dims import COINCIDENCE, DIFF, SAME, Dim, compare, product, sizes_note

B, D, H = Dim.of_name("B", 32), Dim.of_name("D", 64), Dim.of_name("H", 8)
F = Dim.of_name("F", 64)


def whole(a: Dim | None) -> Dim:
    assert a is not None
    return a


def test_equal_by_construction() -> None:
    heads = whole(D.divided_by(H))
    assert compare(heads * H, D) is SAME
    assert compare(D + D, Dim.literal(2) * D) is SAME
    assert compare(whole((Dim.literal(2) * D).divided_by(Dim.literal(2))), D) is SAME
    assert compare((D + H) * (D - H), D * D - H * H) is SAME


def test_a_number_is_any_size_of_that_value() -> None:
    assert compare(D, Dim.literal(64)) is SAME
    assert compare(D, F) is COINCIDENCE
    assert compare(D, H) is DIFF
    assert compare(Dim.literal(3), Dim.literal(3)) is SAME


def test_a_number_may_stand_for_a_name_within_a_product() -> None:
    """`F` pieces of `D`, concatenated one by one, are `7 * D`."""
    f = Dim.of_name("F", 7)
    joined = product([Dim.literal(7), D])
    assert compare(joined, D * f) is SAME and compare(D * f, joined) is SAME
    assert compare(joined + H, f * D + H) is SAME
    assert compare(Dim.literal(8) * D, (f + Dim.literal(1)) * D) is SAME
    assert compare(whole((H * f).divided_by(f)), H) is SAME
    assert compare(H + Dim.literal(7), H + f) is SAME
    assert compare(H * Dim.literal(8), D) is COINCIDENCE
    assert compare(f * D, f * F) is COINCIDENCE
    assert compare(f * D, Dim.literal(7) * F) is COINCIDENCE
    one = Dim.of_name("One", 1)
    assert compare(one * D, D) is COINCIDENCE, "nobody wrote a 1"
    nothing = Dim.of_name("Zero", 0)
    assert compare(nothing * D, D - D) is SAME


def test_equal_names_of_different_declarations_differ() -> None:
    other = Dim.of_name("D", 16, "parts.wg:5")
    assert compare(D, other) is DIFF
    assert compare(D, Dim.of_name("D", 64, "parts.wg:5")) is COINCIDENCE
    assert (D - other).size == 48


def test_division_is_exact() -> None:
    assert D.divided_by(Dim.literal(3)) is None
    assert D.divided_by(Dim.literal(0)) is None
    assert whole(D.divided_by(Dim.literal(4))).size == 16


def test_placeholder_sizes_never_agree_and_always_divide() -> None:
    a, b = Dim.placeholder("N"), Dim.placeholder("N")
    assert compare(a, b) is DIFF
    third = whole(a.divided_by(b))
    assert third.generic and compare(third * b, a) is SAME


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (D, "D = 64"),
        (Dim.literal(7), "7"),
        (D * H + Dim.literal(1), "D*H + 1 = 513"),
        (Dim.literal(2) * D, "2*D = 128"),
        (whole(D.divided_by(H)), "D/H = 8"),
        (whole(D.divided_by(Dim.literal(2))), "D/2 = 32"),
        (D - H, "D - H = 56"),
        (-D, "-D = -64"),
        (D * D, "D**2 = 4096"),
        (D - D, "0"),
        ((Dim.literal(3) * D).with_name("W"), "W = 192"),
        (Dim.placeholder("N"), "N"),
    ],
)
def test_text(dim: Dim, text: str) -> None:
    assert dim.full == text


def test_note_names_every_size_once() -> None:
    assert sizes_note([B, D, Dim.literal(3)], [D, H]) == "here B = 32, D = 64, H = 8"
    assert sizes_note([Dim.literal(3)]) == ""
    assert product([B, D]).size == 2048
