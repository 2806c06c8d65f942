"""Steps of the benchmarks' models in PyTorch on the CPU, in one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import blocks
import numpy as np
import torch
from torch import nn


def main() -> None:
    task = blocks.task()
    torch.set_num_threads(task["threads"])
    name = task["model"]
    with np.load(Path(task["folder"]) / "batches" / f"{name}.npz") as arrays:
        # PyTorch's labels are 64 bits wide.
        wide = {key: x.astype(np.int64) if x.dtype.kind == "i" else x for key, x in arrays.items()}
    batch = {key: torch.tensor(array) for key, array in wide.items()}
    blocks.serve(_product() if name == "matmul" else _training(*_model(name), batch))


def _product() -> Callable[[], float]:
    a, b = torch.rand(512, 512), torch.rand(512, 512)
    c = torch.empty(512, 512)

    def multiply() -> float:
        torch.mm(a, b, out=c)
        return 0.0

    return multiply


def _training(model: Any, lossof: Callable[..., Any], batch: Any) -> Callable[[], float]:
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        adam.zero_grad()
        loss = lossof(model, **batch)
        loss.backward()
        adam.step()
        return float(loss.detach())

    return step


def _model(name: str) -> tuple[Any, Callable[..., Any]]:
    entropy = nn.functional.cross_entropy
    if name == "c":
        return _GPT(), lambda m, ids, labels: entropy(m(ids).flatten(0, 1), labels.flatten())
    if name == "b":
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(128, 10))
        return model, lambda m, x, y: entropy(m(x), y)
    layers = [nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)]
    return nn.Sequential(*layers), lambda m, x, y: nn.functional.mse_loss(m(x), y)


WIDTH = 128


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class _GPT(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(65, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.Sequential(_Block(), _Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 65, bias=False)

    def forward(self, ids: Any) -> Any:
        return self.head(self.norm(self.blocks(self.tok(ids) + self.pos.weight)))


if __name__ == "__main__":
    main()
