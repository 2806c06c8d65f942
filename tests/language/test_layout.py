"""Functions that pad, repeat, move and drop elements, running products, norms: against numpy.

Their gradients are compared with central differences, and are finite where a careless formula
gives NaN.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from expressions import DIMS, RNG, Case, graph_of, graphs_of, run, value_of
from wgcc.elaborate.builtins import BUILTINS
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Graph
from wgcc.ops import OPS
from wgcc.passes.autograd import autograd

DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(2, 3, 4))
M = DRAW.normal(size=(3, 4))
ZEROS = np.where(np.arange(12).reshape(3, 4) % 5 == 1, 0.0, M)
X3, M2 = {"x": ("f32[A, B, C]", X)}, {"x": ("f32[B, C]", M)}
WHOLE = {"x": ("i32[B, C]", np.arange(12).reshape(3, 4))}
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}

CASES: list[Case] = [
    ("stack([x, 2.0 * x])", "f32[2, B, C]", M2, np.stack([M, 2 * M])),
    ("stack([x, 2.0 * x], axis = -1)", "f32[B, C, 2]", M2, np.stack([M, 2 * M], -1)),
    ("stack([x], axis = 1)", "f32[B, 1, C]", M2, M[:, None]),
    ("stack([1.0, sum(x)])", "f32[2]", M2, [1.0, M.sum()]),
    ("pad(x, (1, 2))", "f32[A, B, C + 3]", X3, np.pad(X, ((0, 0), (0, 0), (1, 2)))),
    ("pad(x, (1, 2, 0, 3))", "f32[A, B + 3, C + 3]", X3, np.pad(X, ((0, 0), (0, 3), (1, 2)))),
    ("pad(x, 1, axis = (A, B), value = -7.0)", "f32[A + 2, B + 2, C]", X3,
     np.pad(X, ((1, 1), (1, 1), (0, 0)), constant_values=-7.0)),
    ("pad(x, (0, 2), value = 9)", "i32[B, C + 2]", WHOLE,
     np.pad(WHOLE["x"][1], ((0, 0), (0, 2)), constant_values=9)),
    ("pad(x > 0.0, 1, axis = 0)", "bool[B + 2, C]", M2, np.pad(M > 0, ((1, 1), (0, 0)))),
    *((f'pad(x, (2, 1, 1, 2), mode = "{mode}")', "f32[A, B + 3, C + 3]", X3,
       np.pad(X, ((0, 0), (1, 2), (2, 1)), mode=name)) for mode, name in MODES.items()),
    ('pad(x, 9, axis = C, mode = "replicate")', "f32[B, C + 18]", M2,
     np.pad(M, ((0, 0), (9, 9)), mode="edge")),
    ('pad(x, (0, 4), mode = "circular")', "f32[B, C + 4]", M2, np.tile(M, (1, 2))),
    ("expand(x[:, new], [B, 5, C])", "f32[B, 5, C]", M2, np.repeat(M[:, None], 5, 1)),
    ("expand(x, [5, -1, C])", "f32[5, B, C]", M2, np.repeat(M[None], 5, 0)),
    ("expand(2.0, [C])", "f32[C]", {}, np.full(4, 2.0)),
    ("tile(x, (2, 3))", "f32[2 * B, 3 * C]", M2, np.tile(M, (2, 3))),
    ("tile(x, 2)", "f32[B, 2 * C]", M2, np.tile(M, 2)),
    ("tile(x, (2, 1, 2))", "f32[2, B, 2 * C]", M2, np.tile(M, (2, 1, 2))),
    ("flip(x)", "f32[A, B, C]", X3, np.flip(X)),
    ("flip(x, axis = (A, -1))", "f32[A, B, C]", X3, np.flip(X, (0, 2))),
    ("roll(x, 1, axis = C)", "f32[A, B, C]", X3, np.roll(X, 1, 2)),
    ("roll(x, (-2, 5), axis = (1, 0))", "f32[A, B, C]", X3, np.roll(X, (-2, 5), (1, 0))),
    ("roll(x, 5)", "f32[B, C]", M2, np.roll(M, 5)),
    ("roll(x, 4, axis = C)", "f32[B, C]", M2, M),
    ("tril(x)", "f32[A, B, C]", X3, np.tril(X)),
    ("triu(x, 1)", "f32[B, C]", M2, np.triu(M, 1)),
    ("tril(x, diagonal = -1)", "i32[B, C]", WHOLE, np.tril(WHOLE["x"][1], -1)),
    ("triu(x > 0.0)", "bool[B, C]", M2, np.triu(M > 0)),
    ("cumprod(x)", "f32[B, C]", {"x": ("f32[B, C]", ZEROS)}, np.cumprod(ZEROS, 1)),
    ("cumprod(x, axis = A)", "f32[A, B, C]", X3, np.cumprod(X, 0)),
    ("cumprod(x[:, : 1])", "f32[B, 1]", M2, M[:, :1]),
    ("std(x, axis = C, correction = 0)", "f32[A, B]", X3, X.std(2)),
    ("std(x, axis = -1)", "f32[B]", M2, M.std(1, ddof=1)),
    ("var(x, axis = (A, C), correction = 2)", "f32[B]", X3, X.var((0, 2), ddof=2)),
    ("std(x, keep = true)", "f32[1, 1]", M2, M.std(keepdims=True, ddof=1)),
    ("norm(x)", "f32", X3, np.linalg.norm(X)),
    ("norm(x, 1, axis = -1)", "f32[A, B]", X3, np.abs(X).sum(-1)),
    ("norm(x, p = inf, axis = B, keep = true)", "f32[A, 1, C]", X3, np.abs(X).max(1)[:, None]),
    ("norm(x, p = 2.5, axis = (0, 1))", "f32[C]", X3, (np.abs(X) ** 2.5).sum((0, 1)) ** 0.4),
]  # fmt: skip


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return graphs_of(CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case[0] for case in CASES])
def test_value(number: int, graphs: list[Graph]) -> None:
    _, _, inputs, expected = CASES[number]
    np.testing.assert_allclose(run(graphs[number], inputs), expected, rtol=1e-6, atol=1e-7)


DIFFERENTIATED = [
    "pad(x, (2, 1), value = 3.0)",
    *(f'pad(x, (2, 1, 1, 2), mode = "{mode}")' for mode in MODES),
    "tile(x, (2, 2))",
    "roll(x[:: -1], 2, axis = 0)",
    "triu(x)",
    "cumprod(x)",
    "std(x, axis = 1)",
    "norm(x, axis = 0)",
    "norm(x, p = 3.0, axis = 1)",
    "cummax(x)[0]",
    "top_k(x, 2)[0]",
    "scatter_add(x, arange(3) % 2, x * x)",
]


@pytest.mark.parametrize("expression", DIFFERENTIATED)
def test_gradient_is_the_central_difference(expression: str) -> None:
    """Also where elements are zero, as the factors of a product may be."""
    x = ZEROS if "cumprod" in expression else M
    weighed = f"sum(square({expression} + 0.5))"
    graph = graph_of(weighed, "f32", {"x": "f32[B, C]"})
    found = gradient(weighed, "f32[B, C]", x)
    for at in np.ndindex(x.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            ends.append(float(run(graph, {"x": ("f32[B, C]", moved)})))
        assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5), at


def gradient(
    expression: str, type_: str, x: Any, precision: Literal["f32", "f64"] = "f64"
) -> np.ndarray[Any, Any]:
    graph = autograd(graph_of(f"grad({expression}, x)", type_, {"x": type_}))
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(graph, {**RNG, "x": np.asarray(x)}, precision).outputs["out"])


@pytest.mark.parametrize("function", ["std(x)", "norm(x)", "norm(x, p = 3.0)"])
def test_gradient_where_all_is_zero(function: str) -> None:
    np.testing.assert_array_equal(gradient(function, "f32[B]", np.zeros(3)), np.zeros(3))


# Of one float each; these have no finite value or slope so far out.
OVERFLOWING = {"exp", "expm1", "sinh", "cosh"}
BOUNDED = {"asin", "acos", "log", "sqrt", "rsqrt", "log1p"}
CLAMPED = ["clamp(x, -1.0, 1.0)", "gelu(x, approximate = true)", "huber(x, zeros(f32[B]))",
           "bce_logits(x, zeros(f32[B]))", "logsumexp(x)", "norm(x)"]  # fmt: skip


def far_functions() -> list[str]:
    """Every built-in function that takes one float and is finite at 200 and -200."""
    named = [f"{name}(x)" for name, op in OPS.items() if op.number is not None]
    others = ["gelu", "elu", "selu", "leaky_relu", "hardswish", "mish", "softsign", "glu"]
    named += [f"{name}(x)" for name in others if name in BUILTINS and f"{name}(x)" not in named]
    left_out = {f"{name}(x)" for name in OVERFLOWING | BOUNDED | {"glu"}}
    return [text for text in named if text not in left_out] + CLAMPED


@pytest.mark.parametrize("function", far_functions())
def test_gradient_is_finite_far_out(function: str) -> None:
    """In f32, where exp(200) overflows."""
    x = np.float32([200.0, -200.0, 90.0])
    assert np.all(np.isfinite(gradient(f"sum({function})", "f32[B]", x, "f32")))


def test_the_trap_that_the_reference_explains() -> None:
    """The branch that is not taken overflows; with a bounded argument it cannot."""
    x = np.float32([200.0, -200.0, 1.0])
    trapped = gradient("sum(where(x > 0.0, x, expm1(x)))", "f32[B]", x, "f32")
    assert np.isnan(trapped).tolist() == [True, False, False]
    safe = gradient("sum(where(x > 0.0, x, expm1(minimum(x, 0.0))))", "f32[B]", x, "f32")
    np.testing.assert_allclose(safe, [1, 0, 1], atol=1e-6)


def test_whole_random_numbers_are_in_range_and_all_occur() -> None:
    drawn = value_of("randint(-2, 3, i32[500])", "i32[500]")
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    assert np.bincount(drawn + 2).min() > 70
    assert set(value_of("randint(250, 256, u8[99])", "u8[99]").tolist()) == set(range(250, 256))
    # An index that is drawn needs no check.
    graph = graph_of("gather(x, randint(0, B, i32[9]))", "f32[9, C]", {"x": "f32[B, C]"}, DIMS)
    assert graph.entry.range_guard is None


def test_bernoulli_is_one_with_its_probability() -> None:
    p = np.repeat([0.0, 0.25, 1.0], 1000)
    drawn = value_of("bernoulli(p)", "f32[3000]", p=("f32[3000]", p))
    assert set(drawn.tolist()) == {0.0, 1.0}
    assert drawn[:1000].max() == 0 and drawn[2000:].min() == 1
    assert abs(drawn[1000:2000].mean() - 0.25) < 0.04
