"""Functions of the language and what PyTorch computes: the same expression in both, and its inputs.

`record_pytorch.py` runs PyTorch once; `test_pytorch_functions.py` compares.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters import ROOT

RECORDED = ROOT / "tests" / "recorded" / "pytorch_recorded.json"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`wg` is an expression of inputs x, w, … of these `shapes`, `torch` the same in PyTorch.

    In PyTorch, `first(x)` moves channels to axis 1, `last(y)` back to the end; `kernel(w)` gives
    [outputs, inputs, kernel …], `turned(w)` [inputs, outputs, kernel …]. `at` are the numbers of x
    if they matter, `low` and `high` the range of those drawn otherwise.
    """

    wg: str
    torch: str
    shapes: tuple[tuple[int, ...], ...]
    at: tuple[float, ...] = ()
    low: float = -1.0
    high: float = 1.0

    @property
    def names(self) -> str:
        return "xwab"[: len(self.shapes)]


# Zero, the bends of hardswish, and numbers whose exponential is infinite.
POINTS = (0.0, -0.0, 3.0, -3.0, 200.0, -200.0, 0.3, -0.3, 1.5, -1.5, 20.0, -20.0)


def _points(wg: str, torch: str, *more: tuple[int, ...]) -> Case:
    return Case(wg, torch, ((len(POINTS),), *more), POINTS)


def _layers(wg: str, torch: str, *shapes: tuple[int, ...]) -> Case:
    """`torch` is a call of `F` whose first argument takes and gives channels first."""
    name, _, rest = torch.partition("(x")
    return Case(wg, f"last(F.{name}(first(x){rest})", shapes)


CONVOLUTIONS = {
    "conv1d": _layers("conv1d(x, w)", "conv1d(x, kernel(w))", (2, 7, 3), (3, 3, 4)),
    "conv1d_all": _layers(
        "conv1d(x, w, stride = 2, pad = 3, dilation = 2, groups = 2)",
        "conv1d(x, kernel(w), None, 2, 3, 2, 2)", (1, 8, 4), (3, 2, 6),
    ),
    "conv3d": _layers("conv3d(x, w)", "conv3d(x, kernel(w))", (1, 3, 4, 3, 2), (2, 3, 2, 2, 3)),
    "conv3d_all": _layers(
        "conv3d(x, w, stride = (1, 2, 1), pad = (1, 0, 1), dilation = (1, 1, 2), groups = 2)",
        "conv3d(x, kernel(w), None, (1, 2, 1), (1, 0, 1), (1, 1, 2), 2)",
        (1, 3, 5, 4, 4), (3, 2, 2, 2, 2),
    ),
    "transpose1d": _layers(
        "conv_transpose1d(x, w)", "conv_transpose1d(x, turned(w))", (2, 4, 3), (3, 3, 2)
    ),
    "transpose1d_all": _layers(
        "conv_transpose1d(x, w, stride = 3, pad = 1, output_pad = 2, groups = 2)",
        "conv_transpose1d(x, turned(w), None, 3, 1, 2, 2)", (1, 4, 4), (4, 4, 3),
    ),
    "transpose2d": _layers(
        "conv_transpose2d(x, w, stride = 2)", "conv_transpose2d(x, turned(w), None, 2)",
        (1, 3, 2, 3), (2, 2, 3, 4),
    ),
    "transpose2d_all": _layers(
        "conv_transpose2d(x, w, stride = (2, 1), pad = (1, 2), output_pad = (1, 0), "
        "dilation = (1, 2), groups = 2)",
        "conv_transpose2d(x, turned(w), None, (2, 1), (1, 2), (1, 0), 2, (1, 2))",
        (1, 3, 4, 4), (3, 3, 4, 2),
    ),
    "transpose2d_both": _layers(
        "conv_transpose2d(x, w, stride = 3, dilation = 2, output_pad = 1)",
        "conv_transpose2d(x, turned(w), None, 3, 0, 1, 1, 2)", (1, 2, 3, 2), (2, 3, 2, 2),
    ),
}  # fmt: skip


