"""Reading `.wg` text: the tree, its places, the text of every syntax error, and odd input."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import golden
from adapters import ROOT
from wgcc import files
from wgcc.errors import Diagnostics, Source, render_run
from wgcc.files import data_dir
from wgcc.syntax import ast
from wgcc.syntax.explain import affected_lines
from wgcc.syntax.grammar import grammar
from wgcc.syntax.parser import parse

WRONG = sorted((ROOT / "tests" / "filetests" / "syntax").glob("*.wg"))
LIBRARY = data_dir("grammar") / "std" / "nn.wg"
RIGHT = [LIBRARY, *sorted((ROOT / "examples").rglob("*.wg"))]

PROGRAM = """\
wg 1
/// About the file.
import A, B from "a.wg"
import "b.wg" as b
dim N = 4, M
dtype half = f16
const c: f32 = 0.5

/// A layer.
/// Second line.
layer Net[D, E](n: dim = 2, act: fn = relu, norm: "pre" or "post" = "pre") {
  frozen param w: f32[D, E] ~ normal(0.0, 0.02) when n > 1
  param v: f32[..] = 0.0
  state s: i32 = i32(0)
  fs[i in n]: b.Linear[D, D](bias = i == 0)

  /// Forward.
  fn forward[T](x: f32[.., T, D]) -> (y: f32[T], half[T]) {
    a, c = (x + 1.0) * -x ** 2, f(x, k = 3)
    h: f32[T] = x[0, .., 1 : -1, ::2, new, at +: N].sum(axis = -1)
    for i, f in fs { h = h |> f(i) }
    if not n == 2 and n < 3 or false { return h } else if n > 1 { return c, a }
    w[0] := if n > 1 then a else [1, (2, 3)]
    minimize h with opt(lr = 1e-3) over "a.*", "b"
    assert 0..3 == "x", "why"
    clear()
  }
  grad g, rest { return g }
}

model Main {
  seed = 1_000
  optimizer opt: adam { lr = 1e-3; group if axes < 2 { lr = 0.0 }; group "a", "b" { } }
  replace "base.*" with Lora(rank = 4)
  /// Runs.
  entry run(x: f32) -> (y: f32) with opt.ema = x
}

