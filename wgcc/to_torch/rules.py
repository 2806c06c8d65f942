"""One template for each op: the PyTorch expression that computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from wgcc.exporting.compositions import window_places
from wgcc.exporting.op_table import ALONG, EXPRESSIONS, REDUCTIONS
from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS
from wgcc.ir.graph import Node
from wgcc.lazy_numpy import np
from wgcc.ops import OPS
from wgcc.ops.attention import optional

# `{0}`, `{1}` … are the operands.
Rule: TypeAlias = Callable[[Node], str]

DTYPES = {name: f"torch.{row.numpy}" for name, row in DTYPE_TABLE.items()}
# PyTorch computes little with its own type of this name.
DTYPES["u32"] = "torch.int64"
# Whole numbers become 64-bit ones in PyTorch.
WIDENED = ("sum", "prod", "cumsum")


def tuple_text(numbers: Iterable[int]) -> str:
    """A tuple; one of a single number keeps its comma."""
    texts = [str(int(number)) for number in numbers]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def always(text: str) -> Rule:
    return lambda node: text


def reduction(function: str) -> Rule:
    def rule(node: Node) -> str:
        axes = node.attrs["axes"]
        return f"{function}({{0}}, {tuple_text(axes)})" if axes else "{0}"

    return rule


def product(node: Node) -> str:
    """`prod` takes one axis at a time, the last first."""
    return "{0}" + "".join(f".prod({axis})" for axis in sorted(node.attrs["axes"], reverse=True))


def whole_truth(function: str) -> Rule:
    def rule(node: Node) -> str:
        axes = sorted(node.attrs["axes"], reverse=True)
        return "{0}" + "".join(f".{function}({axis})" for axis in axes)

    return rule


def along(text: str) -> Rule:
    return lambda node: text.replace("AXIS", str(node.attrs["axis"]))


def divide(node: Node) -> str:
    is_float = node.output.dtype in FLOATS
    return "{0} / {1}" if is_float else 'torch.div({0}, {1}, rounding_mode="floor")'


def cast(node: Node) -> str:
    return f"{{0}}.to({DTYPES[node.output.dtype]})"


def constant(node: Node) -> str:
    value = np.asarray(OPS[node.op].reference(**node.attrs)).reshape(node.output.shape)
    if node.op == "iota":
        return f"torch.arange({node.attrs['n']}, dtype={DTYPES[node.output.dtype]})"
    held = value.astype("float32") if value.dtype.kind == "f" else value
    return f"torch.tensor({held.tolist()!r}, dtype={DTYPES[node.output.dtype]})"


def not_finite(node: Node) -> str:
    value = str(float(node.attrs["value"]))
    return f"torch.tensor(float({value!r}), dtype={DTYPES[node.output.dtype]})"


def slice_(node: Node) -> str:
    starts, sizes, steps = (node.attrs[name] for name in ("starts", "sizes", "steps"))
    shape = node.inputs[0].shape
    parts = []
    for start, size, step, whole in zip(starts, sizes, steps, shape, strict=True):
        end = start + (size - 1) * step + 1
        is_whole = (start, end, step) == (0, whole, 1)
        parts.append(":" if is_whole else f"{start}:{end}" + (f":{step}" if step != 1 else ""))
    while parts and parts[-1] == ":":
        parts.pop()
    return f"{{0}}[{', '.join(parts)}]" if parts else "{0}"


def unslice(node: Node) -> str:
    shape, starts = node.attrs["shape"], node.attrs["starts"]
    if any(step != 1 for step in node.attrs["steps"]):
        return ""
    sizes = node.inputs[0].shape
    pairs = [
        (start, whole - start - size)
        for start, whole, size in zip(starts, shape, sizes, strict=True)
    ]
    return f"F.pad({{0}}, {tuple_text([n for pair in reversed(pairs) for n in pair])})"


def concat(node: Node) -> str:
    names = ", ".join(f"{{{place}}}" for place in range(len(node.inputs)))
    return f"torch.cat([{names}], {node.attrs['axis']})"


def resize(node: Node) -> str:
    size, axis = node.inputs[0].shape[node.attrs["axis"]], node.attrs["axis"]
    matrix = np.asarray(OPS[node.op].reference(np.eye(size), **{**node.attrs, "axis": 0}))
    rows = matrix.astype("float32").tolist()
    moved = f"{{0}}.movedim({axis}, -1) @ torch.tensor({rows!r}).T"
    return f"({moved}).movedim(-1, {axis})"


def first(rank: int) -> str:
    return tuple_text([0, rank - 1, *range(1, rank - 1)])


def last(rank: int) -> str:
    return tuple_text([0, *range(2, rank), 1])


def conv(node: Node) -> str:
    rank = len(node.inputs[0].shape)
    attrs = node.attrs
    options = (
        f"stride={tuple_text(attrs['stride'])}, padding={tuple_text(attrs['pad'])}, "
        f"dilation={tuple_text(attrs['dilation'])}, groups={attrs['groups']}"
    )
    weight = tuple_text([rank - 1, rank - 2, *range(rank - 2)])
    inner = f"{{0}}.permute{first(rank)}, {{1}}.permute{weight}, {options}"
    text = f"F.conv{rank - 2}d({inner}).permute{last(rank)}"
    kernel = node.inputs[1].shape[:-2]
    cut = "".join(f", :{size}" for size in attrs["out"])
    return text if tuple(attrs["out"]) == _full(node, kernel) else f"{text}[:{cut}]"


def _full(node: Node, kernel: Sequence[int]) -> tuple[int, ...]:
    """How many windows there are with the same padding at both sides."""
    attrs = node.attrs
    given = zip(
        node.inputs[0].shape[1:-1], attrs["pad"], attrs["dilation"], kernel, attrs["stride"],
        strict=True,
    )  # fmt: skip
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in given)


def max_pool(node: Node) -> str:
    rank, attrs = len(node.inputs[0].shape), node.attrs
    is_full = tuple(attrs["out"]) == _full(node, attrs["kernel"])
    ceil = "" if is_full else ", ceil_mode=True"
    given = ", ".join(tuple_text(attrs[name]) for name in ("kernel", "stride", "pad", "dilation"))
    return f"F.max_pool{rank - 2}d({{0}}.permute{first(rank)}, {given}{ceil}).permute{last(rank)}"


def layer_norm(node: Node) -> str:
    width = node.inputs[0].shape[-1]
    return f"F.layer_norm({{0}}, ({width},), {{1}}, {{2}}, {node.attrs['eps']!r})"


def rms_norm(node: Node) -> str:
    eps = node.attrs["eps"]
    return f"{{0}} * torch.rsqrt({{0}}.square().mean(-1, keepdim=True) + {eps!r}) * {{1}}"


def attention(node: Node) -> str:
    """PyTorch's own, with a mask that says which keys each row sees."""
    attrs, (q, k) = node.attrs, node.inputs[:2]
    offset, mask = optional(node.inputs[3:])
    if offset is not None or attrs["window"] is not None:
        return ""
    options = [f"scale={attrs['scale']!r}"]
    if q.shape[1] != k.shape[1]:
        options.append("enable_gqa=True")
    if mask is not None:
        place = list(node.inputs).index(mask)
        options.append(f"attn_mask={{{place}}}")
        if attrs["causal"]:
            return ""
    elif attrs["causal"]:
        options.append("is_causal=True")
    return f"F.scaled_dot_product_attention({{0}}, {{1}}, {{2}}, {', '.join(options)})"


