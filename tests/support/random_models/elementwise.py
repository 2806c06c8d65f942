"""Random lines: arithmetic, functions, comparisons, other element types, random numbers."""

from __future__ import annotations

from random_models.builder import Builder
from random_models.spec import Type

# Text, largest operand, bound of the result (None: as the operand).
UNARY: list[tuple[str, float, float | None]] = [
    ("-{0}", 99, None), ("abs({0})", 99, None), ("relu({0})", 99, None),
    ("exp({0})", 4, 55), ("expm1({0})", 4, 55), ("log(abs({0}) + 0.3)", 99, 6),
    ("log1p(abs({0}))", 99, 6), ("sqrt(abs({0}) + 0.1)", 99, 8),
    ("rsqrt(square({0}) + 0.2)", 20, 2.3), ("sin({0})", 99, 1), ("cos({0})", 99, 1),
    ("tanh({0})", 99, 1), ("sigmoid({0})", 99, 1), ("gelu({0})", 99, None), ("silu({0})", 99, None),
    ("gelu({0}, approximate = true)", 99, None), ("softplus({0})", 99, None), ("erf({0})", 99, 1),
    ("elu({0}, alpha = 0.7)", 99, None), ("selu({0})", 30, 32), ("mish({0})", 99, None),
    ("hardswish({0})", 99, None), ("leaky_relu({0})", 99, None), ("softsign({0})", 99, 1),
    ("square({0})", 6, 36), ("{0} ** 3", 3, 27), ("{0} ** 2", 6, 36),
    ("(abs({0}) + 0.5) ** 1.5", 6, 17), ("1.0 / (1.0 + square({0}))", 20, 1),
    ("clamp({0}, -1.0, 0.8)", 99, 1), ("0.5 * {0} - 1.25", 99, None), ("sign({0})", 99, 1),
    ("floor({0})", 99, None), ("{0} % 1.5", 99, 1.5), ("3.0 - {0} / 7.0", 99, None),
    ("1.0 / (abs({0}) + 0.25)", 99, 4), ("if 1 < 2 then {0} else -{0}", 99, None),
]  # fmt: skip
BINARY: list[tuple[str, float]] = [
    ("{0} + {1}", 2), ("{0} - {1}", 2), ("{0} * {1}", 0), ("maximum({0}, {1})", 1),
    ("minimum({0}, {1})", 1), ("{0} / (abs({1}) + 0.5)", 2), ("{0} + 0.3 * {1} - 0.1", 2),
    ("{0} * sigmoid({1})", 1), ("where({0} > {1}, {0}, 0.5 * {1})", 1),
    ("{0} % (abs({1}) + 0.5)", 1),
]  # fmt: skip
COMPARE = ("<", "<=", ">", ">=", "==", "!=")


def unary(b: Builder) -> None:
    x = b.pick()
    fitting = [item for item in UNARY if item[1] >= b.bounds[x]]
    text, _, bound = b.choice(fitting)
    b.add(b.types[x], text, x, bound=bound)


def binary(b: Builder) -> None:
    x = b.pick()
    y, shape = partner(b, x)
    text, growth = b.choice(BINARY)
    both = max(b.bounds[x], b.bounds[y])
    bound = b.bounds[x] * b.bounds[y] if not growth else both * growth
    uses = (x, y) if b.chance(0.5) else (y, x)
    b.add(Type("f32", shape), text, *uses, bound=max(bound, 1.0))


def partner(b: Builder, x: str) -> tuple[str, tuple[int, ...]]:
    """A value that broadcasts with `x`, and the shape of the result."""
    shape = b.types[x].shape
    kind = b.weighted([("same", 5), ("suffix", 3), ("ones", 3), ("longer", 1), ("self", 1)])
    if kind == "self":
        return x, shape
    if kind == "suffix":
        return b.of(Type("f32", shape[b.whole(0, len(shape)) :])), shape
    if kind == "ones":
        ones = tuple(1 if b.chance(0.5) else size for size in shape)
        return b.of(Type("f32", ones)), shape
    if kind == "longer" and len(shape) < 4 and b.types[x].size * 3 <= b.most:
        wide = (b.whole(2, 3), *shape)
        return b.of(Type("f32", wide)), wide
    return b.of(b.types[x], new=0.1), shape


def where(b: Builder) -> None:
    x = b.pick()
    y, shape = partner(b, x)
    condition = truth(b, Type("bool", shape[b.whole(0, len(shape)) :]))
    both = max(b.bounds[x], b.bounds[y])
    b.add(Type("f32", shape), "where({0}, {1}, {2})", condition, x, y, bound=both)


