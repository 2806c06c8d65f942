"""What of PyTorch each layer, function, optimizer and distribution is compared with.

A line is `ours theirs option …`. `theirs` is a class or function of PyTorch, or `aten::…` for one
without a Python signature. An option is `name`, `ours=theirs` where the names differ, `ours=-` where
PyTorch has none, or `"value"=theirs` where wgcc has no option and always does that. `axis=()`:
without an axis, over all elements.
"""

# ruff: noqa: E501  a pair is one line

from __future__ import annotations

from dataclasses import dataclass

from adapters import ROOT

RECORDED = ROOT / "tests" / "recorded" / "defaults_recorded.json"

LAYERS = """
Linear nn.Linear bias
Embedding nn.Embedding std=-
EmbeddingBag nn.EmbeddingBag mean=mode padding=padding_idx std=-
RMSNorm nn.RMSNorm eps
LayerNorm nn.LayerNorm eps "true"=elementwise_affine
BatchNorm nn.BatchNorm1d momentum eps "true"=affine "true"=track_running_stats
GroupNorm nn.GroupNorm eps "true"=affine
InstanceNorm nn.InstanceNorm1d eps affine "false"=track_running_stats
Dropout nn.Dropout p
Dropout1d nn.Dropout1d p
Dropout2d nn.Dropout2d p
Dropout3d nn.Dropout3d p
PReLU nn.PReLU init shared=-
Conv1d nn.Conv1d k=kernel_size stride pad=padding bias groups dilation
Conv2d nn.Conv2d k=kernel_size stride pad=padding bias groups dilation
Conv3d nn.Conv3d k=kernel_size stride pad=padding bias groups dilation
ConvTranspose1d nn.ConvTranspose1d k=kernel_size stride pad=padding output_pad=output_padding bias groups dilation
ConvTranspose2d nn.ConvTranspose2d k=kernel_size stride pad=padding output_pad=output_padding bias groups dilation
MultiHeadAttention nn.MultiheadAttention bias causal=- cache=- "0.0"=dropout
TransformerEncoderLayer nn.TransformerEncoderLayer p=dropout act=activation norm_first causal=- cache=- "1e-5"=layer_norm_eps
TransformerDecoderLayer nn.TransformerDecoderLayer p=dropout act=activation norm_first causal=forward.tgt_is_causal cache=- "1e-5"=layer_norm_eps
RNNCell nn.RNNCell act=nonlinearity bias
LSTMCell nn.LSTMCell bias
GRUCell nn.GRUCell bias
RNN nn.RNNBase layers=num_layers bidirectional act=- bias p=dropout
LSTM nn.RNNBase layers=num_layers bidirectional bias p=dropout
GRU nn.RNNBase layers=num_layers bidirectional bias p=dropout
SpectralNorm nn.utils.parametrizations.spectral_norm iterations=n_power_iterations bias=-
"""

