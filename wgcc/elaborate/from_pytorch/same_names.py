"""Built-in functions that are called as PyTorch's function of the same name is.

A rule writes the call with the order, names and defaults of arguments that the built-in has. A
form is for any call; what a rule cannot tell from the arguments is None.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.from_pytorch.calls import (
    Bound,
    Build,
    Counterpart,
    PytorchArgument,
    filled,
    read,
)
from wgcc.elaborate.from_pytorch.shape_rules import created, movedim, view


def _drawn_whole(bound: Bound) -> str | None:
    """`randint(high, size)` and `randint(low, high, size)`."""
    given = [bound[name] for name in ("low", "high", "size") if name in bound]
    size = given[-1].items
    if size is None or len(given) < 2:
        return None
    low, high = ("0", given[0].text) if len(given) == 2 else (given[0].text, given[1].text)
    return f"randint({low}, {high}, i32[{', '.join(item.text for item in size)}])"


def _extreme(name: str) -> Build:
    """`max(x, y)` compares element by element; `max(x, 1)` also gives positions."""

    def build(bound: Bound) -> str | None:
        x, second = bound["input"], bound.get("dim")
        if second is not None and second.sizes is not None:
            return f"{name}imum({x.text}, {second.text})"
        return filled(f"{name}({{input}}<<, axis = {{dim}}>><<, keep = {{keepdim}}>>)", bound)

    return build


def _size(bound: Bound) -> str:
    shape = f"shape({bound['input'].text})"
    return f"{shape}[{bound['dim'].text}]" if "dim" in bound else shape


def _einsum(bound: Bound) -> str | None:
    """PyTorch's axes are single letters; here they are names, between spaces."""
    pattern = bound["equation"].text.strip("\"'")
    tensors = bound["operands"].text
    if "." in pattern or "->" not in pattern:
        return None
    left, _, right = pattern.replace(" ", "").partition("->")
    terms = ", ".join(" ".join(term) for term in left.split(","))
    return f'einsum("{terms} -> {" ".join(right)}", {tensors})'


def _convolution(name: str) -> Build:
    """The bias is added to the result."""
    form = (
        f"{name}({{input}}, {{weight}}<<, stride = {{stride}}>><<, pad = {{padding}}>>"
        "<<, dilation = {dilation}>><<, groups = {groups}>>)"
    )

    def build(bound: Bound) -> str | None:
        given = {key: value for key, value in bound.items() if key != "bias"}
        code = filled(form, given)
        return f"{code} + {bound['bias'].group}" if code and "bias" in bound else code

    return build


def _spread(bound: Bound) -> str | None:
    """`var` and `std` divide by n - 1 in PyTorch."""
    given = dict(bound)
    biased = given.pop("unbiased", PytorchArgument("true")).text == "false"
    given.setdefault("correction", PytorchArgument("0" if biased else "1"))
    return filled(
        "({input}<<, axis = {dim}>>, correction = {correction}<<, keep = {keepdim}>>)", given
    )


def _named_spread(name: str) -> Build:
    def build(bound: Bound) -> str | None:
        arguments = _spread(bound)
        return f"{name}{arguments}" if arguments else None

    return build


def _normalize(bound: Bound) -> str | None:
    """PyTorch's axis is 1 unless given."""
    given = dict(bound)
    if given.pop("p", PytorchArgument("2", number=2)).number != 2:
        return None
    return filled("normalize({input}, axis = {dim}<<, eps = {eps}>>)", given)


def _cross_entropy(bound: Bound) -> str | None:
    """PyTorch's classes are axis 1, here they are the last one."""
    given, logits = dict(bound), bound["input"]
    if logits.rank is not None and logits.rank > 2:
        last = movedim(
            {"input": logits, "source": PytorchArgument("1", number=1),
             "destination": PytorchArgument("-1", number=-1)}
        )  # fmt: skip
        given["input"] = PytorchArgument(last or logits.text)
    form = "cross_entropy({input}, {target}<<, weight = {weight}>><<, ignore = {ignore_index}>>"
    return filled(
        f"{form}<<, reduction = {{reduction}}>><<, smoothing = {{label_smoothing}}>>)", given
    )


def _normed(bound: Bound) -> str | None:
    """Norms are of the last axis."""
    sizes = bound["normalized_shape"].items
    if sizes is None or len(sizes) != 1:
        return None
    given = {key: value for key, value in bound.items() if key != "normalized_shape"}
    name, form = ("layer_norm", ", {bias}") if "bias" in given else ("rms_norm", "")
    return filled(f"{name}({{input}}, {{weight}}{form}<<, eps = {{eps}}>>)", given)


def _gelu(bound: Bound) -> str | None:
    word = bound.get("approximate", PytorchArgument('"none"')).text.strip("\"'")
    x = bound["input"].text
    rough = {"none": f"gelu({x})", "tanh": f"gelu({x}, approximate = true)"}
    return rough.get(word)


def _arange(bound: Bound) -> str | None:
    """Numbers with a fraction are multiples of whole ones."""
    numbers = [bound[name].number for name in ("start", "end", "step") if name in bound]
    if None in numbers or all(isinstance(number, int) for number in numbers):
        return None
    known = [float(number) for number in numbers if number is not None]
    start, end, step = {1: [0.0, *known, 1.0], 2: [*known, 1.0]}.get(len(known), known)
    count = -int(-(end - start) // step) if step else 0
    scaled = f"f32(arange({count}))" + (f" * {step!r}" if step != 1 else "")
    return scaled if start == 0 else f"{scaled} + {start!r}"


def _several(name: str, option: str) -> Build:
    """`flip(x, 0, 1)`: all that are left are one argument."""

    def build(bound: Bound) -> str:
        items = bound["rest"].items or ()
        value = items[0].text if len(items) == 1 else f"({', '.join(i.text for i in items)})"
        return f"{name}({bound['input'].text}, {option}{value})"

    return build


def _expand(bound: Bound) -> str | None:
    written = view({"input": bound["input"], "shape": bound["sizes"]})
    return written.replace("reshape(", "expand(", 1) if written else None


_FILLED = ("zeros", "ones", "rand", "randn")
_BUILDERS: dict[str, Build] = {
    **{name: created(name) for name in _FILLED},
    **{name: _convolution(name) for name in ("conv1d", "conv2d", "conv3d")},
    "randint": _drawn_whole, "max": _extreme("max"), "min": _extreme("min"), "size": _size,
    "einsum": _einsum, "var": _named_spread("var"), "std": _named_spread("std"),
    "normalize": _normalize, "cross_entropy": _cross_entropy, "gelu": _gelu, "arange": _arange,
    "layer_norm": _normed,
    "rms_norm": _normed, "reshape": view, "expand": _expand, "tile": _several("tile", ""),
    "flip": _several("flip", "axis = "),
}  # fmt: skip

SAME_NAMES: Mapping[str, Counterpart] = read("same names", _BUILDERS)
