"""The printer of syntax trees: what it writes parses to the same tree."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.errors import Diagnostics, Source
from wgcc.syntax import ast
from wgcc.syntax.parser import parse
from wgcc.syntax.print_source import expression_text, print_source
from wgcc.syntax.templates import NOWHERE, fill_form, form, parse_own, template, tree_of

FOLDERS = ("grammar/std", "examples", "tests/importing", "tests/filetests")


def test_every_program_of_the_repository_is_printed_as_what_it_says() -> None:
    count = 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.wg")):
            tree = read(path)
            if tree is None:
                continue
            text = print_source(tree)
            again = parse_own(text)
            assert form(again) == form(tree), f"{path} is printed as another program"
            assert print_source(again) == text, f"{path}: printed twice, it differs"
            count += 1
    assert count > 100


def read(path: Path) -> ast.File | None:
    diagnostics = Diagnostics()
    tree = parse(Source("m.wg", path.read_text(encoding="utf-8")), diagnostics)
    return None if diagnostics.errors else tree


BINARY = ("+", "-", "*", "/", "%", "**", "@", "==", "<", ">=", "and", "or")


def random_tree(rng: random.Random, depth: int) -> ast.Expr:
    kind = rng.randrange(9) if depth else rng.randrange(3)
    inner = [random_tree(rng, depth - 1) for _ in range(3)] if depth else []
    if kind == 0:
        return ast.Name(NOWHERE, rng.choice("abxy"))
    if kind == 1:
        return ast.Int(NOWHERE, rng.randrange(100))
    if kind == 2:
        return ast.Float(NOWHERE, rng.choice((0.5, 1e-05, 3.4028234e38, 1e22, 7.0)))
    if kind == 3:
        return ast.Unary(NOWHERE, rng.choice(("-", "not")), inner[0])
    if kind == 4:
        return fill_form("f({0}, axis = {1})[{2}]", *inner)
    if kind == 5:
        return ast.IfExpr(NOWHERE, *inner)
    if kind == 6:
        return ast.TupleExpr(NOWHERE, tuple(inner[: rng.randrange(1, 4)]))
    return ast.Binary(NOWHERE, rng.choice(BINARY), inner[0], inner[1], NOWHERE)


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_get_the_parentheses_that_they_need(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        tree = random_tree(rng, 3)
        (item,) = parse_own(f"const c = {expression_text(tree)}").items
        assert isinstance(item, ast.Const) and form(item.value) == form(tree)


def test_parentheses_are_for_readers() -> None:
    wanted = {
        "(a * b) @ c": "(a * b) @ c", "a @ b @ c": "a @ b @ c", "(a @ b) / 3.0": "(a @ b) / 3.0",
        "a + (b * c)": "a + b * c", "(a - b) - c": "a - b - c", "a - (b - c)": "a - (b - c)",
        "(-a) ** 2": "(-a) ** 2", "x[2 :, : 3, ::2, i +: 4]": "x[2 :, : 3, :: 2, i +: 4]",
    }  # fmt: skip
    for source, text in wanted.items():
        assert expression_text(template(source)) == text


def test_templates_leave_out_arguments_without_a_value() -> None:
    tree = fill_form("softmax({0}, axis = {1}, keep = {2})", tree_of(2), None, True)
    assert expression_text(tree) == "softmax(2, keep = true)"
    assert (
        expression_text(fill_form("f({0}, {1})", [1, -2.5], ("a", 3))) == 'f([1, -2.5], ("a", 3))'
    )
