"""Operators that look up, place, sort and count."""

from __future__ import annotations

import re

from wgcc.from_onnx.context import RESHAPE, Op
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, axis_of
from wgcc.from_onnx.values import Constant, Member, Operand, Part, Value
from wgcc.lazy_numpy import np

# One whole number, as a number or as a list.
NUMBER = re.compile(r"(?:i32\(\[)?(\d+)(?:\]\))?")


def from_the_front(op: Op, ids: Operand, size: int, below: int = 0) -> Operand:
    """Ids that count from the end, those `below` a number, count from the front."""
    if isinstance(ids, Constant):
        array = ids.array.astype(np.int64)
        return Constant(np.where(array < below, array + size, array))
    if ids.dtype not in ("i32", "u32"):
        ids = op.emit("i32({0})", ids, shape=ids.shape, dtype="i32")
    if ids.dtype == "u32":
        return ids
    text = f"where({{0}} < {below}, {{0}} + {size}, {{0}})"
    return op.emit(text, ids, shape=ids.shape, dtype="i32", name=ids.name)


def window(op: Op) -> Operand:
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
    place = from_the_front(op, op.reshaped(start, ()), x.shape[axis], below=-length)
    text = f"{{0}}[{':, ' * axis}{{1}} +: {length}]"
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return op.emit(text, op.tensor(x), place, shape=shape, dtype=x.dtype, element=element_of(x))


def _before_views(op: Op, item: object) -> Operand:
    """The number that was given another shape."""
    assert isinstance(item, Value)
    made = op.writer.made_by.get(item)
    is_view = made is not None and (made.text == "{0}" or RESHAPE.fullmatch(made.text))
    before = made.parts[0] if made is not None and is_view else None
    return _before_views(op, before) if isinstance(before, Value) else item


def _known_distance(op: Op, start: Operand, end: Operand) -> int | None:
    """How much is added to one number to get the other."""
    last = _before_views(op, end) if isinstance(end, Value) else None
    made = op.writer.made_by.get(last) if isinstance(last, Value) else None
    if made is None or made.text != "{0} + {1}":
        return None
    for a, b in (made.parts, made.parts[::-1]):
        number = _whole_number(b)
        if number is not None and isinstance(a, Value) and _before_views(op, a) is start:
            return number
    return None


def _whole_number(part: Part) -> int | None:
    if isinstance(part, Member):
        array = part.arrays.get("")
        is_one = array is not None and array.size == 1 and array.dtype.kind == "i"
        return int(array.reshape(())) if array is not None and is_one else None
    found = NUMBER.fullmatch(part) if isinstance(part, str) else None
    return int(found[1]) if found else None


def gather(op: Op) -> Operand:
    x, ids = op.plain(0), op.operand(1)
    rank = len(x.shape)
    axis = axis_of(op.attribute("axis", 0), rank)
    ids = op.ordered(ids, None)
    is_input = ids in op.writer.traced.inputs.values()
    if not (is_input and _is_table(op, x)):
        # Ids of a vocabulary, which a caller gives, do not count from the end.
        ids = from_the_front(op, ids, x.shape[axis])
    lead = ":, " * axis
    if isinstance(ids, Constant):
        found = _known_rows(op, x, ids, axis)
        if found is not None:
            return found
        ids_part: Value | Member = op.parameter_of(ids.array)
    else:
        ids_part = ids
    if axis == 0 and _is_table(op, x):
        assert isinstance(x, Constant)
        rows, width = x.shape
        layer = op.layer(f"Embedding[{rows}, {width}]", op.layer_name("embedding"), w=x.array)
        return op.result("{1}({0})", ids_part, layer)
    return op.result(f"{{0}}[{lead}{{1}}]", op.tensor(x), ids_part)


def _is_table(op: Op, x: Operand) -> bool:
    return (
        isinstance(x, Constant)
        and len(x.shape) == 2
        and x.dtype == "f32"
        and x.source not in op.writer.shared
    )


def _known_rows(op: Op, x: Operand, ids: Constant, axis: int) -> Operand | None:
    """One row, or rows one after the other, need no lookup."""
    lead = ":, " * axis
    if ids.array.ndim == 0:
        return op.result(f"{{0}}[{lead}{int(ids.array)}]", op.tensor(x))
    flat = ids.array.reshape(-1)
    if ids.array.ndim == 1 and (flat == flat[0] + np.arange(flat.size)).all():
        if flat.size == x.shape[axis]:
            return x
        start, end = f"{flat[0]} " if flat[0] else "", flat[0] + flat.size
        tail = f" {end}" if end < x.shape[axis] else ""
        return op.result(f"{{0}}[{lead}{start}:{tail}]", op.tensor(x))
    return None


