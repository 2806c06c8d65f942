"""A part of the fuzzing of the compiler, and texts that are hard for it.

`python tests/reliability fuzz 200000` runs much more.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzzing.corpus import make_text
from fuzzing.judge import judge
from wgcc.cli import main

# What the command prints instead of a traceback.
BUG = re.compile("Traceback|internal error")
FIRST, BATCHES, EACH = 1_000_000, 12, 50


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_texts_are_answered(batch: int) -> None:
    for seed in range(FIRST + batch * EACH, FIRST + (batch + 1) * EACH):
        verdict = judge(make_text(seed), build=seed % 10 == 0)
        assert not verdict.problem, f"seed {seed}: {verdict.problem}"


def test_a_seed_gives_one_text() -> None:
    assert [make_text(seed) for seed in range(16)] == [make_text(seed) for seed in range(16)]


def model(body: str, before: str = "") -> str:
    return f"{before}\nmodel M {{\n  entry f(x: f32[4]) -> (y: f32[4]) {{\n{body}\n  }}\n}}\n"


LONG_CHAIN = "\n".join(["    y = x", *["    y = tanh(y) + x"] * 3000, "    return y"])
HARD = {
    "huge dim": model("    return x", "dim N = 99999999999\ndim M2 = N * N * N"),
    "huge tensor": "model M { param w: f32[65536, 65536] = 0.0\n entry f() -> (y: f32) = sum(w) }",
    "huge product": "model M { param w: f32[4294967296, 4294967296] = 0.0\n"
    " entry f() -> (y: f32) = sum(w) }",
    "tower": "const x = 2 ** 2 ** 2 ** 2 ** 2 ** 2",
    "huge broadcast": model("    return zeros(f32[1000000, 1000000, 4]) |> sum(axis = (0, 1))"),
    "many lists": "layer L { param w: f32[2] = 0.0 fn forward(x: f32[2]) -> f32[2] = x }\n"
    "model M { ls[99999999]: L\n entry f(x: f32[2]) -> (y: f32[2]) = x }",
    "endless loop": model("    for i in 0..999999999 { x = x + 1.0 }\n    return x"),
    "nested loops": model(
        "    for i in 0..99 { for j in 0..99 { for k in 0..99 { x = x + 1.0 } } }\n    return x"
    ),
    "recursion": "fn f(x: f32) -> f32 = g(x)\nfn g(x: f32) -> f32 = f(x)\n"
    "model M { entry e(x: f32) -> (y: f32) = f(x) }",
    "layer in itself": "layer L { inner: L\n fn forward(x: f32) -> f32 = inner(x) }\n"
    "model M { l: L\n entry e(x: f32) -> (y: f32) = l(x) }",
    "long chain": model(LONG_CHAIN),
    "10,000 lines": "\n".join(f"const c{i} = {i} + c{i - 1}" if i else "const c0 = 0"
                              for i in range(10_000)),
    "10,000 mistakes": "\n".join(f"dim d{i} = (" for i in range(10_000)),
    "10,000 unknown names": "\n".join(f"const c{i} = nothing{i}" for i in range(10_000)),
    "deep parentheses": model(f"    return {'(' * 2000}x{')' * 2000}"),
    "deep calls": model(f"    return {'tanh(' * 2000}x{')' * 2000}"),
    "deep blocks": model(f"    {'if true { ' * 500}y = x{' }' * 500}\n    return x"),
    "names of JavaScript": "model constructor {\n  param __proto__: f32[2] = 0.0\n"
    "  state prototype: f32 = 0.0\n  entry toString(hasOwnProperty: f32[2]) -> (valueOf: f32[2])"
    " = hasOwnProperty + __proto__ }",
    "words of WGSL": "model array {\n  param var: f32[2] = 0.0\n"
    "  entry main(vec3f: f32[2], let_: f32) -> (discard: f32[2]) {\n"
    " loop = vec3f * let_\n override = loop + var\n return override } }",
    "same name twice": "model M { param w: f32 = 0.0\n param w: f32 = 0.0\n"
    " entry w() -> (w: f32) = w }",
    "NUL": model("    return x\x00"),
    "lone surrogate": model('    return x // \udc80'),
    "bidi": model("    y\u202e = x\n    return y"),
    "byte order marks": "\ufeff" * 50 + model("    return x"),
    "only zeros": "\x00" * 5000,
    "long line": f"const c = [{', '.join(['1'] * 20_000)}]",
    "long string": f'assert "{"a" * 200_000}" == ""',
    "einsum of all letters": model(f'    return einsum("{" ".join("abcdefghijklmnop")} -> a", x)'),
    "many sizes": f"fn f[{', '.join(f'N{i}' for i in range(500))}](x: f32) -> f32 = x",
    "division by zero": "dim N = 4 / 0\nconst c = 1.0 / 0.0\nconst d = 5 % 0",
    "infinite seed": "model M { seed = 1e400\n entry f(x: f32) -> (y: f32) = x * inf }",
    "negative sizes": model("    return zeros(f32[-4])"),
    "zero sizes": model("    return concat([x, zeros(f32[0])], axis = 0)"),
    "20 axes": f"model M {{ entry f(x: f32[{', '.join('1' * 20)}]) -> (y: f32) = sum(x) }}",
    "3,000 parameters": "layer L { param w: f32[2] = 0.0\n"
    " fn forward(x: f32[2]) -> f32[2] = x + w }\nmodel M { ls[3000]: L\n"
    " entry f(x: f32[2]) -> (y: f32[2]) { for l in ls { x = l(x) }\n return x } }",
    "one entry of 300 outputs": "model M { entry f(x: f32[8]) -> ("
    + ", ".join(f"y{i}: f32[8]" for i in range(300)) + ") { return "
    + ", ".join(["x"] * 300) + " } }",
    "300 inputs": "model M { entry f(" + ", ".join(f"x{i}: f32[8]" for i in range(300))
    + ") -> (y: f32[8]) = x1 + x2 }",
}  # fmt: skip


@pytest.mark.parametrize("text", HARD.values(), ids=HARD.keys())
def test_hard_texts_are_answered(text: str) -> None:
    verdict = judge(text, build=True)
    assert not verdict.problem, verdict.problem


FILES = {
    "utf-16": "dim N = 4\n".encode("utf-16"),
    "latin-1": "// caf\xe9\ndim N = 4\n".encode("latin-1"),
    "binary": bytes(range(256)) * 40,
    "empty": b"",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(500),
    "long": b"dim N = 4 // " + b"a" * (20 << 20),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_programs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.wg"
    path.write_bytes(FILES[name])
    assert main(["check", str(path)]) in (0, 1)
    assert not BUG.search(capsys.readouterr().err)


LOOPS = {
    "itself": {"model.wg": 'import A from "model.wg"\n'},
    "two": {"model.wg": 'import A from "b.wg"\n', "b.wg": 'import B from "model.wg"\n'},
    "outside": {"model.wg": 'import A from "../../etc/passwd"\n'},
    "absolute": {"model.wg": 'import A from "/etc/passwd"\n'},
    "a folder": {"model.wg": 'import A from "."\n'},
    "nothing": {"model.wg": 'import A from ""\n'},
    "address": {"model.wg": 'import A from "https://example.org/a.wg"\n'},
    "long": {"model.wg": f'import A from "{"a" * 5000}.wg"\n'},
    "NUL": {"model.wg": 'import A from "a\x00b.wg"\n'},
    "a cycle of links": {"model.wg": 'import A from "cycle.wg"\n'},
    "300 in a row": {
        **{f"m{i}.wg": f'import "m{i + 1}.wg" as next\n' for i in range(300)},
        "m300.wg": "dim N = 1\n",
        "model.wg": 'import "m0.wg" as first\n',
    },
}


@pytest.mark.parametrize("name", LOOPS)
def test_imports_that_lead_nowhere(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, text in LOOPS[name].items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    (tmp_path / "cycle.wg").symlink_to(tmp_path / "cycle.wg")
    assert main(["check", str(tmp_path / "model.wg")]) == 1
    assert not BUG.search(capsys.readouterr().err)
