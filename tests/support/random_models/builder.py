"""Makes a random model line by line: picks operands, makes new inputs, parameters and state."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeVar

from random_models.spec import Line, Model, Type, Write

Shape = tuple[int, ...]

T = TypeVar("T")
# Sizes around those of workgroups and tiles, and primes, are where kernels go wrong.
SMALL = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8)
MIDDLE = (*SMALL, 9, 13, 16, 17, 31, 32, 33)
LARGE = (*MIDDLE, 63, 64, 65, 100, 127, 128, 130, 257)
MOST_ELEMENTS = {SMALL: 2_000, MIDDLE: 10_000, LARGE: 40_000}
INPUT_BOUND = 2.0
# Larger values are bounded (by tanh, for example) before they are used, so that nothing overflows.
MOST = 40.0


class Builder:
    """`whole` is the fraction of operands that are computed from integers and bools."""

    def __init__(self, seed: int, whole: float = 0.0) -> None:
        self.whole_share = whole
        self.random = random.Random(seed)
        self.seed = seed
        self.inputs: dict[str, Type] = {}
        self.params: dict[str, Type] = {}
        self.states: dict[str, Type] = {}
        self.layers: dict[str, str] = {}
        self.steps: list[Line | Write] = []
        self.unused: dict[str, None] = {}
        self.types: dict[str, Type] = {}
        self.bounds: dict[str, float] = {}
        self.sizes = self.weighted([(SMALL, 6), (MIDDLE, 3), (LARGE, 1)])
        self.most = MOST_ELEMENTS[self.sizes]

    # ---- chance

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choice(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def weighted(self, items: Sequence[tuple[T, int]]) -> T:
        return self.random.choices([item for item, _ in items], [weight for _, weight in items])[0]

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def size(self, most: int = 10**6) -> int:
        return self.choice([size for size in self.sizes if size <= most])

    def shape(self, rank: int) -> tuple[int, ...]:
        sizes: list[int] = []
        for _ in range(rank):
            room = self.most // prod(sizes)
            sizes.append(self.size(max(1, room)))
        return tuple(sizes)

    # ---- values

    def source(self, type_: Type) -> str:
        """A new input, parameter or state of this type."""
        kinds = [(self.inputs, 5), (self.states, 1)]
        if type_.dtype == "f32" and type_.shape:
            kinds.append((self.params, 4))
        if type_.dtype not in ("f32", "i32"):
            kinds = kinds[:1]
        return self._new(self.weighted(kinds), type_)

    def input(self, type_: Type) -> str:
        return self._new(self.inputs, type_)

    def param(self, *shape: int) -> str:
        return self._new(self.params, Type("f32", shape))

    def weights(self, *shape: int) -> str:
        """A parameter, or weights that were quantised."""
        return from_whole(self, shape) if self.chance(self.whole_share) else self.param(*shape)

    def state(self, type_: Type) -> str:
        return self._new(self.states, type_)

    def of_state(self, type_: Type) -> str:
        """A state of this type, an existing one or a new one."""
        found = [name for name, known in self.states.items() if known == type_]
        return self.choice(found) if found and self.chance(0.5) else self.state(type_)

    def layer(self, text: str) -> str:
        name = f"layer{len(self.layers)}"
        self.layers[name] = text
        return name

    def _new(self, where: dict[str, Type], type_: Type) -> str:
        letter = {id(self.inputs): "x", id(self.params): "p", id(self.states): "s"}[id(where)]
        name = f"{letter}{len(where)}"
        where[name] = self.types[name] = type_
        self.bounds[name] = INPUT_BOUND
        return name

    def pick(
        self,
        rank: Iterable[int] = (0, 1, 2, 3, 4),
        dtype: str = "f32",
        fits: Callable[[Type], bool] = lambda type_: True,
    ) -> str:
        """A value of this kind, mostly a recent one; a new source if there is none."""
        ranks = list(rank)
        if dtype == "f32" and self.chance(self.whole_share / 4):
            type_ = Type(dtype, self.shape(self.choice(ranks)))
            if fits(type_):
                return from_whole(self, type_.shape)
        found = [
            name for name, type_ in self.types.items()
            if type_.dtype == dtype and type_.rank in ranks and fits(type_)
        ]  # fmt: skip
        if found and self.chance(0.9):
            fresh = [name for name in found if name in self.unused]
            return self._bounded(self.choice(fresh if fresh and self.chance(0.7) else found))
        for _ in range(50):
            type_ = Type(dtype, self.shape(self.choice(ranks)))
            if fits(type_):
                return self.source(type_)
        return self._bounded(self.choice(found)) if found else self.source(Type(dtype, ()))

    def of(self, type_: Type, new: float = 0.3) -> str:
        """A value of exactly this type."""
        if type_.dtype == "f32" and self.chance(self.whole_share):
            return from_whole(self, type_.shape)
        found = [name for name, known in self.types.items() if known == type_]
        if found and not self.chance(new):
            fresh = [name for name in found if name in self.unused]
            return self._bounded(self.choice(fresh or found))
        return self.source(type_)

    def _bounded(self, name: str) -> str:
        if self.bounds[name] <= MOST or self.types[name].dtype != "f32":
            return name
        squash = self.choice(["tanh({0})", "sin({0})", "{0} / (1.0 + abs({0}))"])
        return self.add(self.types[name], squash, name, bound=1.0)

    def add(self, type_: Type, text: str, *uses: str, bound: float | None = None) -> str:
        name = f"h{len(self.types)}"
        self.types[name] = type_
        most = max((self.bounds[use] for use in uses), default=1.0)
        self.bounds[name] = most if bound is None else bound
        for use in uses:
            self.unused.pop(use, None)
        self.unused[name] = None
        self.steps.append(Line(name, type_, text, uses, self.bounds[name]))
        return name

    def write(self, state: str, target: str, uses: tuple[str, ...], value: str) -> None:
        self.steps.append(Write(state, target, uses, value))

    def model(self, results: Sequence[str], optimizer: str) -> Model:
        return Model(
            dict(self.inputs), dict(self.params), dict(self.states), dict(self.layers),
            tuple(self.steps), tuple(results), optimizer, self.seed % 1000,
        ).trimmed()  # fmt: skip


# ---- floats made from integers, such as quantised weights, counts and masks

WHOLE = ("u8", "i8", "i32", "u32", "bool")
# Integers of each kind that are computed, from a float or from integers.
CAST = {
    "u8": "u8(clamp({0} * 9.0, 0.0, 99.0))", "i32": "i32({0} * 3.0)", "u32": "u32(abs({0}) * 5.0)",
    "i8": "i8(clamp({0} * 9.0, -99.0, 99.0))", "bool": "{0} > 0.3",
}  # fmt: skip
STEP = {
    "u8": "{0} / 3 + {0} % 5", "i32": "{0} * 2 - {0} % 3", "u32": "{0} / 2 + 1",
    "i8": "{0} - {0} % 5", "bool": "not {0}",
}  # fmt: skip
BACK = ("f32({0}) * 0.01", "(f32({0}) - 3.0) * 0.02", "f32({0}) * 0.01 + {1}", "f32({0}) * {1}")


def from_whole(b: Builder, shape: Shape) -> str:
    """A float tensor computed from integers or bools; the scale may be one of each column."""
    whole = whole_value(b, b.choice(WHOLE), shape)
    text = b.choice(BACK if b.types[whole].dtype != "bool" else (*BACK, "where({0}, {1}, 0.5)"))
    if "{1}" not in text:
        return b.add(Type("f32", shape), text, whole, bound=9.0)
    scale = b.source(Type("f32", shape[b.whole(0, len(shape)) :]))
    # An i32 or u32 may be as large as 400, a u8 255.
    small = text.replace("f32({0})", "(f32({0}) * 0.01)")
    return b.add(Type("f32", shape), small, whole, scale, bound=9.0)


def whole_value(b: Builder, dtype: str, shape: Shape) -> str:
    """Integers or bools: an input, or computed from a float, a comparison or other integers."""
    type_ = Type(dtype, shape)
    if b.chance(0.5):
        found = b.of(type_, new=0.6)
    else:
        found = b.add(type_, CAST[dtype], b.source(Type("f32", shape)), bound=130.0)
    return b.add(type_, STEP[dtype], found, bound=300.0) if b.chance(0.3) else found
