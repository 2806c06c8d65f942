"""Records what PyTorch's autocast to float16, with a loss scale, makes of two of the runs here.

Run by hand (`python tests/curves/record_halves.py`, needs PyTorch) after the other recordings;
starts, batches and optimizers are theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from record import FOLDER, MLP_OPTIMIZERS, TOKEN_OPTIMIZERS, Loss, Params, mlp_loss, train
from record_gpt import gpt_loss
from safetensors.numpy import load_file, save_file
from torch import Tensor

SCALE = 1024.0
RUNS: dict[str, tuple[Loss, Any]] = {
    "mlp": (mlp_loss, MLP_OPTIMIZERS["train_adam"]),
    "gpt": (gpt_loss, TOKEN_OPTIMIZERS["train"]),
}


class Scaled(torch.autograd.Function):
    """Leaves a value as it is, and multiplies its gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor, factor: float) -> Tensor:
        context.factor = factor
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        return gradients[0] * context.factor, None


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    found = {}
    for name, (loss, optimizer) in RUNS.items():
        record = load_file(FOLDER / f"{name}.safetensors")
        start, batches = (
            {k.removeprefix(f"{part}/"): v for k, v in record.items() if k.startswith(f"{part}/")}
            for part in ("start", "batch")
        )
        curves, _ = train(start, batches, in_halves(loss), optimizer, torch.float32)
        found[f"loss.f16/{name}"] = np.float64(curves["loss"])
    save_file(found, FOLDER / "halves.safetensors")


def in_halves(loss: Loss) -> Loss:
    def scaled(params: Params, batch: Params) -> Tensor:
        weights = {name: Scaled.apply(value, 1 / SCALE) for name, value in params.items()}
        with torch.autocast("cpu", dtype=torch.float16):
            return Scaled.apply(loss(weights, batch).float(), SCALE)

    return scaled


if __name__ == "__main__":
    main()