FUNCTIONS = """
leaky_relu F.leaky_relu slope=negative_slope
elu F.elu alpha
glu F.glu axis=dim
gelu aten::gelu approximate
softplus aten::softplus "1.0"=beta
sum aten::sum.dim_IntList axis=() keep=keepdim
mean aten::mean.dim axis=() keep=keepdim
prod aten::prod.dim_int axis=() keep=keepdim
max aten::max.dim axis=() keep=keepdim
min aten::min.dim axis=() keep=keepdim
var aten::var.correction axis=() keep=keepdim correction
std aten::std.correction axis=() keep=keepdim correction
norm torch.norm p axis=() keep=keepdim
logsumexp aten::logsumexp axis=dim keep=keepdim
argmax aten::argmax axis=() keep=keepdim
argmin aten::argmin axis=() keep=keepdim
any aten::any.dim axis=() keep=keepdim
all aten::all.dim axis=() keep=keepdim
softmax F.softmax axis=dim
log_softmax F.log_softmax axis=dim
fft aten::fft_fft axis=dim im=-
ifft aten::fft_ifft axis=dim im=-
rfft aten::fft_rfft axis=dim
irfft aten::fft_irfft axis=dim
cumsum aten::cumsum axis=dim
cumprod aten::cumprod axis=dim
cummax aten::cummax axis=dim
argsort aten::argsort axis=dim descending
sort aten::sort axis=dim descending
top_k aten::topk axis=dim
normalize F.normalize axis=dim eps
cosine_similarity aten::cosine_similarity axis=dim eps
transpose aten::transpose.int a=dim0 b=dim1
unbind aten::unbind.int axis=dim
clamp aten::clamp low=min high=max
arange aten::arange.start_step stop=- step
stack aten::stack axis=dim
flip aten::flip axis=dims
roll aten::roll axis=dims
pad F.pad mode value axis=-
tril aten::tril diagonal
triu aten::triu diagonal
take_along_axis aten::take_along_dim axis=dim
scatter_add aten::scatter_add axis=dim
rms_norm F.rms_norm eps
layer_norm F.layer_norm eps
dropout F.dropout p
conv1d aten::conv1d stride pad=padding dilation groups
conv2d aten::conv2d stride pad=padding dilation groups
conv3d aten::conv3d stride pad=padding dilation groups
conv_transpose1d aten::conv_transpose1d stride pad=padding output_pad=output_padding dilation groups
conv_transpose2d aten::conv_transpose2d.input stride pad=padding output_pad=output_padding dilation groups
max_pool1d nn.MaxPool1d stride pad=padding dilation ceil_mode return_indices
max_pool2d nn.MaxPool2d stride pad=padding dilation ceil_mode return_indices
max_pool3d nn.MaxPool3d stride pad=padding dilation ceil_mode return_indices
avg_pool1d nn.AvgPool1d stride pad=padding ceil_mode count_include_pad dilation=-
avg_pool2d nn.AvgPool2d stride pad=padding ceil_mode count_include_pad dilation=-
avg_pool3d nn.AvgPool3d stride pad=padding ceil_mode count_include_pad dilation=-
resize F.interpolate mode align_corners
upsample nn.Upsample factor=scale_factor "nearest"=mode
grid_sample F.grid_sample mode padding_mode align_corners
unfold F.unfold stride pad=padding dilation
fold F.fold stride pad=padding dilation
attention aten::scaled_dot_product_attention causal=is_causal scale mask=attn_mask offset=- window=-
mse F.mse_loss reduction
mae F.l1_loss reduction
huber F.huber_loss delta reduction
bce F.binary_cross_entropy reduction weight
bce_logits F.binary_cross_entropy_with_logits reduction weight pos_weight
kl_div F.kl_div log_target reduction
triplet F.triplet_margin_loss margin eps "2"=p reduction
nll F.nll_loss ignore=ignore_index weight reduction
cross_entropy F.cross_entropy ignore=ignore_index smoothing=label_smoothing weight reduction
solve_triangular aten::linalg_solve_triangular upper
ctc_loss F.ctc_loss blank reduction
"""

OPTIMIZERS = """
sgd torch.optim.SGD
adam torch.optim.Adam
adamw torch.optim.AdamW
rmsprop torch.optim.RMSprop
adagrad torch.optim.Adagrad
adadelta torch.optim.Adadelta
nadam torch.optim.NAdam
radam torch.optim.RAdam
adafactor torch.optim.Adafactor
muon torch.optim.Muon
"""

DISTRIBUTIONS = """
normal nn.init.normal_ mean std
trunc_normal nn.init.trunc_normal_ mean std "-2·std"=a "2·std"=b
uniform nn.init.uniform_ low=a high=b
kaiming_uniform nn.init.kaiming_uniform_ a
kaiming_normal nn.init.kaiming_normal_ "0.0"=a
xavier_uniform nn.init.xavier_uniform_ "1.0"=gain
orthogonal nn.init.orthogonal_ gain
"""

# Settings of all optimizers that have them in PyTorch, too.
SETTINGS = (
    "lr", "weight_decay", "momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", "alpha",
    "centered", "rho", "lr_decay", "initial_accumulator_value", "momentum_decay",
    "decoupled_weight_decay", "beta2_decay", "d", "ns_coefficients", "ns_steps", "adjust_lr_fn",
)  # fmt: skip

# Names that PyTorch has for something else, or without options to compare.
OWN = {
    "close": "`torch.isclose` has relative tolerances",
    "scan": "a loop of the language",
    "sample": "draws from logits",
    "selective_scan": "not in PyTorch",
    "hinge": "`HingeEmbeddingLoss` is another loss",
    "accuracy": "not in PyTorch",
    "rearrange": "einops",
}

