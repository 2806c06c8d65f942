"""TfIdfVectorizer: how often n-grams of ids occur in each row, with up to `max_skip_count` ids
left out between two of them."""

from __future__ import annotations

from functools import partial, reduce

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, zeros
from wgcc.from_onnx.values import Operand, Part
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.templates import filled


def count_ngrams(op: Op) -> Operand:
    if op.attribute("pool_int64s") is None:
        raise CannotImport("it counts strings; the language has none")
    x = op.plain(0)
    rows, length = x.shape if len(x.shape) == 2 else (1, x.shape[0])
    flat = op.tensor(op.reshaped(x, (rows, length)))
    tables = _tables(op)
    shortest, longest = op.attribute("min_gram_length"), op.attribute("max_gram_length")
    found: list[Operand] = []
    for size, table in tables.items():
        if not len(table):
            continue
        if shortest <= size <= longest:
            found.append(_counted(op, flat, rows, length, table))
        else:
            shape = (rows, len(table))
            found.append(op.emit("{0}", zeros("f32", shape), shape=shape, dtype="f32"))
    total = sum(map(len, tables.values()))
    joined = op.call("concat", found, axis=1) if len(found) > 1 else found[0]
    counts = op.emit("{0}", joined, shape=(rows, total), dtype="f32", name="counts")
    if op.attribute("mode") == "IDF":
        counts = op.emit("f32({0} > 0.0)", counts, shape=(rows, total), dtype="f32")
    spread = _spread(op, total)
    shape = (rows, spread.shape[1])
    weighed = op.emit("{0} @ {1}", counts, op.parameter_of(spread, "columns"), shape=shape,
                      dtype="f32")  # fmt: skip
    return op.reshaped(weighed, (*x.shape[:-1], spread.shape[1]))


def _tables(op: Op) -> dict[int, Array]:
    """The n-grams by their length."""
    pool, starts = np.array(op.attribute("pool_int64s")), list(op.attribute("ngram_counts"))
    ends = [*starts[1:], len(pool)]
    return {
        size: pool[start:end].reshape(-1, size)
        for size, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    }


def _spread(op: Op, total: int) -> Array:
    """The column of the result for each n-gram, with its weight."""
    columns = np.array(op.attribute("ngram_indexes"))
    weights = op.attribute("weights")
    is_weighed = op.attribute("mode") != "TF" and weights is not None
    table = np.zeros((total, int(columns.max()) + 1), np.float32)
    table[np.arange(total), columns] = np.array(weights) if is_weighed else 1.0
    return table


def _counted(op: Op, x: Operand | Part, rows: int, length: int, table: Array) -> Operand:
    """How often each n-gram of one length occurs in each row."""
    count, size = table.shape
    shape = (rows, count)
    columns = [op.parameter_of(table[:, k].copy(), "ngrams") for k in range(size)]
    skips = range(int(op.attribute("max_skip_count")) + 1 if size > 1 else 1)
    found = op.emit("{0}", zeros("f32", shape), shape=shape, dtype="f32")
    for step in (skip + 1 for skip in skips):
        places = length - (size - 1) * step
        if places > 0:
            equal = [
                filled(
                    "reshape({0}[:, {1} : {2}], [{3}, {4}, 1]) == {5}", op.tree(x), k * step,
                    k * step + places, rows, places, op.tree(columns[k]),
                )
                for k in range(size)
            ]  # fmt: skip
            every = reduce(partial(filled, "{0} and {1}"), equal)
            text = "{0} + sum(f32({1}), axis = 1)"
            found = op.emit(text, found, every, shape=shape, dtype="f32")
    return found


RULES: dict[str, Rule] = {"TfIdfVectorizer": count_ngrams}
