"""Kernels as trees: what the parser reads is printed as it was, and rewrites keep the meaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wgcc.backends.wgsl.print_tree import print_expression, print_module, print_statements
from wgcc.kernel.build import expression, pattern, statements, take_several, u32, write_out
from wgcc.kernel.parse import parse_expression, parse_module, parse_statements
from wgcc.kernel.rewrite.transform import fill, map_expression, substitute_body
from wgcc.kernel.tree import Binary, Expr
from wgcc.ops.registry import FOLDER

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


ADD_UP = "fn f() { for (var i = 0u; i < N; i++) { s += x[i]; } }"


def test_a_loop_takes_several_numbers_per_iteration():
    page = take_several(parse_module(ADD_UP), ("i",), 2)
    assert print_module(page).splitlines()[2:] == [
        "  for (var i_first = 0u; i_first < N; i_first += UNROLLED) {",
        "    if (i_first + 0u < N) {",
        "      let i = i_first + 0u;",
        "      s += x[i];",
        "    }",
        "    if (i_first + 1u < N) {",
        "      let i = i_first + 1u;",
        "      s += x[i];",
        "    }",
        "  }",
        "}",
    ]
    assert take_several(parse_module(ADD_UP), ("j",), 2) == parse_module(ADD_UP)


def test_a_short_loop_is_written_out():
    page = write_out(parse_module(ADD_UP.replace("0u", "k * 2u")), ("i",), 2)
    assert print_module(page).splitlines()[2:] == [
        "  if (k * 2u + 0u < N) {",
        "    let i = k * 2u + 0u;",
        "    s += x[i];",
        "  }",
        "  if (k * 2u + 1u < N) {",
        "    let i = k * 2u + 1u;",
        "    s += x[i];",
        "  }",
        "}",
    ]


def test_quotations_are_filled_with_trees():
    total = expression("a + b")
    assert print_statements(statements("s = 2.0 * X; BODY();", X=total, BODY=())) == (
        "s = 2.0 * (a + b);"
    )
    assert print_expression(pattern("{0} * {i}", expression("x.y"), i=u32(3))) == "x.y * 3u"