# The same in other words: PyTorch's default, and what it means there.
MEANS: dict[tuple[str, str], tuple[object, object]] = {
    ("RMSNorm", "eps"): (None, 2.0**-23),
    ("rms_norm", "eps"): (None, 2.0**-23),
    ("var", "correction"): (None, 1),
    ("std", "correction"): (None, 1),
    ("norm", "p"): ("fro", 2),
    ("gelu", "approximate"): ("none", False),
    ("EmbeddingBag", "mean"): ("mean", True),
    ("EmbeddingBag", "padding"): (None, -1),
    ("roll", "axis"): ([], None),
    ("pad", "value"): (None, 0),
    ("resize", "align_corners"): (None, False),
    ("grid_sample", "align_corners"): (None, False),
    ("adafactor", "eps"): ([None, 1e-3], [2.0**-23, 1e-3]),
    ("muon", "adjust_lr_fn"): (None, "original"),
}

_AXIS = "PyTorch wants it written"
_LAST = "features are the last axis"
# Defaults that differ on purpose, and why.
DIFFERENT: dict[tuple[str, str], str] = {
    **{(f"Conv{axes}d", "k"): "a usual size" for axes in (1, 2, 3)},
    **{(f"ConvTranspose{axes}d", "k"): "a usual size" for axes in (1, 2)},
    ("TransformerDecoderLayer", "causal"): "a decoder that sees what follows is rarely meant",
    ("logsumexp", "axis"): "over all elements, as other reductions",
    ("softmax", "axis"): _AXIS,
    ("log_softmax", "axis"): _AXIS,
    ("cumsum", "axis"): _AXIS,
    ("cumprod", "axis"): _AXIS,
    ("cummax", "axis"): _AXIS,
    ("scatter_add", "axis"): _AXIS,
    ("transpose", "a"): _AXIS,
    ("transpose", "b"): _AXIS,
    ("flip", "axis"): _AXIS,
    ("normalize", "axis"): _LAST,
    ("cosine_similarity", "axis"): _LAST,
    ("take_along_axis", "axis"): "PyTorch flattens both",
    ("upsample", "factor"): _AXIS,
    ("nll", "ignore"): "a label out of range is an error, also -100",
    ("cross_entropy", "ignore"): "a label out of range is an error, also -100",
    ("trunc_normal", '"-2·std"'): "PyTorch cuts at -2 and 2, whatever `std` is",
    ("trunc_normal", '"2·std"'): "PyTorch cuts at -2 and 2, whatever `std` is",
    ("solve_triangular", "upper"): _AXIS,
    ("uniform", "low"): _AXIS,
    ("uniform", "high"): _AXIS,
}

