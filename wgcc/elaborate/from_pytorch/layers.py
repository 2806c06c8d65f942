"""Layers, optimizers and learning-rate schedules of PyTorch, and what to declare instead."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.from_pytorch.calls import Bound, Build, Counterpart, filled, read


def _options(name: str, sizes: str, *options: str) -> Build:
    """`Name[sizes](option = …)` with the options that are given: `"layers num_layers"`."""

    def build(bound: Bound) -> str | None:
        pairs = [option.split() for option in options]
        shown = [f"{ours} = {bound[theirs].text}" for ours, theirs in pairs if theirs in bound]
        head = filled(sizes, {key: bound[key] for key in bound if f"{{{key}}}" in sizes})
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


_BUILDERS: dict[str, Build] = {
    "Linear": _options("Linear", "[{in_features}, {out_features}]", "bias bias"),
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

LAYERS: Mapping[str, Counterpart] = read("layers", _BUILDERS)

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
