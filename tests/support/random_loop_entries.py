"""Random graphs with loops, also in one another, for comparing kernels with numpy."""

from __future__ import annotations

import random
from collections.abc import Sequence

from wgcc.ir.graph import Builder, Graph, TensorType, Value
from wgcc.ir.loops import unique_names
from wgcc.ops import infer_types

ROWS, COLS = 3, 4
SHAPES: tuple[tuple[int, ...], ...] = ((), (COLS,), (ROWS, COLS), (COLS, COLS))
# Products have kernels of their own, so that what they read and make is in memory.
KINDS = ("pair", "pair", "sin", "sum", "spread", "turn", "join", *["product"] * 5)


def random_loops(seed: int) -> Graph:
    return unique_names(_Maker(random.Random(seed)).entry())


class _Maker:
    """Every value is at most 1, or a sum of few such."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def entry(self) -> Graph:
        builder = Builder(infer_types)
        inputs = [Value(builder.fresh(f"x{i}"), TensorType(s)) for i, s in enumerate(SHAPES)]
        long = [Value(f"long{n}", TensorType((n, ROWS, COLS))) for n in (1, 3)]
        known = self.grow(builder, [*inputs, *long], self.rng.randint(3, 6))
        results: list[Value] = []
        for _ in range(self.rng.randint(1, 2)):
            results += self.loop(builder, known, depth=0)
            known = self.grow(builder, known + results, self.rng.randint(1, 4))
        made = [*results, *self.some(known[len(inputs) + len(long) :], 1, 3)]
        outputs = {f"out{i}": value for i, value in enumerate(dict.fromkeys(made))}
        return Graph("e", (*inputs, *long), nodes=tuple(builder.nodes), outputs=outputs)

    def some(self, values: Sequence[Value], least: int, most: int) -> list[Value]:
        return self.rng.sample(values, min(len(values), self.rng.randint(least, most)))

    def grow(self, b: Builder, known: list[Value], count: int) -> list[Value]:
        found = list(known)
        for _ in range(count):
            found.append(self.step(b, found))
        return found

    def step(self, b: Builder, known: list[Value]) -> Value:
        """One more value, of the shape of some other or reduced, transposed or multiplied."""
        x = self.rng.choice(known)
        kind = self.rng.choice(KINDS)
        if kind == "product":
            x = self.rng.choice([v for v in known if v.type.rank == 2] or [x])
            right = [v for v in known if v.shape == (x.shape[-1:] or (0,)) + (COLS,)]
            if right and x.type.rank == 2:
                return b.apply("sin", b.apply("matmul", x, self.rng.choice(right)))
        if kind == "turn" and x.type.rank >= 2:
            perm = tuple(self.rng.sample(range(x.type.rank), x.type.rank))
            return b.apply("transpose", x, perm=perm)
        if kind == "sum" and x.type.rank:
            return b.apply("sin", b.apply("sum", x, axes=(self.rng.randrange(x.type.rank),)))
        if kind == "spread" and x.shape in ((), (COLS,)):
            return b.apply("broadcast", self.lifted(b, x), shape=(ROWS, COLS))
        if kind == "join" and x.type.rank:
            half = b.apply("concat", x, x, axis=0)
            starts = (self.rng.randint(0, x.shape[0]), *(0 for _ in x.shape[1:]))
            return b.apply("slice", half, starts=starts, sizes=x.shape, steps=(1,) * x.type.rank)
        if kind == "pair":
            other = self.rng.choice([v for v in known if v.type == x.type])
            return b.apply("mul", b.apply("cos", x), b.apply("sin", other))
        return b.apply("sin", x)

    def lifted(self, b: Builder, x: Value) -> Value:
        return b.apply("reshape", x, shape=(1, COLS) if x.shape else (1, 1))

    def loop(self, b: Builder, known: list[Value], depth: int) -> list[Value]:
        rounds = self.rng.choice((1, 3, 3, 3))
        inits = self.some(known, 1, 3)
        xs = self.some([v for v in known if v.type.rank and v.shape[0] == rounds], 0, 2)
        captured = self.some(known[-8:], 1, 5)
        body = self.body(rounds, inits, xs, captured, depth)
        node = (*inits, *xs, *captured)
        found = b.apply_many(
            "repeat", *node, body=body, rounds=rounds, reverse=self.rng.random() < 0.5
        )
        return [value for value in found if value.type.rank <= 3]

    def body(
        self,
        rounds: int,
        inits: list[Value],
        xs: list[Value],
        captured: list[Value],
        depth: int,
    ) -> Graph:
        b = Builder(infer_types)
        index = Value(b.fresh("t"), TensorType((), "u32"))
        slices = [Value(b.fresh("slice"), TensorType(x.shape[1:])) for x in xs]
        inside = [Value(b.fresh("captured"), v.type) for v in captured]
        carries = [Value(b.fresh("carry"), v.type) for v in inits]
        known = [*slices, *inside, *carries, b.apply("cast", index, dtype="f32")]
        known = self.grow(b, known, self.rng.randint(1, 8))
        if depth == 0 and self.rng.random() < 0.4:
            known += self.loop(b, known, depth + 1)
            known = self.grow(b, known, 2)
        writes = {c.name: self.rng.choice([v for v in known if v.type == c.type]) for c in carries}
        small = [value for value in known if value.type.rank <= 2]
        outputs = {f"y{i}": v for i, v in enumerate(self.some(small, 0 if carries else 1, 4))}
        sources = (index, *slices, *inside)
        return Graph("body", sources, (), tuple(carries), tuple(b.nodes), outputs, writes)
