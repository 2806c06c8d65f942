"""Which inputs an entry accepts: exactly those for which every index and label is in range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from elaborated import only, problems, program
from wgcc.elaborate.index_ranges.intervals import intervals
from wgcc.evaluate import OutOfRangeError, Session, evaluate
from wgcc.ir.graph import Builder, Graph, TensorType, Value
from wgcc.ops import infer_types

ROWS = 10
# What an input of each dtype is tried with.
TRIED = {"i32": np.arange(-50, 51), "u32": np.arange(60)}
TRIED |= {"i8": np.arange(-128, 128), "u8": np.arange(256)}

# An index made of the input x, and the range that the plan gives for x.
EXACT: dict[str, tuple[str, tuple[int, int] | None]] = {
    "x": ("i32", (0, 9)),
    "x + 1": ("i32", (-1, 8)),
    "1 + x": ("i32", (-1, 8)),
    "x - 3": ("i32", (3, 12)),
    "3 - x": ("i32", (-6, 3)),
    "-x": ("i32", (-9, 0)),
    "x * 2": ("i32", (0, 4)),
    "x * -3": ("i32", (-3, 0)),
    "9 - x * 2 + 1": ("i32", (1, 5)),
    "x / 4": ("i32", (0, 39)),
    "x / -4": ("i32", (-39, 0)),
    "x / 4 * 4": ("i32", (0, 11)),
    "abs(x)": ("i32", (-9, 9)),
    "minimum(x, 7)": ("i32", (0, 2**31 - 1)),
    "minimum(x, 70)": ("i32", (0, 9)),
    "maximum(3, x)": ("i32", (-(2**31), 9)),
    "maximum(minimum(x + 1, 9), 0)": ("i32", None),
    "clamp(x, 0, 9)": ("i32", None),
    "x % 10": ("i32", None),
    "(x - 100) % 7 + 3": ("i32", None),
    "where(x < 0 or x > 9, 0, x)": ("i32", None),
    "where(0 <= x and not (x >= 10), x, 0)": ("i32", None),
    "i32(x == 3) * 9": ("i32", None),
    "i32(u32(x)) - 1": ("i32", (1, 10)),
    "i32(u8(x % 8))": ("i32", None),
    "reshape(transpose(x[:, new]), [T]) + 1": ("i32", (-1, 8)),
    "concat([x, x + 1], axis = 0)": ("i32", (0, 8)),
    "stop_grad(x) + 1": ("i32", (-1, 8)),
    "x - 4": ("u32", (4, 13)),
    "i32(x) - 40": ("u8", (40, 49)),
    "i32(x) / 30": ("u8", None),
    "u32(i32(x) + 1)": ("i8", (-1, 8)),
}  # fmt: skip
# Indices that only the guard can check.
GUARDED = {
    "x % 20": "i32",
    "7 % x": "i32",
    "40 / x": "i32",
    "x * x": "i32",
    "where(x > 5, x - 5, x)": "i32",
    "u8(x)": "i32",
    "i8(x)": "i32",
    "x + x": "i8",
    "abs(x) - 3 + i32(x > 4)": "i32",
    "i32(f32(x) / 2.0)": "i32",
    "i32(f32(x) * 0.4 + 1.7)": "i32",
    "clamp(x, 0, 9) + 1": "i32",
    "max(x[:, new] + zeros(i32[T, 2]), axis = 1)": "i32",
    "sum(x[:, new] * ones(i32[T, 2]), axis = 1)": "i32",
}


def model(dtype: str, index: str, body: str = "gather(w, {})") -> str:
    return f"""
dim T = 3, R = {ROWS}
model M {{
  param w: f32[R] = 0.0
  e: Embedding[R, 2]
  entry look(x: {dtype}[T]) -> (y: f32) = sum({body.format(f"i32({index})")})
}}
"""


def in_range(graph: Graph, dtype: str) -> dict[int, bool]:
    """For numbers of a dtype: whether the index made of each is one of the table's rows."""
    index = Graph("index", graph.inputs, graph.params, nodes=graph.nodes)
    shown = replace(index, outputs={"y": only(graph, "gather").inputs[1]})
    found = {}
    for number in TRIED[dtype]:
        y = evaluate(shown, {"x": np.full(3, number), "w": np.zeros(ROWS)}).outputs["y"]
        found[int(number)] = bool(((y >= 0) & (y < ROWS)).all())
    return found


