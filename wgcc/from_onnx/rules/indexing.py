"""Operators that look up, place, sort and count, and that place elements at given positions."""

from __future__ import annotations

from typing import Any

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.patterns import match_list, matches, number
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, at_axis, axis_of, dtype, part_of, zeros
from wgcc.from_onnx.values import Computed, ModelMember, Operand, Part, Stored
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, fill_form


def from_the_front(op: OnnxOp, ids: Operand, size: int, below: int = 0) -> Operand:
    """Ids that count from the end, those `below` a number, count from the front."""
    if isinstance(ids, Stored):
        array = ids.array.astype(np.int64)
        return Stored(np.where(array < below, array + size, array))
    if ids.dtype not in ("i32", "u32"):
        ids = op.emit("i32({0})", ids)
    if ids.dtype == "u32":
        return ids
    text = "where({0} < {1}, {0} + {2}, {0})"
    return op.emit(text, ids, below, size, name=ids.name)


def window(op: OnnxOp) -> Operand:
    """`x[i : i + n]` with an i that is found at run time, and an n that is known."""
    x, start = op.plain(0), _before_views(op, op.operand(1))
    axes = op.numbers(3, "axes") if op.has(3) else [0]
    steps = op.numbers(4, "steps") if op.has(4) else [1]
    length = _known_distance(op, start, op.operand(2))
    if length is None or len(axes) != 1 or steps != [1]:
        name = op.names[0] if op.names else op.name
        raise CannotImport(f"the shape of its output `{name}` depends on data")
    axis = axis_of(axes[0], len(x.shape))
    if not 1 <= length <= x.shape[axis]:
        raise CannotImport(f"it takes {length} of {x.shape[axis]} elements")
    # From -n on the end counts from the front, and the slice is empty: such starts stay negative,
    # and running reports them.
    place = from_the_front(op, op.reshape(start, ()), x.shape[axis], below=-length)
    begins: Any = op.tree(place)
    items = at_axis(axis, ast.Window(NOWHERE, begins, ast.Int(NOWHERE, length)))
    return op.index(op.tensor(x), items, element=element_of(x))


def _before_views(op: OnnxOp, item: object) -> Operand:
    """The number that was given another shape."""
    assert isinstance(item, Computed)
    made = op.writer.made_by.get(item)
    before = made.alias_of or made.reshapes if made is not None else None
    return _before_views(op, before) if before is not None else item


def _known_distance(op: OnnxOp, start: Operand, end: Operand) -> int | None:
    """How much is added to one number to get the other."""
    last = _before_views(op, end) if isinstance(end, Computed) else None
    for a, b in matches(op, last, "{0} + {1}"):
        added = number(_only(b))
        if added is not None and isinstance(a, Computed) and _before_views(op, a) is start:
            return int(added) if added >= 0 else None
    return None


def _only(part: object) -> object:
    """The number in `i32([3])`."""
    items = match_list(part)
    return items[0] if items is not None and len(items) == 1 else part


def gather(op: OnnxOp) -> Operand:
    x, ids = op.plain(0), op.operand(1)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", 0), rank)
    ids = op.with_order(ids, None)
    is_input = ids in op.writer.traced.inputs.values()
    if not (is_input and _is_table(op, x)):
        # Ids of a vocabulary, which a caller gives, do not count from the end.
        ids = from_the_front(op, ids, x.shape[axis])
    if isinstance(ids, Stored):
        known_rows = _known_rows(op, x, ids, axis)
        if known_rows is not None:
            return known_rows
        ids_part: Computed | ModelMember = op.parameter_of(ids.array)
    else:
        ids_part = ids
    if axis == 0 and _is_table(op, x):
        assert isinstance(x, Stored)
        rows, width = x.shape
        layer = op.layer("Embedding", (rows, width), op.layer_name("embedding"), {"w": x.array})
        return op.result("{1}({0})", ids_part, layer)
    return op.index_result(op.tensor(x), at_axis(axis, ids_part))


def _is_table(op: OnnxOp, x: Operand) -> bool:
    return (
        isinstance(x, Stored)
        and len(x.shape) == 2
        and x.dtype == "f32"
        and x.source not in op.writer.shared
    )


