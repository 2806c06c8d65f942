"""PyTorch names and what to write in `.wg` instead: for hints in diagnostics and for the docs.

Names that both have (`exp`, `softmax`, `Linear`) are not listed. An entry is code, for tensors
`x, y: f32[2, 3, 4]`, `m: f32[3, 4]`, `ids: i32[2]` and `mask: bool[2, 3, 4]`, or a member of a
layer; after a semicolon comes a remark. An entry without code says what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counterpart:
    """`code` may be empty: then `remark` says what to do."""

    code: str
    remark: str = ""

    @property
    def advice(self) -> str:
        code = f"write `{self.code}`" if self.code else ""
        return "; ".join(part for part in (code, self.remark) if part)


def _read(table: str) -> dict[str, Counterpart]:
    found = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        name, _, rest = line.partition(" = ")
        code, _, remark = rest.partition(" ; ")
        if code.startswith("- "):
            code, remark = "", code.removeprefix("- ")
        found[name.strip()] = Counterpart(code.strip(), remark.strip())
    return found


FUNCTIONS: Mapping[str, Counterpart] = _read("""
    permute = rearrange(x, "a b c -> c a b")
    movedim = rearrange(x, "a b c -> b c a")
    swapaxes = transpose(x, 0, 1)
    t = transpose(m)
    view = reshape(x, [6, 4])
    flatten = reshape(x, [2, -1])
    unflatten = reshape(x, [2, 3, 2, 2])
    squeeze = x[0]
    unsqueeze = x[new]
    expand_as = expand(x, shape(y))
    broadcast_to = expand(x, [2, 3, 4])
    repeat = tile(x, (2, 1, 1))
    repeat_interleave = rearrange(expand(x[:, new], [2, 5, 3, 4]), "a n b c -> (a n) b c")
    cat = concat([x, y], axis = 0)
    parameters = - `params(net)` lists those of a layer
    load_state_dict = - a whole layer is stored in another: `target := net`
    clip_grad_norm_ = - optimizers have a setting: `clip_norm = 1.0`
    clip_grad_value_ = - optimizers have a setting: `clip_value = 1.0`
    fliplr = flip(x, axis = 1)
    flipud = flip(x, axis = 0)
    rot90 = flip(transpose(m), axis = 0)
    var_mean = - two functions: `var(x)` and `mean(x)`
    vector_norm = norm(x, axis = -1)
    fix = trunc(x)
    hstack = concat([x, y], axis = 1)
    vstack = concat([x, y], axis = 0)
    unbind = chunk(x, 2, axis = 0)
    narrow = x[:, 1 : 3]
    select = x[:, 0]
    index_select = gather(x, ids)
    index_add = scatter_add(x, ids, x[ids])
    scatter_add_ = scatter_add(m, argsort(m, axis = 0), m) ; it returns the new tensor
    scatter = scatter_add(zeros(f32[3, 4]), argsort(m, axis = 0), m) ; it adds
    bincount = segment_sum(ones(i32[2]), ids, 10)
    take_along_dim = take_along_axis(m, argsort(m))
    msort = sort(x, axis = 0)[0]
    arcsin = asin(m)
    arccos = acos(m)
    arctan = atan(m)
    arctan2 = atan2(x, y)
    take = reshape(x, [-1])[ids]
    embedding = gather(m, ids)
    numel = size(x)
    ndim = axes(x)
    dim = axes(x)
    detach = stop_grad(x)
    no_grad = stop_grad(x) ; entries that do not train compute no gradients
    requires_grad = - declare it as `param`; `frozen param` is not trained
    backward = grad(sum(x), x) ; or `minimize loss with opt`
    autograd = grad(sum(x), x)
    zero_grad = - nothing to reset: every call computes fresh gradients
    step = - `minimize loss with opt` makes the step
    item = - entries return numbers; outputs are read back at the end of the call
    to = f32(ids) ; the element type is called like a function, devices are chosen at `load`
    cuda = - devices are chosen when a bundle is loaded
    cpu = - devices are chosen when a bundle is loaded
    float = f32(ids)
    long = i32(x)
    int = i32(x)
    bool = x != 0.0
    half = f16(x)
    type = f32(ids)
    matmul = x @ transpose(m)
    bmm = x @ transpose(y)
    mm = m @ transpose(m)
    mv = sum(m * m[0], axis = 1)
    dot = sum(m[0] * m[1])
    inner = x @ transpose(m)
    outer = einsum("i, j -> i j", m[0], m[1])
    baddbmm = x + x @ zeros(f32[4, 4])
    addmm = m + m @ zeros(f32[4, 4])
    linear = x @ zeros(f32[4, 5]) + zeros(f32[5])
    pow = x ** 2.0
    div = x / 2.0
    mul = x * y
    add = x + y
    sub = x - y
    neg = -x
    reciprocal = 1.0 / (x + 1.0)
    clip = clamp(x, 0.0, 1.0)
    masked_fill = where(mask, -1e30, x)
    masked_select = where(mask, x, 0.0) ; shapes are fixed: select by zeroing
    amax = max(x, axis = -1)
    amin = min(x, axis = -1)
    nansum = sum(where(x == x, x, 0.0))
    frac = x - floor(x)
    fmod = x % 2.0 ; `%` takes the sign of the divisor
    remainder = x % 2.0
    eq = x == y
    ne = x != y
    lt = x < y
    gt = x > y
    logical_and = mask and mask
    logical_or = mask or mask
    logical_not = not mask
    eye = one_hot(arange(3), 3)
    tensor = f32([1, 2, 3])
    as_tensor = f32([1, 2, 3])
    full = 7.0 * ones(f32[2, 3])
    full_like = 7.0 + 0.0 * x
    zeros_like = 0.0 * x
    ones_like = 1.0 + 0.0 * x
    linspace = f32(arange(5)) / 4.0
    meshgrid = arange(3)[:, new] + arange(4) ; broadcasting needs no grid
    multinomial = sample(m)
    hardtanh = clamp(x, -1.0, 1.0)
    relu6 = clamp(x, 0.0, 6.0)
    hardsigmoid = clamp(x / 6.0 + 0.5, 0.0, 1.0)
    celu = elu(x / 2.0) * 2.0
    swish = silu(x)
    logsigmoid = -softplus(-x)
    log_sigmoid = -softplus(-x)
    spectral_norm = - a layer: `f: SpectralNorm[4, 8]`
    group_norm = - a layer: `f: GroupNorm[8](groups = 2)`
    instance_norm = - a layer: `f: InstanceNorm[4]`
    embedding_bag = - a layer: `f: EmbeddingBag[10, 4]`
    nll_loss = nll(log_softmax(m), arange(3))
    binary_cross_entropy = bce(sigmoid(x), y)
    triplet_margin_loss = triplet(x, y, 2.0 * y)
    hinge_embedding_loss = mean(where(y > 0.0, x, relu(1.0 - x)))
    soft_margin_loss = mean(softplus(-x * y))
    binary_cross_entropy_with_logits = bce_logits(x, y)
    mse_loss = mse(x, y)
    l1_loss = mae(x, y)
    smooth_l1_loss = huber(x, y)
    huber_loss = huber(x, y)
    scaled_dot_product_attention = attention(x, x, x, causal = true)
    interpolate = resize(zeros(f32[1, 2, 2, 3]), (4, 4), "bilinear")
    affine_grid = - multiply positions from -1 to 1 by the matrix: `grid_sample` takes them
    topk = top_k(x, 2)
    unique = - not there: its shape would depend on values
    nonzero = - not there: its shape would depend on values; use `where`
