"""Translates functions of shapes whose `.wg` text depends on the axes and sizes of the call."""

from __future__ import annotations

import string
from collections.abc import Sequence

from wgcc.elaborate.from_pytorch.calls import Bound, Build, PytorchArgument, fill_form


def permute(bound: Bound) -> str | None:
    order = _wholes(bound["dims"].items)
    x = bound["input"]
    if not order or (x.rank is not None and x.rank != len(order)):
        return None
    return _rearrange(x, [axis % len(order) for axis in order])


def movedim(bound: Bound) -> str | None:
    x, rank = bound["input"], bound["input"].rank
    sources, places = (_wholes(_items(bound[name])) for name in ("source", "destination"))
    if rank is None or not sources or not places or len(sources) != len(places):
        return None
    moved = {place % rank: source % rank for place, source in zip(places, sources, strict=True)}
    others = (axis for axis in range(rank) if axis not in moved.values())
    order = [moved[place] if place in moved else next(others) for place in range(rank)]
    return _rearrange(x, order)


def _rearrange(x: PytorchArgument, order: list[int]) -> str | None:
    """The axes are called as their sizes are, if those are names of their own."""
    if sorted(order) != list(range(len(order))):
        return None
    names = [size.lower() for size in x.sizes or ()]
    if len(set(names)) < len(order) or not all(name.isidentifier() for name in names):
        names = list(string.ascii_lowercase[: len(order)])
    before, after = " ".join(names), " ".join(names[axis] for axis in order)
    return f'rearrange({x.text}, "{before} -> {after}")'


def view(bound: Bound) -> str | None:
    shape = bound["shape"]
    items = shape.items or ()
    if len(items) == 1 and items[0].number is None and not items[0].text.isidentifier():
        return f"reshape({bound['input'].text}, {items[0].text})"
    return f"reshape({bound['input'].text}, [{shape.text}])"


def flatten(bound: Bound) -> str | None:
    x, start, end = bound["input"], bound["start_dim"].whole, bound["end_dim"].whole
    if (start, end) == (0, -1):
        return f"reshape({x.text}, [-1])"
    if x.sizes is None or start is None or end is None:
        return None
    start, end = start % len(x.sizes), end % len(x.sizes)
    if start >= end:
        return x.text
    sizes = [*x.sizes[:start], "-1", *x.sizes[end + 1 :]]
    return f"reshape({x.text}, [{', '.join(sizes)}])"


def unflatten(bound: Bound) -> str | None:
    x, dim, parts = bound["input"], bound["dim"].whole, bound["sizes"].items
    if x.sizes is None or dim is None or parts is None:
        return None
    dim %= len(x.sizes)
    sizes = [*x.sizes[:dim], *(part.text for part in parts), *x.sizes[dim + 1 :]]
    return f"reshape({x.text}, [{', '.join(sizes)}])"


def squeeze(bound: Bound) -> str | None:
    """Only axes of size 1 disappear; others stay, as in PyTorch."""
    x = bound["input"]
    if x.lengths is None:
        return None
    chosen: Sequence[int] | None = range(len(x.lengths))
    if "dim" in bound:
        chosen = _wholes(_items(bound["dim"]))
    if chosen is None:
        return None
    gone = {axis % len(x.lengths) for axis in chosen}
    index = ["0" if n in gone and x.lengths[n] == 1 else ":" for n in range(len(x.lengths))]
    return _index(x, index)


def unsqueeze(bound: Bound) -> str | None:
    x, dim = bound["input"], bound["dim"].whole
    if dim is None or (dim < 0 and x.rank is None and dim != -1):
        return None
    if dim == -1 and x.rank != 0:
        return f"{x.group}[.., new]"
    place = dim if dim >= 0 else dim + (x.rank or 0) + 1
    return f"{x.group}[{', '.join([':'] * place + ['new'])}]"


def repeat(bound: Bound) -> str:
    repeats = bound["repeats"]
    counts = repeats.text if len(repeats.items or ()) == 1 else f"({repeats.text})"
    return f"tile({bound['input'].text}, {counts})"