def gather_elements(op: Op) -> Operand:
    x, ids = op.plain(0), op.plain(1)
    axis = axis_of(op.attribute("axis", 0), len(x.shape))
    ids = from_the_front(op, ids, x.shape[axis])
    for other, (a, b) in enumerate(zip(x.shape, ids.shape, strict=True)):
        if other != axis and a != b:
            cut = ", ".join([":"] * other + [f": {b}"])
            shape = (*x.shape[:other], b, *x.shape[other + 1 :])
            x = op.emit(f"{{0}}[{cut}]", op.tensor(x), shape=shape, dtype=x.dtype)
    places = op.parameter_of(ids.array) if isinstance(ids, Constant) else ids
    return op.result(f"take_along_axis({{0}}, {{1}}, axis = {axis})", op.tensor(x), places)


def one_hot(op: Op) -> Operand:
    ids, depth = op.plain(0), int(op.constant(1, "depth").reshape(()))
    off, on = (float(item) for item in op.constant(2, "values"))
    rank = len(op.type.shape)
    axis = axis_of(op.attribute("axis", -1), rank)
    whole = op.emit("i32({0})", ids, shape=ids.shape, dtype="i32") if ids.dtype != "i32" else ids
    # Ids count from the end if they are negative; rows of ids beyond both ends have no 1.
    known = f"f32(({{0}} >= -{depth}) and ({{0}} < {depth}))[.., new]"
    text = f"one_hot({{0}} % {depth}, {depth}) * {known}"
    hot: Operand = op.emit(text, whole, shape=(*ids.shape, depth), dtype="f32")
    if axis != rank - 1:
        moved = list(range(rank - 1))
        moved.insert(axis, rank - 1)
        hot = op.transposed(hot, moved)
    scaled = f"{off} + {on - off} * {{0}}" if (off, on) != (0, 1) else "{0}"
    text = scaled if op.type.dtype == "f32" else f"{op.type.dtype}({scaled})"
    return op.result(text, hot)


def top_k(op: Op) -> list[Operand | None]:
    x = op.plain(0)
    axis = axis_of(op.attribute("axis", -1), len(x.shape))
    count = int(op.constant(1, "number").reshape(())) if op.has(1) else int(op.attribute("k"))
    values = (op.output(0), op.output(1))
    if op.attribute("largest", 1):
        op.emit_many(f"top_k({{0}}, {count}, axis = {axis})", x, values=values)
        return list(values)
    shape = op.types[0].shape
    turned = Value(x.dtype, shape, values[0].order, "largest")
    op.emit_many(f"top_k(-{{0}}, {count}, axis = {axis})", x, values=(turned, values[1]))
    return [op.result("-{0}", turned), values[1]]


def cumulative(function: str) -> Rule:
    def rule(op: Op) -> Operand:
        x = op.plain(0)
        if x.dtype != "f32":
            raise CannotImport(f"it adds up or multiplies {x.dtype}; the language has f32")
        axis = axis_of(int(op.constant(1, "axis").reshape(())), len(x.shape))
        inner = "{0}"
        if op.attribute("reverse", 0):
            inner = f"flip({inner}, axis = {axis})"
        whole = f"{function}({inner}, axis = {axis})"
        if op.attribute("exclusive", 0):
            lead = ":, " * axis
            start = 0 if function == "cumsum" else 1
            value = "" if start == 0 else ", value = 1"
            whole = f"pad({whole}, (1, 0), axis = {axis}{value})[{lead}: {x.shape[axis]}]"
        if op.attribute("reverse", 0):
            whole = f"flip({whole}, axis = {axis})"
        return op.result(whole, x)

    return rule


def triangle(op: Op) -> Operand:
    x = op.plain(0)
    diagonal = int(op.constant(1, "diagonal").reshape(())) if op.has(1) else 0
    function = "triu" if op.attribute("upper", 1) else "tril"
    extra = f", {diagonal}" if diagonal else ""
    if x.dtype == "f32":
        return op.result(f"{function}({{0}}{extra})", x)
    return op.result(f"{x.dtype}({function}(f32({{0}}){extra}))", x)


def refuse_data_dependent(op: Op) -> Operand:
    raise CannotImport("the shape of its output depends on data")


RULES: dict[str, Rule] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "OneHot": one_hot,
    "TopK": top_k,
    "CumSum": cumulative("cumsum"),
    "CumProd": cumulative("cumprod"),
    "Trilu": triangle,
    "NonZero": refuse_data_dependent,
}