# Layers with sizes that are large enough to measure their initial values: ours, PyTorch's, and the
# parameters of both.
INITIAL = (
    ("Linear[400, 300]", "nn.Linear(400, 300)", "w=weight b=bias"),
    ("Embedding[300, 200]", "nn.Embedding(300, 200)", "w=weight"),
    ("EmbeddingBag[300, 200]", "nn.EmbeddingBag(300, 200)", "w=weight"),
    ("Conv1d[60, 300](k = 5)", "nn.Conv1d(60, 300, 5)", "w=weight b=bias"),
    ("Conv2d[30, 300](k = 3)", "nn.Conv2d(30, 300, 3)", "w=weight b=bias"),
    ("Conv2d[60, 300](k = 3, groups = 2)", "nn.Conv2d(60, 300, 3, groups=2)", "w=weight b=bias"),
    ("Conv3d[30, 300](k = 2)", "nn.Conv3d(30, 300, 2)", "w=weight b=bias"),
    ("ConvTranspose1d[60, 300](k = 5)", "nn.ConvTranspose1d(60, 300, 5)", "w=weight b=bias"),
    ("ConvTranspose2d[60, 300](k = 3)", "nn.ConvTranspose2d(60, 300, 3)", "w=weight b=bias"),
    ("RMSNorm[300]", "nn.RMSNorm(300)", "g=weight"),
    ("LayerNorm[300]", "nn.LayerNorm(300)", "g=weight b=bias"),
    (
        "BatchNorm[300]", "nn.BatchNorm1d(300)",
        "g=weight b=bias run_mean=running_mean run_var=running_var",
    ),
    ("GroupNorm[300](groups = 3)", "nn.GroupNorm(3, 300)", "g=weight b=bias"),
    ("InstanceNorm[300](affine = true)", "nn.InstanceNorm1d(300, affine=True)", "g=weight b=bias"),
    ("PReLU[300]", "nn.PReLU(300)", "w=weight"),
    ("RNNCell[200, 300]", "nn.RNNCell(200, 300)", "weight_ih weight_hh bias_ih bias_hh"),
    ("LSTMCell[200, 300]", "nn.LSTMCell(200, 300)", "weight_ih weight_hh bias_ih bias_hh"),
    ("GRUCell[200, 300]", "nn.GRUCell(200, 300)", "weight_ih weight_hh bias_ih bias_hh"),
    ("RNN[200, 300]", "nn.RNN(200, 300)", "cells.0.weight_ih=weight_ih_l0 cells.0.bias_hh=bias_hh_l0"),
    ("LSTM[200, 300]", "nn.LSTM(200, 300)", "cells.0.weight_ih=weight_ih_l0 cells.0.bias_hh=bias_hh_l0"),
    ("GRU[200, 300]", "nn.GRU(200, 300)", "cells.0.weight_ih=weight_ih_l0 cells.0.bias_hh=bias_hh_l0"),
    (
        "MultiHeadAttention[300, 6]", "nn.MultiheadAttention(300, 6)",
        "in_proj.w=in_proj_weight in_proj.b=in_proj_bias out_proj.w=out_proj.weight out_proj.b=out_proj.bias",
    ),
    (
        "TransformerEncoderLayer[300, 6, 400]", "nn.TransformerEncoderLayer(300, 6, 400)",
        "self_attn.in_proj.w=self_attn.in_proj_weight self_attn.out_proj.b=self_attn.out_proj.bias "
        "linear1.w=linear1.weight linear1.b=linear1.bias linear2.w=linear2.weight "
        "linear2.b=linear2.bias norm1.g=norm1.weight norm1.b=norm1.bias",
    ),
    (
        "TransformerDecoderLayer[300, 6, 400]", "nn.TransformerDecoderLayer(300, 6, 400)",
        "multihead_attn.in_proj.w=multihead_attn.in_proj_weight linear1.b=linear1.bias "
        "norm3.g=norm3.weight",
    ),
)  # fmt: skip
# Distributions: a parameter of ours, and what fills PyTorch's tensor of the same shape, turned.
DRAWN = (
    ("f32[300, 200] ~ normal", "nn.init.normal_(torch.empty(200, 300))"),
    ("f32[300, 200] ~ kaiming_uniform(fan = 300)", "nn.init.kaiming_uniform_(torch.empty(200, 300))"),
    (
        "f32[300, 200] ~ kaiming_uniform(fan = 300, a = 2.0)",
        "nn.init.kaiming_uniform_(torch.empty(200, 300), a=2.0)",
    ),
    ("f32[300, 200] ~ kaiming_normal(fan = 300)", "nn.init.kaiming_normal_(torch.empty(200, 300))"),
    (
        "f32[300, 200] ~ xavier_uniform(fan_in = 300, fan_out = 200)",
        "nn.init.xavier_uniform_(torch.empty(200, 300))",
    ),
    ("f32[300, 200] ~ orthogonal", "nn.init.orthogonal_(torch.empty(200, 300))"),
    ("f32[300, 200] ~ trunc_normal", "nn.init.trunc_normal_(torch.empty(200, 300))"),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """`options`: pairs (ours, PyTorch's); ours in quotes is no option, but what is always done."""

    ours: str
    theirs: str
    options: tuple[tuple[str, str], ...]


def recorded_as(ours: str, theirs: str) -> str:
    """The key of an option in the record."""
    return ours if theirs == "()" else theirs


def read_pairs(table: str) -> list[Pair]:
    pairs = []
    for line in filter(None, table.splitlines()):
        ours, theirs, *options = line.split()
        pairs.append(Pair(ours, theirs, tuple(_option(option) for option in options)))
    return pairs


def _option(text: str) -> tuple[str, str]:
    ours, _, theirs = text.partition("=")
    return ours, theirs or ours


def optimizer_pairs() -> list[Pair]:
    """The options are those that PyTorch's signature has."""
    return [
        Pair(pair.ours, pair.theirs, tuple((name, name) for name in SETTINGS))
        for pair in read_pairs(OPTIMIZERS)
    ]


def all_pairs() -> list[Pair]:
    tables = (LAYERS, FUNCTIONS, DISTRIBUTIONS)
    return [pair for table in tables for pair in read_pairs(table)] + optimizer_pairs()
