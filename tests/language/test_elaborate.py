"""What programs become: names, values and effects in the graphs of their entries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters import ROOT
from elaborated import problems, program
from wgcc.elaborate import check, elaborate
from wgcc.errors import Diagnostics, Source, WgError, render_run
from wgcc.evaluate import Session
from wgcc.ir.text import graph_text
from wgcc.ir.verify import verify_program
from wgcc.ops import infer_types
from wgcc.passes.autograd import autograd

PROGRAMS = sorted((ROOT / "tests" / "filetests" / "programs").glob("*.wg"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_is_accepted(path: Path) -> None:
    diagnostics = Diagnostics()
    programs = check(path, diagnostics, prepare=autograd)
    assert not diagnostics.errors, render_run(diagnostics)
    for found in programs.values():
        verify_program(found, infer_types)


@pytest.mark.parametrize("name", [path.name for path in (ROOT / "grammar" / "std").glob("*.wg")])
def test_library_checks_itself(name: str) -> None:
    diagnostics = Diagnostics()
    check(ROOT / "grammar" / "std" / name, diagnostics, prepare=autograd)
    assert not diagnostics.items, render_run(diagnostics)


def test_graph_has_names_and_lines_of_the_source() -> None:
    found = program("""
dim B = 2
model Net {
  fc: Linear[3, 4]
  entry run(x: f32[B, 3]) -> (y: f32[B, 4]) {
    h = fc(x)
    return relu(h) * 2.0
  }
}
""")
    assert graph_text(found.entries["run"]).splitlines() == [
        "entry run {",
        "  input %x: f32[2, 3]",
        "  param %fc.w: f32[3, 4]",
        "  param %fc.b: f32[4]",
        "  %fc.matmul: f32[2, 4] = matmul(%x, %fc.w)  // test.wg:6",
        "  %fc.broadcast: f32[2, 4] = broadcast(%fc.b; shape=(2, 4))  // test.wg:6",
        "  %h: f32[2, 4] = add(%fc.matmul, %fc.broadcast)  // test.wg:6",
        "  %relu: f32[2, 4] = relu(%h)  // test.wg:7",
        "  %const: f32 = const(dtype=f32, value=2.0)  // test.wg:7",
        "  %broadcast: f32[2, 4] = broadcast(%const; shape=(2, 4))  // test.wg:7",
        "  %y: f32[2, 4] = mul(%relu, %broadcast)  // test.wg:7",
        "  output y = %y",
        "}",
    ]


def test_library_lines_are_the_users_lines() -> None:
    found = program("""
model Net {
  attn: Attention[8, 2, 1]
  entry run(x: f32[1, 4, 8]) -> (y: f32[1, 4, 8]) = attn(x)
}
""")
    places = {node.span.place for node in found.entries["run"].nodes if node.span}
    assert places == {"test.wg:4"}
    assert {t.span.place for t in found.params.values() if t.span} == {"test.wg:3"}


def test_state_is_seen_after_it_is_written() -> None:
    found = program("""
model Counter {
  state count: i32 = 5
  state rows: f32[4, 2] = 0.0
  entry add(x: f32[2], at: i32) -> (before: i32, after: i32, total: f32) {
    before = count
    count := count + 1
    rows[at +: 1] := x[new]
    rows[0, 1] := 9.0
    return before, count, sum(rows)
  }
  entry reset() { count := 0 }
}
""")
    session = Session(found, {})
    x = np.array([1.0, 2.0])
    first = session.call("add", {"x": x, "at": np.array(2)})
    assert (first["before"], first["after"], first["total"]) == (5, 6, 12.0)
    second = session.call("add", {"x": x, "at": np.array(3)})
    assert (second["before"], second["total"]) == (6, 15.0)
    np.testing.assert_array_equal(session.state["rows"], [[0, 9], [0, 0], [1, 2], [1, 2]])
    session.call("reset")
    assert session.state["count"] == 0


def test_only_state_that_is_reached_is_kept() -> None:
    found = program("""
layer Cache { state a: f32 = 0.0
  fn forward(x: f32) -> f32 = x + a }
model Net {
  one: Cache
  two: Cache
  entry run(x: f32) -> (y: f32) = one(x)
}
""")
    assert list(found.state) == ["one.a"]


def test_random_numbers_have_sites_and_advance() -> None:
    found = program("""
model Net {
  seed = 7
  entry draw() -> (a: f32[3], b: f32[3]) = both()
  fn both() -> (f32[3], f32[3]) { return rand(f32[3]), randn(f32[3]) }
  entry other() -> (c: f32[3]) = rand(f32[3])
  entry plain(x: f32) -> (y: f32) = x
}
""")
    nodes = [n for g in found.entries.values() for n in g.nodes if n.op == "random"]
    assert len({node.attrs["site"] for node in nodes}) == 3
    assert list(found.entries["draw"].writes) == ["rng/step"]
    assert not found.entries["plain"].writes
    assert found.state["rng/seed"].init.values == (7.0,)
    session = Session(found, {})
    first, second = session.call("draw"), session.call("draw")
    assert not np.array_equal(first["a"], second["a"])
    assert session.state["rng/step"] == 2


def test_dropout_draws_only_in_training() -> None:
    found = program("""