@pytest.mark.parametrize("index", EXACT)
def test_an_input_is_refused_exactly_where_its_index_is_out_of_range(index: str) -> None:
    dtype, expected = EXACT[index]
    graph = program(model(dtype, index)).entries["look"]
    assert graph.entry.range_guard is None
    assert graph.entry.ranges == ({} if expected is None else {"x": (*expected, None)})
    low, high = expected or (-(2**31), 2**32)
    for number, fine in in_range(graph, dtype).items():
        assert fine == (low <= number <= high), number


@pytest.mark.parametrize("index", GUARDED)
def test_the_guard_finds_exactly_the_indices_out_of_range(index: str) -> None:
    dtype = GUARDED[index]
    done = program(model(dtype, index))
    graph = done.entries["look"]
    assert graph.entry.range_guard is not None and graph.entry.ranges == {}
    (check,) = graph.entry.range_guard.checks
    assert (check.low, check.high, check.what) == (0, ROWS - 1, "an id")
    session = Session(done, {"e.w": np.zeros((ROWS, 2))})
    numbers = in_range(graph, dtype)
    good = next(number for number, fine in numbers.items() if fine)
    assert set(numbers.values()) == {True, False}
    for number, fine in numbers.items():
        if fine:
            session.call("look", {"x": np.full(3, number)})
            continue
        with pytest.raises(OutOfRangeError, match=r"an id is outside 0 to 9 \(test\.wg:6\)"):
            session.call("look", {"x": np.array([good, number, good])})


LOOKUPS = {
    "gather(w, {})": ("an id", 9),
    "w[({})[0]]": ("a position", 9),
    "w[({})[0] +: 3]": ("a position", 7),
    "one_hot({}, 10)": ("an id", 9),
    "cross_entropy(zeros(f32[T, R]), {})": ("a label", 9),
    "accuracy(zeros(f32[T, R]), {})": ("a label", 9),
    "e({})": ("an id", 9),
}


@pytest.mark.parametrize("body", LOOKUPS)
def test_every_lookup_is_checked(body: str) -> None:
    what, high = LOOKUPS[body]
    if "Embedding" in body:
        text = model("i32", "x + 1", "e({})").replace(
            "model M {", "model M {\n  e: Embedding[R, 2]"
        )
        other = model("i32", "x % 20", "e({})").replace(
            "model M {", "model M {\n  e: Embedding[R, 2]"
        )
    else:
        text, other = model("i32", "x + 1", body), model("i32", "x % 20", body)
    assert program(text).entries["look"].entry.ranges == {"x": (-1, high - 1, None)}
    guard = program(other).entries["look"].entry.range_guard
    assert guard is not None
    assert [(c.what, c.low, c.high) for c in guard.checks] == [(what, 0, high)]


STATE = """
dim T = 3, R = 10
model M {{
  state at: i32 = 0
  state cache: f32[R, 2] = 0.0
  state other: f32[R, 2] = 0.0
  entry f(x: f32[R, 2], i: i32) -> (n: i32) {{
    {}
    return at
  }}
}}
"""
# Statements, the checks of their guard, and what must be restored if one fails.
WRITES: dict[str, tuple[list[tuple[int, int]], tuple[str, ...]]] = {
    "cache[at +: 1] := x[: 1]": ([(0, 9)], ()),
    "cache[at +: 4] := x[: 4]": ([(0, 6)], ()),
    "cache[at] := x[0]": ([(0, 9)], ()),
    "cache[at % R] := x[0]": ([], ()),
    "cache[i] := x[0]": ([], ()),
    "cache[at] := x[0]\n other[at] := x[0]": ([(0, 9)], ()),
    # The first one fits where the second does not.
    "cache[at +: 1] := x[: 1]\n other[at +: 4] := x[: 4]": ([(0, 6)], ("cache",)),
    "cache[at] := x[0]\n other := x": ([(0, 9)], ("other",)),
    "cache[at] := x[0]\n at := at + 1": ([(0, 9)], ("at",)),
    "cache[at] := x[0]\n cache[i] := x[1]": ([(0, 9)], ("cache",)),
    "cache[at + i] := x[0]": ([(0, 9)], ()),
    "cache[i, at] := x[0, 0]": ([(0, 1)], ("cache",)),
    # The same position, written down twice.
    "cache[at * 2] := x[0]\n other[at * 2] := x[0]": ([(0, 9)], ()),
    "h = gather(concat([x, x], axis = 0), at + 1)\n cache[at + 1] := h": ([(0, 9)], ()),
}


