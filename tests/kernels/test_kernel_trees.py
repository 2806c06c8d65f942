"""Kernels as trees: what the parser reads is printed as it was, and rewrites keep the meaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wgcc.backends.wgsl.print_tree import print_expression, print_module, print_statements
from wgcc.kernel.parse import parse_expression, parse_functions, parse_module, parse_statements
from wgcc.kernel.ranges import Range, range_of, truth_of
from wgcc.kernel.rewrite.drop_tests import drop_tests
from wgcc.kernel.rewrite.fold import fold
from wgcc.kernel.rewrite.inline import inline
from wgcc.kernel.rewrite.substitute import fill, substitute_body
from wgcc.kernel.rewrite.transform import map_expression
from wgcc.kernel.rewrite.unroll import unroll
from wgcc.kernel.tree import Binary, Expr
from wgcc.ops.checks import FOLDER

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/kernels/*.wgsl"))
SOURCES = [*GOLDEN, *sorted(FOLDER.glob("*.wgsl"))]


def test_every_kernel_is_the_same_tree_after_printing():
    for path in SOURCES:
        module = parse_module(path.read_text())
        assert parse_module(print_module(module)) == module, path


def test_golden_kernels_are_printed_as_they_are():
    for path in GOLDEN:
        text = path.read_text()
        assert print_module(parse_module(text)) + "\n" == text, path


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a + b * c", "a + b * c"),
        ("(a + b) * c", "(a + b) * c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a & b) == c", "(a & b) == c"),
        ("a << (b + c)", "a << (b + c)"),
        ("(a || b) && c", "(a || b) && c"),
        ("-(a + b)", "-(a + b)"),
        ("(a + b).x", "(a + b).x"),
        ("vec3<u32>(1u)", "vec3u(1u)"),
        ("0x7fu + 1.50e-3f", "0x7fu + 1.50e-3f"),
        ("bitcast<u32>(x[i])", "bitcast<u32>(x[i])"),
    ],
)
def test_an_expression_is_printed_with_its_parentheses(text: str, printed: str):
    assert print_expression(parse_expression(text)) == printed


@pytest.mark.parametrize("text", ["a - (b - c)", "(a & b) == c", "a * (b + c)", "(a << b) + c"])
def test_built_trees_get_the_parentheses_they_need(text: str):
    def without(expr: Expr) -> Expr:
        return replace(expr, parens=False) if isinstance(expr, Binary) else expr

    assert print_expression(map_expression(parse_expression(text), without)) == text


def test_holes_are_names_numbers_expressions_and_statements():
    page = parse_module(
        "// Scales.\nfn main(i: u32) {\n  let o = INDEX;\n  BODY();\n  y[o] = f(SCALE, KIND(o));\n}"
    )
    filled = fill(
        page,
        {
            "INDEX": parse_expression("i * 4u"),
            "BODY": parse_statements("let k = o + 1u;"),
            "SCALE": 3,
            "KIND": "f32",
            "y": "y0",
        },
    )
    assert print_module(filled) == (
        "// Scales.\nfn main(i: u32) {\n  let o = i * 4u;\n"
        "  let k = o + 1u;\n  y0[o] = f(3u, f32(o));\n}"
    )


def test_a_name_that_a_block_declares_is_not_replaced():
    body = parse_statements("let a = n; let n = 1u; let b = n;")
    assert print_statements(substitute_body(body, {"n": 7})) == (
        "let a = 7u;\nlet n = 1u;\nlet b = n;"
    )


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("2u * 3u + x", "6u + x"),
        ("x + 0u", "x"),
        ("x * 1u / 1u", "x"),
        ("x % 1u", "0u"),
        ("true && x", "x"),
        ("select(a, b, 1u < 2u)", "b"),
        ("x * 0.0", "x * 0.0"),
        ("3u - 5u", "3u - 5u"),
    ],
)
def test_whole_numbers_are_folded(text: str, folded: str):
    assert print_expression(fold(parse_expression(text))) == folded


def test_a_loop_of_known_length_is_unrolled():
    body = parse_statements("for (var i = 0u; i < N; i++) { let a = x[i * 2u]; s += a; }")
    assert print_statements(unroll(body, {"N": Range(2, 2)})) == (
        "let a0 = x[0u];\ns += a0;\nlet a1 = x[2u];\ns += a1;"
    )
    assert unroll(body, {"N": Range(2, 3)}) == body


def test_a_call_is_inlined_with_names_of_its_own():
    functions = parse_functions("fn f(i: u32) -> f32 { let a = x[i]; return a * a; }")
    body = parse_statements("let a = 1.0; let b = f(n + 1u);")
    assert print_statements(inline(body, functions)) == (
        "let a = 1.0;\nlet i = n + 1u;\nlet a_1 = x[i];\nlet b = a_1 * a_1;"
    )


def test_a_function_that_returns_early_is_not_inlined():
    functions = parse_functions("fn f(i: u32) -> f32 { if (i > 1u) { return 0.0; } return 1.0; }")
    with pytest.raises(ValueError, match="returns before its end"):
        inline(parse_statements("let b = f(n);"), functions)


def test_tests_that_always_hold_are_dropped():
    body = parse_statements(
        "let row = tile * 8u + lane.y;"
        "if (row < ROWS && other < ROWS) { f(row); }"
        "if (row < ROWS) { let a = 1u; g(a); } else { h(); }"
    )
    known = {"tile": Range(0, 3), "lane.y": Range(0, 7), "ROWS": Range(32, 32)}
    assert print_statements(drop_tests(body, known)) == (
        "let row = tile * 8u + lane.y;\nif (other < ROWS) {\n  f(row);\n}\nlet a = 1u;\ng(a);"
    ).replace("{\n  f(row);\n}", "{ f(row); }")
    ragged = {**known, "ROWS": Range(31, 31)}
    assert drop_tests(body, ragged) == body


def test_a_test_of_a_variable_that_is_assigned_stays():
    body = parse_statements("var a = 1u; a = n; if (a < 4u) { f(); }")
    assert drop_tests(body, {}) == body


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
    assert range_of(parse_expression(text), {"a": Range(0, 9)}) == Range(low, high)


@pytest.mark.parametrize("text", ["a - 1u", "b + 1u", "a * 4294967295u"])
def test_what_may_wrap_around_has_no_range(text: str):
    assert range_of(parse_expression(text), {"a": Range(0, 9)}) is None


def test_truth():
    known = {"a": Range(0, 9)}
    assert truth_of(parse_expression("a < 10u && !(a >= 10u)"), known) is True
    assert truth_of(parse_expression("a > 9u || a == 11u"), known) is False
    assert truth_of(parse_expression("a < 9u"), known) is None