def truth(b: Builder, type_: Type) -> str:
    kind = b.weighted([("compare", 4), ("old", 3), ("input", 1)])
    if kind == "input":
        return b.input(type_)
    if kind == "old" and type_ in b.types.values():
        return b.of(type_, new=0.1)
    dtype = b.choice(["f32", "f32", "i32"])
    x = b.of(Type(dtype, type_.shape))
    if b.chance(0.5):
        number = "0.3" if dtype == "f32" else "1"
        return b.add(type_, f"{{0}} {b.choice(COMPARE)} {number}", x)
    y = b.of(Type(dtype, type_.shape))
    return b.add(type_, f"{{0}} {b.choice(COMPARE)} {{1}}", x, y)


def logic(b: Builder) -> None:
    x = b.pick()
    one, two = truth(b, Type("bool", b.types[x].shape)), truth(b, Type("bool", b.types[x].shape))
    text = b.choice(["{0} and {1}", "{0} or not {1}", "not {0}", "{0} and ({1} or not {0})"])
    found = b.add(b.types[one], text, one, two)
    kind = b.choice(["f32", "any", "none"])
    if kind == "f32":
        b.add(Type("f32", b.types[x].shape), "f32({0})", found, bound=1)
    elif kind == "any" and b.types[x].shape:
        b.add(
            Type("bool", b.types[x].shape[:-1]),
            b.choice(["any", "all"]) + "({0}, axis = -1)",
            found,
        )


def integers(b: Builder) -> None:
    """Integers from an input or a cast, arithmetic with them, and back to floats."""
    x = b.pick(rank=(0, 1, 2, 3))
    type_ = Type("i32", b.types[x].shape)
    i = b.input(type_) if b.chance(0.5) else b.add(type_, "i32({0} * 3.0)", x, bound=130)
    text = b.choice([
        "{0} + {1}", "{0} * {1} - 3", "{0} % 3", "{0} / 2", "{0} % ({1} * {1} + 2)", "-{0}",
        "maximum({0}, {1})", "clamp({0}, 0, 2)", "abs({0})", "{0} / (abs({1}) + 1)",
    ])  # fmt: skip
    found = b.add(type_, text, i, b.of(type_, new=0.3), bound=200)
    b.add(Type("f32", type_.shape), "sin(f32({0}))", found, bound=1)


def casts(b: Builder) -> None:
    x = b.pick()
    shape = b.types[x].shape
    kind = b.choice(["f16", "u8", "u32", "bool"])
    text = {
        "f16": "f16({0})", "u8": "u8(clamp({0} * 9.0, 0.0, 99.0))",
        "u32": "u32(abs({0}) * 5.0)", "bool": "bool({0})",
    }[kind]  # fmt: skip
    bound = max(1.0, b.bounds[x]) if kind == "f16" else 200.0
    low = b.add(Type(kind, shape), text, x, bound=bound)
    more = {"f16": "{0} * 0.5 + {0}", "u8": "{0} / 2 + {0} % 7", "u32": "{0} * 3 + 1"}
    if kind in more and b.chance(0.6):
        low = b.add(Type(kind, shape), more[kind], low, bound=2 * bound)
    scale = "" if kind == "f16" else " * 0.01"
    back = 2 * bound if kind == "f16" else 7.0
    b.add(Type("f32", shape), f"f32({{0}}){scale}", low, bound=back)


def chance(b: Builder) -> None:
    """Random numbers, which the numpy evaluator draws from the same generator."""
    x = b.pick(rank=(1, 2, 3))
    type_ = b.types[x]
    text = b.choice([
        f"{{0}} + rand({type_})", f"{{0}} * randn({type_})", "dropout({0}, 0.3)",
        f"where(rand({type_}) < 0.4, {{0}}, 0.0)",
    ])  # fmt: skip
    b.add(type_, text, x, bound=6 * max(1.0, b.bounds[x]))


def stop(b: Builder) -> None:
    x = b.pick()
    b.add(b.types[x], b.choice(["stop_grad({0}) + {0}", "{0} * stop_grad({0})"]), x,
          bound=b.bounds[x] * max(2.0, b.bounds[x]))  # fmt: skip


def loop(b: Builder) -> None:
    """A loop, which the compiler unrolls."""
    x = b.pick(rank=(1, 2, 3), fits=lambda type_: type_.shape[0] <= 8)
    size, rest = b.types[x].shape[0], b.types[x].shape[1:]
    parts = " + ".join(f"{i + 1}.0 * {{0}}[{i}]" for i in range(size))
    b.add(Type("f32", rest), f"tanh({parts})", x, bound=1)