model Net {
  f: Linear[2, 2]
  optimizer opt: sgd { lr = 0.1 }
  fn forward(x: f32[2]) -> f32[2] = dropout(f(x), 0.5)
  entry train(x: f32[2]) -> (loss: f32) {
    loss = sum(forward(x))
    minimize loss with opt
    return loss
  }
  entry run(x: f32[2]) -> (y: f32[2]) = forward(x)
}
""")
    ops = {name: {node.op for node in graph.nodes} for name, graph in found.entries.items()}
    assert "random" in ops["train"] and "random" not in ops["run"]


def test_grad_keeps_the_type_of_what_it_differentiates_by() -> None:
    found = program("""
dim D = 3
model Net {
  param w: f32[D] = 1.0
  entry slope(x: f32[D]) -> (dx: f32[D], dw: f32[D]) {
    y = sum(x * x * w)
    return grad(y, x), grad(y, w)
  }
}
""")
    grads = [node for node in found.entries["slope"].nodes if node.op == "grad"]
    assert [str(node.output.type) for node in grads] == ["f32[3]", "f32[3]"]
    assert [node.inputs[1].name for node in grads] == ["x", "w"]


def test_lists_guards_and_options() -> None:
    found = program("""
layer Stack[D](n: dim, act: fn = relu, Norm: layer = RMSNorm) {
  fs[i in n]: Linear[D, D](bias = i == 0)
  norm: Norm[D] when n > 1
  fn forward(x: f32[.., D]) -> f32[.., D] {
    for i, f in fs { x = if i == 0 then act(f(x)) else x + act(f(x)) }
    if n > 1 { return norm(x) } else { return x }
  }
}
model Net {
  one: Stack[2](1)
  two: Stack[2](n = 2, act = tanh, Norm = LayerNorm)
  entry run(x: f32[4, 2]) -> (y: f32[4, 2]) = x |> one |> two
}
""")
    assert list(found.params) == [
        "one.fs.0.w", "one.fs.0.b",
        "two.fs.0.w", "two.fs.0.b", "two.fs.1.w", "two.norm.g", "two.norm.b",
    ]  # fmt: skip
    ops = [node.op for node in found.entries["run"].nodes]
    assert (ops.count("relu"), ops.count("tanh"), ops.count("layer_norm")) == (1, 2, 1)


def test_initial_values() -> None:
    found = program("""
dim N = 3
model Net {
  param a: f32[2, N] = log(f32(arange(N)) + 1.0)
  param b: f32[N] ~ normal(std = 0.5)
  param c: f32[N] = 1.0 / 4.0
  param d: f32[N] ~ zeros
  state k: i32[2] = -3
  state t: bool = true
  entry run() -> (y: f32[N], k: i32[2], t: bool) { return a[0] + b + c + d, k, t }
}
""")
    assert found.params["a"].init.values == pytest.approx([0.0, np.log(2), np.log(3)] * 2)
    assert (found.params["b"].init.kind, found.params["b"].init.args) == (
        "normal",
        {"mean": 0.0, "std": 0.5},
    )
    assert found.params["c"].init.values == (0.25,)
    assert found.params["d"].init.kind == "zeros"
    assert found.state["k"].init.values == (-3.0,) and found.state["t"].init.values == (1.0,)


SIZED = """
dim B
dim D = 4
dim F = 2 * D
model Net {
  seed = 3
  f: Linear[D, F]
  entry run(x: f32[B, D]) -> (y: f32[B, F]) = f(x)
}
"""


def test_sizes_and_seed_from_outside() -> None:
    found = program(SIZED, sizes={"B": 5, "D": 3}, seed=9)
    assert str(found.entries["run"].outputs["y"].type) == "f32[5, 6]"
    assert found.seed == 9 and program(SIZED, sizes={"B": 1}).seed == 3


def test_wrong_sizes_from_outside() -> None:
    with pytest.raises(WgError, match="there is no dim or const C to set"):
        program(SIZED, sizes={"B": 1, "C": 5})
    assert problems(SIZED, sizes={"B": 0}) == ["WG0401 2 a dim must be positive, but `B` is 0"]


def test_choosing_a_model() -> None:
    text = (
        "model A { entry f(x: f32) -> (y: f32) = x }\nmodel B { entry f(x: f32) -> (y: f32) = -x }"
    )
    assert program(text, model="B").name == "B"
    with pytest.raises(WgError, match="has 2 models"):
        program(text)
    with pytest.raises(WgError, match="there is no model C"):
        program(text, model="C")
    with pytest.raises(WgError, match="no model in"):
        program("dim N = 3")
    with pytest.raises(WgError, match="cannot read"):
        elaborate("no/such/file.wg", Diagnostics())


def test_documentation_of_entries_is_kept() -> None:
    found = program("model A {\n  /// Negates.\n  entry f(x: f32) -> (y: f32) = -x\n}")
    assert found.doc == {"f": "Negates."}


def test_independent_errors_are_all_reported_and_nothing_follows_from_them() -> None:
    text = """
