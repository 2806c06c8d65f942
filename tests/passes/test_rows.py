"""Which entries compute each row alone: the proof, and that it holds in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from elaborated import program
from op_samples import build, input_arrays
from read_ir import read_graphs
from wgcc.compiler import read_program, trace_for_rows
from wgcc.elaborate.program import files
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import Session, evaluate
from wgcc.ir.graph import Graph, Rows
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array
from wgcc.ops import OPS, Op
from wgcc.ops.registry import Join, Pointwise, Reduce, Sample, View
from wgcc.passes.mark_rows import mark_rows
from wgcc.passes.row_kinds import ByRow, Digit, Mixed, alone
from wgcc.passes.row_rules import kinds_of, separate_axes
from wgcc.syntax.ast import File
from wgcc.syntax.parser import parse

B, T, D = 4, 3, 6
HEAD = f"""
dim B = {B}, T = {T}, D = {D}
model M {{
  param w: f32[D, D] ~ normal(0.0, 0.5)
  param v: f32[B, D] ~ normal(0.0, 0.5)
  param table: f32[9, D] ~ normal(0.0, 0.5)
  param pos: f32[T, D] ~ normal(0.0, 0.5)
  conv: Conv2d[D, 2](k = 3, pad = 1)
  state seen: f32[D] = 0.5
  norm: BatchNorm[D]
  ln: LayerNorm[D]
  lstm: LSTM[D, D]
  heads: MultiHeadAttention[D, 2]
  groups: GroupNorm[D](groups = 2)
"""
# What follows `entry e`, and what the outputs are; or why rows mix.
ENTRIES: dict[str, dict[str, str] | str] = {
    "(x: f32[B, D]) -> (y: f32[B, D]) = tanh(x @ w)": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32[B, D]) = norm(ln(x)) * seen": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32[B]) = max(softmax(x, axis = 1) + seen, axis = 1)": {"y": "rows"},
    "(x: f32[B, D]) -> (i: i32[B]) = argmax(x, axis = 1)": {"i": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B, T, D]) = cumsum(x + pos, axis = 1)": {"y": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B * T, D]) = reshape(x, [B * T, D]) @ w": {"y": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B, D]) = transpose(x, 0, 1)[T - 1]": {"y": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B, D, T]) = transpose(x)": {"y": "rows"},
    "(i: i32[B, T]) -> (y: f32[B, T, D]) = gather(table, clamp(i, 0, 8)) + pos": {"y": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B, 1, T, D]) = attention(x[:, new], x[:, new], x[:, new])": {
        "y": "rows"
    },
    "(x: f32[B, 4, 4, D]) -> (y: f32[B, 4, 4, 2]) = conv(x)": {"y": "rows"},
    "(x: f32[B, T, D]) -> (y: f32[B, T, D]) = lstm(x) + heads(groups(x))": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32[B, 2], i: i32[B, 2]) = top_k(x, 2)": {"y": "rows", "i": "rows"},
    "(x: f32[B, D], i: i32[B]) -> (y: f32[B]) = x[arange(B), clamp(i, 0, 5)]": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32[B, 2, D]) = stack([x, flip(x, axis = 1)], axis = 1)": {"y": "rows"},
    "(x: f32[B, D], a: f32) -> (y: f32[B, 2 * D]) = concat([x, a * x], axis = 1)": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32[B, D], n: f32) = (x, sum(w))": {"y": "rows", "n": "same"},
    "(x: f32[B, D], y: f32[B, D]) -> (loss: f32) = mse(x @ w, y)": {"loss": "mean"},
    "(x: f32[B, D]) -> (y: f32[D]) = mean(x, axis = 0) * seen + 1.0": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) / B": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = mean(sum(x ** 2, axis = 1)) + 0.1 * sum(w ** 2)": {"y": "mean"},
    "(x: f32[B, D], l: i32[B]) -> (loss: f32, acc: f32) = (cross_entropy(x, l), accuracy(x, l))": {
        "loss": "mean",
        "acc": "mean",
    },
    "(x: f32[B, D], l: i32[B]) -> (n: i32) = sum(i32(argmax(x, axis = 1) == l))": {"n": "sum"},
    "(x: f32[B, D], l: i32[B]) -> (n: f32) = sum(f32(argmax(x, axis = 1) == l))": {"n": "sum"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) / sum(w ** 2)": {"y": "sum"},
    # The number of rows in all its forms: whatever is said with it is computed.
    "(x: f32[B, D]) -> (y: f32) = sum(x / B)": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) / sum(ones(f32[B]))": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = sum(x / f32(sum(ones(i32[B]))))": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) / (2.0 * B)": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) * (1.0 / B) + 1.0": {"y": "mean"},
    "(x: f32[B, D]) -> (y: f32) = mean(x) * B": {"y": "sum"},
    "(x: f32[B, D], l: i32[B]) -> (y: f32) = cross_entropy(x, l) * B": {"y": "sum"},
    "(x: f32[B, D], l: i32[B]) -> (n: f32) = mean(f32(l == l)) * B": {"n": "sum"},
    "(x: f32[B, D]) -> (y: f32) = sum(x) + B": {"y": "sum"},
    "(x: f32[B, D]) -> (y: f32) = 0.5 * (sum(x) * 0.5)": {"y": "sum"},
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * B / B": {"y": "rows"},
    "(x: f32[B, D]) -> (y: f32) = mean(x) * 4.0": {"y": "mean"},
    "(x: f32[7, D]) -> (y: f32[7, D], m: f32) = (x * 7.0, mean(x))": {"y": "rows", "m": "mean"},
    "(x: f32[7, 7]) -> (m: f32) = mean(sum(x, axis = 1))": {"m": "mean"},
    "(x: f32[1, D]) -> (y: f32[1, D]) = x @ w": {"y": "rows"},
    "(x: f32[2, D], y: f32[B, D]) -> (z: f32[B, 2]) = y @ transpose(x)": {"z": "rows"},
    # ---- rows mix, or their number matters
    "(x: f32[B, D]) -> (y: f32[B, D]) = flip(x, axis = 0)": "rows mix in `flip(x, axis = 0)`",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x - mean(x, axis = 0)": "in `x - mean(x, axis = 0)`",
    "(x: f32[B, D]) -> (y: f32[D]) = max(x, axis = 0)": "rows mix in `max(x, axis = 0)`",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x + v": "rows mix in `x + v`",
    "(x: f32[B, D]) -> (y: f32[B]) = x[:, 0] + f32(arange(B))": "rows mix in",
    "(x: f32[B, D]) -> (y: f32[B, D]) = cumsum(x, axis = 0)": "rows mix in",
    "(x: f32[B, D]) -> (y: f32[D, D]) = transpose(x) @ x": "rows mix in",
    "(x: f32[B, D]) -> (y: f32[B, B]) = x @ transpose(x)": "rows mix in",
    "(x: f32[B, D]) -> (y: f32[D]) = x[0]": "rows mix in `x[0]`",
    "(x: f32[B, D]) -> (y: f32[B, D]) = concat([x[1 :], x[: 1]], axis = 0)": "rows mix in `x[1 :]`",
    "(x: f32[B, D]) -> (y: f32[D, B]) = transpose(x)": "the rows of `y` are not its leading axis",
    "(x: f32[B, D]) -> (y: f32[2, 2 * D]) = reshape(x, [2, 2 * D])": "rows mix in",
    "(x: f32[B, D], l: i32[B]) -> (p: f32) = exp(cross_entropy(x, l))": "rows mix in",
    "(x: f32[B, D], l: i32[B]) -> (p: f32) = cross_entropy(x, l, ignore = -1)": "rows mix in",
    "(x: f32[B, D]) -> (y: f32) = sum(x) * 0.25": "and 0.25 in `0.25` (test.wg:16) may be meant as",
    "(x: f32[B, D]) -> (y: f32) = sum(x) / 4.0": "as their number: write `mean`, or `B`",
    "(x: f32[7, D]) -> (y: f32) = sum(x) / 7.0": "may be meant as their number: write `mean`",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * B": "`y` depends on their number in `B`",
    "(x: f32[B, D]) -> (y: f32) = mean(x) * B * B": "`y` depends on their number",
    "(x: f32[B, D]) -> (y: f32[B, D]) = exp(x / B)": "their number plays a part in `exp(x / B)`",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * sqrt(f32(B))": "their number plays a part",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * f32(sum(arange(B)))": "their number plays a part",
    "(x: f32[B, D]) -> (y: f32[B]) = sum(x[:, : B], axis = 1)": "it cannot be built for",
    "(x: f32[B, D]) -> (y: f32[B, B]) = x[:, : 1] + ones(f32[B])": "`y` depends on their number",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x ** B": "their number plays a part",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * (if B > 3 then 1.0 else 2.0)": "their number plays",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * (B % 3)": "their number plays a part",
    "(x: f32[B, D]) -> (y: f32[B, D]) = x * v[0] + sum(v ** 2)": "their number plays a part in",
    "(x: f32[B, D]) -> (y: f32) = sum(x) / sum(v ** 2)": "their number plays a part in",
    "(x: f32[B, D]) -> (y: f32) = sum(x) + 1.0": "rows mix in",
    "(x: f32[B, D]) -> (y: f32) = mean(x) / mean(x ** 2)": "rows mix in",
    "(x: f32[B, D]) -> (y: f32[B, D]) = grad(sum(x ** 2), x)": "it computes gradients",
    "(x: f32[B, D]) -> (i: i32[B]) = sample(x)": "it draws random numbers",
    "(x: f32[B, D]) -> (i: i32[B]) = sample(x, seed = 3)": "it draws random numbers",
    "(x: f32[B, D]) -> (y: f32[B, D]) { seen := x[0]; return x }": "it writes `seen`",
    "(x: f32[1, D]) -> (y: f32) = sum(x)": "it takes one row, and `y` has none",
    "(x: f32[B, D]) -> (y: f32) = sum(w)": "no output depends on its rows",
}
PROVEN = [text for text, found in ENTRIES.items() if isinstance(found, dict)]


def traced(entry: str) -> Program:
    text = f"{HEAD}\n  entry e{entry}\n}}"
    found = program(text)
    return mark_rows(found, trace_for_rows(Source("test.wg", text), found, {}))


def test_a_file_is_parsed_once_however_often_it_is_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = []

    def count(source: Source, diagnostics: Diagnostics) -> File:
        parsed.append(source.name)
        return parse(source, diagnostics)

    monkeypatch.setattr(files, "parse", count)
    entry = f"{HEAD}\n  entry e(x: f32[B, D]) -> (y: f32[B, D]) = scaled(x)\n}}"
    beside = {"norm.wg": "fn scaled(x: f32[4, 6]) -> f32[4, 6] = 2.0 * x\n"}
    source = Source("test.wg", f'import scaled from "norm.wg"\n{entry}', files=beside)
    _, found, _ = read_program(source)
    assert found.entries["e"].entry.rows
    assert sorted(name for name in parsed if "/" not in name) == ["norm.wg", "test.wg"]


def rows_of(entry: str) -> Rows:
    (rows,) = traced(entry).entries["e"].entry.rows
    return rows


@pytest.mark.parametrize("entry", ENTRIES)
def test_which_entries_compute_rows_alone(entry: str) -> None:
    found, expected = rows_of(entry), ENTRIES[entry]
    if isinstance(expected, dict):
        assert (dict(found.outputs), found.why) == (expected, "")
    else:
        assert not found.outputs
        assert expected in found.why


def test_inputs_and_dim_are_named() -> None:
    rows = rows_of("(a: f32, x: f32[B, D], y: f32[B]) -> (z: f32[B]) = x[:, 0] * y * a")
    assert (rows.count, rows.inputs, rows.dim) == (B, ("x", "y"), "B")
    literal = rows_of("(x: f32[7, D]) -> (z: f32[7]) = x[:, 0]")
    assert (literal.count, literal.dim) == (7, "")


# Rows are the middle axis of xs; the carry starts with equal rows.
LOOP = """
entry main {
  input %x: f32[2, 5, 3]
  param %w: f32[3, 3]
  %xs: f32[5, 2, 3] = transpose(%x; perm=(1, 0, 2))
  %zero: f32 = const(dtype=f32, value=0.0)
  %h0: f32[2, 3] = broadcast(%zero; shape=(2, 3))
  %h: f32[2, 3], %ys: f32[5, 2, 3] = repeat(%h0, %xs, %w; reverse=False, rounds=5) {
    input %t: u32
    input %x.in: f32[2, 3]
    input %w.in: f32[3, 3]
    state %h.old: f32[2, 3]
    %wh: f32[2, 3] = matmul(%h.old, %w.in)
    %a: f32[2, 3] = add(%wh, %x.in)
    %h.new: f32[2, 3] = STEP
    output y = %a
    write h.old = %h.new
  }
  output h = %h
  output ys = %ys
}
"""


def test_rows_go_through_loops() -> None:
    kinds = kinds_of(alone(loop("tanh(%a)"), 2), ["x"])
    assert kinds["h"] == ByRow(Digit(0, 1, 2))
    assert kinds["ys"] == ByRow(Digit(1, 1, 2))
    mixed = kinds_of(alone(loop("scan(%a, %a; axis=0, reverse=False)"), 2), ["x"])
    assert isinstance(mixed["h"], Mixed) and isinstance(mixed["ys"], Mixed)
    # If w had rows, each product would add them up.
    assert isinstance(kinds_of(alone(loop("tanh(%a)"), 3), ["w"])["h"], Mixed)


def loop(step: str) -> Graph:
    return read_graphs(LOOP.replace("STEP", step))["main"]


# ---- what is proved holds


def inputs_of(graph: Graph, seed: int) -> dict[str, Array]:
    draw = np.random.default_rng(seed)
    return {
        value.name: draw.normal(size=value.shape)
        if value.dtype == "f32"
        else draw.integers(0, D, value.shape)
        for value in graph.inputs
    }


@pytest.mark.parametrize("entry", PROVEN)
def test_a_row_decides_alone(entry: str) -> None:
    """Rows in another order give results in that order; other rows beside one do not change it."""
    whole = traced(entry)
    graph, rows = whole.entries["e"], whole.entries["e"].entry.rows[0]
    draw = np.random.default_rng(0)
    params = {name: draw.normal(size=param.type.shape) for name, param in whole.params.items()}
    stored = {**params, **Session(whole, params).state}
    first, second = inputs_of(graph, 1), inputs_of(graph, 2)
    order = np.random.default_rng(3).permutation(rows.count)
    moved = {n: a[order] if n in rows.inputs else a for n, a in first.items()}
    mixed = {n: np.concatenate([a[:1], second[n][1:]]) if n in rows.inputs else a
             for n, a in first.items()}  # fmt: skip
    found, again, other = (
        evaluate(graph, {**stored, **given}).outputs for given in (first, moved, mixed)
    )
    for name, form in rows.outputs.items():
        if form == "rows":
            blocks = found[name].reshape(rows.count, -1)
            np.testing.assert_allclose(again[name].reshape(rows.count, -1), blocks[order])
            np.testing.assert_allclose(other[name].reshape(rows.count, -1)[0], blocks[0])
        else:
            np.testing.assert_allclose(again[name], found[name])
        if form == "same":
            np.testing.assert_allclose(other[name], found[name])
        if form in ("mean", "sum"):
            np.testing.assert_allclose(mean_of_rows(graph, {**stored, **first}, name), found[name])


def mean_of_rows(graph: Graph, given: dict[str, Array], output: str) -> Array:
    """The mean of what an entry gives for each row, if all its rows are that one.

    For a sum, too: each of these has it as often as there are rows.
    """
    (rows,), each = graph.entry.rows, []
    for i in range(rows.count):
        same = {name: np.repeat(given[name][i : i + 1], rows.count, 0) for name in rows.inputs}
        each.append(evaluate(graph, {**given, **same}).outputs[output])
    return np.asarray(np.mean(each, axis=0))


BY_KIND = (Pointwise, View, Join, Reduce)
SEPARATE = [op for op in OPS.values() if op.separate or isinstance(op.lower, BY_KIND)]


@pytest.mark.parametrize("op", SEPARATE, ids=lambda op: op.name)
def test_separate_axes_of_ops(op: Op) -> None:
    """Rolled along such an axis, inputs give rolled outputs; other slices do not change one."""
    checked = [check_axes(op, sample) for sample in op.samples]
    assert sum(checked) > 0


def check_axes(op: Op, sample: Sample) -> int:
    _, node = build(op, sample)
    arrays = input_arrays(op, sample)
    found, count = results(op, arrays, sample), 0
    for before, after in separate_axes(node):
        if all(axis is None for axis in before):
            continue
        rolled = [a if k is None else np.roll(a, 1, k) for a, k in zip(arrays, before, strict=True)]
        mixed = [a if k is None else first_of(a, np.flip(a), k)
                 for a, k in zip(arrays, before, strict=True)]  # fmt: skip
        for axis, old, new, other in zip(
            after, found, results(op, rolled, sample), results(op, mixed, sample), strict=True
        ):
            assert axis is not None
            np.testing.assert_allclose(new, np.roll(old, 1, axis), rtol=1e-6, atol=1e-6)
            kept = np.take(old, [0], axis)
            np.testing.assert_allclose(np.take(other, [0], axis), kept, rtol=1e-6, atol=1e-6)
            count += 1
    return count


def first_of(one: Array, other: Array, axis: int) -> Array:
    """The first slice of one, the others of the other."""
    size = one.shape[axis]
    parts = [np.take(one, [0], axis), np.take(other, range(1, size), axis)]
    return np.concatenate(parts, axis)


def results(op: Op, arrays: list[Array], sample: Sample) -> list[Array]:
    with np.errstate(all="ignore"):
        found = op.reference(*arrays, **sample.attrs)
    return [np.asarray(x) for x in (found if isinstance(found, tuple | list) else (found,))]
