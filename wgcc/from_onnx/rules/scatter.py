"""Operators that place elements at positions found in another tensor."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.indexing import from_the_front
from wgcc.from_onnx.rules.rule import Rule, axis_of, dtype, zeros
from wgcc.from_onnx.rules.scatter_reduce import REDUCTIONS, combined
from wgcc.from_onnx.values import Constant, Member, Operand, Part
from wgcc.lazy_numpy import np


def flat_places(op: Op, ids: Operand, shape: tuple[int, ...], axis: int) -> Operand | Member:
    """Positions in the flattened tensor, for ids along one axis."""
    strides = np.cumprod([1, *shape[::-1]])[::-1][1:]
    others = np.zeros(ids.shape, np.int64)
    for other, size in enumerate(ids.shape):
        if other != axis:
            along = np.arange(size) * strides[other]
            others += along.reshape([-1 if a == other else 1 for a in range(len(ids.shape))])
    if isinstance(ids, Constant):
        return op.parameter_of((others + ids.array * strides[axis]).reshape(-1), "places")
    base = op.parameter_of(others, "offsets")
    count = ids_size(ids)
    return op.emit("reshape({0} * {2} + {1}, [{3}])", ids, base, strides[axis], count,
                   shape=(count,), dtype="i32", name="places")  # fmt: skip


def ids_size(ids: Operand) -> int:
    return int(np.prod(ids.shape))


def scatter_elements(op: Op) -> Operand:
    x, ids, updates = op.plain(0), op.plain(1), op.plain(2)
    axis = axis_of(op.attribute("axis", 0), len(x.shape))
    ids = from_the_front(op, ids, x.shape[axis])
    places = flat_places(op, ids, x.shape, axis)
    return placed(op, x, places, updates, ids_size(ids))


def placed(op: Op, x: Operand, places: Operand | Member, updates: Operand, count: int) -> Operand:
    """Elements of `updates` at places of the flattened x."""
    kind = op.attribute("reduction", "none")
    total = int(np.prod(x.shape))
    if kind in REDUCTIONS:
        if x.dtype != "f32":
            raise CannotImport(f"its reduction is {kind}, and it places {x.dtype}, not f32")
        flat_x, flat_updates = op.reshaped(x, (total,)), op.reshaped(updates, (count,))
        return op.reshaped(combined(op, flat_x, places, flat_updates, kind), x.shape)
    held = x.dtype if x.dtype in ("f32", "i32", "u32") else "i32"
    flat = _as_sum(op, op.reshaped(x, (total,)), held)
    values = _as_sum(op, op.reshaped(updates, (count,)), held)
    onto = flat if kind == "add" else zeros(held, (total,))
    added = op.emit("scatter_add({0}, {1}, {2})", onto, places, values, shape=(total,), dtype=held)
    if kind == "none":
        hits = op.emit(
            "scatter_add({0}, {1}, {2})", zeros("f32", (total,)), places,
            zeros("f32", (count,), "ones"), shape=(total,), dtype="f32", name="hits",
        )  # fmt: skip
        added = op.emit("where({0} > 0.0, {1}, {2})", hits, added, flat,
                        shape=(total,), dtype=held)  # fmt: skip
        _refuse_twice(op, places)
    if held != x.dtype:
        text = "{0} != 0" if x.dtype == "bool" else "{1}({0})"
        added = op.emit(text, added, dtype(x.dtype), shape=(total,), dtype=x.dtype)
    return op.reshaped(added, x.shape)


def _as_sum(op: Op, operand: Operand, kind: str) -> Operand | Part:
    """Bytes and bools are placed as whole numbers of 32 bits."""
    whole = op.tensor(operand)
    if operand.dtype == kind:
        return whole
    return op.emit("{1}({0})", whole, dtype(kind), shape=operand.shape, dtype=kind)


def _refuse_twice(op: Op, places: Operand | Member) -> None:
    """Without a reduction the same place must not be written twice."""
    if isinstance(places, Member) and len(set(places.arrays[""].tolist())) < places.arrays[""].size:
        raise CannotImport("it writes to a place twice, without a reduction")


def scatter_nd(op: Op) -> Operand:
    """Rows at positions given by their first indices."""
    x, ids, updates = op.plain(0), op.operand(1), op.plain(2)
    depth = ids.shape[-1]
    rows = int(np.prod(ids.shape[:-1]))
    width = int(np.prod(x.shape[depth:]))
    strides = np.cumprod([1, *x.shape[:depth][::-1]])[::-1][1:]
    within = np.arange(width)
    if isinstance(ids, Constant):
        sizes = np.array(x.shape[:depth])
        known = np.where(ids.array < 0, ids.array + sizes, ids.array).reshape(rows, depth)
        places: Operand | Member = op.parameter_of(
            ((known * strides).sum(1)[:, None] * width + within).reshape(-1), "places"
        )
    else:
        places = _runtime_places(op, op.ordered(ids, None), rows, depth, strides, width)
    return placed(op, x, places, updates, rows * width)


def _runtime_places(
    op: Op, ids: Operand, rows: int, depth: int, strides: object, width: int
) -> Operand:
    flat = op.reshaped(ids, (rows, depth))
    steps = op.parameter_of(np.asarray(strides) * width, "strides")
    within = op.parameter_of(np.arange(width), "within")
    text, count = "reshape(reshape(sum({0} * {1}, axis = 1), [{3}, 1]) + {2}, [{4}])", rows * width
    return op.emit(text, flat, steps, within, rows, count, shape=(count,), dtype="i32",
                   name="places")  # fmt: skip


def gather_nd(op: Op) -> Operand:
    """Rows found by their first indices; leading axes may be a batch."""
    x, ids = op.plain(0), op.operand(1)
    batch = int(op.attribute("batch_dims", 0))
    depth = ids.shape[-1]
    width = int(np.prod(x.shape[batch + depth :]))
    groups = int(np.prod(x.shape[:batch]))
    inner = x.shape[batch : batch + depth]
    strides = np.cumprod([1, *inner[::-1]])[::-1][1:]
    per = int(np.prod(ids.shape[batch:-1]))
    table = op.reshaped(x, (groups * int(np.prod(inner)), width))
    base = (np.arange(groups) * int(np.prod(inner)))[:, None]
    count = groups * per
    if isinstance(ids, Constant):
        known = np.where(ids.array < 0, ids.array + np.array(inner), ids.array)
        rows = (known.reshape(groups, per, depth) * strides).sum(-1) + base
        places: Operand | Member = op.parameter_of(rows.reshape(-1), "rows")
    else:
        flat = op.reshaped(op.ordered(ids, None), (groups, per, depth))
        steps, offsets = op.parameter_of(strides, "strides"), op.parameter_of(base, "offsets")
        text = "reshape(sum({0} * {1}, axis = 2) + {2}, [{3}])"
        places = op.emit(text, flat, steps, offsets, count, shape=(count,), dtype="i32",
                         name="rows")  # fmt: skip
    found = op.emit("{0}[{1}]", op.tensor(table), places, shape=(count, width), dtype=x.dtype)
    return op.reshaped(found, op.type.shape)


def tensor_scatter(op: Op) -> Operand:
    """Writes a window of a cache, beginning at a position for each row."""
    x, updates = op.plain(0), op.plain(1)
    axis = axis_of(op.attribute("axis", -2), len(x.shape))
    length, size = updates.shape[axis], x.shape[axis]
    starts = op.constant(2, "positions") if op.has(2) else np.zeros(x.shape[0], np.int64)
    at = starts[:, None] + np.arange(length)
    if op.attribute("mode", "linear") == "circular":
        at = at % size
    shape = [1] * len(x.shape)
    shape[0], shape[axis] = at.shape
    ids = Constant(np.broadcast_to(at.reshape(shape), updates.shape))
    return placed(op, x, flat_places(op, ids, x.shape, axis), updates, ids_size(updates))


RULES: dict[str, Rule] = {
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "GatherND": gather_nd,
    "TensorScatter": tensor_scatter,
}