@pytest.mark.parametrize("statements", WRITES)
def test_writes_at_a_position_that_the_model_counts_itself(statements: str) -> None:
    graph = program(STATE.format(statements)).entries["f"]
    checks, restored = WRITES[statements]
    guard = graph.entry.range_guard
    assert [(c.low, c.high) for c in guard.checks] == checks if guard else checks == []
    assert (guard.restored if guard else ()) == restored


def test_what_is_computed_from_a_checked_number_needs_no_check() -> None:
    text = STATE.format(
        "h = gather(x, at + arange(4))\n cache[at +: 4] := h\n other[at] := gather(h, at / 2)"
    )
    guard = program(text).entries["f"].entry.range_guard
    assert guard is not None
    assert [(c.low, c.high) for c in guard.checks] == [(0, 6)]
    narrower = program(text.replace("at / 2", "at")).entries["f"].entry.range_guard
    assert narrower is not None
    assert [(c.low, c.high) for c in narrower.checks] == [(0, 3)]


def test_two_inputs_that_are_each_in_range() -> None:
    text = model("i32", "x", "gather(w, {0} * 2) + gather(w, {0} * 3 + {0} * 2 - {0})")
    graph = program(text).entries["look"]
    assert graph.entry.ranges == {"x": (0, 4, None)}
    assert graph.entry.range_guard is not None  # 4 · 4 is beyond 9


def test_parts_of_an_input_have_ranges_of_their_own() -> None:
    """A position may be beyond the number of ids; what the input range allows is checked later."""
    graph = program(
        """
dim V = 10, S = 64
model M {
  param w: f32[V, 2] = 0.0
  param p: f32[S, 2] = 0.0
  entry f(pair: i32[2]) -> (y: f32[2]) = gather(w, pair[0]) + gather(p, pair[1])
}
"""
    ).entries["f"]
    assert graph.entry.ranges == {"pair": (0, 63, None)}
    assert graph.entry.range_guard is not None
    (check,) = graph.entry.range_guard.checks
    assert (check.low, check.high) == (0, 9)


IGNORED = """
dim V = 10, T = 4
model M {
  param w: f32[V, V] = 0.0
  entry f(ids: i32[T + 1]) -> (loss: f32) = cross_entropy(gather(w, ids[: T]), ids[1 :]%s)
}
"""


def test_padding_is_for_labels_alone() -> None:
    """`ignore` is a label that does not count, not a row of a table."""
    done = program(IGNORED % ", ignore = -1")
    assert done.entries["f"].entry.ranges == {"ids": (0, 9, -1)}
    session = Session(done, {})
    session.call("f", {"ids": np.array([0, 9, 1, 2, -1])})
    with pytest.raises(OutOfRangeError, match="an id is outside 0 to 9"):
        session.call("f", {"ids": np.array([0, 9, -1, 2, -1])})
    assert program(IGNORED % "").entries["f"].entry.range_guard is None


def test_what_the_loss_ignores_is_a_miss_for_the_accuracy() -> None:
    body = "cross_entropy(zeros(f32[T, R]), {0}, ignore = -1) + accuracy(zeros(f32[T, R]), {0}%s)"
    for dtype in ("i32", "u8"):
        graph = program(model(dtype, "x", body % "")).entries["look"]
        assert graph.entry.ranges == {"x": (0, 9, -1 if dtype == "i32" else None)}
        assert graph.entry.range_guard is None
    other = program(model("i32", "x", body % ", ignore = 20")).entries["look"]
    assert other.entry.ranges == {"x": (0, 9, None)}


def test_an_ignored_label_moves_with_the_arithmetic() -> None:
    text = model("i32", "y", "cross_entropy(zeros(f32[T, R]), {} + 1, ignore = -100)")
    graph = program(text.replace("x: i32", "y: i32")).entries["look"]
    assert graph.entry.ranges == {"y": (-1, 8, -101)}
    guarded = model("i32", "x % 20 - 5", "cross_entropy(zeros(f32[T, R]), {}, ignore = -2)")
    session = Session(program(guarded), {"e.w": np.zeros((ROWS, 2))})
    session.call("look", {"x": np.array([5, 14, 3])})
    with pytest.raises(OutOfRangeError, match="a label is outside 0 to 9"):
        session.call("look", {"x": np.array([5, 14, 4])})


