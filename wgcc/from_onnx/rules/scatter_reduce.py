"""Scattered elements that are multiplied, or of which the largest or smallest is taken."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import Member, Operand
from wgcc.lazy_numpy import Array, np

# How two elements are combined, how many are, and what changes nothing. The language has no literal
# of infinity, but log(0) is known when it compiles.
REDUCTIONS = {
    "mul": ("{0} * {1}", "prod", "ones(f32[1])"),
    "max": ("maximum({0}, {1})", "max", "log(zeros(f32[1]))"),
    "min": ("minimum({0}, {1})", "min", "-log(zeros(f32[1]))"),
}
# Every element is compared with every update, where places are not known before.
MOST_COMPARED = 1 << 22


def combined(
    op: Op, flat: Operand, places: Operand | Member, updates: Operand, kind: str
) -> Operand:
    """The flattened tensor, each element combined with all updates of its place."""
    pair, many, nothing = REDUCTIONS[kind]
    (total,), (count,) = flat.shape, updates.shape
    if isinstance(places, Member):
        table = _updates_of(places.arrays[""], total)
        text = f"{many}(concat([{{0}}, {nothing}], axis = 0)[{{1}}], axis = 1)"
        all_ = op.emit(text, op.tensor(updates), op.parameter_of(table, "updates"),
                       shape=(total,), dtype="f32")  # fmt: skip
    else:
        if total * count > MOST_COMPARED:
            raise CannotImport(f"its reduction is {kind}, at {count:,} places that inputs decide")
        hit = "reshape({1}, [1, {2}]) == reshape(arange({3}), [{3}, 1])"
        text = f"{many}(where({hit}, reshape({{0}}, [1, {{2}}]), {nothing}), axis = 1)"
        all_ = op.emit(text, op.tensor(updates), places, count, total, shape=(total,), dtype="f32")
    return op.emit(pair, op.tensor(flat), all_, shape=(total,), dtype="f32")


def _updates_of(places: Array, total: int) -> Array:
    """By place, the numbers of its updates; the number behind the last one fills up."""
    counts = np.bincount(places, minlength=total)
    table = np.full((total, max(1, int(counts.max()))), places.size)
    taken = np.zeros(total, np.int64)
    for number, place in enumerate(places):
        table[place, taken[place]] = number
        taken[place] += 1
    return table
