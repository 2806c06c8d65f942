"""Functions and methods of PyTorch, and what to write in `.wg` instead.

Names that both have, with the same meaning (`exp`, `softmax`), are not listed. The first parameter
is also the tensor of a method: `x.t()` is `t(x)`. Tests run each of them, with the numbers that
PyTorch gives.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.elaborate.from_pytorch.calls import Counterpart, read
from wgcc.elaborate.from_pytorch.number_rules import NUMBER_RULES
from wgcc.elaborate.from_pytorch.shape_rules import SHAPE_RULES

_SHAPES = read(
    """
    permute(input, *dims) = rearrange({input}, "a b c -> c a b")
    movedim(input, source, destination) = rearrange({input}, "a b c -> b c a")
    moveaxis(input, source, destination) = rearrange({input}, "a b c -> b c a")
    swapaxes(input, axis0, axis1) = transpose({input}, {axis0}, {axis1})
    swapdims(input, dim0, dim1) = transpose({input}, {dim0}, {dim1})
    t(input) = transpose({input})
    view(input, *shape) = reshape({input}, [{shape}])
    view_as(input, other) = reshape({input}, shape({other}))
    reshape_as(input, other) = reshape({input}, shape({other}))
    flatten(input, start_dim=0, end_dim=-1) = reshape({input}, [N, -1])
    ravel(input) = reshape({input}, [-1])
    unflatten(input, dim, sizes) = reshape({input}, {sizes}) ;; all sizes are listed
    squeeze(input, dim=) = {input}[:, 0] ;; `0` for the axis of size 1
    unsqueeze(input, dim) = {input}[:, new] ;; `new` at the place of the new axis
    expand_as(input, other) = expand({input}, shape({other}))
    broadcast_to(input, size) = expand({input}, {size})
    repeat(input, *repeats) = tile({input}, ({repeats}))
    repeat_interleave(input, repeats, dim=) = {input}[arange(size({input}) * {repeats}) / {repeats}]
    cat(tensors, dim=0) = concat({tensors}, axis = {dim})
    concatenate(tensors, dim=0) = concat({tensors}, axis = {dim})
    hstack(tensors) = concat({tensors}, axis = 1)
    vstack(tensors) = concat({tensors}, axis = 0)
    fliplr(input) = flip({input}, axis = 1)
    flipud(input) = flip({input}, axis = 0)
    rot90(input, k=1, dims=) = flip(transpose({input}, 0, 1), axis = 0)
    narrow(input, dim, start, length) = {input}[:, {start} : {start} + {length}]
    select(input, dim, index) = {input}[:, {index}]
    index_select(input, dim, index) = {input}[:, {index}]
    index_add(input, dim, index, source) = scatter_add({input}, {index}, {source}, axis = {dim})
    index_add_(input, dim, index, source) = scatter_add({input}, {index}, {source}, axis = \
        {dim}) ; it returns the new tensor
    scatter_add_(input, dim, index, src) = scatter_add({input}, {index}, {src}, axis = {dim}) ; \
        it returns the new tensor
    scatter(input, dim, index, src) = scatter_add({input}, {index}, {src}, axis = {dim}) ;; \
        `scatter_add` adds
    scatter_(input, dim, index, src) = scatter_add({input}, {index}, {src}, axis = {dim}) ;; \
        `scatter_add` adds, and returns the new tensor
    bincount(input, weights=, minlength=) = segment_sum(ones_like({input}), {input}, N) ;; N is \
        the number of different ids
    take_along_dim(input, indices, dim) = take_along_axis({input}, {indices}, axis = {dim})
    take(input, index) = reshape({input}, [-1])[{index}]
    msort(input) = sort({input}, axis = 0)[0]
    topk(input, k, dim=) = top_k({input}, {k}<<, axis = {dim}>>) ; a tuple: `values, ids = \
        top_k(x, 2)`
    diagonal(input) = {input}[arange(N), arange(N)]
    trace(input) = sum({input}[arange(N), arange(N)])
    numel(input) = size({input})
    ndim(input) = axes({input})
    dim(input) = axes({input})
    ndimension(input) = axes({input})
    len(input) = shape({input})[0]
    contiguous(input) = {input}
    clone(input) = {input}
    unique = - not there: its shape would depend on values
    nonzero = - not there: its shape would depend on values; use `where`
    masked_select(input, mask) = where({mask}, {input}, 0.0) ; shapes are fixed: the others are \
        zero, and stay in place
    eye(n) = one_hot(arange({n}), {n})
    tensor(data) = f32({data})
    as_tensor(data) = f32({data})
    full(size, fill_value) = expand({fill_value}, {size})
    empty(*size) = zeros(f32[{size}])
    empty_like(input) = zeros_like({input})
    new_zeros(input, *size) = zeros(f32[{size}])
    new_ones(input, *size) = ones(f32[{size}])
    new_full(input, size, fill_value) = expand({fill_value}, {size})
    rand_like(input) = rand(f32[N, D]) ;; the type of the tensor is written out
    randn_like(input) = randn(f32[N, D]) ;; the type of the tensor is written out
    linspace(start, end, steps) = {start} + f32(arange({steps})) * ({end} - {start}) / ({steps} - 1)
    meshgrid(a, b, *, indexing=) = (expand({a}[:, new], [size({a}), size({b})]), \
        expand({b}[new], [size({a}), size({b})])) ; operators broadcast and need no grid
    interpolate(input, size=, scale_factor=, mode="nearest", align_corners=) = resize({input}, \
        {size}, {mode}) ; channels are the last axis
    affine_grid = - multiply positions from -1 to 1 by the matrix: `grid_sample` takes them
    adaptive_avg_pool1d(input, output_size) = mean({input}, axis = 1, keep = true) ; channels \
        are the last axis
    adaptive_avg_pool2d(input, output_size) = mean({input}, axis = (1, 2), keep = true) ; \
        channels are the last axis
    adaptive_max_pool1d(input, output_size) = max({input}, axis = 1, keep = true) ; channels are \
        the last axis
    adaptive_max_pool2d(input, output_size) = max({input}, axis = (1, 2), keep = true) ; \
        channels are the last axis
    """,
    SHAPE_RULES,
)

_ARITHMETIC = read(
    """
    add(input, other, *, alpha=) = {input} + <<{alpha} * >>{other}
    sub(input, other, *, alpha=) = {input} - <<{alpha} * >>{other}
    subtract(input, other, *, alpha=) = {input} - <<{alpha} * >>{other}
    mul(input, other) = {input} * {other}
    multiply(input, other) = {input} * {other}
    div(input, other, *, rounding_mode=) = {input} / {other}
    divide(input, other, *, rounding_mode=) = {input} / {other}
    true_divide(input, other) = {input} / {other}
    floor_divide(input, other) = floor({input} / {other})
    neg(input) = -{input}
    negative(input) = -{input}
    pow(input, exponent) = {input} ** {exponent}
    reciprocal(input) = 1.0 / {input}
    fmod(input, other) = {input} - {other} * trunc({input} / {other})
    remainder(input, other) = {input} % {other}
    frac(input) = {input} - trunc({input})
    fix(input) = trunc({input})
    absolute(input) = abs({input})
    sgn(input) = sign({input})
    exp2(input) = 2.0 ** {input}
    log2(input) = log({input}) / log(2.0)
    log10(input) = log({input}) / log(10.0)
    logit(input) = log({input} / (1.0 - {input}))
    hypot(input, other) = sqrt(square({input}) + square({other}))
    addcmul(input, tensor1, tensor2, *, value=) = {input} + <<{value} * >>{tensor1} * {tensor2}
    addcdiv(input, tensor1, tensor2, *, value=) = {input} + <<{value} * >>{tensor1} / {tensor2}
    arcsin(input) = asin({input})
    arccos(input) = acos({input})
    arctan(input) = atan({input})
    arctan2(input, other) = atan2({input}, {other})
    clip(input, min=, max=) = clamp({input}, {min}, {max})
    clamp_min(input, min) = clamp({input}, {min})
    clamp_max(input, max) = clamp({input}, high = {max})
    masked_fill(input, mask, value) = where({mask}, {value}, {input})
    masked_fill_(input, mask, value) = where({mask}, {value}, {input}) ; it returns the new tensor
    amax(input, dim=, keepdim=) = max({input}<<, axis = {dim}>><<, keep = {keepdim}>>)
    amin(input, dim=, keepdim=) = min({input}<<, axis = {dim}>><<, keep = {keepdim}>>)
    nansum(input, dim=, keepdim=) = sum(where({input} == {input}, {input}, 0.0)<<, axis = \
        {dim}>><<, keep = {keepdim}>>)
    nan_to_num(input, nan=0.0) = where({input} == {input}, {input}, {nan}) ; infinities stay
    var_mean(input, dim=) = (var({input}<<, axis = {dim}>>, correction = 1), mean({input}<<, \
        axis = {dim}>>))
    std_mean(input, dim=) = (std({input}<<, axis = {dim}>>, correction = 1), mean({input}<<, \
        axis = {dim}>>))
    vector_norm(input, ord=, dim=, keepdim=) = norm({input}<<, p = {ord}>><<, axis = {dim}>><<, \
        keep = {keepdim}>>)
    eq(input, other) = {input} == {other}
    ne(input, other) = {input} != {other}
    lt(input, other) = {input} < {other}
    le(input, other) = {input} <= {other}
    gt(input, other) = {input} > {other}
    ge(input, other) = {input} >= {other}
    logical_and(input, other) = {input} and {other}
    logical_or(input, other) = {input} or {other}
    logical_xor(input, other) = {input} != {other}
    logical_not(input) = not {input}
    matmul(input, other) = {input} @ {other}
    bmm(input, mat2) = {input} @ {mat2}
    mm(input, mat2) = {input} @ {mat2}
    mv(input, vec) = {input} @ {vec}
    dot(input, tensor) = sum({input} * {tensor})
    inner(input, other) = {input} @ transpose({other})
    outer(input, vec2) = {input}[:, new] * {vec2}
    addmm(input, mat1, mat2, *, beta=, alpha=) = <<{beta} * >>{input} + <<{alpha} * >>({mat1} @ \
        {mat2})
    baddbmm(input, batch1, batch2, *, beta=, alpha=) = <<{beta} * >>{input} + <<{alpha} * \
        >>({batch1} @ {batch2})
    linear(input, weight, bias=) = {input} @ transpose({weight})<< + {bias}>>
    embedding(input, weight) = gather({weight}, {input})
    multinomial(input, num_samples, replacement=) = sample(log({input})) ;; `sample` takes \
        logarithms of probabilities, or scores
    """,
    NUMBER_RULES,
)

_ACTIVATIONS = read(
    """
    hardtanh(input, min_val=-1.0, max_val=1.0) = clamp({input}, {min_val}, {max_val})
    relu6(input) = clamp({input}, 0.0, 6.0)
    hardsigmoid(input) = clamp({input} / 6.0 + 0.5, 0.0, 1.0)
    celu(input, alpha=1.0) = elu({input} / {alpha}) * {alpha}
    swish(input) = silu({input})
    logsigmoid(input) = -softplus(-{input})
    log_sigmoid(input) = -softplus(-{input})
    softmin(input, dim=-1) = softmax(-{input}, axis = {dim})
    tanhshrink(input) = {input} - tanh({input})
    hardshrink(input, lambd=0.5) = where(abs({input}) > {lambd}, {input}, 0.0)
    softshrink(input, lambd=0.5) = sign({input}) * relu(abs({input}) - {lambd})
    threshold(input, threshold, value) = where({input} > {threshold}, {input}, {value})
    dropout1d = - a layer: `f: Dropout1d(0.5)`
    dropout2d = - a layer: `f: Dropout2d(0.5)`
    dropout3d = - a layer: `f: Dropout3d(0.5)`
    batch_norm = - a layer: `f: BatchNorm[C]`
    spectral_norm = - a layer: `f: SpectralNorm[I, O]`
    group_norm = - a layer: `f: GroupNorm[C](groups = 2)`
    instance_norm = - a layer: `f: InstanceNorm[C]`
    embedding_bag = - a layer: `f: EmbeddingBag[V, D]`
    scaled_dot_product_attention(query, key, value, attn_mask=, dropout_p=, is_causal=, *, \
        scale=) = attention({query}, {key}, {value}<<, mask = {attn_mask}>><<, causal = \
        {is_causal}>><<, scale = {scale}>>)
    """,
    NUMBER_RULES,
)

_LOSSES = read(
    """
    nll_loss(input, target, weight=, *, ignore_index=, reduction=) = nll({input}, {target}<<, \
        weight = {weight}>><<, ignore = {ignore_index}>><<, reduction = {reduction}>>) ; classes \
        are the last axis
    binary_cross_entropy(input, target, *, reduction=) = bce({input}, {target}<<, reduction = \
        {reduction}>>)
    binary_cross_entropy_with_logits(input, target, *, reduction=) = bce_logits({input}, \
        {target}<<, reduction = {reduction}>>)
    mse_loss(input, target, *, reduction=) = mse({input}, {target}<<, reduction = {reduction}>>)
    l1_loss(input, target, *, reduction=) = mae({input}, {target}<<, reduction = {reduction}>>)
    huber_loss(input, target, *, reduction=, delta=) = huber({input}, {target}<<, delta = \
        {delta}>><<, reduction = {reduction}>>)
    smooth_l1_loss(input, target, *, reduction=, beta=) = huber({input}, {target}<<, delta = \
        {beta}>><<, reduction = {reduction}>>)<< / {beta}>>
    triplet_margin_loss(anchor, positive, negative, margin=, *, eps=, reduction=) = \
        triplet({anchor}, {positive}, {negative}<<, margin = {margin}>><<, eps = {eps}>><<, \
        reduction = {reduction}>>)
    hinge_embedding_loss(input, target, margin=1.0) = mean(where({target} > 0.0, {input}, \
        relu({margin} - {input})))
    soft_margin_loss(input, target) = mean(softplus(-{input} * {target}))
    margin_ranking_loss(input1, input2, target, margin=0.0) = mean(relu({margin} - {target} * \
        ({input1} - {input2})))
    """
)

_CONVERSIONS = read(
    """
    float(input) = f32({input})
    double(input) = f32({input}) ; there is no f64
    half(input) = f16({input})
    long(input) = i32({input})
    int(input) = i32({input})
    bool(input) = {input} != 0
    type(input, dtype) = f32({input}) ; the element type is called like a function
    to(input, dtype) = f32({input}) ; the element type is called like a function, devices are \
        chosen when a bundle is loaded
    type_as(input, other) = f32({input}) ; the element type is called like a function
    cuda = - devices are chosen when a bundle is loaded
    cpu = - devices are chosen when a bundle is loaded
    item = - entries return numbers; outputs are read back at the end of the call
    tolist = - entries return numbers; outputs are read back at the end of the call
    numpy = - entries return arrays; outputs are read back at the end of the call
    print = - nothing is printed while an entry runs: return the value as one more output of the \
        entry
    range(stop, end=, step=) = 0..{stop}
    """,
    NUMBER_RULES,
)

_TRAINING = read(
    """
    detach(input) = stop_grad({input})
    no_grad = - entries that do not train compute no gradients; `stop_grad(x)` stops them at one \
        value
    requires_grad = - declare it as `param`; `frozen param` is not trained
    requires_grad_ = - declare it as `param`; `frozen param` is not trained
    backward(loss) = minimize {loss} with opt ; it computes gradients and makes the step
    autograd = - `grad(loss, w)` is the gradient of a number; `minimize loss with opt` makes a step
    zero_grad = - nothing to reset: every call computes fresh gradients
    step = - `minimize loss with opt` computes gradients and makes the step
    parameters = - `params(net)` lists those of a layer; an optimizer trains all that its loss \
        depends on
    state_dict = - a whole layer is stored in another: `target := net`
    load_state_dict = - a whole layer is stored in another: `target := net`
    clip_grad_norm_ = - optimizers have a setting: `clip_norm = 1.0`
    clip_grad_value_ = - optimizers have a setting: `clip_value = 1.0`
    """
)

FUNCTIONS: Mapping[str, Counterpart] = {
    **_SHAPES, **_ARITHMETIC, **_ACTIVATIONS, **_LOSSES, **_CONVERSIONS, **_TRAINING,
}  # fmt: skip
