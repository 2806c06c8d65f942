"""Steps of the benchmarks' models outside the browser: wgcc in Python on lavapipe, and PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def lavapipe_steps(bundle: Path, seconds: float) -> list[float]:
    """Milliseconds of each step, the loss read every time."""
    import wgcc_runtime
    from wgcc_runtime.benchmark import sample_inputs

    with wgcc_runtime.load(bundle, device="llvmpipe") as model:
        batch = sample_inputs(model, model.entry("train"))
        runner = model.runner("train", ["loss"])
        return _steps(lambda: runner.run([batch]), seconds)


def torch_steps(name: str, seconds: float) -> list[float]:
    """PyTorch on the CPU with default settings; nothing if it is not installed."""
    try:
        import torch
    except ImportError:
        return []
    model, batch, lossof = _torch_task(torch, name)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        adam.zero_grad()
        loss = lossof(model, batch)
        loss.backward()
        adam.step()
        return float(loss.detach())

    return _steps(step, seconds)


def _steps(step: Callable[[], Any], seconds: float) -> list[float]:
    step()
    step()
    times: list[float] = []
    end = time.perf_counter() + 2 * seconds
    while len(times) < 3 or (len(times) < 200 and time.perf_counter() < end):
        started = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - started))
    return times


def _torch_task(torch: Any, name: str) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    nn, draw = torch.nn, np.random.default_rng(1)
    if name == "c":
        ids = torch.tensor(draw.integers(0, 65, (8, 64)))
        entropy = nn.functional.cross_entropy
        return _gpt(torch), ids, lambda m, x: entropy(m(x).flatten(0, 1), x.flatten())
    if name == "b":
        layers = [
            nn.Linear(784, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        ]
        x = torch.tensor(draw.random((128, 784), np.float32))
        labels = torch.tensor(draw.integers(0, 10, 128))
        return nn.Sequential(*layers), x, lambda m, x: nn.functional.cross_entropy(m(x), labels)
    layers = [nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)]
    x = torch.tensor(draw.random((256, 1), np.float32))
    return nn.Sequential(*layers), x, lambda m, x: nn.functional.mse_loss(m(x), torch.sin(x))


def _gpt(torch: Any, width: int = 128) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tok, self.pos = nn.Embedding(65, width), nn.Embedding(64, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 65, bias=False)

        def forward(self, ids: Any) -> Any:
            return self.head(self.norm(self.blocks(self.tok(ids) + self.pos.weight)))

    return Model()
