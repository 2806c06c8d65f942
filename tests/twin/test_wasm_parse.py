"""Every pattern and function of the ops is in the subset of WGSL that the twin is made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from op_samples import build, pattern_of
from wgcc.kernel.parse import parse_expression, parse_functions, parse_statements
from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Name,
    Return,
    Unary,
)
from wgcc.ops import OPS
from wgcc.ops.registry import FOLDER, FromIndex, Op, Pointwise, Reduce, Update

X, Y, Z = Name("x"), Name("y"), Name("z")
ONE = Literal(1.0, "f32")
EXPRESSIONS: list[tuple[str, Expr]] = [
    ("1.0", ONE),
    ("1.0f", ONE),
    ("1f", ONE),
    ("1e0", ONE),
    ("2", Literal(2, "int")),
    ("2u", Literal(2, "u32")),
    ("0x1Fu", Literal(31, "u32")),
    ("0x1f", Literal(31, "int")),
    ("7i", Literal(7, "i32")),
    ("true", Literal(True, "bool")),
    ("{0}", Name("{0}")),
    ("x + y * z", Binary("+", X, Binary("*", Y, Z))),
    ("x - y - z", Binary("-", Binary("-", X, Y), Z)),
    ("(x - y) - z", Binary("-", Binary("-", X, Y), Z)),
    ("x - (y - z)", Binary("-", X, Binary("-", Y, Z))),
    ("-x * y", Binary("*", Unary("-", X), Y)),
    ("!x || y && z", Binary("||", Unary("!", X), Binary("&&", Y, Z))),
    ("x << y < z", Binary("<", Binary("<<", X, Y), Z)),
    ("x & y == z", Binary("&", X, Binary("==", Y, Z))),
    ("bitcast<u32>(x)", Call("bitcast<u32>", (X,))),
    ("vec2u(x, y).x", Member(Call("vec2<u32>", (X, Y)), "x")),
    ("array<u32, 2>(x, y,)[z]", Element(Call("array<u32, 2>", (X, Y)), Z)),
    ("x < y", Binary("<", X, Y)),
    ("f(x[y].z)", Call("f", (Member(Element(X, Y), "z"),))),
]


@pytest.mark.parametrize(("text", "want"), EXPRESSIONS)
def test_expressions(text: str, want: Expr) -> None:
    assert parse_expression(text) == want


def test_statements() -> None:
    text = """
      // why
      let x = 1.0; var y: f32;
      y += x;
      for (var z = 0; z < 2; z++) { if (x < y) { x = y; } else if (y < x) { return y; } }
      while (x < y) { y = x; }
    """
    first = Let("z", None, Literal(0, "int"), True)
    after = Assign(Z, Binary("+", Z, Literal(1, "int")))
    inner = If(Binary("<", Y, X), (Return(Y),), ())
    branch = If(Binary("<", X, Y), (Assign(X, Y),), (inner,))
    assert parse_statements(text) == (
        Let("x", None, ONE, False),
        Let("y", "f32", None, True),
        Assign(Y, Binary("+", Y, X)),
        Loop((first,), Binary("<", Z, Literal(2, "int")), (after,), (branch,)),
        Loop((), Binary("<", X, Y), (), (Assign(Y, X),)),
    )


MISTAKES = [
    ("x +", "expected a name, found the end (line 1"),
    ("f(x", "expected `)`, found the end"),
    ("x $ y", "`$` is not WGSL"),
    ("x\n  y", "expected the end, found `y` (line 2"),
    ("x[y", "expected `]`, found the end"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_say_what_and_where(text: str, message: str) -> None:
    with pytest.raises(WgslError) as caught:
        parse_expression(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["fn f() { x }", "fn f() { let x = 1;", "struct A {}"])
def test_mistakes_in_functions(text: str) -> None:
    with pytest.raises(WgslError):
        parse_functions(text)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.wgsl")), ids=lambda path: path.stem)
def test_every_function_file_is_in_the_subset(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    functions = parse_functions(text)
    assert all(name.startswith("wg_") for name in functions)
    assert len(functions) == text.count("fn ")


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_op_is_in_the_subset(op: Op) -> None:
    for sample in op.samples:
        _, node = build(op, sample)
        lower = op.lower
        if isinstance(lower, Pointwise | FromIndex):
            pattern = pattern_of(lower, node)
            holes = {f"{{{at}}}" for at in range(len(node.inputs))} | {"{i}"}
            assert names(parse_expression(pattern)) <= holes
        elif isinstance(lower, Reduce):
            assert not names(parse_expression(lower.start(node.output.dtype)))
            assert names(parse_expression(lower.combine(node.output.dtype))) == {"{0}", "{1}"}
        elif isinstance(lower, Update):
            assert parse_statements(lower.form(node.attrs).wgsl)


def names(expr: Expr) -> set[str]:
    match expr:
        case Name(name):
            return {name}
        case Literal():
            return set()
        case Unary(_, operand):
            return names(operand)
        case Binary(_, left, right):
            return names(left) | names(right)
        case Call(_, args):
            return set().union(*(names(arg) for arg in args))
        case Member(whole, _):
            return names(whole)
        case Element(whole, index):
            return names(whole) | names(index)
