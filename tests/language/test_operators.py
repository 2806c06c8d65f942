"""Operators, indexing and patterns against numpy, with the names of their dims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from expressions import Case, graph_of, graphs_of, run
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import Session
from wgcc.ir.graph import Graph

RNG = np.random.default_rng(2)
X = RNG.normal(size=(2, 3, 4))
Y = RNG.normal(size=(2, 4, 5))
M = RNG.normal(size=(3, 4))
W = RNG.normal(size=(4, 5))
V = RNG.normal(size=4)
ROW = RNG.normal(size=3)
I = np.array([[3, -7, 0, 5], [2, 9, -1, 4], [6, 1, 8, -2]])  # noqa: E741

x3, m, w, v = ("f32[A, B, C]", X), ("f32[B, C]", M), ("f32[C, D]", W), ("f32[C]", V)
y3, i2, row = ("f32[A, C, D]", Y), ("i32[B, C]", I), ("f32[B]", ROW)
T4 = RNG.normal(size=(2, 3, 4, 5))
t4 = ("f32[A, B, C, D]", T4)

VALUES: list[Case] = [
    ("x + m", "f32[A, B, C]", {"x": x3, "m": m}, X + M),
    ("m - r[:, new]", "f32[B, C]", {"m": m, "r": row}, M - ROW[:, None]),
    ("m * ones(f32[1, C])", "f32[B, C]", {"m": m}, M),
    ("2 * m / 4 + 0.5", "f32[B, C]", {"m": m}, M / 2 + 0.5),
    ("m % 0.7", "f32[B, C]", {"m": m}, M % 0.7),
    ("i % 3", "i32[B, C]", {"i": i2}, I % 3),
    ("i / 3", "i32[B, C]", {"i": i2}, I // 3),
    ("i / -3", "i32[B, C]", {"i": i2}, I // -3),
    ("-7 / i", "i32[B, C]", {"i": i2}, np.where(I == 0, 0, -7 // np.where(I == 0, 1, I))),
    ("i / 3 * 3 + i % 3", "i32[B, C]", {"i": i2}, I),
    ("-m", "f32[B, C]", {"m": m}, -M),
    ("-m ** 2", "f32[B, C]", {"m": m}, -(M**2)),
    ("m ** 5", "f32[B, C]", {"m": m}, M**5),
    ("m ** -3", "f32[B, C]", {"m": m}, M**-3.0),
    ("abs(m) ** 0.5 + abs(m) ** -0.5 + m ** -1", "f32[B, C]", {"m": m},
     np.abs(M) ** 0.5 + np.abs(M) ** -0.5 + 1 / M),
    ("abs(m) ** 1.7", "f32[B, C]", {"m": m}, np.abs(M) ** 1.7),
    ("10.0 ** m", "f32[B, C]", {"m": m}, 10.0**M),
    ("abs(m) ** v", "f32[B, C]", {"m": m, "v": v}, np.abs(M) ** V),
    ("m ** 0", "f32[B, C]", {"m": m}, M * 0 + 1),
    ("i ** 3", "i32[B, C]", {"i": i2}, I**3),
    ("i > 2 and not i == 5 or i < -5", "bool[B, C]", {"i": i2}, (I > 2) & (I != 5) | (I < -5)),
    ("m >= 0.0 and true", "bool[B, C]", {"m": m}, M >= 0),
    ("m >= 0.0 or true", "bool[B, C]", {"m": m}, M < 99),
    ("(m > 0.0) == (m > 1.0)", "bool[B, C]", {"m": m}, (M > 0) == (M > 1)),
    ("0.0 < m", "bool[B, C]", {"m": m}, M > 0),
    ("m @ w", "f32[B, D]", {"m": m, "w": w}, M @ W),
    ("x @ w", "f32[A, B, D]", {"x": x3, "w": w}, X @ W),
    ("x @ y", "f32[A, B, D]", {"x": x3, "y": y3}, X @ Y),
    ("m @ y", "f32[A, B, D]", {"m": m, "y": y3}, M @ Y),
    ("m @ v", "f32[B]", {"m": m, "v": v}, M @ V),
    ("x @ v", "f32[A, B]", {"x": x3, "v": v}, X @ V),
    ("v @ w", "f32[D]", {"v": v, "w": w}, V @ W),
    ("v @ y", "f32[A, D]", {"v": v, "y": y3}, V @ Y),
    ("v @ v", "f32", {"v": v}, V @ V),
    ("t @ transpose(t)", "f32[A, B, C, C]", {"t": t4}, T4 @ T4.swapaxes(-1, -2)),
    ("zeros(f32) + D * A / 2 - 7 % 4 + 2 ** 3", "f32", {}, 5 * 2 / 2 - 3 + 8),
    ("zeros(f32) + f32(D) / A + 2.5 % 1.0", "f32", {}, 2.5 + 0.5),
    ("if D > A and not (A == 3) then zeros(f32) else ones(f32)", "f32", {}, 0.0),
    # indexing
    ("x[1]", "f32[B, C]", {"x": x3}, X[1]),
    ("x[-1, 0]", "f32[C]", {"x": x3}, X[-1, 0]),
    ("x[:, 1:]", "f32[A, B - 1, C]", {"x": x3}, X[:, 1:]),
    ("x[:, : -1, 1 : 3]", "f32[A, B - 1, 2]", {"x": x3}, X[:, :-1, 1:3]),
    ("x[.., 0]", "f32[A, B]", {"x": x3}, X[..., 0]),
    ("x[.., ::2]", "f32[A, B, C / 2]", {"x": x3}, X[..., ::2]),
    ("x[:, ::2]", "f32[A, 2, C]", {"x": x3}, X[:, ::2]),
    ("x[0, .., 1 : : 2]", "f32[B, 2]", {"x": x3}, X[0, :, 1::2]),
    ("v[:, new]", "f32[C, 1]", {"v": v}, V[:, None]),
    ("x[new, 0, :, new]", "f32[1, B, 1, C]", {"x": x3}, X[None, 0, :, None]),
    ("x[k]", "f32[B, C]", {"x": x3, "k": ("i32", 1)}, X[1]),
    ("x[:, k, 2]", "f32[A]", {"x": x3, "k": ("u32", 2)}, X[:, 2, 2]),
    ("x[:, :, k +: 2]", "f32[A, B, 2]", {"x": x3, "k": ("i32", 1)}, X[..., 1:3]),
    ("x[:, :, k +: 2]", "f32[A, B, 2]", {"x": x3, "k": ("i32", 9)}, X[..., 2:]),
    ("x[:, 1 +: 2]", "f32[A, 2, C]", {"x": x3}, X[:, 1:]),
    ("x[k, j +: 2, 1]", "f32[2]", {"x": x3, "k": ("i32", 1), "j": ("i32", 1)}, X[1, 1:, 1]),
    # patterns
    ('rearrange(x, "A B C -> C (B A)")', "f32[C, B * A]", {"x": x3},
     X.transpose(2, 1, 0).reshape(4, 6)),
    # A letter that is an axis by itself is the pattern's own, whatever dims there are.
    ('rearrange(x, "D E (A K) -> A D E K")', "f32[A, A, B, C / A]", {"x": x3},
     X.reshape(2, 3, 2, 2).transpose(2, 0, 1, 3)),
    ('einsum("D E, E A -> A D", m, w)', "f32[D, B]", {"m": m, "w": w}, (M @ W).T),
    ('rearrange(x, "a b (h k) -> h a b k", h = 2)', "f32[2, A, B, C / 2]", {"x": x3},
     X.reshape(2, 3, 2, 2).transpose(2, 0, 1, 3)),
    ('rearrange(x, "a b (2 k) -> a (b k) 2")', "f32[A, B * C / 2, 2]", {"x": x3},
     X.reshape(2, 3, 2, 2).transpose(0, 1, 3, 2).reshape(2, 6, 2)),
    ('rearrange(x, ".. c -> c ..")', "f32[C, A, B]", {"x": x3}, X.transpose(2, 0, 1)),
    ('rearrange(x, "a b c -> a 1 (b c)")', "f32[A, 1, B * C]", {"x": x3}, X.reshape(2, 1, 12)),
    ('rearrange(x[:, new], "a 1 b c -> (a b) c")', "f32[A * B, C]", {"x": x3}, X.reshape(6, 4)),
    ('einsum("i j, j k -> i k", m, w)', "f32[B, D]", {"m": m, "w": w}, M @ W),
    ('einsum("a b c, a c d -> d a b", x, y)', "f32[D, A, B]", {"x": x3, "y": y3},
     np.einsum("abc,acd->dab", X, Y)),
    ('einsum("a b c -> c", x)', "f32[C]", {"x": x3}, X.sum((0, 1))),
    ('einsum("a b c, a b c ->", x, x)', "f32", {"x": x3}, (X * X).sum()),
    ('einsum("b, c -> c b", r, v)', "f32[C, B]", {"r": row, "v": v}, np.outer(V, ROW)),
    ('einsum("a b c, b, c d -> a d", x, r, w)', "f32[A, D]", {"x": x3, "r": row, "w": w},
     np.einsum("abc,b,cd->ad", X, ROW, W)),
    ('einsum(".. c, c d -> .. d", x, w)', "f32[A, B, D]", {"x": x3, "w": w}, X @ W),
    ('einsum("a b c, b c -> a 1", x, m)', "f32[A, 1]", {"x": x3, "m": m},
     np.einsum("abc,bc->a", X, M)[:, None]),
]  # fmt: skip


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return graphs_of(VALUES)


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[case[0] for case in VALUES])
def test_value(number: int, graphs: list[Graph]) -> None:
    _, _, inputs, expected = VALUES[number]
    np.testing.assert_allclose(run(graphs[number], inputs), expected, rtol=1e-6, atol=1e-7)


# If all sizes are equal, a dim that lost its name fits only by chance, which is a warning.
EQUAL = "dim A = 4, B = 4, C = 4, D = 4, H = 2, K = D / H\n"
NAMED = [
    ("x + y[:, new]", "f32[A, B]", {"x": "f32[A, B]", "y": "f32[A]"}),
    ("x @ y", "f32[A, C]", {"x": "f32[A, B]", "y": "f32[B, C]"}),
    ("sum(x, axis = B)", "f32[A, C]", {"x": "f32[A, B, C]"}),
    ("transpose(x, A, C)", "f32[C, B, A]", {"x": "f32[A, B, C]"}),
    ("gather(x, i)", "f32[C, B]", {"x": "f32[A, B]", "i": "i32[C]"}),
    ("argmax(x, axis = A)", "i32[B]", {"x": "f32[A, B]"}),
    ('rearrange(x, "A B (H K) -> A H B K")', "f32[A, H, B, K]", {"x": "f32[A, B, D]"}),
    (
        'einsum("n t d, q d -> n q t", x, y)',
        "f32[A, D, B]",
        {"x": "f32[A, B, C]", "y": "f32[D, C]"},
    ),
    ("attention(x, y, y)", "f32[H, A, K]", {"x": "f32[H, A, K]", "y": "f32[H, B, K]"}),
    ("conv2d(x, w, pad = 1)", "f32[A, B, C, H]", {"x": "f32[A, B, C, D]", "w": "f32[3, 3, D, H]"}),
]


@pytest.mark.parametrize("case", NAMED, ids=[case[0] for case in NAMED])
def test_dims_keep_their_names(case: tuple[str, str, dict[str, str]]) -> None:
    expression, result, types = case
    graph_of(expression, result, types, EQUAL)


def test_whole_powers_need_no_pow() -> None:
    graph = graph_of("x ** 2 + x ** 3 + x ** -1 + x ** 0.5", "f32[A]", {"x": "f32[A]"})
    assert "pow" not in {node.op for node in graph.nodes}


def test_leading_axes_collapse_into_rows() -> None:
    graph = graph_of("x @ w", "f32[A, B, D]", {"x": "f32[A, B, C]", "w": "f32[C, D]"})
    (product,) = (node for node in graph.nodes if node.op == "matmul")
    assert [value.shape for value in product.inputs] == [(6, 4), (4, 5)]


WRITES = [
    ("s[1] := x", "f32[C]", lambda s, x: _put(s, (1,), x)),
    ("s[:, 2] := x", "f32[B]", lambda s, x: _put(s, (slice(None), 2), x)),
    ("s[at +: 2] := x", "f32[2, C]", lambda s, x: _put(s, (slice(1, 3),), x)),
    ("s[0 : 2, at +: 2] := x", "f32[2, 2]", lambda s, x: _put(s, (slice(0, 2), slice(1, 3)), x)),
    ("s[at, 1 : 3] := x", "f32[2]", lambda s, x: _put(s, (1, slice(1, 3)), x)),
    ("s[.., ::2] := x", "f32[B, 2]", lambda s, x: _put(s, (slice(None), slice(0, None, 2)), x)),
    ("s[at, 1 : : 2] := x", "f32[2]", lambda s, x: _put(s, (1, slice(1, None, 2)), x)),
    ("s[0] := x", "f32", lambda s, x: _put(s, (0,), x)),
    ("s[:] := x", "f32[C]", lambda s, x: np.broadcast_to(x, s.shape)),
    ("s[:, new, 1] := x", "f32[B, 1]", lambda s, x: _put(s, (slice(None), 1), x[:, 0])),
    ("s[-1 :] := 3.0 * x", "f32[1, C]", lambda s, x: _put(s, (slice(-1, None),), 3 * x)),
]


def _put(s: Any, where: Any, x: Any) -> Any:
    result = s.copy()
    result[where] = x
    return result


def test_window_writes() -> None:
    dims = {"B": 3, "C": 4}
    entries = "\n".join(
        f"  entry e{n}(x: {type_}, at: i32) {{ {text} }}"
        for n, (text, type_, _) in enumerate(WRITES)
    )
    text = f"dim B = 3, C = 4\nmodel M {{\n  state s: f32[B, C] = 0.0\n{entries}\n}}\n"
    found = Diagnostics()
    program = check(Source("model.wg", text), found)["M"]
    assert not found.errors
    for number, (statement, type_, expected) in enumerate(WRITES):
        names = type_.removeprefix("f32").strip("[]").split(", ")
        x = RNG.normal(size=[dims.get(n) or int(n) for n in names if n])
        session = Session(program, {}, {"s": M})
        session.call(f"e{number}", {"x": x, "at": np.int32(1)})
        np.testing.assert_allclose(session.state["s"], expected(M, x), err_msg=statement)


RANGES = """
dim V = 10, T = 4
model M {
  param w: f32[V, 3] = 0.0
  state cache: f32[V, 3] = 0.0
  entry look(ids: i32[T + 1], at: u8, row: i32, free: i32, y: i32[T]) -> (a: f32, b: f32[3]) {
    h = gather(w, ids[: T])
    cache[i32(at) +: 2] := h[0 : 2]
    loss = cross_entropy(h @ transpose(w), ids[1 :], ignore = -1) + cross_entropy(h, y)
    return loss + f32(free), h[row]
  }
  entry two(y: i32[T]) -> (loss: f32) {
    z = zeros(f32[T, V])
    return cross_entropy(z, y, ignore = -1) + cross_entropy(z, y, ignore = -100)
  }
}
"""


def test_inputs_that_look_something_up_have_a_range() -> None:
    found = Diagnostics()
    program = check(Source("model.wg", RANGES), found)["M"]
    assert not found.errors
    assert program.entries["look"].entry.ranges == {
        "ids": (0, 9, -1), "at": (0, 8, None), "row": (0, 3, None), "y": (0, 2, None),
    }  # fmt: skip
    # What one of two losses ignores is no class of the other.
    assert program.entries["two"].entry.ranges == {"y": (0, 9, None)}