POOLS = {
    "max_pool1d": _layers("max_pool1d(x, 2)", "max_pool1d(x, 2)", (2, 7, 3)),
    "max_pool1d_all": _layers(
        "max_pool1d(x, 3, 2, pad = 1, dilation = 2, ceil_mode = true)",
        "max_pool1d(x, 3, 2, 1, 2, True)", (1, 10, 2),
    ),
    "max_pool2d_ceil": _layers(
        "max_pool2d(x, 2, ceil_mode = true)", "max_pool2d(x, 2, ceil_mode=True)", (1, 5, 3, 2)
    ),
    # A window that would begin in the padding after the image is left out.
    "max_pool2d_ceil_left_out": _layers(
        "max_pool2d(x, 2, pad = 1, ceil_mode = true)", "max_pool2d(x, 2, None, 1, 1, True)",
        (1, 4, 3, 2),
    ),
    "max_pool2d_dilated": _layers(
        "max_pool2d(x, (2, 3), 1, dilation = (3, 2))", "max_pool2d(x, (2, 3), 1, 0, (3, 2))",
        (1, 6, 7, 2),
    ),
    "max_pool3d": _layers(
        "max_pool3d(x, 2, (2, 1, 1), pad = (1, 0, 1))", "max_pool3d(x, 2, (2, 1, 1), (1, 0, 1))",
        (1, 3, 4, 3, 2),
    ),
    "max_pool1d_index": _layers(
        "f32(max_pool1d(x, 3, 2, pad = 1, return_indices = true)[1]) + 0.0 * sum(x)",
        "max_pool1d(x, 3, 2, 1, return_indices=True)[1]) + 0 * sum(x.flatten()", (2, 7, 3),
    ),
    "max_pool2d_index": _layers(
        "f32(max_pool2d(x, (2, 3), 1, dilation = (3, 2), return_indices = true)[1]) + 0.0 * sum(x)",
        "max_pool2d(x, (2, 3), 1, 0, (3, 2), return_indices=True)[1]) + 0 * sum(x.flatten()",
        (1, 6, 7, 2),
    ),
    "max_pool3d_index": _layers(
        "f32(max_pool3d(x, 2, ceil_mode = true, return_indices = true)[1]) + 0.0 * sum(x)",
        "max_pool3d(x, 2, ceil_mode=True, return_indices=True)[1]) + 0 * sum(x.flatten()",
        (1, 3, 4, 3, 2),
    ),
    "avg_pool1d": _layers(
        "avg_pool1d(x, 3, 2, pad = 1)", "avg_pool1d(x, 3, 2, 1)", (2, 8, 3)
    ),
    "avg_pool1d_image": _layers(
        "avg_pool1d(x, 3, 2, pad = 1, count_include_pad = false)",
        "avg_pool1d(x, 3, 2, 1, count_include_pad=False)", (2, 8, 3),
    ),
    "avg_pool2d_ceil": _layers(
        "avg_pool2d(x, 3, 2, pad = 1, ceil_mode = true)", "avg_pool2d(x, 3, 2, 1, True)",
        (1, 6, 5, 2),
    ),
    "avg_pool2d_all": _layers(
        "avg_pool2d(x, (3, 2), 2, pad = (1, 0), ceil_mode = true, count_include_pad = false)",
        "avg_pool2d(x, (3, 2), 2, (1, 0), True, False)", (1, 6, 5, 2),
    ),
    "avg_pool3d": _layers(
        "avg_pool3d(x, 2, 1, pad = 1, count_include_pad = false)",
        "avg_pool3d(x, 2, 1, 1, False, False)", (1, 2, 3, 2, 2),
    ),
}  # fmt: skip


