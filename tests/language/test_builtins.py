"""Every built-in function against numpy, with the names of its dims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from expressions import Case, graph_of, graphs_of, run, value_of
from wgcc.elaborate.builtins import BUILTINS
from wgcc.ir.graph import Graph

RNG = np.random.default_rng(1)
X = RNG.normal(size=(2, 3, 4))
Y = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 4))
POSITIVE = np.abs(M) + 0.1
MASK = M > 0

erf = np.vectorize(math.erf)
sigmoid = 1 / (1 + np.exp(-M))

# name: what it is in numpy
UNARY: dict[str, Any] = {
    "exp": np.exp(M), "abs": np.abs(M), "sin": np.sin(M), "cos": np.cos(M), "tanh": np.tanh(M),
    "sigmoid": sigmoid, "relu": np.maximum(M, 0), "gelu": 0.5 * M * (1 + erf(M / math.sqrt(2))),
    "silu": M * sigmoid, "softplus": np.log1p(np.exp(M)), "square": M**2, "sign": np.sign(M),
    "floor": np.floor(M), "erf": erf(M), "expm1": np.expm1(M),
}  # fmt: skip
POSITIVE_UNARY = {
    "log": np.log(POSITIVE), "sqrt": np.sqrt(POSITIVE), "rsqrt": POSITIVE**-0.5,
    "log1p": np.log1p(POSITIVE),
}  # fmt: skip


X3, M2 = {"x": ("f32[A, B, C]", X)}, {"x": ("f32[B, C]", M)}
XY = {"x": ("f32[A, B, C]", X), "y": ("f32[A, B, C]", Y)}
WHOLE = np.arange(24).reshape(2, 3, 4)[::-1] % 7


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def lse(x: Any, axis: Any) -> Any:
    return np.log(np.exp(x).sum(axis))


VALUES: list[Case] = [
    *((f"{name}(x)", "f32[B, C]", M2, expected) for name, expected in UNARY.items()),
    *((f"{name}(x)", "f32[B, C]", {"x": ("f32[B, C]", POSITIVE)}, expected)
      for name, expected in POSITIVE_UNARY.items()),
    *((f"{name}(x) - {name}(0.7)", "f32", {"x": ("f32", 0.7)}, 0.0)
      for name in (*UNARY, *POSITIVE_UNARY)),
    ("gelu(x, approximate = true)", "f32[B, C]", M2,
     0.5 * M * (1 + np.tanh(math.sqrt(2 / math.pi) * (M + 0.044715 * M**3)))),
    ("maximum(x, y)", "f32[A, B, C]", XY, np.maximum(X, Y)),
    ("minimum(x, 0.5)", "f32[A, B, C]", X3, np.minimum(X, 0.5)),
    ("x * maximum(2, 3)", "f32[B, C]", M2, M * 3),
    ("clamp(x, -0.5, 0.5)", "f32[B, C]", M2, np.clip(M, -0.5, 0.5)),
    ("clamp(x, y, 1.0)", "f32[A, B, C]", XY, np.minimum(np.maximum(X, Y), 1.0)),
    ("x * clamp(7, 0, 3)", "f32[B, C]", M2, M * 3),
    ("where(x > 0.0, x, y)", "f32[A, B, C]", XY, np.where(X > 0, X, Y)),
    ("where(x > 0.0, 1.0, -1)", "f32[B, C]", M2, np.where(M > 0, 1.0, -1.0)),
    ("where(m, 1, 2)", "i32[B, C]", {"m": ("bool[B, C]", MASK)}, np.where(MASK, 1, 2)),
    ("where(m, x, 0.0)", "f32[A, B, C]", {**X3, "m": ("bool[B, C]", MASK)}, np.where(MASK, X, 0)),
    ("where(m[:, new], x, 0.0)", "f32[A, B, C]", {**X3, "m": ("bool[B]", MASK[:, 0])},
     np.where(MASK[:, :1], X, 0)),
    ("sum(x)", "f32", X3, X.sum()),
    ("sum(x, axis = 1)", "f32[A, C]", X3, X.sum(1)),
    ("sum(x, axis = B)", "f32[A, C]", X3, X.sum(1)),
    ("sum(x, axis = (A, -1))", "f32[B]", X3, X.sum((0, 2))),
    ("sum(x, axis = [0, 1], keep = true)", "f32[1, 1, C]", X3, X.sum((0, 1), keepdims=True)),
    ("sum(x, keep = true)", "f32[1, 1, 1]", X3, X.sum(keepdims=True)),
    ("x.sum(axis = C)", "f32[A, B]", X3, X.sum(2)),
    ("sum(x)", "i32", {"x": ("i32[A, B, C]", WHOLE)}, WHOLE.sum()),
    ("mean(x, axis = C)", "f32[A, B]", X3, X.mean(2)),
    ("mean(x)", "f32", {"x": ("f32", 3.0)}, 3.0),
    ("max(x, axis = A)", "f32[B, C]", X3, X.max(0)),
    ("min(x, axis = (0, 2))", "f32[B]", X3, X.min((0, 2))),
    ("max(x)", "i32", {"x": ("i32[A, B, C]", WHOLE)}, WHOLE.max()),
    ("prod(x, axis = -1)", "f32[A, B]", X3, X.prod(-1)),
    ("var(x, axis = -1)", "f32[A, B]", X3, X.var(-1, ddof=1)),
    ("var(x, axis = (0, 1), keep = true, correction = 0)", "f32[1, 1, C]", X3,
     X.var((0, 1), keepdims=True)),
    ("logsumexp(x, axis = -1)", "f32[A, B]", X3, lse(X, -1)),
    ("logsumexp(x, axis = (A, C))", "f32[B]", X3, lse(X, (0, 2))),
    ("logsumexp(x, axis = 1, keep = true)", "f32[A, 1, C]", X3, lse(X, 1)[:, None]),
    ("any(m, axis = B)", "bool[C]", {"m": ("bool[B, C]", MASK)}, MASK.any(0)),
    ("all(m)", "bool", {"m": ("bool[B, C]", MASK)}, MASK.all()),
    ("argmax(x, axis = -1)", "i32[A, B]", X3, X.argmax(-1)),
    ("argmax(x)", "i32", X3, X.argmax()),
    ("argmin(x, axis = B, keep = true)", "i32[A, 1, C]", X3, X.argmin(1)[:, None]),
    ("softmax(x)", "f32[A, B, C]", X3, softmax(X)),
    ("softmax(x, axis = B)", "f32[A, B, C]", X3, softmax(X, 1)),
    ("log_softmax(x, axis = 0)", "f32[A, B, C]", X3, np.log(softmax(X, 0))),
    ("cumsum(x, axis = B)", "f32[A, B, C]", X3, X.cumsum(1)),
    ("normalize(x)", "f32[A, B, C]", X3, X / np.linalg.norm(X, axis=-1, keepdims=True)),
    ("normalize(x, axis = (B, C))", "f32[A, B, C]", X3,
     X / np.sqrt((X**2).sum((1, 2), keepdims=True))),
    ("normalize(0.0 * x)", "f32[A, B, C]", X3, X * 0),
    ("reshape(x, [A, B * C])", "f32[A, B * C]", X3, X.reshape(2, 12)),
    ("reshape(x, [-1, C])", "f32[A * B, C]", X3, X.reshape(6, 4)),
    ("transpose(x)", "f32[A, C, B]", X3, X.transpose(0, 2, 1)),
    ("transpose(x, A, C)", "f32[C, B, A]", X3, X.transpose(2, 1, 0)),
    ("concat([x, y], axis = B)", "f32[A, 2 * B, C]", XY, np.concatenate([X, Y], 1)),
    ("concat([x], axis = 0)", "f32[A, B, C]", X3, X),
    ("chunk(x, 2, axis = C)[1]", "f32[A, B, C / 2]", X3, X[..., 2:]),
    ("split(x, 3, axis = C)[1]", "f32[A, B, 1]", X3, X[..., 3:]),
    ("split(x, [1, B - 1], axis = 1)[1]", "f32[A, B - 1, C]", X3, X[:, 1:]),
    ("zeros(f32[A]) + size(x) + axes(x) + shape(x)[2]", "f32[A]", X3, np.full(2, 24 + 3 + 4)),
    ("ones(i32[A, C])", "i32[A, C]", {}, np.ones((2, 4))),
    ("ones(f16)", "f16", {}, 1.0),
    ("arange(D)", "i32[D]", {}, np.arange(5)),
    ("one_hot(i, C)", "f32[A, B, C]", {"i": ("i32[A, B]", [[0, 3, 1], [2, 9, -1]])},
     [[np.eye(4)[0], np.eye(4)[3], np.eye(4)[1]], [np.eye(4)[2], np.zeros(4), np.zeros(4)]]),
    ("gather(x, i)", "f32[D, C]", {**M2, "i": ("i32[D]", [2, 0, 1, 1, 2])}, M[[2, 0, 1, 1, 2]]),
    ("gather(x, i)", "f32[C]", {**M2, "i": ("u8", 2)}, M[2]),
    ("gather(x, 1)", "f32[C]", M2, M[1]),
    ("rms_norm(x, g)", "f32[A, B, C]", {**X3, "g": ("f32[C]", M[0])},
     X / np.sqrt((X**2).mean(-1, keepdims=True) + 2**-23) * M[0]),
    ("layer_norm(x, g, b, eps = 1e-3)", "f32[A, B, C]",
     {**X3, "g": ("f32[C]", M[0]), "b": ("f32[C]", M[1])},
     (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-3) * M[0] + M[1]),
    ("dropout(x, 0.5)", "f32[B, C]", M2, M),
    ("mse(x, y)", "f32", XY, ((X - Y) ** 2).mean()),
    ("mae(x, y)", "f32", XY, np.abs(X - Y).mean()),
    ("huber(x, y)", "f32", XY,
     np.where(np.abs(X - Y) <= 1, 0.5 * (X - Y) ** 2, np.abs(X - Y) - 0.5).mean()),
    ("huber(x, y, delta = 0.3)", "f32", XY,
     np.where(np.abs(X - Y) <= 0.3, 0.5 * (X - Y) ** 2, 0.3 * (np.abs(X - Y) - 0.15)).mean()),
    ("bce_logits(x, y)", "f32", {"x": X3["x"], "y": ("f32[A, B, C]", Y > 0)},
     -np.where(Y > 0, np.log(1 / (1 + np.exp(-X))), np.log(1 / (1 + np.exp(X)))).mean()),
    ("bce_logits(x, ones(f32[A]))", "f32", {"x": ("f32[A]", [-500.0, 500.0])}, 250.0),
    ("stop_grad(x)", "f32[B, C]", M2, M),
    ("close(x, x + 1e-6)", "bool", M2, True),
    ("close(x, x + 1e-6, tol = 1e-7)", "bool", M2, False),
    ("close(i, 3)", "bool", {"i": ("u8[A]", [2, 3])}, False),
    ("zeros(bool) == close(1.0, 1.1)", "bool", {}, True),
    ("f16(x)", "f16[B, C]", M2, M.astype(np.float16)),
    ("i32(x * 10.0)", "i32[B, C]", M2, (M * 10).astype(np.int32)),
    ("f32(x > 0.0)", "f32[B, C]", M2, MASK),
    ("u8(7) + u8(x)", "u8[B, C]", {"x": ("i32[B, C]", WHOLE[0])}, WHOLE[0] + 7),
    ("bool(x)", "bool[B, C]", {"x": ("i32[B, C]", WHOLE[0])}, WHOLE[0] != 0),
]  # fmt: skip


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return graphs_of(VALUES)


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[case[0] for case in VALUES])
def test_value(number: int, graphs: list[Graph]) -> None:
    _, _, inputs, expected = VALUES[number]
    close(run(graphs[number], inputs), expected)


LABELS = np.array([[0, 3, 1], [2, -1, 2]])


def test_cross_entropy_averages_over_labels_that_count() -> None:
    inputs = {**X3, "y": ("i32[A, B]", LABELS)}
    log_p = np.log(softmax(X))
    picked = np.take_along_axis(log_p, np.maximum(LABELS, 0)[..., None], -1)[..., 0]
    counts = LABELS >= 0
    loss = -(picked * counts).sum() / counts.sum()
    close(value_of("cross_entropy(x, y, ignore = -1)", "f32", **inputs), loss)
    smooth = -((0.9 * picked + 0.1 * log_p.mean(-1)) * counts).sum() / counts.sum()
    expression = "cross_entropy(x, y, ignore = -1, smoothing = 0.1)"
    close(value_of(expression, "f32", **inputs), smooth)


def test_accuracy_is_the_fraction_of_best_scores() -> None:
    best = X.argmax(-1)
    labels = np.where(np.arange(6).reshape(2, 3) < 4, best, (best + 1) % 4)
    inputs = {**X3, "y": ("i32[A, B]", labels)}
    close(value_of("accuracy(x, y)", "f32", **inputs), 4 / 6)
    labels[0, 0] = -1
    inputs = {**X3, "y": ("i32[A, B]", labels)}
    close(value_of("accuracy(x, y, ignore = -1)", "f32", **inputs), 3 / 5)


def test_a_vector_of_scores_with_one_label() -> None:
    inputs = {"x": ("f32[C]", M[0]), "y": ("i32", 2)}
    close(value_of("cross_entropy(x, y)", "f32", **inputs), -np.log(softmax(M[0]))[2])


def test_grad_is_a_marker_with_the_types_of_what_it_differentiates_by() -> None:
    graph = graph_of("grad(sum(x * x), x)", "f32[A, B]", {"x": "f32[A, B]"})
    assert [node.op for node in graph.nodes] == ["mul", "sum", "grad"]
    both = graph_of("grad(sum(x * y), [x, y])[1]", "f32[B]", {"x": "f32[A, B]", "y": "f32[B]"})
    assert [output.shape for output in both.nodes[-1].outputs] == [(2, 3), (3,)]


def test_random_numbers_differ_by_call_site() -> None:
    drawn = value_of("concat([rand(f32[64]), rand(f32[64])], axis = 0)", "f32[128]")
    assert drawn.min() >= 0 and drawn.max() < 1
    assert len(np.unique(drawn)) == 128
    normal = value_of("randn(f32[4096])", "f32[4096]")
    assert abs(normal.mean()) < 0.06 and abs(normal.std() - 1) < 0.05


def test_every_function_of_the_language_is_there() -> None:
    """A list written by hand, so that none gets lost."""
    listed = """
    params lerp append zeros_like ones_like full_like unbind
    take_along_axis scatter_add segment_sum argsort sort top_k cummax round ceil trunc tan asin acos
    scan fft ifft rfft irfft
    atan atan2 sinh cosh stack expand tile flip roll pad tril triu cumprod std norm randint
    bernoulli
    exp log sqrt rsqrt abs sin cos tanh sigmoid relu gelu silu softplus square sign floor erf log1p
    expm1 maximum minimum clamp where sum mean max min prod var logsumexp argmax argmin any all
    isnan isinf isfinite
    softmax log_softmax cumsum normalize reshape transpose concat split chunk rearrange einsum
    shape axes size zeros ones arange randn rand one_hot gather rms_norm layer_norm dropout conv2d
    max_pool2d avg_pool2d causal_conv1d attention selective_scan sample mse mae huber
    bce_logits cross_entropy accuracy stop_grad grad close reversed upsample leaky_relu elu selu
    hardswish mish prelu glu softsign conv1d conv3d conv_transpose1d conv_transpose2d max_pool1d
    max_pool3d avg_pool1d avg_pool3d bce hinge kl_div triplet nll cosine_similarity resize
    grid_sample unfold fold capture wgsl
    """
    assert set(listed.split()) == set(BUILTINS)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
