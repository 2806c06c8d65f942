"""Operators that few models have: Fourier transforms, windows and positions, small matrices,
n-grams, classic machine learning, optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, at_axis, axis_of, per_axis, zeros
from wgcc.from_onnx.rules.shapes import pad_axes
from wgcc.from_onnx.values import Computed, Operand, Part, Shape, Stored
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.templates import fill_form


def waves(length: int, count: int, inverse: bool) -> tuple[Array, Array]:
    """cos and sin of 2π j k / n, [j, k], with the sign and size of the transform."""
    angles = 2 * np.pi * np.outer(np.arange(length), np.arange(count)) / length
    scale = 1 / length if inverse else 1.0
    sign = 1.0 if inverse else -1.0
    return (scale * np.cos(angles)).astype(np.float32), (sign * scale * np.sin(angles)).astype(
        np.float32
    )


def dft(op: OnnxOp) -> Operand:
    x = op.plain(0)
    rank = len(x.shape)
    axis = _axis(op, rank)
    if op.attribute("onesided", 0) and op.attribute("inverse", 0):
        return _real_signal(op, x, axis)
    length = int(op.constant(1, "length").reshape(())) if op.has(1) else x.shape[axis]
    if length != x.shape[axis]:
        missing = length - x.shape[axis]
        x = pad_axes(op, x, {axis: (0, missing)})
    count = op.type.shape[axis]
    moved = [a for a in range(rank - 1) if a != axis] + [axis]
    cosines, sines = waves(length, count, bool(op.attribute("inverse", 0)))
    whole = transform(op, op.transpose(x, [*moved, rank - 1]), cosines, sines)
    back = [moved.index(a) for a in range(rank - 1)]
    return op.transpose(whole, [*back, rank - 1])


def _real_signal(op: OnnxOp, x: Operand, axis: int) -> Operand:
    """The inverse of a onesided transform: the other frequencies are conjugates of those here."""
    rank, given = len(x.shape), x.shape[axis]
    if x.shape[-1] != 2:
        raise CannotImport("the inverse of a onesided transform of real numbers")
    length = int(op.constant(1, "length").reshape(())) if op.has(1) else 2 * (given - 1)
    known = length // 2 + 1
    if known > given:
        x = pad_axes(op, x, {axis: (0, known - given)})
    count = max(known, given)
    angles = 2 * np.pi * np.outer(np.arange(count), np.arange(length)) / length
    # Both of a pair of conjugates count, but the first frequency, and the middle one, is alone.
    alone = (np.arange(count) * 2 % length == 0) | (np.arange(count) >= known)
    weights = np.where(np.arange(count) < known, np.where(alone, 1, 2), 0)[:, None] / length
    cosines, sines = (weights * wave(angles) for wave in (np.cos, np.sin))
    moved = [a for a in range(rank - 1) if a != axis] + [axis]
    parts = op.transpose(x, [*moved, rank - 1])
    shape = (*parts.shape[:-2], length)
    tables = [op.parameter_of(table.astype(np.float32), name)
              for table, name in ((cosines, "cosines"), (sines, "sines"))]  # fmt: skip
    real = op.emit("{0}[.., 0] @ {1} - {0}[.., 1] @ {2}", op.tensor(parts), *tables)
    back = [moved.index(a) for a in range(rank - 1)]
    return op.transpose(op.reshape(real, (*shape, 1)), [*back, rank - 1])


def _axis(op: OnnxOp, rank: int) -> int:
    if op.opset >= 20:
        axis = int(op.constant(2, "axis").reshape(())) if op.has(2) else -2
        return axis_of(axis, rank)
    return axis_of(int(op.attribute("axis", 1)), rank)


def transform(op: OnnxOp, x: Operand, cosines: Array, sines: Array) -> Computed:
    """Transforms [.., n, 1] real or [.., n, 2] complex numbers along the axis before the last."""
    c, s = op.parameter_of(cosines, "cosines"), op.parameter_of(sines, "sines")
    lead, parts = x.shape[:-2], x.shape[-1]
    count = cosines.shape[1]
    shape = (*lead, count)
    if parts == 1:
        texts = ("{0}[.., 0] @ {1}", "{0}[.., 0] @ {2}")
    else:
        texts = (
            "{0}[.., 0] @ {1} - {0}[.., 1] @ {2}",
            "{0}[.., 0] @ {2} + {0}[.., 1] @ {1}",
        )
    flat = op.reshape(x, (int(np.prod(lead)), *x.shape[-2:]))
    re, im = (op.emit(text, flat, c, s) for text in texts)
    both = op.emit("stack([{0}, {1}], axis = 2)", re, im)
    pairs = op.reshape(both, (*shape, 2))
    assert isinstance(pairs, Computed)
    return pairs


def stft(op: OnnxOp) -> Operand:
    """Windows of a signal, each transformed."""
    x, step = op.plain(0), int(op.constant(1, "step").reshape(()))
    if len(x.shape) == 2:  # as PyTorch's older exporter writes real signals
        x = op.reshape(x, (*x.shape, 1))
    window = op.operand(2) if op.has(2) else None
    length = window.shape[0] if window is not None else int(op.constant(3, "length").reshape(()))
    frames = (x.shape[1] - length) // step + 1
    count = length // 2 + 1 if op.attribute("onesided", 1) else length
    places = np.arange(frames)[:, None] * step + np.arange(length)
    ids = op.parameter_of(places, "places")
    framed: Operand = op.emit("{0}[:, {1}]", x, ids, name="frames")
    if window is not None:
        column = op.reshape(window, (length, 1))
        framed = op.emit("{0} * {1}", framed, op.tensor(column))
    return transform(op, framed, *waves(length, count, False))


def col2im(op: OnnxOp) -> Operand:
    x, size, kernel = op.plain(0), op.numbers(1, "size"), op.numbers(2, "window")
    if len(size) != 2:
        raise CannotImport("it joins windows of other than images")
    pads = list(op.attribute("pads", [0] * 4))
    if pads[:2] != pads[2:]:
        raise CannotImport("its padding is uneven")
    turned = 'rearrange({0}, "n (c a b) l -> n l (a b c)", a = {1}, b = {2})'
    text = f"fold({turned}, {{3}}, ({{1}}, {{2}}), stride = {{4}}, pad = {{5}}, dilation = {{6}})"
    strides, dilations = (op.attribute(name, [1, 1]) for name in ("strides", "dilations"))
    steps = map(per_axis, (strides, pads[:2], dilations))
    return op.result(text, x, *kernel, tuple(size), *steps, order=(0, 2, 3, 1))


def compress(op: OnnxOp) -> Operand:
    """Rows where a condition that is known holds."""
    x, kept = op.plain(0), np.flatnonzero(op.constant(1, "condition"))
    if "axis" not in op.attributes:
        x, axis = op.reshape(x, (int(np.prod(x.shape)),)), 0
    else:
        axis = axis_of(op.attribute("axis"), len(x.shape))
    if not kept.size:
        raise CannotImport("it keeps nothing")
    ids = op.parameter_of(kept, "kept")
    return op.index(op.tensor(x), at_axis(axis, ids))


def determinant(op: OnnxOp) -> Operand:
    x = op.plain(0)
    size = x.shape[-1]
    at = "{{0}}[.., {}, {}]".format
    if size == 1:
        return op.result(at(0, 0), x)
    if size == 2:
        return op.result(f"{at(0, 0)} * {at(1, 1)} - {at(0, 1)} * {at(1, 0)}", x)
    if size != 3:
        raise CannotImport(f"the determinant of {size} x {size} matrices")
    terms = [
        f"{at(0, a)} * ({at(1, b)} * {at(2, c)} - {at(1, c)} * {at(2, b)})"
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    ]
    return op.result(" + ".join(terms), x)


def max_unpool(op: OnnxOp) -> Operand:
    x, ids = op.plain(0), op.plain(1)
    small = _unpooled_shape(op, x.shape)
    shape = tuple(op.numbers(2, "sizes")) if op.has(2) else small
    count = int(np.prod(x.shape))
    places = op.reshape(ids, (count,))
    if shape != small:
        places = _in_larger(op, places, small[2:], shape[2:])
    flat = op.reshape(x, (count,))
    total = int(np.prod(shape))
    parts = (zeros("f32", (total,)), op.tensor(places), op.tensor(flat), list(shape))
    return op.emit("reshape(scatter_add({0}, {1}, {2}), {3})", *parts)


def _unpooled_shape(op: OnnxOp, shape: Shape) -> Shape:
    """The shape of the tensor that was pooled."""
    kernel = list(op.attribute("kernel_shape"))
    strides = list(op.attribute("strides", [1] * len(kernel)))
    pads = list(op.attribute("pads", [0] * 2 * len(kernel)))
    axes = range(len(kernel))
    sizes = [(shape[a + 2] - 1) * strides[a] + kernel[a] - pads[a] - pads[a + len(kernel)]
             for a in axes]  # fmt: skip
    return (*shape[:2], *sizes)


def _in_larger(op: OnnxOp, places: Operand, before: Shape, after: Shape) -> Operand:
    """Positions in images as positions in larger ones."""
    x = op.tree(op.tensor(places))
    total = fill_form("{0} / {1} * {2}", x, int(np.prod(before)), int(np.prod(after)))
    for axis, size in enumerate(before):
        inner, outer = int(np.prod(before[axis + 1 :])), int(np.prod(after[axis + 1 :]))
        total = fill_form("{0} + {1} / {2} % {3} * {4}", total, x, inner, size, outer)
    return op.emit("{0}", total)


def same(op: OnnxOp) -> Operand:
    """An optional tensor that is there."""
    return op.operand(0)


def binarizer(op: OnnxOp) -> Operand:
    x = op.operand(0)
    limit = float(op.attribute("threshold", 0.0))
    order = x.order
    return op.emit("f32({0} > {1})", x, limit, order=order)


def feature_extractor(op: OnnxOp) -> Operand:
    """Some columns."""
    x, ids = op.plain(0), op.plain(1)
    count = int(np.prod(ids.shape))
    flat = op.reshape(ids, (count,))
    part = op.parameter_of(flat.array, "columns") if isinstance(flat, Stored) else flat
    items = at_axis(len(x.shape) - 1, part)
    return op.index(op.tensor(x), items)


def count_ngrams(op: OnnxOp) -> Operand:
    if op.attribute("pool_int64s") is None:
        raise CannotImport("it counts strings; the language has none")
    x = op.plain(0)
    rows, length = x.shape if len(x.shape) == 2 else (1, x.shape[0])
    flat = op.tensor(op.reshape(x, (rows, length)))
    tables = _tables(op)
    shortest, longest = op.attribute("min_gram_length"), op.attribute("max_gram_length")
    per_length: list[Operand] = []
    for size, table in tables.items():
        if not len(table):
            continue
        if shortest <= size <= longest:
            per_length.append(_count_one_length(op, flat, rows, length, table))
        else:
            per_length.append(op.emit("{0}", zeros("f32", (rows, len(table)))))
    total = sum(map(len, tables.values()))
    joined = op.call("concat", per_length, axis=1) if len(per_length) > 1 else per_length[0]
    counts = op.emit("{0}", joined, name="counts")
    if op.attribute("mode") == "IDF":
        counts = op.emit("f32({0} > 0.0)", counts)
    spread = _spread(op, total)
    weighed = op.emit("{0} @ {1}", counts, op.parameter_of(spread, "columns"))
    return op.reshape(weighed, (*x.shape[:-1], spread.shape[1]))


def _tables(op: OnnxOp) -> dict[int, Array]:
    """The n-grams by their length."""
    pool, starts = np.array(op.attribute("pool_int64s")), list(op.attribute("ngram_counts"))
    ends = [*starts[1:], len(pool)]
    return {
        size: pool[start:end].reshape(-1, size)
        for size, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    }


def _spread(op: OnnxOp, total: int) -> Array:
    """The column of the result for each n-gram, with its weight."""
    columns = np.array(op.attribute("ngram_indexes"))
    weights = op.attribute("weights")
    is_weighed = op.attribute("mode") != "TF" and weights is not None
    table = np.zeros((total, int(columns.max()) + 1), np.float32)
    table[np.arange(total), columns] = np.array(weights) if is_weighed else 1.0
    return table


def _count_one_length(
    op: OnnxOp, x: Operand | Part, rows: int, length: int, table: Array
) -> Operand:
    """Counts how often each n-gram of one length occurs in each row."""
    count, size = table.shape
    shape = (rows, count)
    columns = [op.parameter_of(table[:, k].copy(), "ngrams") for k in range(size)]
    skips = range(int(op.attribute("max_skip_count")) + 1 if size > 1 else 1)
    occurrences = op.emit("{0}", zeros("f32", shape))
    for step in (skip + 1 for skip in skips):
        places = length - (size - 1) * step
        if places > 0:
            equal = [
                fill_form(
                    "reshape({0}[:, {1} : {2}], [{3}, {4}, 1]) == {5}", op.tree(x), k * step,
                    k * step + places, rows, places, op.tree(columns[k]),
                )
                for k in range(size)
            ]  # fmt: skip
            every = reduce(partial(fill_form, "{0} and {1}"), equal)
            text = "{0} + sum(f32({1}), axis = 1)"
            occurrences = op.emit(text, occurrences, every)
    return occurrences


# The new values of one tensor, from the rate, the number of the step, and what is kept of it.
Formula = Callable[[OnnxOp, Operand, Operand, Sequence[Operand]], Sequence[Operand]]


def for_each_tensor(formula: Formula, count: int) -> Rule:
    """Inputs are a rate, a step, and `count` groups of tensors; the second group are gradients."""

    def rule(op: OnnxOp) -> list[Operand | None]:
        given = [op.plain(place) for place in range(2, len(op.inputs))]
        each = len(given) // count
        updates = [formula(op, op.plain(0), op.plain(1), given[n::each]) for n in range(each)]
        return [new[place] for place in range(count - 1) for new in updates]

    return rule


def number(op: OnnxOp, name: str, default: float = 0.0) -> float:
    return float(op.attribute(name, default))


def gradient(op: OnnxOp, x: Operand, g: Operand) -> Operand:
    """The gradient, with that of the norm."""
    return op.emit("{2} * {0} + {1}", x, g, number(op, "norm_coefficient"), name="g")


def adagrad(op: OnnxOp, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, h = given
    g = gradient(op, x, g)
    h = op.emit("{0} + square({1})", h, g, name="h")
    text = "{0} - {2} / (1.0 + f32({1}) * {5}) * {3} / (sqrt({4}) + {6})"
    slow, eps = number(op, "decay_factor"), number(op, "epsilon", 1e-6)
    return [op.emit(text, x, step, rate, g, h, slow, eps, name="x"), h]


def adam(op: OnnxOp, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v, h = given
    a, b = number(op, "alpha", 0.9), number(op, "beta", 0.999)
    g = gradient(op, x, g)
    v = op.emit("{2} * {0} + {3} * {1}", v, g, a, 1 - a, name="v")
    h = op.emit("{2} * {0} + {3} * square({1})", h, g, b, 1 - b, name="h")
    t = "maximum(f32({0}), 1.0)"
    corrected = f"{{1}} * sqrt(1.0 - {{3}} ** {t}) / (1.0 - {{2}} ** {t})"
    r = op.emit(f"where({{0}} > 0, {corrected}, {{1}})", step, rate, a, b)
    kept, eps = 1 - number(op, "norm_coefficient_post"), number(op, "epsilon", 1e-6)
    text = "({0} - {1} * {2} / (sqrt({3}) + {4})) * {5}"
    return [op.emit(text, x, r, v, h, eps, kept, name="x"), v, h]


def momentum(op: OnnxOp, rate: Operand, step: Operand, given: Sequence[Operand]) -> list[Operand]:
    x, g, v = given
    g = gradient(op, x, g)
    alpha = number(op, "alpha")
    text = "{3} * {0} + where({1} > 0, {4}, 1.0) * {2}"
    v = op.emit(text, v, step, g, alpha, number(op, "beta"), name="v")
    way = "({2} + {4} * {3})" if op.attribute("mode") == "nesterov" else "{3}"
    return [op.emit(f"{{0}} - {{1}} * {way}", x, rate, g, v, alpha, name="x"), v]


RULES: dict[str, Rule] = {
    "DFT": dft,
    "STFT": stft,
    "Col2Im": col2im,
    "Compress": compress,
    "Det": determinant,
    "MaxUnpool": max_unpool,
    "OptionalGetElement": same,
    "TfIdfVectorizer": count_ngrams,
}
# Of other domains than ONNX's own.
OTHER_RULES: dict[tuple[str, str], Rule] = {
    ("ai.onnx.ml", "ArrayFeatureExtractor"): feature_extractor,
    ("ai.onnx.ml", "Binarizer"): binarizer,
    ("ai.onnx.preview.training", "Adagrad"): for_each_tensor(adagrad, 3),
    ("ai.onnx.preview.training", "Adam"): for_each_tensor(adam, 4),
    ("ai.onnx.preview.training", "Momentum"): for_each_tensor(momentum, 3),
}
