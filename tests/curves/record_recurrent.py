"""Records PyTorch training runs of LSTM and GRU layers.

Run by hand (`python tests/curves/record_recurrent.py`, needs PyTorch) when lstm.wg or gru.wg
changes. tests/importing compares the layers themselves with nn.LSTM and nn.GRU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from record import BATCHES, TOKEN_OPTIMIZERS, Arrays, Params, record
from torch import Tensor
from torch.nn import functional

SHAPE, INPUTS, WIDTH = (6, 15), 3, 8


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240610)
    for name, layers, gates, step in (("lstm", 2, 4, lstm_step), ("gru", 1, 3, gru_step)):
        loss = partial(running_loss, layers=layers, step=step)
        record(name, params(rng, layers, gates), batches(rng), loss, TOKEN_OPTIMIZERS)


def params(rng: np.random.Generator, layers: int, gates: int) -> Arrays:
    bound, found = 1 / math.sqrt(WIDTH), {}
    for i in range(layers):
        inputs = WIDTH if i else INPUTS
        shapes = {"weight_ih": (inputs, gates * WIDTH), "weight_hh": (WIDTH, gates * WIDTH)}
        shapes |= {"bias_ih": (gates * WIDTH,), "bias_hh": (gates * WIDTH,)}
        for name, shape in shapes.items():
            found[f"rnn.cells.{i}.{name}"] = rng.uniform(-bound, bound, shape)
    found["head.w"] = rng.uniform(-bound, bound, (WIDTH, 2))
    found["head.b"] = rng.uniform(-bound, bound, 2)
    return found


def batches(rng: np.random.Generator) -> Arrays:
    """The mean so far of one input, and the product of the last two of another."""
    x = rng.uniform(-1, 1, (BATCHES, *SHAPE, INPUTS)).astype(np.float32)
    mean = np.cumsum(x[..., 0], -1) / np.arange(1, SHAPE[1] + 1)
    before = np.concatenate([np.zeros_like(x[..., :1, 1]), x[..., :-1, 1]], -1)
    y = np.stack([mean, before * x[..., 1]], -1)
    return {"x": x, "y": y.astype(np.float32)}


def running_loss(
    p: Params, batch: Params, layers: int, step: Callable[..., tuple[Tensor, Tensor]]
) -> Tensor:
    x = batch["x"]
    for i in range(layers):
        weights = [
            p[f"rnn.cells.{i}.{n}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        state = (torch.zeros(len(x), WIDTH, dtype=x.dtype),) * 2
        rows = []
        for t in range(x.shape[1]):
            state = step(weights, state, x[:, t])
            rows.append(state[0])
        x = torch.stack(rows, 1)
    return functional.mse_loss(x @ p["head.w"] + p["head.b"], batch["y"])


def lstm_step(w: list[Tensor], state: tuple[Tensor, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    h, c = state
    i, f, g, o = (x @ w[0] + w[2] + h @ w[1] + w[3]).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(w: list[Tensor], state: tuple[Tensor, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    h = state[0]
    xr, xz, xn = (x @ w[0] + w[2]).chunk(3, -1)
    hr, hz, hn = (h @ w[1] + w[3]).chunk(3, -1)
    z = torch.sigmoid(xz + hz)
    h = (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h
    return h, h


if __name__ == "__main__":
    main()
