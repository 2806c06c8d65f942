"""Random lines: elements moved, repeated, padded, sorted, looked up and added up by id."""

from __future__ import annotations

from random_models.builder import Builder
from random_models.spec import Type

MODES = ("constant", "reflect", "replicate", "circular")


def move(b: Builder) -> None:
    """The same elements in another order, or some of them zero."""
    x = b.pick(rank=(1, 2, 3, 4))
    type_ = b.types[x]
    axis = b.whole(0, type_.rank - 1)
    size = type_.shape[axis]
    texts = [f"flip({{0}}, axis = {axis})", f"roll({{0}}, {b.whole(-9, 9)}, axis = {axis})"]
    texts += [f"roll({{0}}, {b.whole(1, 9)})", f"{{0}}[{', '.join([':'] * axis + [':: -1'])}]"]
    if type_.rank > 1:
        texts += [f"{b.choice(['tril', 'triu'])}({{0}}, {b.whole(-2, 2)})"]
    if size * b.bounds[x] < 1000:
        texts += [f"cumprod(tanh({{0}}), axis = {axis})", f"cummax({{0}}, axis = {axis})[0]"]
    b.add(type_, b.choice(texts), x)


def grow(b: Builder) -> None:
    """More elements: padded, repeated or stacked."""
    x = b.pick(rank=(1, 2, 3), fits=lambda type_: 4 * type_.size <= b.most)
    shape = list(b.types[x].shape)
    axis = b.whole(0, len(shape) - 1)
    kind = b.choice(["pad", "pad", "tile", "stack"])
    if kind == "stack":
        y = b.of(b.types[x])
        shape.insert(axis, 2)
        b.add(Type("f32", tuple(shape)), f"stack([{{0}}, {{1}}], axis = {axis})", x, y)
        return
    if kind == "tile":
        count = b.whole(1, 3)
        counts = [count if number == axis else 1 for number in range(len(shape))]
        shape[axis] *= count
        shown = ", ".join(map(str, counts))
        b.add(Type("f32", tuple(shape)), f"tile({{0}}, ({shown},))", x)
        return
    mode = b.choice(MODES if shape[axis] > 1 else ("constant", "replicate"))
    most = min(3, shape[axis] - (mode == "reflect")) if mode != "replicate" else 3
    before, after = b.whole(0, most), b.whole(0, most)
    shape[axis] += before + after
    more = ", value = 0.5" if mode == "constant" and b.chance(0.5) else ""
    text = f'pad({{0}}, ({before}, {after}), axis = {axis}, mode = "{mode}"{more})'
    b.add(Type("f32", tuple(shape)), text, x)


def order(b: Builder) -> None:
    """Sorted elements: their order is the same for numbers that differ by rounding only."""
    x = b.pick(rank=(1, 2, 3))
    type_ = b.types[x]
    axis = b.whole(0, type_.rank - 1)
    size = type_.shape[axis]
    if b.chance(0.5):
        down = b.choice(["true", "false"])
        b.add(type_, f"sort({{0}}, axis = {axis}, descending = {down})[0]", x)
        return
    k = b.whole(1, size)
    shape = (*type_.shape[:axis], k, *type_.shape[axis + 1 :])
    b.add(Type("f32", shape), f"top_k({{0}}, {k}, axis = {axis})[0]", x)


def look_up(b: Builder) -> None:
    """Elements by ids of an input, in each row or for two axes at once."""
    x = b.pick(rank=(1, 2, 3), fits=lambda type_: 2 * type_.size <= b.most)
    shape = b.types[x].shape
    axis, count = b.whole(0, len(shape) - 1), b.whole(1, 6)
    if len(shape) > 1 and b.chance(0.5):
        rows = b.input(Type("i32", (count,))) if b.chance(0.6) else ""
        cols = b.input(Type("i32", (count if rows else shape[0],)))
        text = "{0}[{1}, {2}]" if rows else f"{{0}}[arange({shape[0]}), {{1}}]"
        found = Type("f32", (*b.types[cols].shape, *shape[2:]))
        b.add(found, text, *filter(None, (x, rows, cols)), bound=b.bounds[x])
        return
    ids = b.input(Type("i32", (*shape[:axis], count, *shape[axis + 1 :])))
    text = f"take_along_axis({{0}}, {{1}}, axis = {axis})"
    b.add(Type("f32", b.types[ids].shape), text, x, ids, bound=b.bounds[x])


def add_up(b: Builder) -> None:
    """Sums by ids of an input."""
    x = b.pick(rank=(1, 2, 3), fits=lambda type_: type_.size <= b.most // 2)
    shape = b.types[x].shape
    ids, bound = b.input(Type("i32", shape[:1])), b.bounds[x] * shape[0]
    if b.chance(0.5):
        size = b.whole(1, 6)
        text = f"segment_sum({{0}}, {{1}}, {size})"
        b.add(Type("f32", (size, *shape[1:])), text, x, ids, bound=bound)
        return
    values = b.of(b.types[x])
    bound = b.bounds[x] + b.bounds[values] * shape[0]
    b.add(b.types[x], "scatter_add({0}, {1}, {2})", x, ids, values, bound=bound)
