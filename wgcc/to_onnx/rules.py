"""One function for each op: the ONNX nodes that compute the same."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from wgcc.exporting.op_table import ALONG, EXPRESSIONS, REDUCTIONS
from wgcc.ir.dtypes import FLOATS, INTEGERS, SIGNED
from wgcc.ir.graph import Node, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS
from wgcc.ops.attention import AttentionScope
from wgcc.to_onnx.emitter import ELEMENTS, NUMPY, OnnxNode
from wgcc.to_onnx.windows import avg_pool, conv, conv_transpose, max_pool, move_pixels

# Returns the name of the first result.
Rule: TypeAlias = Callable[[OnnxNode], str]

# What stands for the operands of a template.
OPERANDS = ("a", "b", "c")


def composition(text: str) -> Rule:
    """Operators of operators, as `Not(Equal({0}, {1}))`."""
    tree = ast.parse(text.format(*OPERANDS), mode="eval").body
    return lambda call: _nodes_of(tree, call, call.name)


def _nodes_of(tree: ast.expr, call: OnnxNode, name: str = "") -> str:
    if isinstance(tree, ast.Constant):
        return call.to.number_of(tree.value)  # type: ignore[arg-type]
    if isinstance(tree, ast.Name):
        return call.inputs[OPERANDS.index(tree.id)]
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    return call.to.node(tree.func.id, *(_nodes_of(item, call) for item in tree.args), name=name)


def reduction(kind: str) -> Rule:
    def rule(call: OnnxNode) -> str:
        axes = call.attr("axes")
        if not axes:
            return call.to.node("Identity", call.x, name=call.name)
        return call.to.node(kind, call.x, call.to.whole(axes), keepdims=0, name=call.name)

    return rule


def truth(kind: str) -> Rule:
    """`any` and `all` as the largest and the least of numbers."""

    def rule(call: OnnxNode) -> str:
        numbers = call.to.node("Cast", call.x, to=ELEMENTS["i32"])
        axes = call.attr("axes")
        if axes:
            numbers = call.to.node(kind, numbers, call.to.whole(axes), keepdims=0)
        return call.to.node("Cast", numbers, to=ELEMENTS["bool"], name=call.name)

    return rule


def along(kind: str) -> Rule:
    """Positions are whole numbers of 64 bits in ONNX."""

    def rule(call: OnnxNode) -> str:
        axis = call.attr("axis")
        if call.out.dtype != "i32":
            return call.to.node(kind, call.x, axis=axis, name=call.name)
        positions = call.to.node(kind, call.x, axis=axis, keepdims=0)
        return call.to.node("Cast", positions, to=ELEMENTS["i32"], name=call.name)

    return rule


def div(call: OnnxNode) -> str:
    """Whole numbers round down here, and lose the fraction in ONNX."""
    a, b = call.inputs
    if call.out.dtype in INTEGERS and call.out.dtype in SIGNED:
        a = call.to.node("Sub", a, call.to.node("Mod", a, b))
    return call.to.node("Div", a, b, name=call.name)


def mod(call: OnnxNode) -> str:
    a, b = call.inputs
    if call.out.dtype not in FLOATS:
        return call.to.node("Mod", a, b, name=call.name)
    times = call.to.node("Floor", call.to.node("Div", a, b))
    return call.to.node("Sub", a, call.to.node("Mul", times, b), name=call.name)


def cast(call: OnnxNode) -> str:
    return call.to.node("Cast", call.x, to=ELEMENTS[call.out.dtype], name=call.name)


def constant(call: OnnxNode) -> str:
    """`const`, `not_finite`, `literal` and `iota`: their numbers."""
    numbers = np.asarray(OPS[call.node.op].reference(**call.node.attrs))
    held = call.to.store(numbers.astype(NUMPY[call.out.dtype]).reshape(call.out.shape), "constant")
    return call.to.node("Identity", held, name=call.name)


def broadcast(call: OnnxNode) -> str:
    return call.to.node("Expand", call.x, call.to.whole(call.attr("shape")), name=call.name)


def reshape(call: OnnxNode) -> str:
    return call.to.reshape(call.x, call.attr("shape"), call.name)


def transpose(call: OnnxNode) -> str:
    if not call.attr("perm"):
        return call.to.node("Identity", call.x, name=call.name)
    return call.to.transpose(call.x, call.attr("perm"), call.name)


def slice_(call: OnnxNode) -> str:
    starts, sizes, steps = (call.attr(name) for name in ("starts", "sizes", "steps"))
    if not starts:
        return call.to.node("Identity", call.x, name=call.name)
    given = zip(starts, sizes, steps, strict=True)
    ends = [start + (size - 1) * step + (1 if step > 0 else -1) for start, size, step in given]
    ends = [end if end >= 0 else -(1 << 31) for end in ends]
    lists = [call.to.whole(item) for item in (starts, ends, range(len(starts)), steps)]
    return call.to.node("Slice", call.x, *lists, name=call.name)


def unslice(call: OnnxNode) -> str:
    """Zeros around."""
    shape, starts, sizes = call.attr("shape"), call.attr("starts"), call.shape
    if not sizes:
        return call.to.node("Identity", call.x, name=call.name)
    after = [whole - start - n for whole, start, n in zip(shape, starts, sizes, strict=True)]
    return call.to.node("Pad", call.x, call.to.whole([*starts, *after]), name=call.name)


def where(call: OnnxNode) -> str:
    """Not all programs choose between bools, so these are combined by `And` and `Or`."""
    condition, a, b = call.inputs
    if call.out.dtype != "bool":
        return call.to.node("Where", condition, a, b, name=call.name)
    yes = call.to.node("And", condition, a)
    no = call.to.node("And", call.to.node("Not", condition), b)
    return call.to.node("Or", yes, no, name=call.name)


def concat(call: OnnxNode) -> str:
    return call.to.node("Concat", *call.inputs, axis=call.attr("axis"), name=call.name)


def flip(call: OnnxNode) -> str:
    axes = call.attr("axes")
    if not axes:
        return call.to.node("Identity", call.x, name=call.name)
    starts, ends = [-1] * len(axes), [-(1 << 31)] * len(axes)
    lists = [call.to.whole(item) for item in (starts, ends, axes, [-1] * len(axes))]
    return call.to.node("Slice", call.x, *lists, name=call.name)


def roll(call: OnnxNode) -> str:
    axis, size = call.attr("axis"), call.shape[call.attr("axis")]
    shift = call.attr("shift") % size
    if not shift:
        return call.to.node("Identity", call.x, name=call.name)
    front, back = (
        call.to.node("Slice", call.x, call.to.whole([a]), call.to.whole([b]), call.to.whole([axis]))
        for a, b in ((size - shift, size), (0, size - shift))
    )
    return call.to.node("Concat", front, back, axis=axis, name=call.name)


def gather(call: OnnxNode) -> str:
    return call.to.node("Gather", call.x, _positions(call), axis=0, name=call.name)


def _positions(call: OnnxNode) -> str:
    """Ids of the kinds that ONNX takes."""
    ids = call.node.inputs[1]
    if ids.dtype == "i32":
        return call.inputs[1]
    return call.to.node("Cast", call.inputs[1], to=ELEMENTS["i32"])


def take_along(call: OnnxNode) -> str:
    axis = call.attr("axis")
    ids = _nearest(call, call.shape[axis])
    return call.to.node("GatherElements", call.x, ids, axis=axis, name=call.name)


def _nearest(call: OnnxNode, size: int) -> str:
    """Ids outside of an axis mean its nearest element."""
    ends = (call.to.number_of(n, "i32") for n in (0, size - 1))
    return call.to.node("Clip", _positions(call), *ends)


def cumsum(call: OnnxNode) -> str:
    axis = call.to.store(np.array(call.attr("axis"), np.int64))
    return call.to.node("CumSum", call.x, axis, name=call.name)


def window(call: OnnxNode) -> str:
    """Rows from a position that is found at run time."""
    axis, size = call.attr("axis"), call.attr("size")
    start = call.to.reshape(call.to.node("Cast", call.inputs[1], to=7), [1])
    start = call.to.node("Min", start, call.to.whole([call.shape[axis] - size]))
    start = call.to.node("Max", start, call.to.whole([0]))
    end = call.to.node("Add", start, call.to.whole([size]))
    return call.to.node("Slice", call.x, start, end, call.to.whole([axis]), name=call.name)


def layer_norm(call: OnnxNode) -> str:
    eps = float(call.attr("eps"))
    return call.to.node("LayerNormalization", *call.inputs, axis=-1, epsilon=eps, name=call.name)


def rms_norm(call: OnnxNode) -> str:
    last = call.to.whole([-1])
    mean = call.to.node("ReduceMean", square_of(call), last, keepdims=1)
    total = call.to.node("Add", mean, call.to.number_of(float(call.attr("eps"))))
    scaled = call.to.node("Div", call.x, call.to.node("Sqrt", total))
    return call.to.node("Mul", scaled, call.inputs[1], name=call.name)


def square_of(call: OnnxNode) -> str:
    return call.to.node("Mul", call.x, call.x)


def var(call: OnnxNode) -> str:
    axes = call.to.whole(call.attr("axes"))
    if not call.attr("axes"):
        return call.to.node("Sub", call.x, call.x, name=call.name)
    centred = call.to.node("Sub", call.x, call.to.node("ReduceMean", call.x, axes, keepdims=1))
    squares = call.to.node("Mul", centred, centred)
    return call.to.node("ReduceMean", squares, axes, keepdims=0, name=call.name)


def resize(call: OnnxNode) -> str:
    """A product with the matrix of the op's own reference."""
    axis, before = call.attr("axis"), call.shape[call.attr("axis")]
    attrs = {**call.node.attrs, "axis": 0}
    matrix = np.asarray(OPS[call.node.op].reference(np.eye(before), **attrs)).astype(np.float32)
    letters = "abcdefgh"[: len(call.shape)]
    after = letters.replace(letters[axis], "z")
    held = call.to.store(matrix, "weights")
    text = f"z{letters[axis]},{letters}->{after}"
    return call.to.node("Einsum", held, call.x, equation=text, name=call.name)