def repeat_interleave(bound: Bound) -> str | None:
    x, count = bound["input"], bound["repeats"]
    if count.whole is None:
        return None
    if "dim" not in bound:
        return f"reshape({x.text}, [-1])[arange(size({x.text}) * {count.group}) / {count.group}]"
    dim = bound["dim"].whole
    if dim is None or x.sizes is None:
        return None
    dim %= len(x.sizes)
    size = PytorchArgument(x.sizes[dim]).group
    index = [*[":"] * dim, f"arange({size} * {count.group}) / {count.group}"]
    return f"{x.group}[{', '.join(index)}]"


def hstack(bound: Bound) -> str | None:
    rank = _rank_of_first(bound["tensors"])
    if rank is None:
        return None
    return f"concat({bound['tensors'].text}, axis = {0 if rank == 1 else 1})"


def vstack(bound: Bound) -> str | None:
    rank = _rank_of_first(bound["tensors"])
    if rank is None:
        return None
    text = bound["tensors"].text
    return f"stack({text})" if rank == 1 else f"concat({text}, axis = 0)"


def _rank_of_first(tensors: PytorchArgument) -> int | None:
    return tensors.items[0].rank if tensors.items else None


def rot90(bound: Bound) -> str | None:
    x, turns = bound["input"], bound["k"].whole
    axes = _wholes(_items(bound["dims"])) if "dims" in bound else [0, 1]
    if turns is None or axes is None or len(axes) != 2:
        return None
    first, second = axes
    turned = f"transpose({x.text}, {first}, {second})"
    return {
        0: x.text,
        1: f"flip({turned}, axis = {first})",
        2: f"flip({x.text}, axis = ({first}, {second}))",
        3: f"flip({turned}, axis = {second})",
    }[turns % 4]


def narrow(bound: Bound) -> str | None:
    start, length = bound["start"], bound["length"]
    stop = f"{start.group} + {length.group}"
    if start.whole is not None and length.whole is not None and is_literal(start, length):
        stop = str(start.whole + length.whole)
    return _at_axis(bound, f"{start.text} : {stop}")


def is_literal(*arguments: PytorchArgument) -> bool:
    return all(argument.text == str(argument.number) for argument in arguments)


def select(bound: Bound) -> str | None:
    return _at_axis(bound, bound["index"].text)


def _at_axis(bound: Bound, item: str) -> str | None:
    x, dim = bound["input"], bound["dim"].whole
    if dim is None or (dim < 0 and x.rank is None):
        return None
    place = dim if dim >= 0 else dim + (x.rank or 0)
    return f"{x.group}[{', '.join([':'] * place + [item])}]"


def scatter(bound: Bound) -> str | None:
    """`where` replaces; places that no id names keep their element."""
    x, ids, source, dim = (bound[name] for name in ("input", "index", "src", "dim"))
    if source.sizes is None and source.number is None:
        return None
    one = f"ones_like({source.text})" if source.sizes else f"f32(ones_like({ids.text}))"

    def scatter_sum(values: str) -> str:
        return f"scatter_add(zeros_like({x.text}), {ids.text}, {values}, axis = {dim.text})"

    new = scatter_sum(source.text) if source.sizes else source.text
    return f"where({scatter_sum(one)} > 0.0, {new}, {x.text})"


def diagonal(bound: Bound) -> str | None:
    x = bound["input"]
    if x.lengths is None or x.sizes is None or len(x.lengths) != 2:
        return None
    size = x.sizes[0] if x.lengths[0] <= x.lengths[1] else x.sizes[1]
    return f"{x.group}[arange({size}), arange({size})]"


def trace(bound: Bound) -> str | None:
    elements = diagonal(bound)
    return f"sum({elements})" if elements else None


def new_tensor(name: str) -> Build:
    """Translates `new_zeros(x, 2, 3)` and `empty(2, 3)`; the element type is that of x, or f32."""

    def build(bound: Bound) -> str | None:
        if _wholes(bound["size"].items) is None:
            return None
        dtype = bound["input"].dtype if "input" in bound else ""
        return f"{name}({dtype or 'f32'}[{bound['size'].text}])"

    return build


def new_full(bound: Bound) -> str:
    return f"expand({bound['fill_value'].text}, {bound['size'].text})"


def drawn_like(name: str) -> Build:
    def build(bound: Bound) -> str | None:
        x = bound["input"]
        return f"{name}({x.dtype}[{', '.join(x.sizes)}])" if x.sizes else None

    return build


