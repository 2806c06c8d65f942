"""Functions, layers, optimizers and schedules of PyTorch, and what to write in `.wg` instead: rules
where a form of `hints.txt` is not enough, then all of them by name.

Names that both have, with the same meaning (`exp`, `softmax`), are listed only where calls
differ (`SAME_NAMES`). The first parameter is also the tensor of a method: `x.t()` is `t(x)`.
What a rule cannot tell from the arguments is None. Tests run each of them, with the numbers that
PyTorch gives.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.from_pytorch.calls import (
    Bound,
    Build,
    Counterpart,
    PytorchArgument,
    fill_form,
    read,
)
from wgcc.elaborate.from_pytorch.shape_rules import SHAPE_RULES, movedim, new_tensor, view
from wgcc.ir.dtypes import OTHER_NAMES

_TYPE_OF = {**OTHER_NAMES, "bool": "bool"}


def multinomial(bound: Bound) -> str | None:
    """PyTorch draws `num_samples` for each row, without repeating any unless told."""
    p, count = bound["input"], bound["num_samples"]
    drawn = f"sample(log({p.text}))"
    if p.sizes is None or count.whole is None:
        return None
    if count.whole == 1:
        return f"{drawn}[.., new]" if len(p.sizes) > 1 else f"{drawn}[new]"
    if bound.get("replacement", PytorchArgument("false")).text != "true":
        return None
    rows = ":, new" if len(p.sizes) > 1 else "new"
    sizes = [*p.sizes[:-1], count.text, p.sizes[-1]]
    return f"sample(expand(log({p.text})[{rows}], [{', '.join(sizes)}]))"


def attention(bound: Bound) -> str | None:
    """A mask of bools says what is attended to; here a mask is added to the scores."""
    arguments = dict(bound)
    if arguments.pop("dropout_p", PytorchArgument("0.0", number=0.0)).number != 0:
        return None
    if arguments.get("is_causal", PytorchArgument("")).text == "false":
        del arguments["is_causal"]
    mask = arguments.get("attn_mask")
    if mask is not None and mask.dtype == "bool":
        arguments["attn_mask"] = PytorchArgument(f"where({mask.text}, 0.0, -1e30)")
    form = "attention({query}, {key}, {value}<<, mask = {attn_mask}>><<, causal = {is_causal}>>"
    return fill_form(f"{form}<<, scale = {{scale}}>>)", arguments)


def as_bool(bound: Bound) -> str:
    x = bound["input"]
    if x.dtype == "bool":
        return x.text
    return f"{x.group} != {'0' if x.dtype.startswith(('i', 'u')) else '0.0'}"


def to(bound: Bound) -> str | None:
    """An element type converts; a device is no concern of the model."""
    x, wanted = bound["input"], bound["dtype"].text.strip("\"'")
    name = wanted.rpartition(".")[2]
    if wanted.startswith(("cuda", "cpu", "mps", "device")):
        return x.text
    return f"{_TYPE_OF[name]}({x.text})" if name in _TYPE_OF else None


def type_as(bound: Bound) -> str | None:
    dtype = bound["other"].dtype
    return f"{dtype}({bound['input'].text})" if dtype else None


NUMBER_RULES: dict[str, Build] = {
    "multinomial": multinomial, "scaled_dot_product_attention": attention, "bool": as_bool,
    "to": to, "type": to, "type_as": type_as,
}  # fmt: skip


FUNCTIONS: Mapping[str, Counterpart] = {
    **read("shapes", SHAPE_RULES),
    **read("arithmetic", NUMBER_RULES),
    **read("activations", NUMBER_RULES),
    **read("losses"),
    **read("conversions", NUMBER_RULES),
    **read("training"),
}


def _options(name: str, sizes: str, *options: str) -> Build:
    """`Name[sizes](option = …)` with the options that are given: `"layers num_layers"`."""

    def build(bound: Bound) -> str | None:
        pairs = [option.split() for option in options]
        shown = [f"{ours} = {bound[theirs].text}" for ours, theirs in pairs if theirs in bound]
        head = fill_form(sizes, {key: bound[key] for key in bound if f"{{{key}}}" in sizes})
        return f"{name}{head}({', '.join(shown)})" if shown else f"{name}{head}"

    return build


def _recurrent(name: str) -> Build:
    """Here the batch is always the first axis."""
    write = _options(
        name, "[{input_size}, {hidden_size}]", "layers num_layers", "bidirectional bidirectional",
        "bias bias", "p dropout",
    )  # fmt: skip

    def build(bound: Bound) -> str | None:
        first = bound.get("batch_first")
        return write(bound) if first is not None and first.text == "true" else None

    return build


def _layer_norm(bound: Bound) -> str | None:
    shape = bound["normalized_shape"]
    sizes = shape.items if shape.items is not None else (shape,)
    eps = f"(eps = {bound['eps'].text})" if "eps" in bound else ""
    return f"{{}}[{sizes[0].text}]{eps}" if len(sizes) == 1 else None


def _named_norm(name: str) -> Build:
    def build(bound: Bound) -> str | None:
        code = _layer_norm(bound)
        return code.format(name) if code else None

    return build


_LAYER_BUILDERS: dict[str, Build] = {
    "LayerNorm": _named_norm("LayerNorm"),
    "RMSNorm": _named_norm("RMSNorm"),
    "MultiheadAttention": _options("MultiHeadAttention", "[{embed_dim}, {num_heads}]", "bias bias"),
    **{name: _recurrent(name) for name in ("RNN", "LSTM", "GRU")},
    **{
        f"BatchNorm{axes}d": _options(
            "BatchNorm", "[{num_features}]", "momentum momentum", "eps eps"
        )
        for axes in "123"
    },
}

LAYERS: Mapping[str, Counterpart] = read("layers", _LAYER_BUILDERS)

OPTIMIZERS: Mapping[str, Counterpart] = read("optimizers")


def _step_lr(bound: Bound) -> str | None:
    return _setting(bound, "{gamma} ** floor((step - 1.0) / {step_size})", "step_size")


def _exponential_lr(bound: Bound) -> str | None:
    return _setting(bound, "{gamma} ** (step - 1.0)")


def _multi_step_lr(bound: Bound) -> str | None:
    steps = bound["milestones"].items
    if not steps:
        return None
    passed = " + ".join(f"f32(step > {_decimal(item.text)})" for item in steps)
    return _setting(bound, f"{{gamma}} ** ({passed})")


def _cosine_lr(bound: Bound) -> str | None:
    least = bound["eta_min"]
    wave = f"(1.0 + cos(pi * (step - 1.0) / {_decimal(bound['T_max'].text)})) / 2.0"
    rate = bound["optimizer"].rate or "1e-3"
    if least.number == 0:
        return f"lr = {rate} * {wave}"
    return f"lr = {least.text} + ({rate} - {least.text}) * {wave}"


def _setting(bound: Bound, factor: str, *counts: str) -> str:
    """`lr` of the optimizer, times a factor that depends on `step`, which is 1 at first."""
    for name in ("gamma", *counts):
        factor = factor.replace(f"{{{name}}}", _decimal(bound[name].text))
    return f"lr = {bound['optimizer'].rate or '1e-3'} * {factor}"


def _decimal(text: str) -> str:
    return f"{text}.0" if text.isdigit() else text


SCHEDULES: Mapping[str, Counterpart] = read(
    "schedules",
    {
        "StepLR": _step_lr, "MultiStepLR": _multi_step_lr, "ExponentialLR": _exponential_lr,
        "CosineAnnealingLR": _cosine_lr,
    },
)  # fmt: skip


def _drawn_whole(bound: Bound) -> str | None:
    """`randint(high, size)` and `randint(low, high, size)`."""
    arguments = [bound[name] for name in ("low", "high", "size") if name in bound]
    size = arguments[-1].items
    if size is None or len(arguments) < 2:
        return None
    low, high = (
        ("0", arguments[0].text) if len(arguments) == 2 else (arguments[0].text, arguments[1].text)
    )
    return f"randint({low}, {high}, i32[{', '.join(item.text for item in size)}])"


def _einsum(bound: Bound) -> str | None:
    """PyTorch's axes are single letters; here they are names, between spaces."""
    pattern = bound["equation"].text.strip("\"'")
    tensors = bound["operands"].text
    if "." in pattern or "->" not in pattern:
        return None
    left, _, right = pattern.replace(" ", "").partition("->")
    terms = ", ".join(" ".join(term) for term in left.split(","))
    return f'einsum("{terms} -> {" ".join(right)}", {tensors})'


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
    return fill_form(
        f"{form}<<, reduction = {{reduction}}>><<, smoothing = {{label_smoothing}}>>)", given
    )


def _norm(bound: Bound) -> str | None:
    """Norms are of the last axis."""
    sizes = bound["normalized_shape"].items
    if sizes is None or len(sizes) != 1:
        return None
    arguments = {key: value for key, value in bound.items() if key != "normalized_shape"}
    name, form = ("layer_norm", ", {bias}") if "bias" in arguments else ("rms_norm", "")
    return fill_form(f"{name}({{input}}, {{weight}}{form}<<, eps = {{eps}}>>)", arguments)


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
    **{name: new_tensor(name) for name in _FILLED},
    "randint": _drawn_whole, "einsum": _einsum, "cross_entropy": _cross_entropy,
    "arange": _arange, "layer_norm": _norm, "rms_norm": _norm, "reshape": view,
    "expand": _expand, "tile": _several("tile", ""), "flip": _several("flip", "axis = "),
}  # fmt: skip

SAME_NAMES: Mapping[str, Counterpart] = read("same names", _BUILDERS)