_ROWS = ((3, 4), (3, 4))
LOSSES = {
    "bce": Case("bce(x, w)", "F.binary_cross_entropy(x, w)", _ROWS, low=0.01, high=0.99),
    # Probabilities of exactly 0 and 1: PyTorch limits the logarithms.
    "bce_sure": Case(
        "bce(x, f32(arange(4)) / 4.0)", "F.binary_cross_entropy(x, torch.arange(4.0).double() / 4)",
        ((4,),), (0.0, 1.0, 0.5, 0.0),
    ),
    "hinge": Case("hinge(x, w, margin = 0.5)", "(0.5 - x * w).clamp(min=0).mean()", _ROWS),
    "kl_div": Case("kl_div(x, w)", "F.kl_div(x, w)", _ROWS, low=0.1),
    "kl_div_log": Case(
        'kl_div(x, w, log_target = true, reduction = "batchmean")',
        "F.kl_div(x, w, log_target=True, reduction='batchmean')", _ROWS,
    ),
    "triplet": Case(
        "triplet(x, w, a, margin = 0.4)", "F.triplet_margin_loss(x, w, a, 0.4)", ((5, 3),) * 3
    ),
    # All three are equal: the distance is not differentiable at 0, but `eps` keeps it away.
    "triplet_equal": Case(
        "triplet(x, x + 0.0, 2.0 * x)", "F.triplet_margin_loss(x, x + 0.0, 2.0 * x)",
        ((2, 2),), (0.0, 0.0, 0.25, 0.5),
    ),
    "nll": Case(
        "nll(x, arange(3) + 1)", "F.nll_loss(x, torch.arange(3) + 1)", ((3, 4),)
    ),
    "nll_ignore": Case(
        "nll(x, reshape(arange(6), [2, 3]) % 4, ignore = 1)",
        "F.nll_loss(first(x), torch.arange(6).reshape(2, 3) % 4, ignore_index=1)", ((2, 3, 4),),
    ),
    "cosine": Case("cosine_similarity(x, w)", "F.cosine_similarity(x, w, -1)", ((2, 3, 4), (3, 4))),
    "cosine_zero": Case(
        "cosine_similarity(x, w, axis = 0)", "F.cosine_similarity(x, w, 0)", ((3,), (3,)),
        (0.0, 0.0, 0.0),
    ),
}  # fmt: skip


# PyTorch has no gradient with respect to the weights of classes.
_WEIGHT = "[0.5, 2.0, 1.0, 0.25]"
_LABELS = "torch.arange(6).reshape(2, 3) % 4"
REDUCTIONS = {
    "mse_sum": Case('mse(x, w, reduction = "sum")', "F.mse_loss(x, w, reduction='sum')", _ROWS),
    "mae_none": Case('mae(x, w, reduction = "none")', "F.l1_loss(x, w, reduction='none')", _ROWS),
    "huber_sum": Case(
        'huber(x, w, delta = 0.3, reduction = "sum")',
        "F.huber_loss(x, w, delta=0.3, reduction='sum')", _ROWS,
    ),
    "bce_none": Case(
        'bce(x, w, reduction = "none")', "F.binary_cross_entropy(x, w, reduction='none')", _ROWS,
        low=0.01, high=0.99,
    ),
    "bce_logits_sum": Case(
        'bce_logits(x, w, reduction = "sum")',
        "F.binary_cross_entropy_with_logits(x, w, reduction='sum')", _ROWS, low=0.0,
    ),
    "bce_weight": Case(
        f"bce(x, w, weight = {_WEIGHT})",
        f"F.binary_cross_entropy(x, w, x.new_tensor({_WEIGHT}))", _ROWS, low=0.01, high=0.99,
    ),
    "bce_logits_weight": Case(
        f'bce_logits(x, w, weight = {_WEIGHT}, reduction = "none")',
        f"F.binary_cross_entropy_with_logits(x, w, x.new_tensor({_WEIGHT}), reduction='none')",
        _ROWS, low=0.0,
    ),
    "bce_logits_pos_weight": Case(
        f"bce_logits(x, w, pos_weight = {_WEIGHT})",
        f"F.binary_cross_entropy_with_logits(x, w, pos_weight=x.new_tensor({_WEIGHT}))",
        _ROWS, low=0.0,
    ),
    "kl_div_none": Case(
        'kl_div(x, w, reduction = "none")', "F.kl_div(x, w, reduction='none')", _ROWS, low=0.1
    ),
    "triplet_none": Case(
        'triplet(x, w, a, reduction = "none")',
        "F.triplet_margin_loss(x, w, a, reduction='none')", ((5, 3),) * 3,
    ),
    "nll_weight": Case(
        f"nll(x, reshape(arange(6), [2, 3]) % 4, ignore = 1, weight = {_WEIGHT})",
        f"F.nll_loss(first(x), {_LABELS}, x.new_tensor({_WEIGHT}), ignore_index=1)", ((2, 3, 4),),
    ),
    "cross_entropy_none": Case(
        'cross_entropy(x, reshape(arange(6), [2, 3]) % 4, ignore = 1, reduction = "none")',
        f"F.cross_entropy(first(x), {_LABELS}, ignore_index=1, reduction='none')", ((2, 3, 4),),
    ),
    "cross_entropy_weight": Case(
        f"cross_entropy(x, arange(3) + 1, weight = {_WEIGHT}, smoothing = 0.2)",
        f"F.cross_entropy(x, torch.arange(3) + 1, x.new_tensor({_WEIGHT}), label_smoothing=0.2)",
        ((3, 4),),
    ),
    "cross_entropy_sum": Case(
        f'cross_entropy(x, arange(3) + 1, weight = {_WEIGHT}, reduction = "sum")',
        f"F.cross_entropy(x, torch.arange(3) + 1, x.new_tensor({_WEIGHT}), reduction='sum')",
        ((3, 4),),
    ),
    "clamp_low": _points("clamp(x, 0.25)", "x.clamp(0.25)"),
    "clamp_high": _points("clamp(x, high = w[0])", "x.clamp(max=w[0])", (1,)),
    "unbind": Case(
        "x[:, 0] + unbind(x, axis = 1)[2]", "x[:, 0] + x.unbind(1)[2]", ((2, 3, 4),)
    ),
    "full_like": Case("x * full_like(x, w[1])", "x * w[1].expand_as(x)", ((2, 3), (2,))),
}  # fmt: skip