""")

LAYERS: Mapping[str, Counterpart] = _read("""
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
    LogSoftmax = - a function: `log_softmax(x)`
    Tanh = - a function: `tanh(x)`
    Sigmoid = - a function: `sigmoid(x)`
    Softmax = - a function: `softmax(x)`
    Flatten = - a function: `reshape(x, [N, -1])`
    MaxPool1d = - a function: `max_pool1d(x, 2)`
    MaxPool3d = - a function: `max_pool3d(x, 2)`
    AvgPool1d = - a function: `avg_pool1d(x, 2)`
    AvgPool3d = - a function: `avg_pool3d(x, 2)`
    MaxPool2d = - a function: `max_pool2d(x, 2)`
    AvgPool2d = - a function: `avg_pool2d(x, 2)`
    AdaptiveAvgPool2d = - a function: `mean(x, axis = (1, 2))`
    BatchNorm1d = f: BatchNorm[4]
    BatchNorm2d = f: BatchNorm[4] ; channels are the last axis
    BatchNorm3d = f: BatchNorm[4] ; channels are the last axis
    InstanceNorm1d = f: InstanceNorm[4] ; channels are the last axis
    InstanceNorm2d = f: InstanceNorm[4] ; channels are the last axis
    InstanceNorm3d = f: InstanceNorm[4] ; channels are the last axis
    Dropout2d = f: Dropout(0.1)
    MultiheadAttention = f: MultiHeadAttention[8, 2]
    Sequential = - pipe layers: `x |> l1 |> relu |> l2`
    ModuleList = fs[3]: Linear[4, 4]
    ModuleDict = - declare each member by its name
    Parameter = param w: f32[4] = 0.0
    register_buffer = state s: f32[4] = 0.0
    Identity = - leave it out
    Upsample = - a function: `resize(x, (8, 8), "bilinear")`
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
""")


def counterpart(name: str) -> Counterpart | None:
    return FUNCTIONS.get(name) or LAYERS.get(name)
