"""Built-ins made of many ops (convolution, attention, scans, sampling) against plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from expressions import RNG as GENERATOR
from expressions import graph_of, value_of
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import Session, evaluate
from wgcc.ir.program import Program
from wgcc.passes.pipeline import run_passes

RNG = np.random.default_rng(3)
Array = np.ndarray[Any, Any]


def convolve(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    n, height, width, _ = x.shape
    kh, kw, each, out = w.shape
    image = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    rows = (height + 2 * pad - dilation * (kh - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, rows, columns, out))
    for r, c, o in itertools.product(range(rows), range(columns), range(out)):
        first = o // (out // groups) * each
        patch = image[
            :,
            r * stride : r * stride + dilation * (kh - 1) + 1 : dilation,
            c * stride : c * stride + dilation * (kw - 1) + 1 : dilation,
            first : first + each,
        ]
        y[:, r, c, o] = (patch * w[..., o]).sum((1, 2, 3))
    return y


# x, w, stride, pad, dilation, groups
CONVOLUTIONS = [
    ((2, 5, 6, 3), (3, 3, 3, 4), 1, 1, 1, 1),
    ((1, 7, 7, 2), (1, 1, 2, 3), 1, 0, 1, 1),
    ((1, 8, 8, 2), (4, 4, 2, 3), 2, 1, 1, 1),
    ((2, 9, 7, 1), (2, 3, 1, 2), 3, 2, 2, 1),
    ((1, 5, 5, 4), (3, 3, 2, 6), 1, 1, 1, 2),
    ((1, 6, 5, 4), (3, 3, 1, 4), 2, 1, 1, 4),
    ((1, 6, 5, 2), (3, 3, 1, 4), 1, 0, 1, 2),
    ((2, 9, 7, 2), (3, 3, 2, 5), 3, 0, 1, 1),
    ((1, 5, 6, 4), (2, 2, 2, 6), 2, 1, 1, 2),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_conv2d(case: tuple[Any, ...]) -> None:
    x, w = RNG.normal(size=case[0]), RNG.normal(size=case[1])
    expected = convolve(x, w, *case[2:])
    options = dict(zip(("stride", "pad", "dilation", "groups"), case[2:], strict=True))
    text = ", ".join(f"{name} = {value}" for name, value in options.items())
    types = {"x": (f"f32{list(x.shape)}", x), "w": (f"f32{list(w.shape)}", w)}
    close(value_of(f"conv2d(x, w, {text})", f"f32{list(expected.shape)}", **types), expected)


def test_conv2d_takes_separate_values_for_rows_and_columns() -> None:
    x, w = RNG.normal(size=(1, 6, 6, 1)), RNG.normal(size=(1, 2, 1, 1))
    expected = convolve(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0))), w, 1, 0, 1, 1)[:, ::2]
    types = {"x": ("f32[1, 6, 6, 1]", x), "w": ("f32[1, 2, 1, 1]", w)}
    close(value_of("conv2d(x, w, (2, 1), (0, 1))", "f32[1, 3, 7, 1]", **types), expected)


def pools(x: Array, k: int, stride: int) -> Array:
    """[N, H', W', C, k * k]."""
    rows, columns = ((size - k) // stride + 1 for size in x.shape[1:3])
    return np.stack(
        [
            x[
                :,
                i : i + (rows - 1) * stride + 1 : stride,
                j : j + (columns - 1) * stride + 1 : stride,
            ]
            for i in range(k)
            for j in range(k)
        ],
        -1,
    )


@pytest.mark.parametrize(("k", "stride"), [(2, 2), (3, 3), (3, 2), (2, 1), (1, 2)])
def test_pools(k: int, stride: int) -> None:
    x = RNG.normal(size=(2, 7, 6, 3))
    seen = pools(x, k, stride)
    shape = f"f32{list(seen.shape[:-1])}"
    for name, expected in (("max", seen.max(-1)), ("avg", seen.mean(-1))):
        text = f"{name}_pool2d(x, {k}, {stride})"
        close(value_of(text, shape, x=("f32[2, 7, 6, 3]", x)), expected)


def test_causal_conv1d() -> None:
    x, w = RNG.normal(size=(2, 6, 3)), RNG.normal(size=(4, 3))
    ahead = np.concatenate([np.zeros((2, 3, 3)), x], 1)
    expected = sum(ahead[:, i : i + 6] * w[i] for i in range(4))
    inputs = {"x": ("f32[2, 6, 3]", x), "w": ("f32[4, 3]", w)}
    close(value_of("causal_conv1d(x, w)", "f32[2, 6, 3]", **inputs), expected)
    short = {"x": ("f32[2, 3]", x[0, :2]), "w": ("f32[4, 3]", w)}
    close(value_of("causal_conv1d(x, w)", "f32[2, 3]", **short), expected[0, :2])


def attend(q: Array, k: Array, v: Array, visible: Array, scale: float) -> Array:
    share = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
    scores = np.where(visible, q @ k.swapaxes(-1, -2) * scale, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# arguments, heads, key heads, rows, keys, offset, scale
ATTENTIONS = [
    ("", 2, 2, 3, 5, None, 0.5),
    ("causal = true", 4, 2, 5, 5, 0, 0.5),
    ("causal = true, offset = 3", 6, 2, 2, 7, 3, 0.5),
    ("causal = true, offset = at, scale = 0.3", 2, 1, 2, 7, 1, 0.3),
]


@pytest.mark.parametrize("case", ATTENTIONS, ids=[case[0] for case in ATTENTIONS])
def test_attention(case: tuple[Any, ...]) -> None:
    arguments, heads, key_heads, rows, keys, offset, scale = case
    q = RNG.normal(size=(2, heads, rows, 4))
    k, v = RNG.normal(size=(2, key_heads, keys, 4)), RNG.normal(size=(2, key_heads, keys, 3))
    visible = np.arange(keys) <= np.arange(rows)[:, None] + (keys if offset is None else offset)
    inputs = {name: (f"f32{list(x.shape)}", x) for name, x in (("q", q), ("k", k), ("v", v))}
    found = value_of(
        f"attention(q, k, v, {arguments})", f"f32[2, {heads}, {rows}, 3]",
        **inputs, at=("i32", offset or 0),
    )  # fmt: skip
    close(found, attend(q, k, v, visible, scale))


def test_selective_scan() -> None:
    u, dt = RNG.normal(size=(2, 5, 3)), RNG.uniform(0.1, 1, (2, 5, 3))
    a, b, c = -RNG.uniform(0.5, 2, (3, 4)), RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 5, 4))
    h, expected = np.zeros((2, 3, 4)), np.zeros((2, 5, 3))
    for t in range(5):
        h = np.exp(dt[:, t, :, None] * a) * h + (dt * u)[:, t, :, None] * b[:, t, None]
        expected[:, t] = (h * c[:, t, None]).sum(-1)
    arrays = {"u": u, "dt": dt, "a": a, "b": b, "c": c}
    inputs = {name: (f"f32{list(x.shape)}", x) for name, x in arrays.items()}
    close(value_of("selective_scan(u, dt, a, b, c)", "f32[2, 5, 3]", **inputs), expected)


Z = np.array([2.0, 0.0, 1.0, 2.0, -1.0, 1.5])


def draws(arguments: str, count: int = 4000) -> Array:
    """Frequencies of the six classes of Z."""
    expression = f"sample(x[new, :] + zeros(f32[{count}, 1]){arguments})"
    drawn = value_of(expression, f"i32[{count}]", x=("f32[6]", Z))
    return np.bincount(drawn, minlength=6) / count


def softmax(x: Array) -> Array:
    return np.exp(x) / np.exp(x).sum()


def test_sample_follows_the_probabilities() -> None:
    np.testing.assert_allclose(draws(""), softmax(Z), atol=0.03)
    np.testing.assert_allclose(draws(", temperature = 2.0"), softmax(Z / 2), atol=0.03)


def test_top_k_keeps_the_first_of_equals() -> None:
    kept = np.array([1.0, 0, 0, 1, 0, 1])
    expected = softmax(Z) * kept / (softmax(Z) * kept).sum()
    np.testing.assert_allclose(draws(", top_k = 3"), expected, atol=0.03)
    assert draws(", top_k = 1")[0] == 1.0


def test_top_p_keeps_the_class_that_reaches_the_mass() -> None:
    # The probabilities in order are 0.32, 0.32, 0.19, 0.12, 0.04, 0.02.
    kept = np.array([1.0, 0, 0, 1, 0, 1])
    expected = softmax(Z) * kept / (softmax(Z) * kept).sum()
    np.testing.assert_allclose(draws(", top_p = 0.7"), expected, atol=0.03)
    assert draws(", top_p = 0.01")[0] == 1.0


def test_sample_without_temperature_takes_the_largest() -> None:
    assert (
        value_of("sample(x, temperature = 0.0)", "i32", x=("f32[6]", Z - [1, 0, 0, 0, 0, 0])) == 3
    )
    inputs = {"x": ("f32[6]", Z - [1, 0, 0, 0, 0, 0]), "t": ("f32", 0.0)}
    assert value_of("sample(x, temperature = t)", "i32", **inputs) == 3


def test_a_seed_of_its_own_makes_a_draw_repeatable() -> None:
    types = {"x": "f32[64, 6]", "s": "u32"}
    graph = graph_of("sample(x, seed = s)", "i32[64]", types)
    assert not graph.state
    values = {"x": np.broadcast_to(Z, (64, 6)), "s": np.uint32(5)}
    first, again = (evaluate(graph, values).outputs["out"] for _ in range(2))
    other = evaluate(graph, {**values, "s": np.uint32(6)}).outputs["out"]
    assert np.array_equal(first, again) and not np.array_equal(first, other)


TRAINING = """
model M {
  param w: f32[1000] = 1.0
  optimizer opt: sgd { lr = 0.0 }
  entry train(p: f32) -> (x: f32[1000], y: f32[1000]) {
    x = dropout(w, 0.25)
    y = dropout(w, p)
    minimize sum(x) with opt
    return x, y
  }
  entry predict() -> (x: f32[1000]) = dropout(w, 0.25)
}
"""


def test_dropout_keeps_the_mean_and_works_only_in_training() -> None:
    found = Diagnostics()
    program = check(Source("model.wg", TRAINING), found)["M"]
    assert not found.errors
    assert not program.entries["predict"].nodes
    session = Session(run_passes(program), {"w": np.ones(1000)}, GENERATOR)
    outputs = session.call("train", {"p": np.float32(0.5)})
    assert set(np.unique(outputs["x"])) == {0, 4 / 3} and abs(outputs["x"].mean() - 1) < 0.06
    assert set(np.unique(outputs["y"])) == {0, 2} and abs(outputs["y"].mean() - 1) < 0.1
    assert not np.array_equal(outputs["x"], session.call("train", {"p": np.float32(0.5)})["x"])


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


# Each with one input x whose gradient is compared with central differences.
DIFFERENTIABLE = [
    ("conv2d(x, ones(f32[3, 3, 2, 3]) * 0.3, stride = 2, pad = 1)", (1, 5, 5, 2)),
    ("conv2d(x, ones(f32[2, 2, 1, 2]), groups = 2)", (1, 4, 4, 2)),
    ("conv2d(x, ones(f32[2, 2, 2, 2]), stride = 2)", (1, 4, 4, 2)),
    ("max_pool2d(x, 3, 2)", (1, 5, 5, 2)),
    ("max_pool2d(x, 2)", (1, 5, 4, 2)),
    ("avg_pool2d(x, 2, 1)", (1, 4, 4, 2)),
    ("causal_conv1d(x, x[0, 0 : 2] + ones(f32[2, 3]))", (1, 5, 3)),
    ("attention(x, x, sin(x), causal = true)", (2, 4, 3)),
    ("attention(x, x[0 : 1], x[1 : 2] ** 2, causal = true, offset = 1)", (2, 3, 3)),
    ("selective_scan(x, x ** 2, -exp(x[0]), sin(x), x)", (1, 3, 3)),
    ("normalize(x)", (3, 4)),
    ("clamp(x, -0.5, 0.7) * var(x, axis = 0)", (3, 4)),
    ('einsum("i j, i j, k j -> k i", x, x, x)', (3, 4)),
    ("huber(x, sin(x * 3.0), delta = 0.5)", (3, 4)),
    ("bce_logits(x, 1.0 - x)", (3, 4)),
]


@pytest.mark.parametrize(("expression", "shape"), DIFFERENTIABLE, ids=lambda case: str(case))
def test_gradients_agree_with_central_differences(expression: str, shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    scores = f"sum(cos({expression}))"
    type_ = f"f32{list(shape)}"
    program = Program("M", entries={
        "value": graph_of(scores, "f32", {"x": type_}),
        "grad": graph_of(f"grad({scores}, x)", type_, {"x": type_}),
    })  # fmt: skip
    program = run_passes(program, check=True)
    found = evaluate(program.entries["grad"], {"x": x}).outputs["out"]
    expected = np.zeros(shape)
    for place in np.ndindex(shape):
        step = np.zeros(shape)
        step[place] = 1e-5
        high, low = (
            evaluate(program.entries["value"], {"x": x + s}).outputs["out"] for s in (step, -step)
        )
        expected[place] = (high - low) / 2e-5
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