dim D = 4
model Net {
  a: Linear[D, E]
  b: Linear[D, D]
  entry one(x: f32[2, D]) -> (y: f32[2, D]) {
    h = a(x)
    k = h + unknown
    return b(k) @ x
  }
  entry two(x: f32[2, D]) -> (y: f32[2, D]) {
    p = b(x) + y
    q = p * 2.0
    return x @ x
  }
}
"""
    assert [line.split(" ", 2)[:2] for line in problems(text)] == [
        ["WG0201", "4"],
        ["WG0201", "8"],
        ["WG0201", "12"],
        ["WG0412", "14"],
    ]


def test_unused_layers_are_checked_for_any_size() -> None:
    text = """
layer Good[D, H](n: dim) {
  assert D % H == 0
  dim K = D / H
  wq: Linear[D, H * K]
  many[n]: Linear[D, D]
  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, H, K] {
    for layer_ in many { x = layer_(x) }
    return rearrange(wq(x), "B T (H K) -> B T H K")
  }
}
fn bad[N, M](a: f32[N, M], b: f32[N]) -> f32[N, M] = a * b
model Net { entry run(x: f32) -> (y: f32) = x }
"""
    assert problems(text) == ["WG0411 12 `*`: the shapes cannot be broadcast"]


def test_numeric_tests_use_the_initial_parameters() -> None:
    text = """
model Net {
  f: Linear[2, 2](bias = false)
  state n: f32 = 3.0
  entry run(x: f32[2]) -> (y: f32[2]) = f(x) + n
}
test "values" {
  m = Net()
  x = zeros(f32[2])
  assert close(m.f(x), x)
  assert max(abs(m.f.w)) > 0.0
  assert m.n == 3.0, "state starts at three"
  assert m.n == 4.0, "and not at four"
}
"""
    assert problems(text) == ["WG0403 13 and not at four"]


def test_tests_may_differentiate() -> None:
    text = """
fn cube(x: f32) -> f32 = x ** 3
test "slope" {
  x = f32(arange(3))[2]
  assert close(grad(cube(x), x), 12.0), "three squares"
  assert close(grad(cube(x), x), 8.0), "not this"
}
model M { entry f(x: f32) -> (y: f32) = cube(x) }
"""
    assert problems(text) == ["WG0403 6 not this"]


def test_deep_programs_do_not_exhaust_the_stack() -> None:
    text = "model A {{ entry f(x: f32) -> (y: f32) = {} }}"
    assert len(program(text.format(" + ".join(["x"] * 100))).entries["f"].nodes) == 99
    program(text.format("(" * 60 + "x" + ")" * 60))
    chain = [f"fn g{i}(x: f32) -> f32 = g{i + 1}(x) + 1.0" for i in range(400)]
    last = "fn g400(x: f32) -> f32 = x"
    found = problems("\n".join([*chain, last, text.format("g0(x)")]))
    assert {line.split(" ")[0] for line in found} == {"WG0803"}


@pytest.mark.parametrize(
    "body",
    [
        "for i in 0..4000 { for j in 0..4000 { x = x } }\n    return x",
        "return f40(x)",
    ],
)
def test_programs_that_unroll_without_end_are_refused(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wgcc.elaborate.tracing.context.MOST_UNROLLED", 5000)
    doubling = [f"fn f{i + 1}_(x: f32) -> f32 = f{i}_(f{i}_(x))" for i in range(40)]
    text = (
        "\n".join(["fn f0_(x: f32) -> f32 = x", *doubling])
        + f"""
model M {{
  entry f(x: f32) -> (y: f32) {{
    {body.replace("f40(", "f40_(")}
  }}
}}
"""
    )
    assert {line[:6] for line in problems(text)} == {"WG0804"}


def test_huge_numbers_do_not_take_forever() -> None:
    text = "dim A = 1, B = 2\nconst m = {}\nmodel M {{ entry f(x: f32) -> (y: f32) = x }}"
    assert [p[:8] for p in problems(text.format("f32(9 ** 64 ** 64)"))] == ["WG0504 2"]
    assert [p[:8] for p in problems(text.format("(9 ** 64) ** 64"))] == ["WG0504 2"]
    power = "(2 * A / B + A - A)"
    for _ in range(6):
        power = f"({power} ** 64)"
    program(text.format(power))
    assert problems("const n = 9999999999999999999999999999\n" + text.format("f32(n)")) == [
        "WG0504 1 this whole number is beyond 4611686018427387904"
    ]


def test_sources_without_a_file() -> None:
    diagnostics = Diagnostics()
    assert elaborate(Source("<page>", "model A {"), diagnostics) is None
    assert diagnostics.errors
