"""What `scan` refuses, at the line of the mistake, and loops that should be a `scan`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from elaborated import problems
from wgcc.compiler import compile_file
from wgcc.errors import WgError

MISTAKES = """
dim T = 4, B = 2, D = 3, H = 5
fn grows(s: f32[D], x: f32[D]) { return concat([s, x], axis = 0), x }
fn turns(s: f32[D], x: f32[D]) { return i32(s), x }
fn loses(s: (f32[D], f32), x: f32[D]) { return s[0], x }
fn alone(s: f32[D], x: f32[D]) { return s + x }
fn three(s: f32[D], x: f32[D]) { return s, x, x }
fn plain(s: f32[D], x: f32[D]) { return s, x }
fn plain1(s: f32, x: i32) { return s, s }
model M {
  param w: f32[D] = 0.0
  net: Linear[D, D]
  optimizer opt: sgd { lr = 0.1 }
  fn trains(s: f32[D], x: f32[D]) {
    minimize sum(w * x) with opt
    return s, x
  }
  entry run(s: f32[D], xs: f32[T, D], ys: f32[B, D]) -> (y: f32[D]) {
    y, _ = CALL
    return y
  }
}
"""
WRONG = {
    "scan(grows, s, xs)": "the state of `scan` is f32[D], but a round makes it f32[2*D]",
    "scan(turns, s, xs)": "the state of `scan` is f32[D], but a round makes it i32[D]",
    "scan(loses, (s, 0.0), xs)": "is (f32[D], f32), but a round makes it f32[D]",
    "scan(alone, s, xs)": "returns the next state and a result, but this is f32[D]",
    "scan(three, s, xs)": "a result, but this is (f32[D], f32[D], f32[D])",
    "scan(w, s, xs)": "calls a layer or function in each round, but this is a tensor f32[D]",
    "scan(Linear, s, xs)": "in each round, but this is the layer type Linear",
    "scan(plain, s, 1.5)": "`scan` runs along an axis of `xs`, but this is a scalar f32",
    "scan(plain, s, xs, axis = 2)": "axis 2 is outside f32[T, D]",
    "scan(plain, s, (xs, ys))": "the rounds of `scan` differ: T = 4, B = 2",
    "scan(plain1, 0.0, 3..3)": "`scan` needs at least one round, but this range is empty",
    "scan(plain, s, xs, reverse = 1)": "`reverse` must be `true` or `false`",
    "scan(plain, net, xs)": "`init` must be a tensor, but this is a Linear layer",
    "scan(trains, s, xs)": "`minimize` may only be used directly in an entry",
    "scan(net, s, xs)": "`Linear` takes 1 argument, but 2 were given",
}


@pytest.mark.parametrize("call", WRONG)
def test_what_cannot_be_done_is_refused_at_its_line(call: str) -> None:
    text = MISTAKES.replace("CALL", call)
    found = [item for item in problems(text) if not item.startswith("WG09")]
    assert found and WRONG[call] in found[0], found
    line = 1 + text[: text.index(call)].count("\n")
    at = 1 + text[: text.index("minimize")].count("\n") if "trains" in call else line
    assert found[0].split()[1] == str(at)


LARGE = """
dim N = 64, D = 12288
fn step(x: f32[N, D], t: i32) -> (f32[N, D], f32[N, D]) { return 0.9 * x + f32(t), x }
model M {
  entry run(x: f32[N, D]) -> (y: f32[N, D]) {
    y, ys = scan(step, x, 100)
    return USED
  }
}
"""


def test_results_that_are_not_used_are_not_stored(tmp_path: Path) -> None:
    """All rounds of them would be larger than WebGPU's default limits allow."""
    path = tmp_path / "large.wg"
    path.write_text(LARGE.replace("USED", "y"), encoding="utf-8")
    compile_file(path, twin=False, limits="default")
    path.write_text(LARGE.replace("USED", "y + ys[7]"), encoding="utf-8")
    with pytest.raises(WgError) as caught:
        compile_file(path, twin=False, limits="default")
    assert {item.code for item in caught.value.diagnostics} == {"WG1001"}


def test_an_error_in_a_body_is_reported_once() -> None:
    text = MISTAKES.replace("return s + x }", "if sum(x) > 0.0 { return s, x } }")
    (found,) = [p for p in problems(text.replace("CALL", "scan(alone, s, xs)")) if "WG09" not in p]
    assert "this condition must be known at compile time" in found


MANY = """
model M {
  parts[70]: Linear[2, 2]
  entry run(x: f32[2], xs: f32[70, 2]) -> (y: f32[2]) {
    y = x
    for t in 0..COUNT { y = tanh(y + xs[t]) }
    for part in parts { y = part(y) }
    for t in 0..70 { if t % 2 == 0 { y = y + xs[t] } }
    return y
  }
}
"""


def test_a_loop_of_many_equal_rounds_is_a_warning() -> None:
    assert problems(MANY.replace("COUNT", "64")) == []
    (found,) = problems(MANY.replace("COUNT", "65"))
    assert found == "WG0905 6 this loop is unrolled: the program has 65 copies of its body"


def test_a_body_that_nothing_uses_is_checked() -> None:
    text = "fn f(s: f32, x: f32) { return s + x, x }\nfn g[N](x: f32[N]) { return scan(f, 0, x) }\n"
    (found, *_) = problems(text + "model M { entry run() -> (y: f32) { return 1.0 } }\n")
    assert re.search("argument `s` of `f` must be f32, but this is i32", found), found