def test_a_test_block_with_an_index_out_of_range_fails() -> None:
    text = 'test "t" { w = ones(f32[3]); i = i32(sum(w)); assert close(gather(w, i), 1.0) }'
    reason = "an id is outside 0 to 2 (test.wg:1)"
    assert problems(text) == [f"WG0421 1 the assertions of this test cannot be computed: {reason}"]


def test_what_nothing_depends_on_is_not_checked() -> None:
    text = STATE.format("unused = gather(x, at + i)")
    assert program(text).entries["f"].entry.range_guard is None


UNARY = ("neg", "abs", "sign", "square")
BINARY = ("add", "sub", "mul", "div", "mod", "maximum", "minimum")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.parametrize("seed", range(60))
def test_intervals_hold_all_that_is_computed(seed: int) -> None:
    """Random integer arithmetic: no result is outside the interval of its value."""
    graph, rng = RandomGraph(seed).graph(), np.random.default_rng(seed)
    known = intervals(graph)
    for _ in range(20):
        most = min(10 ** int(rng.integers(0, 11)), 2**31 - 1)
        values = {v.name: rng.integers(-most - 1, most, v.shape) for v in graph.inputs}
        for name, array in evaluate(graph, values).outputs.items():
            low, high = known[name]
            assert low <= int(array.min()) and int(array.max()) <= high, name


class RandomGraph:
    """Numbers made from two inputs, an arange and small constants."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(1000 + seed)
        self.b = Builder(infer_types)
        self.inputs = tuple(Value(name, TensorType((4,), "i32")) for name in ("x", "y"))
        self.numbers = [*self.inputs, self.b.apply("iota", n=4, dtype="i32")]
        for number in self.rng.integers(-12, 12, 4):
            self.numbers.append(self.spread(self.b.constant(int(number), "i32")))

    def graph(self) -> Graph:
        kinds = (self.unary, self.binary, self.binary, self.where, self.cast, self.reduced)
        for _ in range(25):
            self.numbers.append(kinds[int(self.rng.integers(len(kinds)))]())
        outputs = {value.name: value for node in self.b.nodes for value in node.outputs}
        return Graph("g", self.inputs, nodes=tuple(self.b.nodes), outputs=outputs)

    def pick(self) -> Value:
        return self.numbers[int(self.rng.integers(len(self.numbers)))]

    def pair(self, one: Value) -> list[Value]:
        """`one` and any other number, in some order."""
        found = [one, self.pick()]
        return found if self.rng.random() < 0.5 else found[::-1]

    def op(self, names: Sequence[str]) -> str:
        return str(self.rng.choice(names))

    def unary(self) -> Value:
        return self.b.apply(self.op(UNARY), self.pick())

    def binary(self) -> Value:
        return self.b.apply(self.op(BINARY), self.pick(), self.pick())

    def where(self) -> Value:
        """Of a number under a condition on it."""
        x = self.pick()
        condition = self.b.apply(self.op(COMPARE), *self.pair(x))
        if self.rng.random() < 0.4:
            other = self.b.apply(self.op(COMPARE), *self.pair(x))
            condition = self.b.apply(self.op(("logical_and", "logical_or")), condition, other)
        if self.rng.random() < 0.3:
            condition = self.b.apply("logical_not", condition)
        return self.b.apply("where", condition, *self.pair(x))

    def cast(self) -> Value:
        through = self.b.apply("cast", self.pick(), dtype=self.op(("u32", "u8", "bool", "f32")))
        return self.b.apply("cast", through, dtype="i32")

    def reduced(self) -> Value:
        if self.rng.random() < 0.5:
            return self.spread(self.b.apply("argmax", self.pick(), axis=0))
        return self.spread(self.b.apply(self.op(("sum", "max", "min")), self.pick(), axes=(0,)))

    def spread(self, value: Value) -> Value:
        return self.b.apply("broadcast", value, shape=(4,))


def test_an_unrolled_loop_has_one_error() -> None:
    """Not one for each round, nor for each entry that calls the function."""
    text = """
    model M {
      fn f(x: f32[4]) -> f32[4] {
        h = x
        for i in 0..5 { h = h + one_hot(i + 10, 4) }
        return h
      }
      entry predict(x: f32[4]) -> (y: f32[4]) = f(x)
      entry other(x: f32[4]) -> (y: f32[4]) = 2.0 * f(x)
    }
    """
    assert problems(text) == ["WG0413 5 an id must be 0 to 3, but here it is 10"]