def argsort(call: OnnxNode) -> str:
    from onnx.helper import make_node

    axis, x = call.attr("axis"), call.x
    if call.node.inputs[0].dtype not in ("f32", "i32"):
        x = call.to.node("Cast", x, to=7)
    count = call.to.whole([call.shape[axis]])
    values, ids = call.to.fresh("values"), call.to.fresh("ids")
    largest = int(call.node.attrs.get("descending", False))
    call.to.nodes.append(
        make_node("TopK", [x, count], [values, ids], axis=axis, largest=largest, sorted=1)
    )
    return call.to.node("Cast", ids, to=ELEMENTS["i32"], name=call.name)


def gather_grad(call: OnnxNode) -> str:
    """Rows added up by id, to a table of zeros or to a given one."""
    ids, table = call.node.inputs[1].shape, call.out
    places = call.to.reshape(call.to.node("Cast", call.inputs[1], to=7), (*ids, 1))
    base = call.inputs[2] if len(call.inputs) > 2 else call.to.store(_zeros(table), "zeros")
    return call.to.node("ScatterND", base, places, call.x, reduction="add", name=call.name)


def add_along(call: OnnxNode) -> str:
    base, axis = call.to.store(_zeros(call.out), "zeros"), call.attr("axis")
    given = base, _nearest(call, call.attr("size")), call.x
    return call.to.node("ScatterElements", *given, axis=axis, reduction="add", name=call.name)