test "name" { assert true }
"""


def read(text: str, name: str = "t.wg") -> tuple[ast.File, Diagnostics]:
    diagnostics = Diagnostics()
    return parse(Source(name, text), diagnostics), diagnostics


def expression(text: str) -> ast.Expr:
    file, diagnostics = read(f"const x = {text}")
    assert not diagnostics.items, render_run(diagnostics)
    (item,) = file.items
    assert isinstance(item, ast.Const)
    return item.value


def pieces(node: object) -> Iterator[ast.Syntax]:
    """`node` and all that is below it."""
    if isinstance(node, tuple):
        for part in node:
            yield from pieces(part)
    elif isinstance(node, ast.Syntax):
        yield node
        for field in fields(node):
            yield from pieces(getattr(node, field.name))


def shown(node: object) -> str:
    """An expression with all its parentheses."""
    match node:
        case ast.Binary():
            return f"({shown(node.left)} {node.op} {shown(node.right)})"
        case ast.Unary():
            return f"({node.op} {shown(node.operand)})"
        case ast.Pipe():
            return f"({shown(node.value)} |> {shown(node.target)})"
        case ast.Range():
            return f"({shown(node.low)} .. {shown(node.high)})"
        case ast.IfExpr():
            parts = map(shown, (node.condition, node.then, node.otherwise))
            return f"(if {' '.join(parts)})"
        case ast.Syntax():
            return node.span.text
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("-a ** 2", "(- (a ** 2))"),
        ("a ** -b ** c", "(a ** (- (b ** c)))"),
        ("a @ b @ c", "((a @ b) @ c)"),
        ("not a == b and c or d", "(((not (a == b)) and c) or d)"),
        ("a |> f |> g(1)", "((a |> f) |> g(1))"),
        ("a or b |> f", "((a or b) |> f)"),
        ("0..n + 1", "(0 .. (n + 1))"),
        ("if a then b else c + d", "(if a b (c + d))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a.b(c)[d] + e", "(a.b(c)[d] + e)"),
    ],
)
def test_precedence(text: str, meaning: str) -> None:
    assert shown(expression(text)) == meaning


def test_spans_are_what_carets_underline() -> None:
    sum_ = expression("(aa + bb) * f( x )")
    assert isinstance(sum_, ast.Binary)
    assert sum_.span.text == "(aa + bb) * f( x )"
    assert sum_.op_span.text == "*"
    assert sum_.left.span.text == "aa + bb"
    assert sum_.right.span.text == "f( x )"


def test_every_construct_becomes_tree() -> None:
    file, diagnostics = read(PROGRAM)
    assert not diagnostics.items, render_run(diagnostics)
    kinds = {type(piece) for piece in pieces(file)}
    every = {
        kind
        for kind in vars(ast).values()
        if isinstance(kind, type) and issubclass(kind, ast.Syntax)
    }
    assert every - kinds == {ast.Syntax, ast.Broken}
    for piece in pieces(file):
        assert 0 <= piece.span.start < piece.span.end <= len(PROGRAM)


def test_spans_of_parts_are_inside_the_span_of_the_whole() -> None:
    file, _ = read(PROGRAM)
    for whole in pieces(file):
        for field in fields(whole):
            part = getattr(whole, field.name)
            if isinstance(part, ast.Syntax):
                assert whole.span.start <= part.span.start <= part.span.end <= whole.span.end


def test_doc_comments_are_attached() -> None:
    file, _ = read(PROGRAM)
    assert file.doc == "About the file."
    net, main = (item for item in file.items if isinstance(item, ast.Layer))
    assert (net.doc, main.doc) == ("A layer.\nSecond line.", "")
    functions = [m for layer in (net, main) for m in layer.members if isinstance(m, ast.Function)]
    assert [function.doc for function in functions] == ["Forward.", "Runs."]


def test_strings_and_numbers() -> None:
    quoted = expression(r'"a \"b\" \\ c"')
    assert isinstance(quoted, ast.String) and quoted.value == r'a "b" \ c'
    number = expression("1_000.5e-1")
    assert isinstance(number, ast.Float) and number.value == 100.05


@pytest.mark.parametrize(
    "text",
    [
        "x = a +\n  b",
        "x = a\n  + b",
        "x = a\n  |> f\n  |> g",
        "x = f(\n  a,\n  b\n)",
        "x =\n  a",
        "x = a\n  .f()",
        "if a\n{ x = 1 }\nelse\n{ x = 2 }",
        "x = 1; y = 2;",
        "\n\n  x = 1\n\n\n  y = 2\n\n",
    ],
)
def test_newlines_that_do_not_end_a_statement(text: str) -> None:
    file, diagnostics = read(f"fn f() {{ {text} }}")
    assert not diagnostics.items, render_run(diagnostics)
    assert len(file.items) == 1


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_correct_programs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for variant in (text, text.replace("\n", "\r\n"), "\ufeff" + text.replace("  ", "\t")):
        _, diagnostics = read(variant, path.name)
        assert not diagnostics.items, render_run(diagnostics)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_programs(path: Path, bless: bool) -> None:
    _, diagnostics = read(path.read_bytes().decode(), path.name)
    golden.check_text(path.with_suffix(".txt"), render_run(diagnostics, None) + "\n", bless)


def test_fixes_apply() -> None:
    """After applying the edits of a help, there is nothing to report."""
    text = "dim B = .5 && 'x' × 1. # c\nparm x = 3\n"
    for _ in range(10):
        _, diagnostics = read(text)
        edits = [edit for item in diagnostics for help_ in item.helps for edit in help_.edits]
        if not edits:
            break
        span, replacement = edits[0]
        text = text[: span.start] + replacement + text[span.end :]
    assert text.startswith('dim B = 0.5 and "x" * 1.0 // c')


def test_affected_lines_and_broken_names() -> None:
    text = "dim A = 1\ndim B = +\ndim C = f(\ndim D = 2\n"
    file, diagnostics = read(text)
    assert {line for item in diagnostics for line in affected_lines(item)} == {2, 3}
    broken = [item for item in file.items if isinstance(item, ast.Broken)]
    assert "B" in {name for item in broken for name in item.names}
    names = {d.name.text for item in file.items if isinstance(item, ast.Dims) for d in item.dims}
    assert {"A", "D"} <= names


def test_a_missing_value_keeps_its_place() -> None:
    file, diagnostics = read("const x = f(a, , b)\n")
    assert [item.message for item in diagnostics] == [
        "expected a value or `)` after `,`, found `,`"
    ]
    (item,) = file.items
    assert isinstance(item, ast.Const) and isinstance(item.value, ast.Call)
    kinds = [type(argument.value) for argument in item.value.arguments]
    assert kinds == [ast.Name, ast.Broken, ast.Name]


def test_a_doubtful_repair_is_not_relied_on() -> None:
    file, diagnostics = read("fn f() {\n  a, b = g h\n  c = a\n}\n")
    assert len(diagnostics.errors) == 1
    (function,) = file.items
    assert isinstance(function, ast.Function) and isinstance(function.body, ast.Block)
    broken, bind = function.body.statements
    assert isinstance(broken, ast.Broken) and {"a", "b"} <= set(broken.names)
    assert isinstance(bind, ast.Bind)


ODD = {
    "empty": "",
    "nothing but a comment": "// x",
    "NUL": "dim B\x00 = 3\n\x00",
    "surrogates": 'dim \udc80 = 3\nconst s = "\udfff"',
    "only closers": "}" * 3000,
    "only openers": "{" * 3000,
    "brackets": "([{)]}" * 500,
    "deep brackets": "const x = " + "(" * 5000 + "1" + ")" * 5000,
    "deep lists": "const x = " + "[" * 5000,
    "deep blocks": "fn f() {" + "if a {" * 400 + "}" * 401,
    "deep signs": "const x = " + "-" * 3000 + "1",
    "long sum": "const x = 1" + " + 1" * 3000,
    "long pipe": "const x = a" + " |> f" * 3000,
    "long power": "const x = " + "2 ** " * 3000 + "2",
    "long path": "const x = a" + ".b" * 3000,
    "long choice": "const x = " + "if a then b else " * 1000 + "c",
    "long else if": "fn f() { if a { } " + "else if a { } " * 1000 + "}",
    "long name": "dim " + "a" * 50_000 + " b",
    "long number": "const x = " + "9" * 5000,
    "words": "a b " * 5000,
    "lone CR": "dim A = 1\rdim B = 2",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_text_gives_errors_never_exceptions(text: str) -> None:
    _, diagnostics = read(text)
    render_run(diagnostics).encode()
    for item in diagnostics:
        item.as_json()


def calls_to_read(text: str) -> int:
    """How many functions are called, those of C included, to parse a text without mistakes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        _, diagnostics = read(text)
    finally:
        sys.setprofile(None)
    assert not diagnostics.items
    return calls