def tensor(bound: Bound) -> str:
    """Whole numbers stay whole, as in PyTorch."""
    data = bound["data"]
    fractions = any(sign in data.text for sign in ".e")
    return f"{'f32' if fractions else 'i32'}({data.text})"


def linspace(bound: Bound) -> str | None:
    start, end, steps = (bound[name] for name in ("start", "end", "steps"))
    if start.number is None or end.number is None or steps.whole is None or steps.whole < 2:
        return None
    if not is_literal(start, end, steps):
        return fill_form(
            "{start} + f32(arange({steps})) * ({end} - {start}) / ({steps} - 1)", bound
        )
    stretch = f" * {end.number - start.number:g}" if end.number - start.number != 1 else ""
    numbers = f"f32(arange({steps.text})){stretch} / {steps.whole - 1}"
    return numbers if start.number == 0 else f"{numbers} + {start.group}"


def interpolate(bound: Bound) -> str | None:
    x, mode = bound["input"], bound["mode"].text.strip("\"'")
    if "size" in bound:
        size = bound["size"]
        after = size.text if size.items is None else f"({', '.join(i.text for i in size.items)})"
    else:
        after = _scale(x, bound.get("scale_factor")) or ""
    ours = {"linear": "bilinear", "trilinear": "bilinear"}.get(mode, mode)
    if not after or ours not in ("nearest", "bilinear", "bicubic"):
        return None
    shown = "" if ours == "nearest" else f', "{ours}"'
    align = bound.get("align_corners", PytorchArgument("false")).text
    return f"resize({x.text}, {after}{shown}{', align_corners = true' if align == 'true' else ''})"


def _scale(x: PytorchArgument, factor: PytorchArgument | None) -> str | None:
    if x.sizes is None or factor is None or factor.whole is None:
        return None
    sizes = [f"{factor.whole} * {PytorchArgument(size).group}" for size in x.sizes[1:-1]]
    return sizes[0] if len(sizes) == 1 else f"({', '.join(sizes)})"


def whole_pool(function: str, axes: int) -> Build:
    """Adaptive pools to size 1 are reductions; others need windows."""

    def build(bound: Bound) -> str | None:
        size = _items(bound["output_size"])
        if any(item.number != 1 for item in size):
            return None
        axis = "1" if axes == 1 else "(1, 2)"
        return f"{function}({bound['input'].text}, axis = {axis}, keep = true)"

    return build


def _index(x: PytorchArgument, index: list[str]) -> str:
    while index and index[-1] == ":":
        index.pop()
    return f"{x.group}[{', '.join(index)}]" if index else x.text


def _items(argument: PytorchArgument) -> tuple[PytorchArgument, ...]:
    return argument.items if argument.items is not None else (argument,)


def _wholes(items: Sequence[PytorchArgument] | None) -> list[int] | None:
    numbers = [item.whole for item in items or ()]
    return None if None in numbers else [number for number in numbers if number is not None]


SHAPE_RULES: dict[str, Build] = {
    "permute": permute, "movedim": movedim, "moveaxis": movedim, "view": view,
    "flatten": flatten, "unflatten": unflatten, "squeeze": squeeze, "unsqueeze": unsqueeze,
    "repeat": repeat, "repeat_interleave": repeat_interleave, "hstack": hstack, "vstack": vstack,
    "rot90": rot90, "narrow": narrow, "select": select, "index_select": select,
    "scatter": scatter, "scatter_": scatter, "diagonal": diagonal,
    "trace": trace, "empty": new_tensor("zeros"), "new_zeros": new_tensor("zeros"),
    "new_ones": new_tensor("ones"), "new_full": new_full, "rand_like": drawn_like("rand"),
    "randn_like": drawn_like("randn"), "tensor": tensor, "as_tensor": tensor,
    "linspace": linspace, "interpolate": interpolate,
    "adaptive_avg_pool1d": whole_pool("mean", 1), "adaptive_avg_pool2d": whole_pool("mean", 2),
    "adaptive_max_pool1d": whole_pool("max", 1), "adaptive_max_pool2d": whole_pool("max", 2),
}  # fmt: skip
