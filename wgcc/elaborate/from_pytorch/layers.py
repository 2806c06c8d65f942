"""Layers, optimizers and learning-rate schedules of PyTorch, and what to declare instead."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.from_pytorch.calls import Bound, Build, Counterpart, filled, read

_OPTIONS = (
    "<<, stride = {stride}>><<, pad = {padding}>><<, dilation = {dilation}>>"
    "<<, groups = {groups}>><<, bias = {bias}>>"
)
_CONVOLUTION = (
    "in_channels, out_channels, kernel_size, stride=, padding=, dilation=, groups=, bias="
)
_NORM = "num_features, eps=, momentum="
_RECURRENT = "input_size, hidden_size, num_layers=, bias=, batch_first=, dropout=, bidirectional="


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

LAYERS: Mapping[str, Counterpart] = read(
    f"""
    Linear(in_features, out_features, bias=) = Linear[{{in_features}}, {{out_features}}]
    Embedding(num_embeddings, embedding_dim) = Embedding[{{num_embeddings}}, {{embedding_dim}}]
    LayerNorm(normalized_shape, eps=) = LayerNorm[{{normalized_shape}}]
    RMSNorm(normalized_shape, eps=) = RMSNorm[{{normalized_shape}}]
    GroupNorm(num_groups, num_channels, eps=) = GroupNorm[{{num_channels}}](groups = \
        {{num_groups}}<<, eps = {{eps}}>>) ; channels are the last axis
    Conv1d({_CONVOLUTION}) = Conv1d[{{in_channels}}, {{out_channels}}](k = \
        {{kernel_size}}{_OPTIONS}) ; channels are the last axis
    Conv2d({_CONVOLUTION}) = Conv2d[{{in_channels}}, {{out_channels}}](k = \
        {{kernel_size}}{_OPTIONS}) ; channels are the last axis
    Conv3d({_CONVOLUTION}) = Conv3d[{{in_channels}}, {{out_channels}}](k = \
        {{kernel_size}}{_OPTIONS}) ; channels are the last axis
    Dropout(p=0.5) = Dropout({{p}})
    Dropout1d(p=0.5) = Dropout1d({{p}}) ; channels are the last axis
    Dropout2d(p=0.5) = Dropout2d({{p}}) ; channels are the last axis
    Dropout3d(p=0.5) = Dropout3d({{p}}) ; channels are the last axis
    RNN({_RECURRENT}) = RNN[{{input_size}}, {{hidden_size}}] ; of `[B, T, I]`, as with \
        `batch_first=True`
    LSTM({_RECURRENT}) = LSTM[{{input_size}}, {{hidden_size}}] ; of `[B, T, I]`, as with \
        `batch_first=True`
    GRU({_RECURRENT}) = GRU[{{input_size}}, {{hidden_size}}] ; of `[B, T, I]`, as with \
        `batch_first=True`
    BatchNorm1d({_NORM}) = BatchNorm[{{num_features}}] ; channels are the last axis
    BatchNorm2d({_NORM}) = BatchNorm[{{num_features}}] ; channels are the last axis
    BatchNorm3d({_NORM}) = BatchNorm[{{num_features}}] ; channels are the last axis
    InstanceNorm1d(num_features) = InstanceNorm[{{num_features}}] ; channels are the last axis
    InstanceNorm2d(num_features) = InstanceNorm[{{num_features}}] ; channels are the last axis
    InstanceNorm3d(num_features) = InstanceNorm[{{num_features}}] ; channels are the last axis
    MultiheadAttention(embed_dim, num_heads, *, bias=, batch_first=) = \
        MultiHeadAttention[{{embed_dim}}, {{num_heads}}]<<(bias = {{bias}})>> ; of `[B, T, D]`
    ReLU = - a function: `relu(x)`
    GELU = - a function: `gelu(x)`
    SiLU = - a function: `silu(x)`
    LeakyReLU = - a function: `leaky_relu(x)`
    ELU = - a function: `elu(x)`
    SELU = - a function: `selu(x)`
    Hardswish = - a function: `hardswish(x)`
    Mish = - a function: `mish(x)`
    GLU = - a function: `glu(x)`
    Softsign = - a function: `softsign(x)`
    Softplus = - a function: `softplus(x)`
    LogSoftmax = - a function: `log_softmax(x, axis = -1)`
    Tanh = - a function: `tanh(x)`
    Sigmoid = - a function: `sigmoid(x)`
    Softmax = - a function: `softmax(x, axis = -1)`
    Flatten = - a function: `reshape(x, [N, -1])`
    MaxPool1d = - a function: `max_pool1d(x, 2)`
    MaxPool3d = - a function: `max_pool3d(x, 2)`
    AvgPool1d = - a function: `avg_pool1d(x, 2)`
    AvgPool3d = - a function: `avg_pool3d(x, 2)`
    MaxPool2d = - a function: `max_pool2d(x, 2)`
    AvgPool2d = - a function: `avg_pool2d(x, 2)`
    AdaptiveAvgPool2d = - for size 1 a function: `mean(x, axis = (1, 2), keep = true)`
    AlphaDropout = - not there; `Dropout(0.5)` drops elements
    Sequential = - declare each layer as a member and pipe: `x |> l1 |> relu |> l2`
    ModuleList = - a list of layers: `fs[3]: Linear[D, D]`, and `for f in fs {{ x = f(x) }}`
    ModuleDict = - declare each member by its name
    Parameter = - declare it: `param w: f32[D] = 0.0`
    register_buffer = - declare it: `state s: f32[D] = 0.0`
    Identity = - leave it out
    Upsample = - a function: `resize(x, (8, 8))`; with `"bilinear"` as the third argument it \
        interpolates
    Unfold = - a function: `unfold(x, 3)`
    Fold = - a function: `fold(x, (8, 8), 3)`
    CrossEntropyLoss = - a function: `cross_entropy(logits, labels)`
    NLLLoss = - a function: `nll(log_probs, labels)`
    BCELoss = - a function: `bce(prediction, target)`
    KLDivLoss = - a function: `kl_div(prediction, target)`
    TripletMarginLoss = - a function: `triplet(anchor, positive, negative)`
    CosineSimilarity = - a function: `cosine_similarity(a, b)`
    L1Loss = - a function: `mae(prediction, target)`
    HuberLoss = - a function: `huber(prediction, target)`
    SmoothL1Loss = - a function: `huber(prediction, target)`
    CTCLoss = - a function: `ctc_loss(log_probs, targets, input_lengths, target_lengths)`
    MSELoss = - a function: `mse(prediction, target)`
    BCEWithLogitsLoss = - a function: `bce_logits(prediction, target)`
    """,
    _BUILDERS,
)

OPTIMIZERS: Mapping[str, Counterpart] = read(
    "".join(
        f"{name} = - declare it in the model: `optimizer opt: {name.lower()} {{ lr = 1e-3 }}`\n"
        for name in (
            "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam",
            "Adafactor", "Muon",
        )
    )
)  # fmt: skip


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


_CALLED = "a setting of the optimizer; `step` counts updates, not epochs"
SCHEDULES: Mapping[str, Counterpart] = read(
    f"""
    StepLR(optimizer, step_size, gamma=0.1) = lr = 1e-3 * 0.1 ** floor((step - 1.0) / 1000.0) ; \
        {_CALLED}
    MultiStepLR(optimizer, milestones, gamma=0.1) = lr = 1e-3 * 0.1 ** (f32(step > 1000.0) + \
        f32(step > 2000.0)) ; {_CALLED}
    ExponentialLR(optimizer, gamma) = lr = 1e-3 * 0.99 ** (step - 1.0) ; {_CALLED}
    CosineAnnealingLR(optimizer, T_max, eta_min=0.0) = lr = 1e-3 * (1.0 + cos(pi * (step - 1.0) \
        / 1000.0)) / 2.0 ; {_CALLED}
    LambdaLR = - a setting of the optimizer: `lr = 1e-3 * f(step)`, with a function f of your own
    OneCycleLR = - a setting of the optimizer: `lr = warmup_cosine(step, 1e-3, 100.0, 1000.0)` \
        warms up, then follows a cosine
    ReduceLROnPlateau = - an input of the entry: `lr: f32`, and `minimize loss with opt(lr = lr)`
    """,
    {
        "StepLR": _step_lr, "MultiStepLR": _multi_step_lr, "ExponentialLR": _exponential_lr,
        "CosineAnnealingLR": _cosine_lr,
    },
)  # fmt: skip