def test_work_grows_as_the_text_does() -> None:
    """A guard against quadratic time. Calls are counted: seconds depend on the machine."""
    layer = LIBRARY.read_text(encoding="utf-8").removeprefix("wg 1\n")
    grammar()
    once, many = calls_to_read(layer), calls_to_read(layer * 8)
    assert 7 * once < many < 9 * once


def mutant(text: str, chance: random.Random) -> str:
    """One token removed, doubled, replaced by another or swapped with its neighbour."""
    tokens = [t for t in grammar().lex(text) if t.type not in ("WS", "COMMENT", "_NL")]
    at = chance.randrange(len(tokens) - 1)
    token, following, other = tokens[at], tokens[at + 1], chance.choice(tokens).text
    changed = chance.choice(("", f"{other} {token.text}", other, following.text))
    if changed == following.text:
        between = text[token.end : following.start]
        return f"{text[: token.start]}{changed}{between}{token.text}{text[following.end :]}"
    return text[: token.start] + changed + text[token.end :]


def test_one_accident_gives_about_one_error() -> None:
    chance = random.Random(1)
    texts = [path.read_text(encoding="utf-8") for path in RIGHT]
    counts = []
    for _ in range(150):
        _, diagnostics = read(mutant(chance.choice(texts), chance))
        render_run(diagnostics)
        if diagnostics.errors:
            counts.append(len(diagnostics.errors))
    assert len(counts) > 75
    assert sum(counts) / len(counts) < 1.2
    assert counts.count(1) / len(counts) > 0.9


def test_many_accidents_never_raise() -> None:
    chance = random.Random(2)
    text = LIBRARY.read_text(encoding="utf-8")
    for _ in range(40):
        text = mutant(text, chance)
        _, diagnostics = read(text)
        render_run(diagnostics)


def test_random_characters_never_raise() -> None:
    chance = random.Random(3)
    alphabet = "ab1.\"'(){}[]:=,+-*/<>|&!#~@;\n\t é\x00\udc80fn dim"
    for _ in range(100):
        text = "".join(chance.choice(alphabet) for _ in range(chance.randrange(200)))
        _, diagnostics = read(text)
        render_run(diagnostics).encode()


def test_a_damaged_cache_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files.keep_cached("key", b"tables")
    assert files.read_cached("key") == b"tables"
    kept = tmp_path / "wgcc" / "key"
    kept.write_bytes(kept.read_bytes()[:-1])
    assert files.read_cached("key") is None
    assert files.read_cached("other") is None


def test_a_cache_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files.keep_cached("key", b"tables")
    (tmp_path / "wgcc").chmod(0o777)
    assert files.read_cached("key") is None


def test_no_cache_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    files.keep_cached("key", b"tables")
    assert files.read_cached("key") is None
