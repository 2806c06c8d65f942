"""Functions and methods of PyTorch, and what to write in `.wg` instead: rules for functions of
numbers where a form is not enough, then all of them by name.

Names that both have, with the same meaning (`exp`, `softmax`), are not listed. The first parameter
is also the tensor of a method: `x.t()` is `t(x)`. Tests run each of them, with the numbers that
PyTorch gives."""

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
from wgcc.elaborate.from_pytorch.shape_rules import SHAPE_RULES
from wgcc.ir.dtypes import OTHER_NAMES

_TYPE_OF = {**OTHER_NAMES, "bool": "bool"}


def div(bound: Bound) -> str | None:
    mode = bound.get("rounding_mode")
    quotient = f"{bound['input'].group} / {bound['other'].group}"
    if mode is None:
        return quotient
    word = mode.text.strip("\"'")
    return f"{word}({quotient})" if word in ("floor", "trunc") else None


def inner(bound: Bound) -> str | None:
    a, b = bound["input"], bound["other"]
    if a.rank == b.rank == 1:
        return f"sum({a.group} * {b.group})"
    return f"{a.group} @ transpose({b.text})" if b.rank is not None and b.rank > 1 else None


def clip(bound: Bound) -> str | None:
    form = "clamp({input}, {min}<<, {max}>>)" if "min" in bound else "clamp({input}, high = {max})"
    return filled(form, bound)


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
    given = dict(bound)
    if given.pop("dropout_p", PytorchArgument("0.0", number=0.0)).number != 0:
        return None
    if given.get("is_causal", PytorchArgument("")).text == "false":
        del given["is_causal"]
    mask = given.get("attn_mask")
    if mask is not None and mask.dtype == "bool":
        given["attn_mask"] = PytorchArgument(f"where({mask.text}, 0.0, -1e30)")
    form = "attention({query}, {key}, {value}<<, mask = {attn_mask}>><<, causal = {is_causal}>>"
    return filled(f"{form}<<, scale = {{scale}}>>)", given)


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


def as_float(bound: Bound) -> str:
    """Python's `float("-inf")` has the same name as the method; f32 constants are finite."""
    text = bound["input"].text
    return {"inf": "1e30", "-inf": "-1e30"}.get(text.strip("\"'"), f"f32({text})")


def counted(bound: Bound) -> str:
    """Python's `range`."""
    start, end = (bound["stop"], None) if "end" not in bound else (bound["stop"], bound["end"])
    low, high = ("0", start.group) if end is None else (start.group, end.group)
    step = f" step {bound['step'].text}" if "step" in bound else ""
    return f"{low}..{high}{step}"


NUMBER_RULES: dict[str, Build] = {
    "div": div, "divide": div, "inner": inner, "clip": clip, "multinomial": multinomial,
    "scaled_dot_product_attention": attention, "bool": as_bool, "to": to, "type": to,
    "type_as": type_as, "float": as_float, "range": counted,
}  # fmt: skip


FUNCTIONS: Mapping[str, Counterpart] = {
    **read("shapes", SHAPE_RULES),
    **read("arithmetic", NUMBER_RULES),
    **read("activations", NUMBER_RULES),
    **read("losses"),
    **read("conversions", NUMBER_RULES),
    **read("training"),
}
