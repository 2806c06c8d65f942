"""Random lines: views, joins, lookups, windows, states and reductions."""

from __future__ import annotations

from math import prod

from random_models.builder import WHOLE, Builder, whole_value
from random_models.spec import Type

LETTERS = "abcd"


def reshape(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3, 4))
    total, sizes = b.types[x].size, []
    for _ in range(b.whole(1, 3)):
        factors = [n for n in range(1, total + 1) if total % n == 0]
        sizes.append(b.choice(factors))
        total //= sizes[-1]
    shape = (*sizes, total)
    shown = list(shape)
    if b.chance(0.3):
        shown[b.whole(0, len(shape) - 1)] = -1
    b.add(Type("f32", shape), f"reshape({{0}}, {shown})", x)


def transpose(b: Builder) -> None:
    x = b.pick(rank=(2, 3, 4))
    shape = list(b.types[x].shape)
    one, two = b.random.sample(range(len(shape)), 2)
    shape[one], shape[two] = shape[two], shape[one]
    b.add(Type("f32", tuple(shape)), f"transpose({{0}}, {one}, {two - len(shape)})", x)


def rearrange(b: Builder) -> None:
    x = b.pick(rank=(2, 3, 4))
    shape = b.types[x].shape
    names = LETTERS[: len(shape)]
    order = b.random.sample(range(len(shape)), len(shape))
    new = [shape[i] for i in order]
    words = [names[i] for i in order]
    if b.chance(0.5):
        at = b.whole(0, len(new) - 2)
        new[at : at + 2] = [new[at] * new[at + 1]]
        words[at : at + 2] = [f"({words[at]} {words[at + 1]})"]
    pattern = f'"{" ".join(names)} -> {" ".join(words)}"'
    b.add(Type("f32", tuple(new)), f"rearrange({{0}}, {pattern})", x)


def cut(b: Builder) -> None:
    """Indexing with numbers, ranges, steps, `..` and `new`."""
    dtype = b.weighted([("f32", 6), ("i32", 1)])
    x = b.pick(rank=(1, 2, 3, 4), dtype=dtype)
    items, shape = [], []
    for size in b.types[x].shape:
        text, new = _range(b, size)
        items.append(text)
        shape += new
    if b.chance(0.15) and len(shape) < 4:
        at = b.whole(0, len(shape))
        items.insert(_place(items, at), "new")
        shape.insert(at, 1)
    b.add(Type(dtype, tuple(shape)), f"{{0}}[{', '.join(items)}]", x)


def _place(items: list[str], at: int) -> int:
    """The position in the index of axis `at` of the result: plain numbers give no axis."""
    kept = 0
    for place, item in enumerate(items):
        if kept == at:
            return place
        kept += ":" in item
    return len(items)


def _range(b: Builder, size: int) -> tuple[str, list[int]]:
    kind = b.weighted([("all", 5), ("one", 2), ("range", 3), ("step", 2)])
    if kind == "one":
        return str(b.whole(-size, size - 1)), []
    if kind == "range":
        low = b.whole(0, size - 1)
        high = b.whole(low + 1, size)
        shown = high - size if high < size and b.chance(0.3) else high
        return f"{low} : {shown}", [high - low]
    if kind == "step":
        low, step = b.whole(0, size - 1), b.whole(1, 3)
        return f"{low} :: {step}", [len(range(low, size, step))]
    return ":", [size]


def concat(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3, 4), fits=lambda type_: 4 * type_.size <= 3 * b.most)
    shape = list(b.types[x].shape)
    axis = b.whole(0, len(shape) - 1)
    parts, total = [x], shape[axis]
    for _ in range(b.whole(1, 3)):
        size = shape[axis] if b.chance(0.4) else b.whole(1, 5)
        parts.append(b.of(Type("f32", (*shape[:axis], size, *shape[axis + 1 :])), new=0.2))
        total += size
    b.random.shuffle(parts)
    shape[axis] = total
    inside = ", ".join(f"{{{i}}}" for i in range(len(parts)))
    b.add(Type("f32", tuple(shape)), f"concat([{inside}], axis = {axis})", *parts)