def move_pixels(node: Node) -> str:
    """Pixels of windows, or zeros beside the image, one axis after the other."""
    text, others = "{0}", len(node.inputs[0].shape) - 2
    for axis, kernel, places in window_places(node):
        flat = f"{text}.movedim(({axis}, {kernel}), (0, 1)).flatten(0, 1)"
        read = f"F.pad({flat}, (0, 0) * {others} + (1, 0))[torch.tensor({places.tolist()!r})]"
        text = f"{read}.movedim((0, 1), ({axis}, {kernel}))"
    return text


def gather_grad(node: Node) -> str:
    """Rows added up by id."""
    table, rest = node.output, node.output.shape[1:]
    start = "{2}" if len(node.inputs) > 2 else (
        f"torch.zeros({tuple_text(table.shape)}, dtype={DTYPES[table.dtype]})"
    )  # fmt: skip
    rows = f"{{0}}.reshape({tuple_text((-1, *rest))})"
    return f"{start}.index_add(0, {{1}}.reshape(-1).long(), {rows})"


def take_along(node: Node) -> str:
    """Ids outside of the axis read its nearest element."""
    axis = node.attrs["axis"]
    ids = f"{{1}}.long().clamp(0, {node.inputs[0].shape[axis] - 1})"
    return f"torch.take_along_dim({{0}}, {ids}, {axis})"


