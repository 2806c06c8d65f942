"""Random lines: products of matrices, standard layers, convolutions, attention, scans, losses."""

from __future__ import annotations

from math import prod

from random_models.builder import Builder
from random_models.spec import Type


def matmul(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3, 4))
    *lead, inner = b.types[x].shape
    columns = b.size(max(1, b.most // max(1, prod(lead), inner)))
    kind = b.weighted([("weights", 5), ("value", 2), ("stack", 2), ("vector", 1), ("left", 1)])
    bound = min(b.bounds[x], 4.0) * inner
    if kind == "vector":
        b.add(Type("f32", tuple(lead)), "{0} @ {1}", x, b.of(Type("f32", (inner,))), bound=bound)
    elif kind == "stack" and len(lead) >= 2:
        y = b.of(Type("f32", (*lead[:-1], inner, columns)))
        b.add(Type("f32", (*lead, columns)), "{0} @ {1}", x, y, bound=bound)
    elif kind == "left" and len(lead) == 1:
        rows = b.size(max(1, b.most // max(1, inner, lead[0])))
        y = b.of(Type("f32", (rows, lead[0])))
        b.add(Type("f32", (rows, inner)), "{1} @ {0}", x, y, bound=bound * lead[0] / inner)
    else:
        shape = (inner, columns)
        new = b.weights(*shape) if kind == "weights" else b.of(Type("f32", shape))
        b.add(Type("f32", (*lead, columns)), "{0} @ {1}", x, new, bound=bound)


EINSUMS = [
    ("a b, b c -> c a", "ab", "bc", "ca"), ("a b, a b -> a", "ab", "ab", "a"),
    ("a, b -> a b", "a", "b", "ab"), ("a b c, c d -> a d b", "abc", "cd", "adb"),
    ("a b c, a c -> b a", "abc", "ac", "ba"), ("a b, c b -> ", "ab", "cb", ""),
    ("a b c, a d c -> a b d", "abc", "adc", "abd"), ("a b, b -> b", "ab", "b", "b"),
]  # fmt: skip


def einsum(b: Builder) -> None:
    pattern, one, two, result = b.choice(EINSUMS)
    x = b.pick(rank=(len(one),))
    sizes = dict(zip(one, b.types[x].shape, strict=True))
    for letter in two:
        sizes.setdefault(letter, b.size(9))
    y = b.of(Type("f32", tuple(sizes[letter] for letter in two)))
    count = prod(sizes[letter] for letter in sizes if letter not in result)
    shape = tuple(sizes[letter] for letter in result)
    if prod(shape) <= b.most:
        b.add(Type("f32", shape), f'einsum("{pattern}", {{0}}, {{1}})', x, y,
              bound=count * b.bounds[x] * b.bounds[y])  # fmt: skip


def layers(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3))
    *lead, inner = b.types[x].shape
    kind = b.choice(["Linear", "LayerNorm", "RMSNorm", "SwiGLU", "layer_norm", "rms_norm"])
    if kind == "Linear":
        columns = b.size(max(1, b.most // max(1, prod(lead), inner)))
        name = b.layer(f"Linear[{inner}, {columns}]{b.choice(['', '(bias = false)'])}")
        b.add(Type("f32", (*lead, columns)), f"{name}({{0}})", x, bound=3 * b.bounds[x] + 1)
    elif kind == "SwiGLU":
        name = b.layer(f"SwiGLU[{inner}, {b.size(40)}]")
        b.add(b.types[x], f"{name}({{0}})", x, bound=9 * b.bounds[x] + 1)
    elif kind in ("layer_norm", "rms_norm"):
        # With almost no variance the gradient of a norm is huge, so something that varies is added.
        text = f"{kind}({{0}} + 0.2 * f32(arange({inner})), {{1}}, {{2}})"
        if kind == "rms_norm":
            text = f"{kind}({{0}} + 0.3, {{1}})"
        uses = [b.of(Type("f32", (inner,))) for _ in range(2)]
        b.add(b.types[x], text, x, *uses, bound=20)
    else:
        name = b.layer(f"{kind}[{inner}]")
        b.add(b.types[x], f"{name}({{0}} + 0.2 * f32(arange({inner})))", x, bound=6)


def convolve(b: Builder) -> None:
    side, channels = b.whole(3, 7), b.whole(1, 4)
    x = b.of(Type("f32", (b.whole(1, 3), side, b.whole(3, 7), channels)), new=0.2)
    n, rows, columns, _ = b.types[x].shape
    k, stride, pad = b.whole(1, 3), b.whole(1, 2), b.whole(0, 1)
    sizes = [(size + 2 * pad - k) // stride + 1 for size in (rows, columns)]
    if b.chance(0.35):
        name = b.choice(["max_pool2d", "avg_pool2d"])
        sizes = [(size - k) // stride + 1 for size in (rows, columns)]
        b.add(Type("f32", (n, *sizes, channels)), f"{name}({{0}}, {k}, {stride})", x)
        return
    out = b.whole(1, 5)
    w = b.weights(k, k, channels, out)
    text = f"conv2d({{0}}, {{1}}, stride = {stride}, pad = {pad})"
    b.add(Type("f32", (n, *sizes, out)), text, x, w, bound=k * k * channels * b.bounds[x])


def attention(b: Builder) -> None:
    lead = b.shape(1) if b.chance(0.5) else ()
    heads, keys = b.choice([1, 2]), b.choice([1, 2])
    rows, length, width = b.whole(1, 6), b.whole(1, 7), b.whole(1, 8)
    q = b.of(Type("f32", (*lead, heads * keys, rows, width)), new=0.2)
    k = b.of(Type("f32", (*lead, keys, length, width)), new=0.2)
    v = b.of(Type("f32", (*lead, keys, length, b.whole(1, 5))), new=0.2)
    causal = ", causal = true" if b.chance(0.5) else ""
    shape = (*b.types[q].shape[:-1], b.types[v].shape[-1])
    b.add(Type("f32", shape), f"attention({{0}}, {{1}}, {{2}}{causal})", q, k, v,
          bound=b.bounds[v])  # fmt: skip


def scan(b: Builder) -> None:
    batch, length, width, depth = b.whole(1, 3), b.whole(1, 9), b.whole(1, 6), b.whole(1, 4)
    if b.chance(0.4):
        x = b.of(Type("f32", (batch, length, width)), new=0.3)
        b.add(b.types[x], "causal_conv1d({0}, {1})", x, b.param(b.whole(1, 4), width),
              bound=8 * b.bounds[x])  # fmt: skip
        return
    u, dt = (b.of(Type("f32", (batch, length, width)), new=0.3) for _ in range(2))
    a = b.of(Type("f32", (width, depth)), new=0.3)
    into, out = (b.of(Type("f32", (batch, length, depth)), new=0.3) for _ in range(2))
    text = "selective_scan({0}, softplus({1}), -exp(tanh({2})), {3}, {4})"
    bound = 10 * b.bounds[u] * b.bounds[into] * b.bounds[out] * depth
    b.add(Type("f32", (batch, length, width)), text, u, dt, a, into, out, bound=bound)


def loss(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3), fits=lambda type_: type_.shape[-1] > 1)
    kind = b.choice(["cross_entropy", "mse", "mae", "huber", "bce_logits", "accuracy"])
    if kind in ("cross_entropy", "accuracy"):
        labels = b.input(Type("i32", b.types[x].shape[:-1]))
        more = b.choice(["", ", ignore = 0", ", smoothing = 0.1"]) if kind != "accuracy" else ""
        b.add(Type("f32"), f"{kind}({{0}}, {{1}}{more})", x, labels, bound=2 * b.bounds[x] + 6)
        return
    y = b.of(b.types[x], new=0.2)
    bound = (b.bounds[x] + b.bounds[y]) ** (2 if kind == "mse" else 1)
    target = "sigmoid({1})" if kind == "bce_logits" else "{1}"
    b.add(Type("f32"), f"{kind}({{0}}, {target})", x, y, bound=bound + 1)
