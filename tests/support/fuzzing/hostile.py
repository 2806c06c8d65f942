"""Texts as large as a program may be, made to cost the compiler much time or memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from wgcc.files import LARGEST_TEXT
from wgcc.syntax.grammar import grammar
from wgcc.syntax.parser import MOST_TOKENS

Text = Callable[[], str]

SUM = " + ".join(f"d{i}" for i in range(60))

BODY = "entry f(x: f32[4]) -> (y: f32[4])"


def filled(piece: str, before: str = "", after: str = "") -> str:
    """`piece` repeated up to the largest size of a program."""
    room = LARGEST_TEXT - len((before + after).encode())
    return before + piece * (room // len(piece.encode())) + after


def readable(piece: str, before: str = "", after: str = "") -> str:
    """The same, repeated only as often as the parser reads all of it."""
    return numbered(lambda _: piece, before, after)


def numbered(make: Callable[[int], str], before: str = "", after: str = "") -> str:
    """As many pieces as are read; they may all differ."""
    around = len(grammar().lex(before + after))
    tokens = max(1, len(grammar().lex(make(10**5))))
    room = LARGEST_TEXT - len((before + after).encode())
    count = min((MOST_TOKENS - around - 8) // tokens, room // len(make(10**5).encode()))
    return before + "".join(map(make, range(count))) + after


def model(body: str) -> str:
    return f"model M {{\n  {BODY} {{\n{body}\n    return x\n  }}\n}}\n"


def in_model(piece: str) -> str:
    return readable(piece, f"model M {{\n  {BODY} {{\n", "\n    return x\n  }\n}\n")


def in_members(make: Callable[[int], str]) -> str:
    return numbered(make, "model M {\n", f"{BODY} = x }}\n")


def selecting(selector: str) -> str:
    """As many parameters as groups, each of which selects some of them."""
    count = MOST_TOKENS // 17
    params = "".join(f"param {'w' * 55}{i}: f32 = 0.0\n" for i in range(count))
    groups = "".join(f'group "{selector.format(i)}" {{ lr_scale = 0.5 }}\n' for i in range(count))
    return f"model M {{\n{params}optimizer o: sgd {{ lr = 0.1\n{groups}}}\n{BODY} = x }}\n"


# One sign or word repeated.
PIECES = {
    "blank lines": "\n",
    "lines of spaces": "        \n",
    "spaces": " ",
    "tabs": "\t",
    "carriage returns": "\r",
    "semicolons": ";",
    "semicolons and lines": ";\n",
    "comments": "//\n",
    "doc comments": "/// a\n",
    "hashes": "#\n",
    "one hash": "#",
    "quotes": '"',
    "unclosed strings": '"\n',
    "single quotes": "'",
    "curly quotes": "“",
    "backslashes": "\\",
    "question marks": "?",
    "question mark lines": "?\n",
    "NUL": "\x00",
    "byte order marks": "\ufeff",
    "snowmen": "☃",
    "long foreign word": "é",
    "foreign words": "é ",
    "emoji": "😀\n",
    "accents": "e\u0301",
    "open parentheses": "(",
    "open brackets": "[",
    "open braces": "{",
    "closing parentheses": ")",
    "closing braces": "}",
    "brackets of all kinds": "([{",
    "wrong brackets": "(]",
    "braces on lines": "{\n",
    "closing braces on lines": "}\n",
    "minus": "-",
    "stars": "*",
    "dots": ".",
    "members": "a.",
    "commas": ",",
    "colons": ":\n",
    "equals": "=",
    "names": "a ",
    "name": "a",
    "names on lines": "a\n",
    "two names": "foo bar\n",
    "digits": "1",
    "floats": "1.",
    "numbers": "1 ",
    "fn": "fn ",
    "layers without end": "layer L {\n",
    "fn without end": "fn f(\n",
    "model": "model\n",
    "def": "def f():\n  x = 1\n",
    "if": "if ",
    "else": "else\n",
    "if blocks": "if x:\n",
    "imports": 'import A from "b.wg"\n',
    "import itself": 'import A from "model.wg"\n',
    "dim": "dim D = 4\n",
    "assert": "assert 1 == 1\n",
    "wrong assert": "assert 1 == 2\n",
    "divided by nothing": "const c = 1 / 0\n",
}
REPEATED: dict[str, Text] = {name: partial(filled, piece) for name, piece in PIECES.items()}

READABLE: dict[str, Text] = {
    f"{name}, all read": partial(readable, piece) for name, piece in PIECES.items()
}

# One construct of the largest size.
CONSTRUCTS: dict[str, tuple[str, str, str]] = {
    "long string": ("a", 'const c = "', '"\n'),
    "long unclosed string": ("a", 'const c = "', "\n"),
    "escapes": ("\\a", 'const c = "', '"\n'),
    "long comment": ("a", "// ", "\n"),
    "long name": ("a", "const ", " = 1\n"),
    "long number": ("1", "const c = ", "\n"),
    "long fraction": ("1", "const c = 0.", "\n"),
    "long exponent": ("1", "const c = 1e", "\n"),
    "long list": ("1,", "const c = [", "1]\n"),
    "list of lists": ("[1],", "const c = [", "1]\n"),
    "long sum": ("1+", "const c = ", "1\n"),
    "long difference": ("-", "const c = ", "1\n"),
    "not not not": ("not ", "const c = ", "true\n"),
    "long power": ("1**", "const c = ", "1\n"),
    "long chain of members": ("a.", "const c = ", "a\n"),
    "long chain of calls": ("()", "const c = a", "\n"),
    "long chain of indices": ("[0]", "const c = a", "\n"),
    "long pipe": ("|>f", "const c = a", "\n"),
    "long choice": ("if true then 1 else ", "const c = ", "1\n"),
    "else if": ("else if true {}", f"model M {{ {BODY} {{ if true {{}}", "\nreturn x } }"),
    "long argument list": ("x: f32,", "fn f(", "x: f32) -> f32 = x\n"),
    "long size list": ("N,", "fn f[", "N](x: f32) -> f32 = x\n"),
    "long shape": ("1,", "model M { entry f(x: f32[", "1]) -> (y: f32) = sum(x) }\n"),
    "long pattern": ("a ", f'model M {{ {BODY} = rearrange(x, "', '-> a") }\n'),
    "long einsum": ("a,", f'model M {{ {BODY} = einsum("', 'a -> a", x) }\n'),
    "long selector": (
        "*a", 'model M { param w: f32[4] = 0.0\n optimizer o: sgd { lr = 0.1\n group "',
        f'b" {{ lr = 0.0 }} }}\n {BODY} = x }}\n'),
    "long vocabulary": ("a", 'model M { vocab = "', f'"\n {BODY} = x }}\n'),
    "long document": ("a", "/// ", f"\nmodel M {{ {BODY} = x }}\n"),
}  # fmt: skip
LARGE: dict[str, Text] = {
    **{name: partial(filled, *parts) for name, parts in CONSTRUCTS.items()},
    **{f"{name}, all read": partial(readable, *parts) for name, parts in CONSTRUCTS.items()},
    "two long names": lambda: f"const {'a' * 1_900_000} = {'a' * 1_900_000}b\n",
    "deep parentheses": lambda: "const c = " + "(" * 1_900_000 + "1" + ")" * 1_900_000,
    "deep blocks": lambda: model("if true { " * 200_000 + "y = x" + " }" * 200_000),
    "deep mistakes": lambda: model("if true { " * 300 + "y = = x; " * 100_000 + " }" * 300),
    "one accident at the start": lambda: "model ) {\n" + in_model("    y = tanh(x)\n")[9:],
}  # fmt: skip

# Many small items.
MANY: dict[str, Text] = {
    "constants": lambda: numbered(lambda i: f"const c{i} = {i}\n"),
    "unknown names": lambda: numbered(lambda i: f"const c{i} = d{i}\n"),
    "sizes": lambda: numbered(lambda i: f"dim d{i} = {i + 1}\n"),
    "sizes of sizes": lambda: numbered(lambda i: f"dim d{i + 1} = d{i} + 1\n", "dim d0 = 1\n"),
    "functions": lambda: numbered(lambda i: f"fn f{i}(x: f32[4]) -> f32[4] = x\n"),
    "functions that call": lambda: numbered(
        lambda i: f"fn f{i + 1}(x: f32) -> f32 = f{i}(x)\n", "fn f0(x: f32) -> f32 = x\n"),
    "wrong functions": lambda: numbered(lambda i: f"fn f{i}(x: f32[4]) -> f32[5] = x\n"),
    "layers": lambda: numbered(lambda i: f"layer L{i} {{ param w: f32[4] = 0.0 }}\n"),
    "layers in layers": lambda: numbered(
        lambda i: f"layer L{i + 1} {{ a: L{i}\n b: L{i} }}\n", "layer L0 { param w: f32 = 0.0 }\n"),
    "models": lambda: numbered(lambda i: f"model M{i} {{ {BODY} = x + {i}.0 }}\n"),
    "small models": lambda: numbered(lambda i: f"model M{i} {{}}\n"),
    "wrong models": lambda: numbered(lambda i: f"model M{i} {{ {BODY} = y }}\n"),
    "entries": lambda: numbered(
        lambda i: f"entry f{i}(x: f32[4]) -> (y: f32[4]) = x + {i}.0\n", "model M {\n", "}\n"),
    "parameters": lambda: in_members(lambda i: f"param w{i}: f32[4] = 0.0\n"),
    "states": lambda: in_members(lambda i: f"state s{i}: f32[4] = 0.0\n"),
    "members": lambda: in_members(lambda i: f"l{i}: Linear[4, 4]\n"),
    "optimizers": lambda: in_members(lambda i: f"optimizer o{i}: sgd {{ lr = 0.1 }}\n"),
    "groups": lambda: numbered(
        lambda i: f'group "w{i}" {{ lr = 0.0 }}\n',
        "model M { optimizer o: sgd { lr = 0.1\n", "} }\n"),
    "selectors": lambda: selecting("*w{}*"),
    "wrong selectors": lambda: selecting("v" * 55 + "{}"),
    "replaced layers": lambda: numbered(
        lambda i: f'replace "*l{i}*x" with Linear[4, 4]\nl{i}: Linear[4, 4]\n',
        "model M {\n", f"{BODY} = x }}\n"),
    "tests": lambda: numbered(lambda i: f'test "t{i}" {{ assert sum(ones(f32[4])) == 4.0 }}\n'),
    "wrong tests": lambda: numbered(
        lambda i: f'test "t{i}" {{ assert sum(ones(f32[4])) == 5.0 }}\n'),
    "statements": lambda: in_model("    x = x + x\n"),
    "many statements of one": lambda: in_model("x=-x;"),
    "calls": lambda: in_model("    x = tanh(x)\n"),
    "wrong statements": lambda: in_model("    x = x[9]\n"),
    "results not used": lambda: in_model("    tanh(x)\n"),
    "rebound names": lambda: numbered(
        lambda i: f"    y{i} = x\n", f"model M {{ {BODY} {{\n", "return x } }\n"),
    "writes": lambda: in_model("    s := x\n").replace(
        "model M {", "model M { state s: f32[4] = 0.0"),
    "lists of layers": lambda: f"model M {{ ls[99999]: Linear[4, 4]\n {BODY} = x }}\n",
}  # fmt: skip

TRAINED = """
model M {{
  param w: f32[4, 4] = 0.5
  optimizer opt: adam {{ lr = 0.1 }}
  entry f(x: f32[4, 4]) -> (y: f32) {{
    for i in 0..{rounds} {{ {body}; {body}; {body}; {body}; {body}; {body}; {body}; {body} }}
    y = sum(x)
    minimize y with opt
    return y
  }}
}}
"""

# Short text that requires much work.
UNROLLED: dict[str, Text] = {
    "loops of statements": lambda: model(
        "    for i in 0..4096 {\n" + "      y = 1\n" * 20_000 + "    }"),
    "loops of sums": lambda: model("    for i in 0..4096 {\n y = " + "1 + " * 120_000 + "1\n    }"),
    "loops of operations": lambda: model(
        "    for i in 0..4096 { for j in 0..4 { x = tanh(x) + x } }"),
    "loops of products": lambda: (
        "model M { param w: f32[4, 4] = 0.5\n optimizer opt: adam { lr = 0.1 }\n"
        " entry f(x: f32[4, 4]) -> (y: f32) {\n for i in 0..4096 { for j in 0..4 {"
        " x = tanh(x @ w) + x } }\n y = sum(x)\n minimize y with opt\n return y } }"),
    "as many operations as are traced": lambda: model(
        "    for i in 0..950 {" + " x = tanh(x) + x;" * 15 + " }"),
    "as many products as are traced": lambda: model(
        "    for i in 0..900 {" + " x = (x[new] @ w)[0];" * 8 + " }"
        ).replace("model M {", "model M { param w: f32[4, 4] = 0.5"),
    "as many gradients as are traced": lambda: TRAINED.format(
        rounds=950, body="x = tanh(x @ w) + x"
    ),
    "as many gradients as are scheduled": lambda: TRAINED.format(
        rounds=130, body="x = tanh(x @ w) + x"),
    "chains of lookups": lambda: (
        "model M { param e: f32[9, 4] = 0.5\n entry f(i: i32, x: f32[4]) -> (y: f32[4]) {\n"
        " for k in 0..950 {" + " i = i + 1; x = x + e[i];" * 4 + " }\n return x } }"),
    "chains of joined indices": lambda: (
        "model M { param e: f32[9, 4] = 0.5\n entry f(i: i32[4]) -> (y: f32[4, 4]) {\n"
        " for k in 0..950 {" + " i = concat([i[0:2] + 1, i[2:4]], axis = 0);" * 4
        + " }\n return gather(e, i) } }"),
    "chains of conditions": lambda: (
        "model M { param e: f32[9, 4] = 0.5\n entry f(i: i32) -> (y: f32[4]) {\n c = i > 0\n"
        " for k in 0..950 {" + " c = c and c; i = where(c, i, 0);" * 4 + " }\n return e[i] } }"),
    "loops over numbers": lambda: model(
        "".join(f"for {n} in ({'1, ' * 9}1) {{ " for n in "abcdefg") + "x = -x" + " }" * 7),
    "calls of calls": lambda: "fn f0(x: f32) -> f32 = x\n" + "".join(
        f"fn f{i + 1}(x: f32) -> f32 = f{i}(x) + f{i}(x)\n" for i in range(60))
        + "model M { entry f(x: f32) -> (y: f32) = f60(x) }",
    "layers of parameters": lambda: (
        "layer L {\n" + "\n".join(f"param w{i}: f32[4] = 0.0" for i in range(20_000))
        + "\n}\nmodel M { ls[1000]: L\n entry f(x: f32) -> (y: f32) = x }"),
    "layers of layers": lambda: "layer L0 { param w: f32 = 0.0 }\n" + "".join(
        f"layer L{i + 1} {{ ls[9]: L{i} }}\n" for i in range(9))
        + "model M { l: L9\n entry f(x: f32) -> (y: f32) = x }",
    "products in a test": lambda: 'test "t" { x = ones(f32[4000, 4000])\n'
        + "assert sum(x @ x @ x) > 0.0\n" * 4000 + "}",
    "products in many tests": lambda: numbered(
        lambda i: f'test "t{i}" {{ x = ones(f32[120, 120])\n assert sum(x @ x) > 0.0 }}\n'),
    "memory in a test": lambda: 'test "t" { assert ' + " and ".join(
        f"sum(ones(f32[5000, 6000]) * {i}.0) > 0.0" for i in range(40)) + " }",
    "loop in a test": lambda: 'test "t" { x = ones(f32[200, 200])\n'
        " for i in 0..4000 { x = x @ x }\n assert sum(x) > 0.0 }",
    "windows in a test": lambda: 'test "t" { assert sum(conv2d(ones(f32[1, 600, 600, 1]), '
        "ones(f32[250, 250, 1, 1]))) > 0.0 }",
    "scan in a test": lambda: 'test "t" { x = ones(f32[5000, 5000])\n'
        " assert sum(cumsum(x, axis = 0)) > 0.0 }",
    "states in a test": lambda: 'test "t" { u = ones(f32[8, 40000, 16])\n'
        " assert sum(selective_scan(u, u, ones(f32[16, 16]), u, u)) > 0.0 }",
    "parameters in a test": lambda: 'layer L { param w: f32[5000, 5000] ~ orthogonal()\n'
        ' fn forward() -> f32 = sum(w) }\ntest "t" { assert L()() > 0.0 }',
    "products in a first value": lambda: "model M {\n" + "\n".join(
        f"param w{i}: f32 = sum(ones(f32[4000, 4000]) @ ones(f32[4000, 4000]))" for i in range(99))
        + "\nentry f() -> (y: f32) = w0 }",
    "large initial values": lambda: "model M {\n" + "\n".join(
        f"param w{i}: f32[4000, 4000] = ones(f32[4000, 4000]) * 2.0" for i in range(99))
        + "\nentry f() -> (y: f32) = sum(w0) }",
    "products of constants": lambda: "model M { entry f() -> (y: f32) {\n" + "\n".join(
        f"y{i} = sum(ones(f32[4000, 4000]) @ ones(f32[4000, 4000]))" for i in range(99))
        + "\nreturn y0 } }",
    "constant chain": lambda: "model M { entry f(z: f32) -> (y: f32) {\n x = ones(f32[1000])\n"
        + " for i in 0..4000 { x = tanh(x) }\n return sum(x) + z } }",
    "huge shapes": lambda: "model M { entry f() -> (y: f32) =" +
        " sum(zeros(f32[999999999, 999999999])) }",
    "many axes": lambda: f"model M {{ entry f() -> (y: f32) = sum(zeros(f32[{'1, ' * 9999}1])) }}",
    "powers of sizes": lambda: "dim D = 7\n" + "".join(
        f"dim E{i} = (D + {i}) ** 20 / (D + {i}) ** 19\n" for i in range(20_000)),
    "large polynomials": lambda: "".join(f"dim d{i} = {i + 2}\n" for i in range(200)) + "".join(
        f"dim e{i} = ({SUM}) * ({SUM})\n" for i in range(400)),
}  # fmt: skip

TEXTS: dict[str, Text] = {**REPEATED, **READABLE, **LARGE, **MANY, **UNROLLED}