def lookup(b: Builder) -> None:
    """Rows of a table by integers from an input or a cast."""
    table = b.pick(rank=(1, 2, 3), fits=lambda type_: type_.size <= b.most // 2)
    rows, rest = b.types[table].shape[0], b.types[table].shape[1:]
    room = max(1, b.most // max(1, prod(rest)))
    shape = tuple(b.size(max(1, room)) for _ in range(b.whole(0, 1)))
    ids = _ids(b, shape, rows)
    text = "gather({0}, {1})" if shape or b.chance(0.5) else "{0}[{1}]"
    b.add(Type("f32", (*shape, *rest)), text, table, ids, bound=b.bounds[table])


def _ids(b: Builder, shape: tuple[int, ...], rows: int) -> str:
    type_ = Type("i32", shape)
    if b.chance(0.6):
        return b.input(type_)
    x = b.of(Type("f32", shape))
    return b.add(type_, f"clamp(i32(abs({{0}}) * 3.0), 0, {rows - 1})", x)


def one_hot(b: Builder) -> None:
    shape = b.shape(b.whole(0, 2))
    ids = b.of(Type("i32", shape))
    count = b.whole(2, 5)
    b.add(Type("f32", (*shape, count)), f"one_hot({{0}}, {count})", ids, bound=1)


def window(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3))
    shape = list(b.types[x].shape)
    axis = b.whole(0, len(shape) - 1)
    size = b.whole(1, shape[axis])
    at = b.input(Type("i32")) if b.chance(0.7) else b.of(Type("i32"))
    if at not in b.inputs:
        # Drawn inputs are in range; computed values may be anything.
        at = b.add(Type("i32"), f"clamp({{0}}, 0, {shape[axis] - size})", at)
    shape[axis] = size
    index = ", ".join([*[":"] * axis, f"{{1}} +: {size}"])
    b.add(Type("f32", tuple(shape)), f"{{0}}[{index}]", x, at, bound=b.bounds[x])


def remember(b: Builder) -> None:
    """A state that is written, whole or in a window, and read before and after."""
    x = b.pick(rank=(0, 1, 2, 3), fits=lambda type_: 2 * type_.size <= b.most)
    shape = b.types[x].shape
    value = b.add(b.types[x], "tanh({0})", x, bound=1)
    if not shape or b.chance(0.5):
        state = b.of_state(b.types[x])
        mixed = b.add(b.types[x], "0.5 * {0} + 0.25 * {1}", value, state, bound=1)
        b.write(state, state, (), mixed)
    else:
        rows = shape[0] + b.whole(0, 4)
        state = b.of_state(Type("f32", (rows, *shape[1:])))
        at = b.input(Type("i32"))
        b.write(state, f"{state}[{{0}} +: {shape[0]}]", (at,), value)
    b.add(b.types[state], "{0} + 0.1", state, bound=1.2)


def reduce(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3, 4))
    shape = b.types[x].shape
    axes = sorted(b.random.sample(range(len(shape)), b.whole(1, len(shape))))
    count = prod(shape[axis] for axis in axes)
    bound, names = b.bounds[x], ["mean", "max", "min", "var", "logsumexp"]
    names += ["sum"] * (bound * count < 3000) + ["prod"] * (count <= 6 and bound <= 3)
    name = b.choice(names)
    growth = {
        "sum": bound * count,
        "prod": bound ** min(count, 9),
        "var": bound**2,
        "logsumexp": bound + 8,
    }
    keep = b.chance(0.3)
    kept = tuple(1 if i in axes else size for i, size in enumerate(shape) if keep or i not in axes)
    shown = f"({', '.join(map(str, axes))},)" if len(axes) > 1 else str(axes[0])
    where = "" if len(axes) == len(shape) and not keep else f", axis = {shown}"
    text = f"{name}({{0}}{where}{', keep = true' if keep else ''})"
    b.add(Type("f32", kept), text, x, bound=growth.get(name, bound))


def along(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3, 4))
    axis = b.whole(-b.types[x].rank, b.types[x].rank - 1)
    size = b.types[x].shape[axis]
    names = ["softmax", "log_softmax", "normalize"]
    names += ["cumsum"] * (size * b.bounds[x] < 1000)
    name = b.choice(names)
    bound = {"softmax": 1, "log_softmax": 2 * b.bounds[x] + 8, "normalize": 1}
    shift = " + 0.3" if name == "normalize" else ""
    b.add(b.types[x], f"{name}({{0}}{shift}, axis = {axis})", x,
          bound=bound.get(name, size * b.bounds[x]))  # fmt: skip


def place_of(b: Builder) -> None:
    x = b.pick(rank=(1, 2, 3))
    axis = b.whole(0, b.types[x].rank - 1)
    shape = tuple(size for i, size in enumerate(b.types[x].shape) if i != axis)
    name = b.choice(["argmax", "argmin"])
    found = b.add(Type("i32", shape), f"{name}({{0}}, axis = {axis})", x, bound=300)
    if b.chance(0.5):
        b.add(Type("f32", shape), "0.1 * f32({0})", found, bound=30)


def whole_views(b: Builder) -> None:
    """Integers and bools transposed, sliced, concatenated and gathered, then used as floats."""
    dtype = b.choice(WHOLE)
    x = whole_value(b, dtype, b.shape(b.whole(1, 3)))
    shape = b.types[x].shape
    kind = b.choice(["turn", "cut", "join", "rows", "choose"])
    if kind == "turn":
        names = " ".join(LETTERS[: len(shape)])
        turned = Type(dtype, shape[::-1])
        found = b.add(turned, f'rearrange({{0}}, "{names} -> {names[::-1]}")', x)
    elif kind == "cut":
        text, new = _range(b, shape[0])
        found = b.add(Type(dtype, (*new, *shape[1:])), f"{{0}}[{text}]", x)
    elif kind == "join":
        y = whole_value(b, dtype, shape)
        joined = Type(dtype, (2 * shape[0], *shape[1:]))
        found = b.add(joined, "concat([{0}, {1}], axis = 0)", x, y)
    elif kind == "rows":
        ids = b.input(Type("i32", (b.whole(1, 5),)))
        found = b.add(Type(dtype, (b.types[ids].size, *shape[1:])), "gather({0}, {1})", x, ids)
    else:
        y, condition = whole_value(b, dtype, shape), whole_value(b, "bool", shape)
        found = b.add(b.types[x], "where({2}, {0}, {1})", x, y, condition)
    b.add(Type("f32", b.types[found].shape), "f32({0}) * 0.01", found, bound=5.0)


def whole_reduce(b: Builder) -> None:
    """Sums, extremes and tests of integers or bools along an axis."""
    dtype = b.choice(WHOLE)
    x = whole_value(b, dtype, b.shape(b.whole(1, 3)))
    shape = b.types[x].shape
    axis = b.whole(0, len(shape) - 1)
    kept = tuple(size for i, size in enumerate(shape) if i != axis)
    names = {"bool": ["any", "all"], "u8": ["max", "min", "argmax"], "i8": ["max", "argmin"]}
    name = b.choice(names.get(dtype, ["sum", "max", "min", "argmin"]))
    kind = "i32" if name.startswith("arg") else dtype
    found = b.add(Type(kind, kept), f"{name}({{0}}, axis = {axis})", x)
    b.add(Type("f32", kept), "sin(f32({0}) * 0.01)", found, bound=1.0)