def _known_rows(op: OnnxOp, x: Operand, ids: Stored, axis: int) -> Operand | None:
    """One row, or rows one after the other, need no lookup."""
    if ids.array.ndim == 0:
        return op.index_result(op.tensor(x), at_axis(axis, int(ids.array)))
    flat = ids.array.reshape(-1)
    if ids.array.ndim == 1 and (flat == flat[0] + np.arange(flat.size)).all():
        if flat.size == x.shape[axis]:
            return x
        start, end = int(flat[0]), int(flat[0]) + flat.size
        rows = part_of(start, end if end < x.shape[axis] else None)
        return op.index_result(op.tensor(x), at_axis(axis, rows))
    return None


def gather_elements(op: OnnxOp) -> Operand:
    x, ids = op.plain(0), op.plain(1)
    axis = axis_of(op.attribute("axis", 0), len(x.shape))
    ids = from_the_front(op, ids, x.shape[axis])
    for other, (a, b) in enumerate(zip(x.shape, ids.shape, strict=True)):
        if other != axis and a != b:
            cut = at_axis(other, part_of(0, b))
            x = op.index(op.tensor(x), cut)
    places = op.parameter_of(ids.array) if isinstance(ids, Stored) else ids
    return op.result("take_along_axis({0}, {1}, axis = {2})", op.tensor(x), places, axis)


