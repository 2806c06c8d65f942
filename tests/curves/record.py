"""Records PyTorch training runs, in float32 and float64, that wgcc must reproduce.

Run by hand (`python tests/curves/record.py`, needs PyTorch) when a model here changes; tests read
only the .safetensors files it writes. Weights are stored in wgcc's layout, [inputs, outputs].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional

FOLDER = Path(__file__).parent
STEPS = 100
BATCHES = 8  # the run repeats them, which keeps the files small

Arrays = dict[str, np.ndarray]
Params = dict[str, Tensor]
Loss = Callable[[Params, Params], Tensor]
MakeOptimizer = Callable[[Params], torch.optim.Optimizer]


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240607)
    record("mlp", mlp_params(rng), mlp_batches(rng), mlp_loss, MLP_OPTIMIZERS)
    record("tokens", token_params(rng), token_batches(rng), token_loss, TOKEN_OPTIMIZERS)


# ---- the MLP


def mlp_params(rng: np.random.Generator) -> Arrays:
    sizes = {"l1": (4, 32), "l2": (32, 32), "l3": (32, 2)}
    params = {}
    for name, (inputs, outputs) in sizes.items():
        bound = math.sqrt(6 / inputs) / math.sqrt(3)
        params[f"{name}.w"] = rng.uniform(-bound, bound, (inputs, outputs))
        # Not zero: where true bias gradients are zero, Adam amplifies rounding noise to full steps.
        params[f"{name}.b"] = rng.uniform(-0.5, 0.5, outputs)
    return params


def mlp_batches(rng: np.random.Generator) -> Arrays:
    x = rng.uniform(-2, 2, (BATCHES, 64, 4)).astype(np.float32)
    a, b, c, d = np.moveaxis(x.astype(np.float64), -1, 0)
    y = np.stack([np.sin(a + 0.3) * b + 0.5 * c, np.cos(c * d) - 0.25 * a * a + 1.0], axis=-1)
    return {"x": x, "y": y.astype(np.float32)}


def mlp_loss(p: Params, batch: Params) -> Tensor:
    h = torch.tanh(batch["x"] @ p["l1.w"] + p["l1.b"])
    h = functional.silu(h @ p["l2.w"] + p["l2.b"])
    return functional.mse_loss(h @ p["l3.w"] + p["l3.b"], batch["y"])


# ---- the next-token model


def token_params(rng: np.random.Generator) -> Arrays:
    vocabulary, length, width = 29, 12, 24
    return {
        "tok.w": rng.normal(0, 0.2, (vocabulary, width)),
        "pos.w": rng.normal(0, 0.2, (length, width)),
        "norm.g": rng.uniform(0.8, 1.2, width),
        "norm.b": rng.uniform(-0.1, 0.1, width),
        "up.w": rng.uniform(-1, 1, (width, 4 * width)) / math.sqrt(width),
        "up.b": rng.uniform(-0.1, 0.1, 4 * width),
        "down.w": rng.uniform(-1, 1, (4 * width, width)) / math.sqrt(4 * width),
        "down.b": rng.uniform(-0.1, 0.1, width),
        "last.g": rng.uniform(0.8, 1.2, width),
        "last.b": rng.uniform(-0.1, 0.1, width),
    }


def token_batches(rng: np.random.Generator) -> Arrays:
    """A noisy rule (next = 3 t + 7) to learn, with a tenth of the labels ignored."""
    ids = rng.integers(0, 29, (BATCHES, 8, 12))
    labels = np.where(
        rng.random(ids.shape) < 0.8, (3 * ids + 7) % 29, rng.integers(0, 29, ids.shape)
    )
    labels = np.where(rng.random(ids.shape) < 0.1, -1, labels)
    return {"ids": ids.astype(np.int32), "labels": labels.astype(np.int32)}


def token_loss(p: Params, batch: Params) -> Tensor:
    x = p["tok.w"][batch["ids"].long()] + p["pos.w"]
    h = functional.layer_norm(x, x.shape[-1:], p["norm.g"], p["norm.b"], 1e-5)
    x = x + functional.gelu(h @ p["up.w"] + p["up.b"]) @ p["down.w"] + p["down.b"]
    z = functional.layer_norm(x, x.shape[-1:], p["last.g"], p["last.b"], 1e-5) @ p["tok.w"].T
    labels = batch["labels"].long().flatten()
    return functional.cross_entropy(z.flatten(0, 1), labels, ignore_index=-1)


# ---- optimizers: maker, clip norm (or None), learning rate of the step counted from 1 (or None)


def warmup_cosine(step: int) -> float:
    peak, floor, warmup, total = 5e-3, 5e-4, 10, 100
    t = min(max((step - warmup) / (total - warmup), 0.0), 1.0)
    if step < warmup:
        return peak * step / warmup
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * t))


def adamw(lr: float, decay: float) -> MakeOptimizer:
    def make(params: Params) -> torch.optim.Optimizer:
        matrices = [p for p in params.values() if p.ndim >= 2]
        vectors = [p for p in params.values() if p.ndim < 2]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), weight_decay=decay)

    return make


def adam(params: Params) -> torch.optim.Optimizer:
    return torch.optim.Adam(params.values(), lr=3e-3, weight_decay=1e-3)


def sgd(params: Params) -> torch.optim.Optimizer:
    settings = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}
    return torch.optim.SGD(params.values(), **settings)


MLP_OPTIMIZERS = {
    "train_adamw": (adamw(5e-3, 0.05), 0.5, None),
    "train_adam": (adam, None, None),
    "train_sgd": (sgd, None, None),
}
TOKEN_OPTIMIZERS = {"train": (adamw(5e-3, 0.1), 1.0, warmup_cosine)}


# ---- recording


def record(
    name: str,
    params: Arrays,
    batches: Arrays,
    loss: Loss,
    optimizers: Mapping[str, Any],
) -> None:
    start = {key: value.astype(np.float32) for key, value in params.items()}
    tensors = {f"start/{key}": value for key, value in start.items()}
    tensors |= {f"batch/{key}": value for key, value in batches.items()}
    for dtype, kind in ((torch.float64, "f64"), (torch.float32, "f32")):
        gradients = first_gradients(start, batches, loss, dtype)
        tensors |= {f"grad.{kind}/{key}": value for key, value in gradients.items()}
        for entry, optimizer in optimizers.items():
            curves, end = train(start, batches, loss, optimizer, dtype)
            tensors |= {f"{key}.{kind}/{entry}": value for key, value in curves.items()}
            tensors |= {f"end.{kind}/{entry}/{key}": value for key, value in end.items()}
    save_file(
        {key: np.ascontiguousarray(tensors[key]) for key in sorted(tensors)},
        FOLDER / f"{name}.safetensors",
    )
    for entry in optimizers:
        exact, rounded = tensors[f"loss.f64/{entry}"], tensors[f"loss.f32/{entry}"]
        gap = np.abs(exact - rounded) / np.abs(exact)
        norm = tensors[f"norm.f64/{entry}"]
        print(
            f"{name} {entry}: loss {exact[0]:.4f} -> {exact[-1]:.4f}, gap {gap[:50].max():.1e} at"
            f" 50, {gap.max():.1e} at 100, gradient norm {norm.min():.3f} … {norm.max():.3f}"
        )


def first_gradients(start: Arrays, batches: Arrays, loss: Loss, dtype: torch.dtype) -> Arrays:
    params = to_torch(start, dtype)
    loss(params, batch_at(batches, 0, dtype)).backward()
    return {key: value.grad.numpy() for key, value in params.items()}


def train(
    start: Arrays, batches: Arrays, loss: Loss, optimizer: Any, dtype: torch.dtype
) -> tuple[Arrays, Arrays]:
    make, clip, schedule = optimizer
    params = to_torch(start, dtype)
    stepper = make(params)
    losses, norms = [], []
    for step in range(STEPS):
        for group in stepper.param_groups if schedule else ():
            group["lr"] = schedule(step + 1)
        stepper.zero_grad()
        value = loss(params, batch_at(batches, step, dtype))
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), clip or math.inf)
        stepper.step()
        losses.append(value.item())
        norms.append(norm.item())
    end = {key: value.detach().numpy() for key, value in params.items()}
    return {"loss": np.array(losses), "norm": np.array(norms)}, end


def to_torch(arrays: Arrays, dtype: torch.dtype) -> Params:
    return {k: torch.tensor(v, dtype=dtype, requires_grad=True) for k, v in arrays.items()}


def batch_at(batches: Arrays, step: int, dtype: torch.dtype) -> Params:
    arrays = {key: value[step % BATCHES] for key, value in batches.items()}
    return {
        k: torch.tensor(v, dtype=dtype if v.dtype == np.float32 else torch.int32)
        for k, v in arrays.items()
    }


if __name__ == "__main__":
    main()