def _resized(mode: str, before: tuple[int, ...], after: tuple[int, ...], align: bool) -> Case:
    wg = f'resize(x, {after}, "{mode}", align_corners = {str(align).lower()})'
    name = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(after)]
    torch_mode = name if mode == "bilinear" else mode
    option = "" if mode == "nearest" else f", align_corners={align}"
    torch = f"interpolate(x, {after}, mode='{torch_mode}'{option})"
    return _layers(
        wg.replace(",)", ")"), torch, (2, *before, 3) if len(before) < 3 else (1, *before, 1)
    )


def _sampled(mode: str, padding: str, align: bool) -> Case:
    """Positions far outside the image, too."""
    wg = f'grid_sample(x, 1.4 * w, "{mode}", "{padding}", {str(align).lower()})'
    call = f"grid_sample(x, 1.4 * w, '{mode}', '{padding}', {align})"
    return _layers(wg, call, (2, 3, 4, 2), (2, 2, 3, 2))


_UNFOLDED = "reshape(2, 3, {k}, -1).permute(0, 3, 2, 1).flatten(2)"
IMAGES = {
    "resize_nearest": _resized("nearest", (3, 5), (7, 3), False),
    "resize_bilinear": _resized("bilinear", (3, 5), (7, 3), False),
    "resize_bilinear_align": _resized("bilinear", (3, 5), (7, 3), True),
    "resize_bicubic": _resized("bicubic", (3, 5), (7, 3), False),
    "resize_bicubic_align": _resized("bicubic", (3, 5), (7, 3), True),
    "resize_one": _resized("bilinear", (4, 1), (1, 3), True),
    "resize_signal": _resized("bilinear", (4,), (9,), False),
    "resize_volume": _resized("bilinear", (2, 3, 2), (3, 2, 4), False),
    "sample_zeros": _sampled("bilinear", "zeros", False),
    "sample_zeros_align": _sampled("bilinear", "zeros", True),
    "sample_border": _sampled("bilinear", "border", False),
    "sample_border_align": _sampled("bilinear", "border", True),
    "sample_reflection": _sampled("bilinear", "reflection", False),
    "sample_reflection_align": _sampled("bilinear", "reflection", True),
    "sample_nearest": _sampled("nearest", "zeros", False),
    # The corners and edges themselves: PyTorch passes no gradient to the grid there.
    "sample_corners": Case(
        'grid_sample(w, x, "bilinear", "border", true)',
        "last(F.grid_sample(first(w), x, 'bilinear', 'border', True))",
        ((1, 1, 4, 2), (1, 3, 4, 2)), (-1.0, -1.0, 1.0, 1.0, -1.0, 0.3, 0.2, 1.0),
    ),
    "unfold": Case(
        "unfold(x, 2)", f"F.unfold(first(x), 2).{_UNFOLDED.format(k=4)}", ((2, 3, 4, 3),)
    ),
    "unfold_all": Case(
        "unfold(x, (2, 3), stride = (2, 1), pad = (1, 2), dilation = (1, 2))",
        f"F.unfold(first(x), (2, 3), (1, 2), (1, 2), (2, 1)).{_UNFOLDED.format(k=6)}",
        ((2, 4, 3, 3),),
    ),
    "fold": Case(
        "fold(x, (4, 3), (2, 3), stride = (2, 1), pad = (1, 2), dilation = (1, 2))",
        "last(F.fold(x.reshape(2, 9, 6, 3).permute(0, 3, 2, 1).reshape(2, 18, 9), (4, 3), (2, 3), "
        "(1, 2), (1, 2), (2, 1)))",
        ((2, 9, 18),),
    ),
}  # fmt: skip