def one_hot(op: OnnxOp) -> Operand:
    ids, depth = op.plain(0), int(op.constant(1, "depth").reshape(()))
    off, on = (float(item) for item in op.constant(2, "values"))
    rank = len(op.type.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    whole = op.emit("i32({0})", ids) if ids.dtype != "i32" else ids
    # Ids count from the end if they are negative; rows of ids beyond both ends have no 1.
    text = "one_hot({0} % {1}, {1}) * f32(({0} >= -{1}) and ({0} < {1}))[.., new]"
    hot: Operand = op.emit(text, whole, depth)
    if axis != rank - 1:
        moved = list(range(rank - 1))
        moved.insert(axis, rank - 1)
        hot = op.transpose(hot, moved)
    scaled = "{1} + {2} * {0}" if (off, on) != (0, 1) else "{0}"
    text = scaled if op.type.dtype == "f32" else f"{{3}}({scaled})"
    return op.result(text, hot, off, on - off, dtype(op.type.dtype))


def top_k(op: OnnxOp) -> list[Operand | None]:
    x = op.plain(0)
    axis = axis_of(op.attribute("axis", -1), len(x.shape))
    count = int(op.constant(1, "number").reshape(())) if op.has(1) else int(op.attribute("k"))
    values = (op.output(0), op.output(1))
    if op.attribute("largest", 1):
        op.emit_many("top_k({0}, {1}, axis = {2})", x, count, axis, values=values)
        return list(values)
    shape = op.types[0].shape
    turned = Computed(x.dtype, shape, values[0].order, "largest")
    op.emit_many("top_k(-{0}, {1}, axis = {2})", x, count, axis, values=(turned, values[1]))
    return [op.result("-{0}", turned), values[1]]


def cumulative(function: str) -> Rule:
    def rule(op: OnnxOp) -> Operand:
        x = op.plain(0)
        if x.dtype != "f32":
            raise CannotImport(f"it adds up or multiplies {x.dtype}; the language has f32")
        axis = axis_of(int(op.constant(1, "axis").reshape(())), len(x.shape))
        is_reversed = op.attribute("reverse", 0)
        inner = op.call("flip", x, axis=axis) if is_reversed else op.tree(x)
        whole: Any = op.call(function, inner, axis=axis)
        if op.attribute("exclusive", 0):
            start = None if function == "cumsum" else 1
            longer = op.call("pad", whole, (1, 0), axis=axis, value=start)
            items = tuple(at_axis(axis, part_of(0, x.shape[axis])))
            whole = ast.Index(NOWHERE, longer, items)
        return op.result("{0}", op.call("flip", whole, axis=axis) if is_reversed else whole)

    return rule


def triangle(op: OnnxOp) -> Operand:
    x = op.plain(0)
    diagonal = int(op.constant(1, "diagonal").reshape(())) if op.has(1) else 0
    function = "triu" if op.attribute("upper", 1) else "tril"
    given = [diagonal] if diagonal else []
    if x.dtype == "f32":
        return op.result("{0}", op.call(function, x, *given))
    wide = op.call(function, fill_form("f32({0})", op.tree(x)), *given)
    return op.result("{1}({0})", wide, dtype(x.dtype))


def refuse_data_dependent(op: OnnxOp) -> Operand:
    raise CannotImport("the shape of its output depends on data")


# How two elements are combined, how many are, and what changes nothing. The language has no literal
# of infinity, but log(0) is known when it compiles.
REDUCTIONS = {
    "mul": ("{0} * {1}", "prod", "ones(f32[1])"),
    "max": ("maximum({0}, {1})", "max", "log(zeros(f32[1]))"),
    "min": ("minimum({0}, {1})", "min", "-log(zeros(f32[1]))"),
}
# Every element is compared with every update, where places are not known before.
MOST_COMPARED = 1 << 22


def combine(
    op: OnnxOp, flat: Operand, places: Operand | ModelMember, updates: Operand, kind: str
) -> Operand:
    """Combines each element of the flattened tensor with all updates of its place."""
    pair, many, nothing = REDUCTIONS[kind]
    (total,), (count,) = flat.shape, updates.shape
    if isinstance(places, ModelMember):
        table = _updates_of(places.arrays[""], total)
        text = f"{many}(concat([{{0}}, {nothing}], axis = 0)[{{1}}], axis = 1)"
        all_ = op.emit(text, op.tensor(updates), op.parameter_of(table, "updates"))
    else:
        if total * count > MOST_COMPARED:
            raise CannotImport(f"its reduction is {kind}, at {count:,} places that inputs decide")
        hit = "reshape({1}, [1, {2}]) == reshape(arange({3}), [{3}, 1])"
        text = f"{many}(where({hit}, reshape({{0}}, [1, {{2}}]), {nothing}), axis = 1)"
        all_ = op.emit(text, op.tensor(updates), places, count, total)
    return op.emit(pair, op.tensor(flat), all_)


def _updates_of(places: Array, total: int) -> Array:
    """The indices of the updates of each place; short rows end in the number of updates."""
    counts = np.bincount(places, minlength=total)
    table = np.full((total, max(1, int(counts.max()))), places.size)
    taken = np.zeros(total, np.int64)
    for update, place in enumerate(places):
        table[place, taken[place]] = update
        taken[place] += 1
    return table


def flat_places(
    op: OnnxOp, ids: Operand, shape: tuple[int, ...], axis: int
) -> Operand | ModelMember:
    """Positions in the flattened tensor, for ids along one axis."""
    strides = np.cumprod([1, *shape[::-1]])[::-1][1:]
    others = np.zeros(ids.shape, np.int64)
    for other, size in enumerate(ids.shape):
        if other != axis:
            along = np.arange(size) * strides[other]
            others += along.reshape([-1 if a == other else 1 for a in range(len(ids.shape))])
    if isinstance(ids, Stored):
        return op.parameter_of((others + ids.array * strides[axis]).reshape(-1), "places")
    base, text = op.parameter_of(others, "offsets"), "reshape({0} * {2} + {1}, [{3}])"
    return op.emit(text, ids, base, strides[axis], ids_size(ids), name="places")


def ids_size(ids: Operand) -> int:
    return int(np.prod(ids.shape))


def scatter_elements(op: OnnxOp) -> Operand:
    x, ids, updates = op.plain(0), op.plain(1), op.plain(2)
    axis = axis_of(op.attribute("axis", 0), len(x.shape))
    ids = from_the_front(op, ids, x.shape[axis])
    places = flat_places(op, ids, x.shape, axis)
    return place_updates(op, x, places, updates, ids_size(ids))


def place_updates(
    op: OnnxOp, x: Operand, places: Operand | ModelMember, updates: Operand, count: int
) -> Operand:
    """Puts elements of `updates` at places of the flattened x."""
    kind = op.attribute("reduction", "none")
    total = int(np.prod(x.shape))
    if kind in REDUCTIONS:
        if x.dtype != "f32":
            raise CannotImport(f"its reduction is {kind}, and it places {x.dtype}, not f32")
        flat_x, flat_updates = op.reshape(x, (total,)), op.reshape(updates, (count,))
        return op.reshape(combine(op, flat_x, places, flat_updates, kind), x.shape)
    held = x.dtype if x.dtype in ("f32", "i32", "u32") else "i32"
    flat = _as_sum(op, op.reshape(x, (total,)), held)
    values = _as_sum(op, op.reshape(updates, (count,)), held)
    onto = flat if kind == "add" else zeros(held, (total,))
    added = op.emit("scatter_add({0}, {1}, {2})", onto, places, values)
    if kind == "none":
        ones = zeros("f32", (count,), "ones")
        text = "scatter_add({0}, {1}, {2})"
        hits = op.emit(text, zeros("f32", (total,)), places, ones, name="hits")
        added = op.emit("where({0} > 0.0, {1}, {2})", hits, added, flat)
        _refuse_twice(op, places)
    if held != x.dtype:
        text = "{0} != 0" if x.dtype == "bool" else "{1}({0})"
        added = op.emit(text, added, dtype(x.dtype))
    return op.reshape(added, x.shape)


def _as_sum(op: OnnxOp, operand: Operand, kind: str) -> Operand | Part:
    """Bytes and bools are placed as whole numbers of 32 bits."""
    whole = op.tensor(operand)
    if operand.dtype == kind:
        return whole
    return op.emit("{1}({0})", whole, dtype(kind))


def _refuse_twice(op: OnnxOp, places: Operand | ModelMember) -> None:
    """Without a reduction the same place must not be written twice."""
    if (
        isinstance(places, ModelMember)
        and len(set(places.arrays[""].tolist())) < places.arrays[""].size
    ):
        raise CannotImport("it writes to a place twice, without a reduction")


def scatter_nd(op: OnnxOp) -> Operand:
    """Rows at positions given by their first indices."""
    x, ids, updates = op.plain(0), op.operand(1), op.plain(2)
    depth = ids.shape[-1]
    rows = int(np.prod(ids.shape[:-1]))
    width = int(np.prod(x.shape[depth:]))
    strides = np.cumprod([1, *x.shape[:depth][::-1]])[::-1][1:]
    within = np.arange(width)
    if isinstance(ids, Stored):
        sizes = np.array(x.shape[:depth])
        known = np.where(ids.array < 0, ids.array + sizes, ids.array).reshape(rows, depth)
        places: Operand | ModelMember = op.parameter_of(
            ((known * strides).sum(1)[:, None] * width + within).reshape(-1), "places"
        )
    else:
        places = _runtime_places(op, op.with_order(ids, None), rows, depth, strides, width)
    return place_updates(op, x, places, updates, rows * width)


def _runtime_places(
    op: OnnxOp, ids: Operand, rows: int, depth: int, strides: object, width: int
) -> Operand:
    flat = op.reshape(ids, (rows, depth))
    steps = op.parameter_of(np.asarray(strides) * width, "strides")
    within = op.parameter_of(np.arange(width), "within")
    text, count = "reshape(reshape(sum({0} * {1}, axis = 1), [{3}, 1]) + {2}, [{4}])", rows * width
    return op.emit(text, flat, steps, within, rows, count, name="places")


def gather_nd(op: OnnxOp) -> Operand:
    """Rows found by their first indices; leading axes may be a batch."""
    x, ids = op.plain(0), op.operand(1)
    batch = int(op.attribute("batch_dims", 0))
    depth = ids.shape[-1]
    width = int(np.prod(x.shape[batch + depth :]))
    groups = int(np.prod(x.shape[:batch]))
    inner = x.shape[batch : batch + depth]
    strides = np.cumprod([1, *inner[::-1]])[::-1][1:]
    per = int(np.prod(ids.shape[batch:-1]))
    table = op.reshape(x, (groups * int(np.prod(inner)), width))
    base = (np.arange(groups) * int(np.prod(inner)))[:, None]
    count = groups * per
    if isinstance(ids, Stored):
        known = np.where(ids.array < 0, ids.array + np.array(inner), ids.array)
        rows = (known.reshape(groups, per, depth) * strides).sum(-1) + base
        places: Operand | ModelMember = op.parameter_of(rows.reshape(-1), "rows")
    else:
        flat = op.reshape(op.with_order(ids, None), (groups, per, depth))
        steps, offsets = op.parameter_of(strides, "strides"), op.parameter_of(base, "offsets")
        text = "reshape(sum({0} * {1}, axis = 2) + {2}, [{3}])"
        places = op.emit(text, flat, steps, offsets, count, name="rows")
    elements = op.emit("{0}[{1}]", op.tensor(table), places)
    return op.reshape(elements, op.type.shape)


def tensor_scatter(op: OnnxOp) -> Operand:
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
    ids = Stored(np.broadcast_to(at.reshape(shape), updates.shape))
    return place_updates(op, x, flat_places(op, ids, x.shape, axis), updates, ids_size(updates))


RULES: dict[str, Rule] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "OneHot": one_hot,
    "TopK": top_k,
    "CumSum": cumulative("cumsum"),
    "CumProd": cumulative("cumprod"),
    "Trilu": triangle,
    "NonZero": refuse_data_dependent,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "GatherND": gather_nd,
    "TensorScatter": tensor_scatter,
}
