"""Loops that pages write once and kernels have written out, with a name for each iteration."""

from __future__ import annotations

import pytest

from wgcc.backends.wgsl.print_tree import print_module
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.unroll import unroll


def unrolled(body: str, **constants: int) -> list[str]:
    page = parse_module(f"fn main() {{ {body} }}")
    lines = print_module(unroll(page, "rn", constants)).splitlines()
    return [line.strip() for line in lines[1:-1]]


def test_what_a_loop_declares_has_a_name_for_each_iteration() -> None:
    assert unrolled(
        """
        // Rows.
        for (var r = 0u; r < ROWS; r++) { var x = 0.0; }
        for (var i = 0u; i < 8u; i++) {
          for (var r = 0u; r < ROWS; r++) { x[r] += f(i, r); }
        }
        let all = x[0] + x[1];
        """,
        ROWS=2,
    ) == [
        "// Rows.",
        "var x_0 = 0.0;",
        "var x_1 = 0.0;",
        "for (var i = 0u; i < 8u; i++) {",
        "x_0 += f(i, 0u);",
        "x_1 += f(i, 1u);",
        "}",
        "let all = x_0 + x_1;",
    ]


def test_loops_inside_loops_number_names_by_both() -> None:
    declare = "for (var r = 0u; r < 2u; r++) { for (var n = 0u; n < 2u; n++) { var y = 0.0; } }"
    store = (
        "for (var n = 1u; n < 2u; n++) { for (var r = 0u; r < 2u; r++) { put(m[r], y[r][n]); } }"
    )
    names = [f"var y_{r}_{n} = 0.0;" for r in range(2) for n in range(2)]
    assert unrolled(declare + store) == [*names, "put(m.x, y_0_1);", "put(m.y, y_1_1);"]


def test_the_first_numbers_leave_no_sum_and_no_product() -> None:
    loop = "for (var r = 0u; r < 3u; r++) { put(tile[(down + r * DOWN) * STRIDE + c]); }"
    assert unrolled(loop) == [
        "put(tile[down * STRIDE + c]);",
        "put(tile[(down + DOWN) * STRIDE + c]);",
        "put(tile[(down + 2u * DOWN) * STRIDE + c]);",
    ]


def test_blocks_inside_have_names_of_their_own() -> None:
    body = "for (var r = 0u; r < 2u; r++) { let x = f(r); if (x[r] > r) { var x = 0; x += 1; } }"
    assert unrolled(body) == [
        line
        for r in range(2)
        for line in (f"let x_{r} = f({r}u);", f"if (x_{r} > {r}u) {{ var x = 0; x++; }}")
    ]


def test_later_iterations_may_do_more() -> None:
    body = "for (var r = 0u; r < 2u; r++) { if (r > 0u) { workgroupBarrier(); } f(r); }"
    assert unrolled(body) == ["f(0u);", "workgroupBarrier();", "f(1u);"]
    assert unrolled("for (var r = 2u; r < 2u; r++) { f(r); }") == []


def test_a_name_needs_the_numbers_of_its_loops() -> None:
    with pytest.raises(AssertionError, match="`x` is indexed by numbers of iterations"):
        unrolled("for (var r = 0u; r < 2u; r++) { var x = 0.0; } let y = x[i];")
    with pytest.raises(AssertionError, match="`x` needs the number of its loop"):
        unrolled("for (var r = 0u; r < 2u; r++) { var x = 0.0; x += 1.0; }")