LABELS = "[[1, 2, 3], [2, 2, 1], [4, 1, 0], [3, 0, 0]], [7, 6, 5, 7], [3, 3, 2, 1]"
MATRICES = {
    "cholesky": Case(
        "cholesky(x @ transpose(x) + 3.0 * identity_like(x))",
        "torch.linalg.cholesky(x @ x.mT + 3 * torch.eye(4))", ((2, 4, 4),),
    ),
    "solve_lower": Case(
        "solve_triangular(x + 3.0 * identity_like(x), w)",
        "torch.linalg.solve_triangular((x + 3 * torch.eye(4)).tril(), w, upper=False)",
        ((2, 4, 4), (2, 4, 3)),
    ),
    "solve_upper": Case(
        "solve_triangular(x + 3.0 * identity_like(x), w, upper = true)",
        "torch.linalg.solve_triangular((x + 3 * torch.eye(4)).triu(), w, upper=True)",
        ((4, 4), (4, 1)),
    ),
    # The largest elements are not on the diagonal.
    "inverse": Case(
        "inverse(x + 2.0 * flip(identity_like(x), axis = -1))",
        "torch.linalg.inv(x + 2 * torch.eye(5).flip(-1))", ((3, 5, 5),),
    ),
    "ctc": Case(
        f"ctc_loss(log_softmax(x), {LABELS})",
        f"F.ctc_loss(x.log_softmax(-1).transpose(0, 1), *map(torch.tensor, [{LABELS}]))",
        ((4, 7, 5),),
    ),
    "ctc_none": Case(
        f'ctc_loss(log_softmax(x), {LABELS}, reduction = "none")',
        f"F.ctc_loss(x.log_softmax(-1).transpose(0, 1), *map(torch.tensor, [{LABELS}]), "
        "reduction='none')",
        ((4, 7, 5),),
    ),
    "ctc_sum": Case(
        f'ctc_loss(log_softmax(x), {LABELS}, reduction = "sum")',
        f"F.ctc_loss(x.log_softmax(-1).transpose(0, 1), *map(torch.tensor, [{LABELS}]), "
        "reduction='sum')",
        ((4, 7, 5),),
    ),
}  # fmt: skip
CASES = {
    "leaky_relu": _points("leaky_relu(x)", "F.leaky_relu(x)"),
    "leaky_relu_steep": _points("leaky_relu(x, slope = 0.3)", "F.leaky_relu(x, 0.3)"),
    "elu": _points("elu(x)", "F.elu(x)"),
    "elu_alpha": _points("elu(x, alpha = 0.7)", "F.elu(x, 0.7)"),
    "selu": _points("selu(x)", "F.selu(x)"),
    "hardswish": _points("hardswish(x)", "F.hardswish(x)"),
    "mish": _points("mish(x)", "F.mish(x)"),
    "softsign": _points("softsign(x)", "F.softsign(x)"),
    "prelu": _points("prelu(x, w)", "F.prelu(x, w)", (1,)),
    "prelu_features": Case("prelu(x, w)", "last(F.prelu(first(x), w))", ((2, 3, 5), (5,))),
    "glu": Case("glu(x)", "F.glu(x)", ((3, 8),)),
    "glu_axis": Case("glu(x, axis = 0)", "F.glu(x, 0)", ((4, 3),)),
    **CONVOLUTIONS,
    **POOLS,
    **LOSSES,
    **REDUCTIONS,
    **IMAGES,
    **MATRICES,
}


def inputs(name: str) -> dict[str, Array]:
    """The same numbers in every run; exact in f32."""
    case, rng = CASES[name], np.random.default_rng(zlib.crc32(name.encode()))
    drawn = [rng.uniform(case.low, case.high, shape) for shape in case.shapes]
    if case.at:
        drawn[0] = np.array(case.at).reshape(case.shapes[0])
    rounded = [array.astype(np.float32).astype(np.float64) for array in drawn]
    return dict(zip(case.names, rounded, strict=True))


def recorded() -> dict[str, dict[str, Any]]:
    """For each case its result `y` and the gradients of `sum(y * y + y)`, by input."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found