def _zeros(value: Value) -> Array:
    return np.zeros(value.shape, NUMPY[value.dtype])


def has_rule(node: Node) -> bool:
    """Whether a rule writes this very node; others are written out by simpler ops."""
    if node.op == "unslice":
        return all(step == 1 for step in node.attrs["steps"])
    if node.op == "attention":
        return is_plain_attention(node)
    return node.op in RULES


def attention(call: OnnxNode) -> str:
    """softmax(q kᵀ scale) v, with keys and values repeated for groups of queries."""
    q, k, v = call.node.inputs[:3]
    names = dict(zip(call.node.inputs, call.inputs, strict=True))
    groups = q.shape[1] // k.shape[1]
    keys, values = (_repeat_heads(call, names[item], item.shape, groups) for item in (k, v))
    scores = call.to.node("MatMul", names[q], call.to.transpose(keys, (0, 1, 3, 2)))
    scores = call.to.node("Mul", scores, call.to.number_of(float(call.attr("scale"))))
    visible = _visible(call.node)
    if visible is not None:
        hidden = np.where(visible, 0, -1e30).astype(np.float32)
        scores = call.to.node("Add", scores, call.to.store(hidden, "mask"))
    shares = call.to.node("Softmax", scores, axis=-1)
    return call.to.node("MatMul", shares, values, name=call.name)


def _repeat_heads(call: OnnxNode, x: str, shape: tuple[int, ...], groups: int) -> str:
    if groups == 1:
        return x
    b, h, t, d = shape
    split = call.to.reshape(x, (b, h, 1, t, d))
    wide = call.to.node("Expand", split, call.to.whole((b, h, groups, t, d)))
    return call.to.reshape(wide, (b, h * groups, t, d))


def _visible(node: Node) -> Array | None:
    """Which keys each row sees by its position; None if it sees all."""
    causal, window = node.attrs["causal"], node.attrs["window"]
    if not causal and window is None:
        return None
    return AttentionScope(causal, window).visible(
        node.inputs[0].shape[2], node.inputs[1].shape[2], 0
    )


def is_plain_attention(node: Node) -> bool:
    """Whether each row sees a key, without a mask or a position known only at run time."""
    visible = _visible(node)
    return len(node.inputs) == 3 and (visible is None or bool(visible.any(-1).all()))


# Rules that have the names of their ops.
OWN = (
    div, mod, cast, broadcast, reshape, transpose, unslice, concat, where, flip, roll, gather,
    take_along, cumsum, window, layer_norm, rms_norm, var, resize, argsort, attention, gather_grad,
    add_along, conv, conv_transpose, max_pool, avg_pool,
)  # fmt: skip
RULES: dict[str, Rule] = {
    **{op: composition(forms.onnx) for op, forms in EXPRESSIONS.items() if forms.onnx},
    **{op: along(forms.onnx) for op, forms in ALONG.items() if forms.onnx},
    **{op: reduction(forms.onnx) for op, forms in REDUCTIONS.items() if forms.onnx},
    **{rule.__name__: rule for rule in OWN},
    **dict.fromkeys(("const", "not_finite", "literal", "iota"), constant),
    **dict.fromkeys(("patches", "unpatches"), move_pixels),
    "any": truth("ReduceMax"),
    "all": truth("ReduceMin"),
    "slice": slice_,
    "resize_back": resize,
}
