"""Makers of lines with windows and resampling: signals, images and volumes, channels last."""

from __future__ import annotations

from random_models.builder import Builder
from random_models.spec import Type


def resample(b: Builder) -> None:
    x, (n, *sizes, channels) = _image(b, (1, 2, 3))
    after = [b.whole(1, 8) for _ in sizes]
    mode = b.choice(["nearest", "bilinear", "bicubic"])
    align = "" if mode == "nearest" else f", align_corners = {b.choice(['true', 'false'])}"
    size = ", ".join(map(str, after))
    text = f'resize({{0}}, [{size}], "{mode}"{align})'
    b.add(Type("f32", (n, *after, channels)), text, x, bound=2 * b.bounds[x])


def transpose(b: Builder) -> None:
    x, (n, *sizes, channels) = _image(b, (1, 2))
    k, stride, out = b.whole(1, 3), b.whole(1, 3), b.whole(1, 4)
    pad = b.whole(0, (k - 1) // 2)
    after = [(size - 1) * stride - 2 * pad + k for size in sizes]
    w = b.weights(*(k,) * len(sizes), channels, out)
    text = f"conv_transpose{len(sizes)}d({{0}}, {{1}}, stride = {stride}, pad = {pad})"
    bound = k ** len(sizes) * channels * b.bounds[x]
    b.add(Type("f32", (n, *after, out)), text, x, w, bound=bound)


def convolve(b: Builder) -> None:
    x, (n, *sizes, channels) = _image(b, (1, 3))
    k, stride, dilation, out = b.whole(1, 3), b.whole(1, 2), b.whole(1, 2), b.whole(1, 4)
    pad = (k - 1) * dilation
    after = [(size + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for size in sizes]
    w = b.weights(*(k,) * len(sizes), channels, out)
    settings = f"stride = {stride}, pad = {pad}, dilation = {dilation}"
    text = f"conv{len(sizes)}d({{0}}, {{1}}, {settings})"
    bound = k ** len(sizes) * channels * b.bounds[x]
    b.add(Type("f32", (n, *after, out)), text, x, w, bound=bound)


def pool(b: Builder) -> None:
    x, (n, *sizes, channels) = _image(b, (1, 2, 3))
    k, stride = b.whole(1, 3), b.whole(1, 3)
    pad = b.whole(0, k // 2)
    kind = b.choice(["max", "avg"])
    more = ", count_include_pad = false" if kind == "avg" and b.chance(0.5) else ""
    after = [(size + 2 * pad - k) // stride + 1 for size in sizes]
    text = f"{kind}_pool{len(sizes)}d({{0}}, {k}, {stride}, pad = {pad}{more})"
    b.add(Type("f32", (n, *after, channels)), text, x)


def unfold(b: Builder) -> None:
    x, (n, rows, columns, channels) = _image(b, (2,))
    k, stride = b.whole(1, 3), b.whole(1, 2)
    across, down = ((size - k) // stride + 1 for size in (columns, rows))
    wide = Type("f32", (n, down * across, k * k * channels))
    if b.chance(0.5):
        b.add(wide, f"unfold({{0}}, {k}, stride = {stride})", x)
        return
    text = (
        f"fold(unfold({{0}}, {k}, stride = {stride}), [{rows}, {columns}], {k}, stride = {stride})"
    )
    b.add(b.types[x], text, x, bound=k * k * b.bounds[x])


def sample(b: Builder) -> None:
    """Positions are constants: at a pixel the gradient of a position jumps."""
    x, (n, _, _, channels) = _image(b, (2,))
    mode = b.choice(["zeros", "border", "reflection"])
    grid = f"sin(1.7 * reshape(f32(arange({n * 12})), [{n}, 2, 3, 2]))"
    text = f'grid_sample({{0}}, 1.3 * {grid}, "bilinear", "{mode}")'
    b.add(Type("f32", (n, 2, 3, channels)), text, x)


def _image(b: Builder, ranks: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    sizes = (b.whole(3, 6) for _ in range(b.choice(ranks)))
    shape = (b.whole(1, 3), *sizes, b.whole(1, 4))
    return b.of(Type("f32", shape), new=0.2), shape
