"""Functions whose body is in WGSL: `fn f(x: f32[..]) -> f32[..] = wgsl("f.wgsl")`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import wgcc
from wgcc.compiler import compile_file
from wgcc.elaborate import check
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.exporting.as_source import program_source
from wgcc.kernel.own.read import LONGEST, WrongWgsl, read_functions
from wgcc.passes.autograd import autograd

WGSL = """const RATE = 2.0;

// Bends the line x.
fn wiggle(x: f32) -> f32 {
  return x + 0.5 * bump(RATE * x);
}

fn bump(x: f32) -> f32 {
  return sin(x);
}

fn blend(a: f32, b: f32, share: f32) -> f32 {
  return mix(a, b, share);
}

fn parity(n: i32, flip: bool) -> bool {
  return (n % 2 == 0) != flip;
}
"""
FILES = {"parts/wiggle.wgsl": WGSL}
WIGGLE = """fn wiggle(x: float[..]) -> float[..] = wgsl("parts/wiggle.wgsl") grad g {
  return g * (1.0 + cos(2.0 * x))
}
"""
MODEL = (
    WIGGLE
    + """
model M {
  fc: Linear[3, 4]
  out: Linear[4, 1]
  optimizer opt: sgd { lr = 0.1 }
  fn forward[N](x: f32[N, 3]) -> f32[N, 1] = x |> fc |> wiggle |> out
  entry train(x: f32[8, 3], y: f32[8, 1]) -> (loss: f32) {
    loss = mse(forward(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[8, 3]) -> (y: f32[8, 1]) = forward(x)
}
"""
)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(8, 3)


def problems(text: str, wgsl: str = WGSL) -> list[str]:
    """`FILE:LINE MESSAGE` of every problem."""
    diagnostics = Diagnostics()
    source = Source("model.wg", text, files={"parts/wiggle.wgsl": wgsl})
    check(source, diagnostics, prepare=autograd)
    return [f"{item.span.place} {item.message}" for item in diagnostics]


def test_it_computes_and_has_the_gradient_that_is_stated() -> None:
    tests = """
fn blend(a: f32[..], b: f32[..], share: f32) -> f32[..] = wgsl("parts/wiggle.wgsl")
fn parity(n: i32[..], flip: bool) -> bool[..] = wgsl("parts/wiggle.wgsl")
fn other(x: f32[..]) -> f32[..] = wgsl("parts/wiggle.wgsl", "bump") grad g { return g * cos(x) }
fn by_result(x: f32[..]) -> f32[..] = wgsl("parts/wiggle.wgsl", "bump") grad g {
  return g * sqrt(1.0 - y * y)
}
test "values and gradients" {
  x = f32(arange(7)) / 3.0
  assert close(wiggle(x), x + 0.5 * sin(2.0 * x))
  assert grad_error(wiggle, x) < 1e-3
  assert grad_error(other, x) < 1e-3
  assert grad_error(by_result, x / 2.0) < 1e-3
  assert close(grad(sum(grad(sum(wiggle(x)), x)), x), -2.0 * sin(2.0 * x))
  assert close(blend(x, 0.0 * x + 1.0, 0.25), 0.75 * x + 0.25)
  assert close(blend(1.0, 3.0, 0.5), 2.0)
  assert all(parity(arange(3), true) == [false, true, false])
}
"""
    assert problems(WIGGLE + tests) == []


def test_a_wrong_gradient_is_noticed_by_a_test() -> None:
    test = 'test "gradient" {\n  assert grad_error(wiggle, ones(f32[3])) < 1e-3\n}\n'
    (problem,) = problems(WIGGLE.replace("cos", "sin") + test)
    assert "model.wg:5" in problem


def test_it_is_fused_and_shown_with_its_own_lines() -> None:
    compiled = compile_file(Source("model.wg", MODEL, files=FILES), entries=["predict"])
    texts = [t for n, t in compiled.runtime_files().items() if n.endswith(".wgsl")]
    (text,) = [text.decode() for text in texts if b"own_wiggle(" in text]
    assert "// Bends the line x.\n// parts/wiggle.wgsl:4\nfn own_wiggle(x: f32) -> f32 {" in text
    assert "fn finish(" in text, "it is computed where the product is stored"


@pytest.mark.parametrize("device", ["wasm", "llvmpipe"])
def test_training_follows_the_same_function_in_the_language(device: str) -> None:
    written = MODEL.replace('wgsl("parts/wiggle.wgsl")', "x + 0.5 * sin(2.0 * x)")
    losses = []
    for text, files in ((MODEL, FILES), (written, None)):
        model = wgcc.compile(text, files=files, device=device)
        losses.append([model.train(x=X, y=X[:, :1])["loss"] for _ in range(5)])
    assert np.allclose(*losses, rtol=1e-5)
    assert losses[0][4] < losses[0][0]


def test_any_number_of_rows() -> None:
    model = wgcc.compile(MODEL, files=FILES, device="wasm")
    assert np.array_equal(model.predict(x=X)["y"][:5], model.predict(x=X[:5])["y"])


def test_half_precision_and_bytes() -> None:
    text = """
fn wiggle(x: f16[..]) -> f16[..] = wgsl("w.wgsl")
fn add(x: i8[..], n: u8[..]) -> i8[..] = wgsl("w.wgsl")
model M {
  entry run(x: f16[4], n: i8[4]) -> (y: f16[4], n: i8[4]) {
    return wiggle(x), add(n, u8(200))
  }
}
"""
    wgsl = WGSL + "fn add(x: i32, n: u32) -> i32 { return x + i32(n); }\n"
    model = wgcc.compile(text.replace("u8(200)", "u8([200, 200, 200, 200])"),
                         files={"w.wgsl": wgsl}, device="wasm")  # fmt: skip
    x = np.asarray([0.1, 0.5, 1, 2], np.float16)
    result = model.run(x=x, n=np.asarray([1, 100, -3, 127], np.int8))
    assert np.allclose(result["y"], x + 0.5 * np.sin(2 * x.astype(np.float32)), atol=2e-3)
    assert list(result["n"]) == [-55, 44, -59, 71]


def test_in_the_body_of_a_scan_with_a_gradient() -> None:
    text = (
        WIGGLE
        + """
fn step(h: f32[3], x: f32[3]) -> (f32[3], f32[3]) {
  h = wiggle(0.5 * h + x)
  return h, h
}
fn plain(h: f32[3], x: f32[3]) -> (f32[3], f32[3]) {
  z = 0.5 * h + x
  h = z + 0.5 * sin(2.0 * z)
  return h, h
}
test "scan" {
  xs = reshape(f32(arange(12)), [4, 3]) / 7.0
  assert close(grad(sum(scan(step, zeros(f32[3]), xs)[1]), xs),
               grad(sum(scan(plain, zeros(f32[3]), xs)[1]), xs))
}
"""
    )
    assert problems(text) == []


def test_a_gradient_that_is_needed_and_not_stated() -> None:
    text = MODEL.replace(" grad g {\n  return g * (1.0 + cos(2.0 * x))\n}", "")
    with pytest.raises(WgError) as caught:
        compile_file(Source("model.wg", text, files=FILES))
    (problem,) = caught.value.diagnostics
    assert problem.message == "there is no gradient of `parts/wiggle.wgsl:wiggle`"
    assert problem.helps[0].text == "state it behind the function: `grad g { return ... }`"


def test_functions_of_imported_files_are_found_beside_those(tmp_path: Path) -> None:
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "lib" / "deep" / "bump.wgsl").write_text("fn f(x: f32) -> f32 { return 2.0 * x; }")
    (tmp_path / "bump.wgsl").write_text("fn f(x: f32) -> f32 { return x + 1.0; }")
    (tmp_path / "lib" / "parts.wg").write_text(
        'fn f(x: f32[..]) -> f32[..] = wgsl("deep/bump.wgsl")'
    )
    (tmp_path / "model.wg").write_text("""import "lib/parts.wg" as lib
fn f(x: f32[..]) -> f32[..] = wgsl("bump.wgsl")
model M { entry run(x: f32[4]) -> (y: f32[4]) = lib.f(f(x)) }
""")
    model = wgcc.compile(tmp_path / "model.wg", device="wasm")
    assert list(model.run(x=np.arange(4, dtype=np.float32))["y"]) == [2, 4, 6, 8]


def test_a_stage_is_printed_as_a_program_that_computes_the_same() -> None:
    compiled = compile_file(Source("model.wg", MODEL, files=FILES), entries=["predict"])
    text = program_source(compiled.program)
    assert 'fn own_wiggle(a: f32[..]) -> f32[..] = wgsl("parts/wiggle.wgsl", "wiggle")' in text
    assert problems(text) == []


def test_files_stay_inside_the_folder_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "secret.wgsl").write_text(WGSL)
    folder = tmp_path / "program"
    folder.mkdir()
    os.symlink(tmp_path / "secret.wgsl", folder / "link.wgsl")
    os.mkfifo(folder / "pipe.wgsl")
    (folder / "folder.wgsl").mkdir()
    (folder / "large.wgsl").write_text("//" + "x" * LONGEST)
    (folder / "plain.txt").write_text(WGSL)
    names = {
        "../secret.wgsl": "is outside the folder",
        "link.wgsl": "is outside the folder",
        str(tmp_path / "secret.wgsl"): "is outside the folder",
        "pipe.wgsl": "cannot read",
        "folder.wgsl": "cannot read",
        "missing.wgsl": "cannot read",
        "large.wgsl": "more than 64,000 characters",
        "plain.txt": "ends with .wgsl",
    }
    for name, expected in names.items():
        text = f'fn wiggle(x: f32[..]) -> f32[..] = wgsl("{name}")\n'
        diagnostics = Diagnostics()
        check(Source("model.wg", text, str(folder / "model.wg")), diagnostics)
        (problem,) = diagnostics
        assert expected in problem.message, name


def test_what_does_not_fit_is_said_at_its_place() -> None:
    cases = {
        "fn wiggle(x: i32[..]) -> f32[..] = {0}": "has f32 where `x` is i32",
        "fn wiggle(x: f32[..]) -> i32[..] = {0}": "gives f32, but `wiggle` gives i32",
        "fn wiggle(x: f32[..], z: f32[..]) -> f32[..] = {0}": "takes 1 argument, but",
        "fn wiggle(x: f32[..]) = {0}": "must declare one result",
        "fn wigle(x: f32[..]) -> f32[..] = {0}": "unknown function in",
        "fn wiggle(x: f32[..]) -> f32[..] = 2.0 * {0}": "is the whole body of a function",
        "fn wiggle(x: f32[..]) -> f32[..] { return {0} }": "is the whole body of a function",
        "model M { entry wiggle(x: f32[2]) -> (y: f32[2]) = {0} }": "is the whole body of",
        "fn wiggle(x: f32[..]) -> f32[..] = wgsl(3)": "takes names in quotes",
    }
    for text, expected in cases.items():
        (problem,) = problems(text.replace("{0}", 'wgsl("parts/wiggle.wgsl")') + "\n")
        assert problem.startswith("model.wg:1") and expected in problem, problem


F = "fn f(x: f32) -> f32 {"
HOSTILE = {
    f"{F}\n  return x + 1u;\n}}": (2, "do not go together"),
    f"{F}\n  return 1 / 0;\n}}": (2, "divides by zero"),
    f"{F}\n  let n = 4 / 0;\n  return x;\n}}": (2, "divides by zero"),
    f"{F}\n  while (x > 0.0) {{ }}\n  return x;\n}}": (2, "may run for ever"),
    f"{F}\n  for (var i = 0; i < 9; i -= 1) {{ }}\n  return x;\n}}": (2, "more than 4,096 times"),
    f"{F}\n  for (var i = 0; i < i32(x); i++) {{ }}\n  return x;\n}}": (2, "not known"),
    f"{F}\n  for (var i = 0; i < 9; i++) {{ i = 0; }}\n  return x;\n}}": (2, "counts the rounds"),
    f"{F}\n  return g(x);\n}}\nfn g(x: f32) -> f32 {{\n  return f(x);\n}}": (5, "calls itself"),
    f"{F}\n  if (x > 0.0) {{\n    return x;\n  }}\n}}": (1, "does not return in every case"),
    f"{F}\n  return x;\n  return 2.0;\n}}": (2, "nothing runs after this"),
    f"{F}\n  x = 2.0;\n  return x;\n}}": (2, "cannot be changed"),
    f"{F}\n  let class = 2.0;\n  return x;\n}}": (2, "cannot be a name"),
    f"{F}\n  let y = x;\n  if (x > 0.0) {{\n    let y = 1.0;\n  }}\n  return y;\n}}": (
        4,
        "already",
    ),
    f"{F}\n  return sqrt(-1.0);\n}}": (2, "has no value"),
    f"{F}\n  return 1e39;\n}}": (2, "beyond f32"),
    f"{F}\n  return f32(1u << 40u);\n}}": (2, "0 to 31 bits"),
    f"{F}\n  workgroupBarrier();\n  return x;\n}}": (2, "for whole kernels"),
    f"{F}\n  return vec2f(x, x).x;\n}}": (2, "scalars"),
    f"{F}\n  return unknown(x);\n}}": (2, "no function `unknown`"),
    f"{F}\n  return x\n}}": (3, "expected `;`"),
    f"{F}\n  /* x */ return x;\n}}": (2, "not supported"),
    f"{F}\n  return {'(' * 90}x{')' * 90};\n}}": (2, "nested more than"),
    f"{F}\n  return {'- ' * 9000}x;\n}}": (1, "nested"),
    f"{F}\n  return x{'+ x' * 900};\n}}": (2, "nested more than"),
    f"{F}\n{'  if (x>0.0) { if (x>1.0) { return x; } }' * 40}\n  return x;\n}}": (1, "operations"),
    "var<private> memory: f32;\n": (1, "no memory"),
    "@group(0) @binding(0) var<storage> x: array<f32>;": (1, "attributes"),
    "@compute @workgroup_size(1) fn main() { }": (1, "attributes"),
    "fn f(p: ptr<function, f32>) -> f32 { return 1.0; }": (1, ""),
    "fn f(x: vec4f) -> f32 { return 1.0; }": (1, "scalars"),
    "fn f(x: f32) -> f16 { return 1.0; }": (1, "scalars"),
    "fn f(x: f32) { }": (1, "returns nothing"),
    "struct S { x: f32 }": (1, "structs"),
    "": (1, "no function"),
    "\0\ud800": (1, "is not WGSL"),
}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: HOSTILE[text][1] or "other")
def test_a_hostile_file_is_refused_at_its_line(text: str) -> None:
    line, message = HOSTILE[text]
    with pytest.raises(WrongWgsl) as caught:
        read_functions(text, "f.wgsl", lambda name: f"own_{name}")
    assert message in caught.value.message
    assert text.count("\n", 0, caught.value.start) + 1 == line


def test_calls_that_double_are_refused_before_they_are_inlined() -> None:
    text = "fn g0(x: f32) -> f32 { return x + 1.0; }\n"
    for n in range(40):
        text += f"fn g{n + 1}(x: f32) -> f32 {{ return g{n}(x) + g{n}(x); }}\n"
    with pytest.raises(WrongWgsl, match="operations"):
        read_functions(text, "f.wgsl", lambda name: f"own_{name}")