def add_along(node: Node) -> str:
    axis, size = node.attrs["axis"], node.attrs["size"]
    start = f"torch.zeros({tuple_text(node.output.shape)}, dtype={DTYPES[node.output.dtype]})"
    return f"{start}.scatter_add({axis}, {{1}}.long().clamp(0, {size - 1}), {{0}})"


def conv_transpose(node: Node) -> str:
    """PyTorch computes all that the windows reach; the result is cut out of that."""
    rank, attrs = len(node.inputs[0].shape), node.attrs
    weight = tuple_text([rank - 2, rank - 1, *range(rank - 2)])
    options = f"stride={tuple_text(attrs['stride'])}, dilation={tuple_text(attrs['dilation'])}"
    inner = f"{{0}}.permute{first(rank)}, {{1}}.permute{weight}, {options}"
    groups = attrs.get("groups", 1)
    text = f"F.conv_transpose{rank - 2}d({inner}, groups={groups}).permute{last(rank)}"
    cut = [f"{pad}:{pad + n}" for pad, n in zip(attrs["pad"], node.output.shape[1:-1], strict=True)]
    return f"{text}[:, {', '.join(cut)}]" if _reaches(node) else ""


def _reaches(node: Node) -> bool:
    """Whether the windows reach all of the result."""
    attrs, kernel = node.attrs, node.inputs[1].shape[:-2]
    given = zip(
        node.inputs[0].shape[1:-1], attrs["stride"], attrs["dilation"], kernel, attrs["pad"],
        node.output.shape[1:-1], strict=True,
    )  # fmt: skip
    return all((n - 1) * s + d * (k - 1) + 1 >= p + out for n, s, d, k, p, out in given)


def expression(node: Node) -> str:
    """Its text, with results of the type that they have here; u32 are 64-bit numbers there."""
    text, dtype = RULES[node.op](node), node.outputs[0].dtype
    if dtype == "u32" and node.inputs and not OPS[node.op].moves_elements:
        return f"({text}) & 0xFFFFFFFF"
    widens = node.op in WIDENED and dtype not in (*FLOATS, "bool")
    return f"({text}).to({DTYPES[dtype]})" if widens else text


def has_rule(node: Node) -> bool:
    """Whether a rule writes this very node; others are written out by simpler ops."""
    return node.op in RULES and RULES[node.op](node) != ""


RULES: dict[str, Rule] = {
    **{op: always(forms.torch) for op, forms in EXPRESSIONS.items() if forms.torch},
    **{op: along(forms.torch) for op, forms in ALONG.items()},
    **{op: reduction(forms.torch) for op, forms in REDUCTIONS.items() if forms.torch},
    "prod": product,
    "any": whole_truth("any"),
    "all": whole_truth("all"),
    "var": lambda node: f"torch.var({{0}}, {tuple_text(node.attrs['axes'])}, correction=0)",
    "take_along": take_along,
    "argsort": lambda node: (
        f"torch.argsort({{0}}, dim={node.attrs['axis']}, "
        f"descending={bool(node.attrs.get('descending'))}, stable=True).int()"
    ),
    "div": divide,
    "cast": cast,
    "const": constant,
    "not_finite": not_finite,
    "literal": constant,
    "iota": constant,
    "broadcast": lambda node: f"{{0}}.expand{tuple_text(node.attrs['shape'])}",
    "reshape": lambda node: f"{{0}}.reshape({tuple_text(node.attrs['shape'])})",
    "transpose": lambda node: f"{{0}}.permute({tuple_text(node.attrs['perm'])})",
    "slice": slice_,
    "unslice": unslice,
    "concat": concat,
    "flip": lambda node: f"{{0}}.flip({tuple_text(node.attrs['axes'])})",
    "roll": lambda node: f"{{0}}.roll({node.attrs['shift']}, {node.attrs['axis']})",
    "resize": resize,
    "resize_back": resize,
    "conv": conv,
    "max_pool": max_pool,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "attention": attention,
    "patches": move_pixels,
    "unpatches": move_pixels,
    "gather_grad": gather_grad,
    "add_along": add_along,
    "conv_transpose": conv_transpose,
}
